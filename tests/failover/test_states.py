"""The steps of operations."""

from __future__ import annotations

import pytest

from sparkmirror.failover.states import (
    COMMITTING,
    ENDED,
    ORDER,
    REVERSIBLE,
    Kind,
    Step,
    can_be_taken_back,
    first,
    following,
)
from sparkmirror.offsets import ledger, operation_facts


@pytest.mark.parametrize("kind", list(Kind))
def test_an_operation_goes_from_its_first_step_to_done_and_no_step_comes_twice(kind):
    steps = [first(kind)]
    while steps[-1] not in ENDED:
        steps.append(following(kind, steps[-1]))
    assert tuple(steps) == ORDER[kind]
    assert len(set(steps)) == len(steps)
    assert steps[-1] is Step.DONE


@pytest.mark.parametrize(
    ("kind", "before"),
    [(Kind.FAILOVER, Step.STOPPING), (Kind.SWITCHOVER, Step.STOPPING), (Kind.FAILBACK, Step.CATCHING_UP)],
)
def test_the_flow_is_stopped_before_groups_are_moved_and_nothing_is_taken_back_afterwards(kind, before):
    order = ORDER[kind]
    moving = order.index(Step.MOVING)
    assert before in order[:moving]
    assert REVERSIBLE.issuperset(order[:moving])
    assert not REVERSIBLE.intersection(order[moving:])


def test_what_is_taken_back_is_abandoned_and_nothing_follows_the_end():
    assert following(Kind.SWITCHOVER, Step.UNDOING) is Step.ABANDONED
    with pytest.raises(ValueError, match="nothing follows DONE"):
        following(Kind.FAILOVER, Step.DONE)


@pytest.mark.parametrize(
    ("step", "facts", "can"),
    [
        (Step.IDLING, {}, True),
        (Step.MOVING, {}, True),
        (Step.MOVING, {COMMITTING: True}, False),
        (Step.VERIFYING, {}, False),
        (Step.DONE, {}, False),
    ],
)
def test_an_operation_can_be_taken_back_until_the_first_commit(step, facts, can):
    assert can_be_taken_back(step, facts) == can


def test_the_record_of_an_operation_takes_these_kinds_and_steps_and_no_others():
    assert {kind.value for kind in Kind} == ledger.KINDS
    assert {step.name for step in Step} == operation_facts.STEPS
