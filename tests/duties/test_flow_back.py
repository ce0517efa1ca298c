"""What the record of the flow back tells, on plain data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import PolicyChoice, PolicyKind
from sparkmirror.duties.flow_back import (
    NO_OPERATION,
    Back,
    LastOperation,
    about_to_begin,
    brought,
    changed_between,
    moved_by_ended,
    newest,
    taken_from_target,
)
from sparkmirror.failover.states import ORDER, Kind, Step
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, GroupCommitted, GroupLeft
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import FlowRecord
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import FLOW
from tests.offsets.segments import offset_map

IDENTITY = PolicyChoice(kind=PolicyKind.IDENTITY)
THERE = TopicPartition("orders", 0)
MAP = offset_map([(60, 150, 10)], 70)


@pytest.mark.parametrize(("to", "position", "read"), [(None, 70, 70), (90, 90, 70), (65, 70, 70)])
def test_a_flow_back_that_is_to_go_on_further_on_brings_nothing_that_lies_before(to, position, read):
    state = JournalState()
    if to is not None:
        state.take(MoveOrder(partition=THERE, to=to, topic_id="", time_ms=1, by="failback"))
    found = brought(state, MAP, THERE)
    assert (found.offsets.position, found.log_before(100).read) == (position, read)


@pytest.mark.parametrize(("parted", "position", "ends"), [(None, 70, 69), (65, 65, 64), (0, 0, None), (80, 70, 69)])
def test_a_flow_back_goes_back_to_where_a_log_parts_from_what_it_has_copied(parted, position, ends):
    found = brought(JournalState(), MAP, THERE, parted=parted).offsets
    last = found.end()
    assert (found.position, None if last is None else last.source) == (position, ends)


def test_a_flow_back_without_a_position_brings_all_that_the_other_cluster_has():
    assert brought(JournalState(), offset_map([], NO_OFFSET), THERE).offsets.position == 0


@pytest.mark.parametrize(
    ("keeps_names", "homeward", "topic", "begins"),
    [
        (True, False, "orders", True),
        (True, False, "orders-old", False),
        (True, False, "payments", False),
        (False, True, "B.orders", True),
        (False, False, "B.orders", False),
    ],
)
def test_a_flow_back_begins_with_the_topics_of_its_own_record(
    keeps_names: bool, homeward: bool, topic: str, begins: bool
):
    """Whatever the configuration at hand says of these."""
    back = replace(FLOW, policy=IDENTITY) if keeps_names else FLOW
    told = FlowRecord(
        source_alias="A",
        source_id="id-a",
        target_alias="B",
        target_id="id-b",
        naming="n",
        generation=1,
        topics=("orders.*", "B.orders"),
        topics_exclude=(".*-old",),
        homeward=homeward,
    )
    place = TopicPartition(topic, 1)
    assert about_to_begin(back, told, [place]) == [place] * begins
    assert not about_to_begin(back, told, [])


@pytest.mark.parametrize("kind", [Kind.FAILBACK, Kind.FAILOVER, Kind.SWITCHOVER])
@pytest.mark.parametrize("step", Step)
def test_an_operation_places_groups_from_the_step_that_moves_them_until_it_has_ended(kind, step):
    order = ORDER[kind]
    placing = step in order[order.index(Step.MOVING) : order.index(Step.DONE)]
    assert newest(operation(kind, step)) == LastOperation(id="id", number=7, placing=placing, written_ms=1)


@pytest.mark.parametrize(("step", "moved"), [(Step.MOVING, {"g": 3}), (Step.DONE, {"g": 9, "new": 9})])
def test_what_an_operation_has_moved_counts_when_it_has_ended(step, moved):
    """The one before has moved a group at 3."""
    state = JournalState()
    for group, topic, time_ms in (("g", "old", 3), ("g", "orders", 9), ("new", "orders", 9)):
        state.take(GroupLeft(group=group, topic=topic, offsets={0: 1}, time_ms=time_ms))
    state.ledger.operation = replace(operation(Kind.FAILOVER, step), began_ms=5)
    assert moved_by_ended(state) == moved


def taken(step: Step = Step.DONE, *, order: int = 9, own: int = 0) -> tuple[JournalState, JournalState]:
    """The records of B->A and of A->B: an operation of the former took g from 10 of A.orders and 7 of pay to A."""
    back, state = JournalState(), JournalState()
    for topic, offsets in (("A.orders", {0: 10}), ("pay", {0: 7, 1: 3})):
        back.take(GroupLeft(group="g", topic=topic, offsets=offsets, time_ms=order))
    back.take(GroupCommitted(group="g", topic="orders", commits={0: FlowCommit(20, 10)}))
    back.take(GroupCommitted(group="g", topic="B.pay", commits={0: FlowCommit(27, 7), 1: FlowCommit(25, 5)}))
    back.take(GroupCommitted(group="h", topic="orders", commits={0: FlowCommit(1, 1)}))
    back.ledger.operation = replace(operation(Kind.SWITCHOVER, step), began_ms=order)
    if own:
        state.take(GroupLeft(group="g", topic="orders", offsets={0: 1}, time_ms=own))
    return back, state


def test_where_an_operation_has_taken_a_group_from_counts_as_a_commit_of_the_flow():
    """In copies of the flow and in topics of the target; not where it has left another offset than it was placed by."""
    back, state = taken()
    orders, pay = TopicPartition("A.orders", 0), TopicPartition("pay", 0)
    assert taken_from_target(FLOW, back, state) == {"g": {orders: FlowCommit(10, 20), pay: FlowCommit(7, 27)}}


@pytest.mark.parametrize(
    ("step", "own", "found"),
    [
        pytest.param(Step.DONE, 8, True, id="it was taken to the target before"),
        pytest.param(Step.DONE, 10, False, id="it was taken to the target since"),
        pytest.param(Step.MOVING, 0, False, id="the operation has not ended"),
    ],
)
def test_it_counts_when_the_operation_has_ended_and_as_long_as_the_group_lives_on_the_source(step, own, found):
    assert bool(taken_from_target(FLOW, *taken(step, own=own))) == found


def test_no_operation_places_no_groups():
    assert newest(None) == NO_OPERATION


LAST = FlowCommit(7, 3, (FlowCommit(5, 2),))


def operation(kind: Kind, step: Step) -> Operation:
    return Operation(
        token="",
        number=7,
        id="id",
        kind=kind.value,
        step=step.name,
        source="a",
        target="b",
        began_ms=1,
        time_ms=1,
        by="me",
        facts={},
    )


@pytest.mark.parametrize(
    ("committed", "found"),
    [
        pytest.param(9, FlowCommit(9, 4), id="it was about to commit that"),
        pytest.param(7, LAST, id="it has"),
        pytest.param(5, FlowCommit(5, 2), id="the source has lost the last one"),
        pytest.param(6, LAST, id="others have"),
    ],
)
def test_what_the_flow_back_has_committed_for_a_group_is_found_by_what_the_group_has(committed, found):
    place = TopicPartition("orders", 0)
    back = Back(commits={"g": {place: LAST}}, tried={"g": {place: FlowCommit(9, 4)}})
    assert back.commit("g", place, committed) == found
    assert back.commit("h", place, committed) is None


def test_what_the_flow_back_has_committed_while_groups_were_looked_at_is_known():
    same, old = (GroupCommitted(group="g", topic=name, commits={0: FlowCommit(1, 1)}) for name in ("same", "orders"))
    tried = replace(old, tried={0: FlowCommit(3, 3)})
    new = GroupCommitted(group="h", topic="orders", commits={})
    before, now = ({one.key: one for one in some} for some in ((same, old), (same, tried, new)))
    assert changed_between(before, now) == {("g", "orders"), ("h", "orders")}
    assert changed_between(now, before) == {("g", "orders"), ("h", "orders")}, "also what was taken away"
    assert changed_between(now, now) == frozenset()
