"""What a hand-over sees of the topic of offsets before it marks the flow, from a broker that may say anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import BrokerError, HeldError
from sparkmirror.flow import moving_out
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.state import state_of
from tests.duties.groups import FLOW
from tests.kafka.hostile_broker import METADATA, HostileBroker, cluster_of

SIDES: Any = SimpleNamespace(flow=SimpleNamespace(admin_timeout_ms=5_000))


def rights(bits: set[int] | None) -> Callable[[Any], None]:
    def change(answer: Any) -> None:
        for topic in answer.topics:
            topic.authorized_operations = bits

    return change


def gone(answer: Any) -> None:
    for topic in answer.topics:
        topic.error_code = 3


def left_out(answer: Any) -> None:
    answer.topics = []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (gone, "UNKNOWN_TOPIC_OR_PARTITION .*has topic t just been deleted"),
        (left_out, "UNKNOWN_TOPIC_OR_PARTITION .*has topic t just been deleted"),
        (rights({3}), "TOPIC_AUTHORIZATION_FAILED .*allow WRITE on Topic t"),
        (rights({3, 4}), ""),
        (rights(None), ""),
    ],
)
def test_a_topic_that_cannot_be_written_to_is_told_before_the_flow_is_marked(change: Callable[[Any], None], told: str):
    broker = HostileBroker()
    honest = broker.model.answer

    def answer(key: int, request: Any) -> Any:
        response = honest(key, request)
        if key == METADATA:
            change(response)
        return response

    broker.model.answer = answer  # type: ignore[method-assign]  # this one alone
    cluster = cluster_of(broker)
    try:
        if told:
            with pytest.raises(BrokerError, match=told):
                moving_out._check_writable(SIDES, cluster, "t", create=False)
        else:
            moving_out._check_writable(SIDES, cluster, "t", create=False)
    finally:
        cluster.close()
        broker.close()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_flow_that_an_operation_holds_is_not_handed_over_and_a_dry_run_says_so(monkeypatch, dry_run: bool):
    """Before anything else of it is asked: whoever goes by the dry run has not stopped MirrorMaker 2 for nothing."""
    hold = HoldOrder(operation="o", reason="switchover to B", time_ms=1, by="me", order_ms=1)
    sides: Any = SimpleNamespace(source=None, target=None)
    monkeypatch.setattr(moving_out, "connected", lambda *_, **__: nullcontext(sides))
    monkeypatch.setattr(moving_out, "record", lambda _: state_of([hold]))
    with pytest.raises(HeldError, match=r"is held since .* by me .*: switchover to B"):
        moving_out.hand_over(FLOW, "mm2.properties", dry_run=dry_run)
