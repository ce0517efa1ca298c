"""A quota on the target: obeyed, told of, and no error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from sparkmirror.copy import throttling
from sparkmirror.copy.receipt import Outcome
from sparkmirror.events import Kind
from tests.copy.staging import Stage

pytestmark = pytest.mark.kafka

BYTES_PER_SECOND = 60_000


def set_quota(stage: Stage, client_id: str, *, remove: bool) -> None:
    wire = AlterClientQuotasRequest.EntryData
    entry = wire(
        entity=[wire.EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[wire.OpData(key="producer_byte_rate", value=float(BYTES_PER_SECOND), remove=remove)],
    )
    answer = stage.clusters("B").call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
    assert [one.error_code for one in answer.entries] == [0]


def test_a_quota_slows_the_copy_and_is_told_of_and_is_no_error(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(throttling, "WINDOW_SECONDS", 4.0)
    client_id = f"slow-{stage.topic}"
    slow = replace(stage.config.target.producer, client_id=client_id, batch_size=40_000)
    config = replace(stage.config, target=replace(stage.config.target, producer=slow))
    small: dict[str, Any] = {"batch.size": 20_000}
    stage.produce(900, size=1_000, **small)
    ends = stage.ends()
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    set_quota(stage, client_id, remove=False)
    try:
        receipts = stage.run(stage.shift("lane-0.0", plans, once=True), config)
    finally:
        set_quota(stage, client_id, remove=True)
    assert {receipt.outcome for receipt in receipts} == {Outcome.DONE}
    events = [event for receipt in receipts for event in receipt.events]
    assert [event.kind for event in events] == [Kind.THROTTLED]
    assert "of B held writing back" in events[0].text
    stage.assert_equal()
