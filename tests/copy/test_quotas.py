"""Quotas on either side: obeyed, told of, and no error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import pytest
from kafka.protocol.admin import AlterClientQuotasRequest

from sparkmirror.config import ClientSettings
from sparkmirror.copy.receipt import Outcome
from sparkmirror.events import Kind
from sparkmirror.kafka import throttling
from sparkmirror.kafka.cluster import Cluster
from tests.copy.staging import Stage

pytestmark = pytest.mark.kafka

BYTES_PER_SECOND = 60_000


@contextmanager
def quota(servers: str, who: str, name: str, value: float, *, kind: str = "client-id") -> Iterator[None]:
    """A quota of a client, or of a user, on a cluster, for a while."""
    settings = ClientSettings(bootstrap_servers=tuple(servers.split(",")))
    wire = AlterClientQuotasRequest.EntryData

    def change(cluster: Cluster, *, remove: bool) -> None:
        entry = wire(
            entity=[wire.EntityData(entity_type=kind, entity_name=who)],
            ops=[wire.OpData(key=name, value=value, remove=remove)],
        )
        answer = cluster.call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
        assert [one.error_code for one in answer.entries] == [0]

    with closing(Cluster("Q", settings, role="quotas")) as cluster:
        change(cluster, remove=False)
        try:
            yield
        finally:
            change(cluster, remove=True)


def test_a_quota_slows_the_copy_and_is_told_of_and_is_no_error(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(throttling, "WINDOW_SECONDS", 4.0)
    client_id = f"slow-{stage.topic}"
    slow = replace(stage.config.target.producer, client_id=client_id, batch_size=40_000)
    config = replace(stage.config, target=replace(stage.config.target, producer=slow))
    small: dict[str, Any] = {"batch.size": 20_000}
    stage.produce(900, size=1_000, **small)
    ends = stage.ends()
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    with quota(stage.target_servers, client_id, "producer_byte_rate", BYTES_PER_SECOND):
        receipts = stage.run(stage.shift("lane-0.0", plans, once=True), config)
    assert {receipt.outcome for receipt in receipts} == {Outcome.DONE}
    events = [event for receipt in receipts for event in receipt.events]
    assert [event.kind for event in events] == [Kind.THROTTLED]
    assert "of B held writing back" in events[0].text
    stage.assert_equal()


def test_a_request_quota_of_the_source_that_lets_no_record_through_is_told_of(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(throttling, "WINDOW_SECONDS", 4.0)
    client_id = f"held-{stage.topic}"
    held = replace(stage.config.source.consumer, client_id=client_id)
    config = replace(stage.config, source=replace(stage.config.source, consumer=held))
    stage.produce(300)
    with quota(stage.source_servers, client_id, "request_percentage", 0.01):
        receipts = stage.run(replace(stage.shift("lane-0.0", stage.plans()), max_ms=8_000, grace_ms=0), config)
    (event,) = [event for receipt in receipts for event in receipt.events]
    assert event.kind is Kind.THROTTLED
    assert event.text.startswith("broker ")
    assert "of A held " in event.text
    assert "raise " in event.text
    assert "request_percentage of this user or client id on cluster A" in event.text
