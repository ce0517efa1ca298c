"""What goes on record of partitions that were taken over, and where an order has one go on elsewhere."""

from __future__ import annotations

import pytest

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.flow.on_record import Run, going_on, taken_over
from sparkmirror.flow.positions import Resumed, Start
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Progress, Record
from sparkmirror.offsets.segments import Ordered
from sparkmirror.offsets.state import JournalState, state_of

HERE = TopicPartition("orders", 0)
WRITER, LATER = Writer(producer_id=7, epoch=1), Writer(producer_id=7, epoch=2)
RUN = Run(ids=(7,), generation=2, first_generation=2)
TAKEN = Run(ids=(7,), generation=3, first_generation=3)
PROGRESS = Progress(
    partition=HERE, writer=WRITER, generation=1, position=20, next_sequence=0, topic_id="s", target_id="t"
)


def written(state: JournalState, stood: int, to: int, *, alone: bool = True, ordered: bool = True) -> list[Record]:
    plan = PartitionPlan(source=HERE, target_topic="a.orders", topic_id="s", position=to, writer=LATER)
    start = Start(plan=plan, anew=True, moved=True, only_moved=alone, instead_of=stood)
    orders = {HERE: MoveOrder(partition=HERE, to=to, topic_id="s", time_ms=1, by="me")} if ordered else {}
    going = going_on(state, RUN, starts=[start], plans=[plan], orders=orders, took_over=[], passed={})
    return [one for one in going.records if isinstance(one, Ordered)]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("to", [30, 5])
def test_where_the_copy_stood_is_put_on_record_with_an_order(to: int, alone: bool):
    found = written(state_of([PROGRESS]), 20, to, alone=alone)
    assert found == [Ordered(partition=HERE, writer=LATER, stood=20, source=to)]


@pytest.mark.parametrize("to", [20, 40])
def test_an_order_that_another_one_follows_before_anything_was_copied_counts_from_where_the_copy_stood(to: int):
    state = state_of([PROGRESS, *written(state_of([PROGRESS]), 20, 30)])
    assert written(state, 30, to) == [Ordered(partition=HERE, writer=LATER, stood=20, source=to)]


def test_what_goes_home_behind_what_a_strange_mirror_wrote_was_left_out_by_nobody():
    assert written(state_of([PROGRESS]), 20, 30, ordered=False) == []


@pytest.mark.parametrize(("anew", "position", "on_record"), [(True, 5, True), (False, 5, False), (False, 4, True)])
def test_an_epoch_that_begins_anew_is_on_record_also_where_the_position_stays(anew, position, on_record):
    """A lane that dies before it publishes leaves a log whose last record lies behind what is to be copied again."""
    known = Progress(partition=HERE, writer=Writer(producer_id=7, epoch=0), generation=1, position=5, next_sequence=0)
    resumed = Resumed(position=position, writer=Writer(producer_id=7, epoch=2), anew=anew)
    result = taken_over(state_of([known]), TAKEN, {HERE: resumed}, [])
    found = [(one.writer, one.position, one.anew) for one in result.records if isinstance(one, Progress)]
    assert found == ([(resumed.writer, position, anew)] if on_record else [])
