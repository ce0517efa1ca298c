"""What takes the place of an operation that has not ended, and how one is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.failover.states import COMMITTING, FENCE, HOME_FENCE, Kind, Step
from sparkmirror.failover.unfinished import gives_up, said_of_given_up, told_of_unfinished
from sparkmirror.offsets.ledger import Operation

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
    assert words in said_of_given_up(operation)


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
    assert told_of_unfinished(operation).endswith(words)
