"""An operation the other way that ends while an earlier one still holds the flow back says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparkmirror.failover.states import BACK, Kind, Step
from sparkmirror.failover.switching import Desk
from sparkmirror.model import Alias, FlowName
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.state import JournalState
from tests.failover.test_report import operation

HOLD = HoldOrder(operation="failover-1", reason="failover to b (failover-1)", time_ms=1_700_000_000_000, by="me")
HELD = ["failover-1", 4, "failover-1", 1_700_000_000_000]
"""How the flow back stood when the operation was begun."""


def record(source: str, target: str, hold: HoldOrder | None = None) -> JournalState:
    state = JournalState()
    state.flow = cast("Any", SimpleNamespace(source_id=source, target_id=target))
    state.held = hold
    return state


class Told(Desk):
    """What `Desk` says of an operation of b->a that has ended."""

    def __init__(self, back: JournalState | None, *, configured: bool = True) -> None:
        flow = SimpleNamespace(name=FlowName(source=Alias("b"), target=Alias("a")))
        store = SimpleNamespace(state=record("id of b", "id of a"))
        flow_back = cast("Any", SimpleNamespace()) if configured else None
        super().__init__(cast("Any", SimpleNamespace(flow=flow, store=store)), "mm2.properties", flow_back)
        self._back_of_it = back

    def _record_of_back(self) -> JournalState | None:
        return self._back_of_it


@pytest.mark.parametrize(
    ("back", "step", "lines"),
    [
        (record("id of a", "id of b", HOLD), Step.DONE, 1),
        (record("id of a", "id of b"), Step.DONE, 0),
        (record("id of another", "id of b", HOLD), Step.DONE, 0),
        (None, Step.DONE, 0),
        (record("id of a", "id of b", HOLD), Step.ABANDONED, 0),
    ],
)
def test_a_switchover_that_leaves_the_flow_back_held_says_so(back: JournalState | None, step: Step, lines: int):
    said = Told(back)._notes(operation(Kind.SWITCHOVER, step, facts={BACK: HELD}))
    assert len(said) == lines
    assert all("sparkmirror release mm2.properties --flow 'a->b'" in text for text in said)


@pytest.mark.parametrize("facts", [{BACK: [], "answers": True}, {BACK: ["failover-1", 4, "", 0]}])
def test_a_flow_back_that_was_not_seen_held_is_not_asked_again(facts: dict[str, Any]):
    back = record("id of a", "id of b", HOLD)
    assert Told(back)._notes(operation(facts=facts)) == ()
    assert len(Told(back)._notes(operation(facts={BACK: HELD}))) == 1


@pytest.mark.parametrize(
    ("configured", "step", "lines"), [(True, Step.DONE, 1), (False, Step.DONE, 0), (True, Step.ABANDONED, 0)]
)
def test_a_failover_from_a_cluster_that_is_gone_says_that_the_flow_back_may_be_held(configured, step, lines):
    """With the fault nobody released it, and the next failover back called exact where groups had stood before."""
    said = Told(None, configured=configured)._notes(operation(Kind.FAILOVER, step, facts={BACK: [], "answers": False}))
    assert len(said) == lines
    assert all("sparkmirror release mm2.properties --flow 'a->b' ends that" in text for text in said)
