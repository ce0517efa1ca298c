"""Whether the flow's record has all that its producer has written to a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.under_way import Level, is_level, is_settled, on_record, unsettled
from sparkmirror.kafka.producer_states import ProducerState
from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import FlowRecord, Progress, Stopped
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import MAP, THERE

OTHERS = {8: ProducerState(0, 99)}
FLOW = FlowRecord(source_alias="A", source_id="a", target_alias="B", target_id="b", naming="n", generation=1)


def progress(epoch: int, sequence: int) -> Progress:
    writer = Writer(producer_id=7, epoch=epoch)
    place = TopicPartition("orders", 0)
    return Progress(
        partition=place, writer=writer, generation=1, position=0, next_sequence=sequence + 1, sequence=sequence
    )


@pytest.mark.parametrize(
    ("known", "state", "settled"),
    [
        (progress(2, 40), ProducerState(2, 40), True),
        pytest.param(progress(2, 40), ProducerState(2, 41), False, id="acknowledged, and not on record"),
        pytest.param(progress(2, 40), ProducerState(2, 39), False, id="the leader has lost the end of its log"),
        pytest.param(progress(2, NO_OFFSET), ProducerState(1, 40), True, id="an older epoch is settled"),
        pytest.param(progress(2, NO_OFFSET), ProducerState(2, -1), True, id="only a marker of the new epoch"),
        pytest.param(progress(2, NO_OFFSET), ProducerState(2, 0), False, id="the first records of the epoch"),
        pytest.param(progress(2, 40), ProducerState(3, -1), False, id="a takeover that is not on record"),
    ],
)
def test_the_record_has_all_where_it_names_the_last_one_that_the_leader_knows(known, state, settled):
    for certain in (True, False):
        assert is_settled(known, OTHERS | {7: state}, newest=known.writer, certain=certain) == settled


def test_where_the_leader_has_forgotten_the_producer_the_record_counts_if_it_has_the_last_word():
    """It has written nothing for a day, or old records, or nothing at all."""
    assert is_settled(progress(2, 40), OTHERS, newest=None, certain=True)
    assert not is_settled(progress(2, 40), OTHERS, newest=None, certain=False)


def test_a_partition_is_not_settled_where_nothing_is_on_record_or_its_leader_does_not_tell():
    assert not is_settled(None, OTHERS, newest=None, certain=True)
    assert not is_settled(progress(2, 40), None, newest=None, certain=True)


@pytest.mark.parametrize("newest", [Writer(producer_id=9, epoch=0), Writer(producer_id=7, epoch=3)])
def test_a_writer_that_has_only_announced_its_first_batch_is_settled_as_long_as_the_leader_has_nothing_of_it(newest):
    older = OTHERS | {7: ProducerState(2, 40)}
    assert is_settled(progress(2, 40), older, newest=newest, certain=True)
    for sequence, settled in ((-1, True), (0, False), (40, False)):
        now = older | {newest.producer_id: ProducerState(newest.epoch, sequence)}
        assert is_settled(progress(2, 40), now, newest=newest, certain=True) == settled


@pytest.mark.parametrize(
    ("stopped", "if_alive", "if_dead"),
    [
        pytest.param(None, False, True, id="a driver that lives puts more there"),
        pytest.param(1, False, False, id="it has ended in order"),
        pytest.param(0, False, True, id="an older one has"),
    ],
)
def test_the_last_word_may_be_missing_of_a_driver_that_has_died(stopped, if_alive, if_dead):
    one = replace(progress(2, 40), generation=1)
    state = JournalState(flow=FLOW, progress={one.partition: one})
    if stopped is not None:
        state.stopped = Stopped(generation=stopped, time_ms=1)
    known = on_record(state)
    assert known.progress == {one.partition: one}
    assert (bool(known.left_in_doubt), bool(known.in_doubt)) == (if_alive, if_dead)
    level = {one.partition: Level(THERE, MAP, NO_OFFSET)}
    forgotten: dict[TopicPartition, dict[int, ProducerState]] = {THERE: {}}
    for in_doubt in (known.left_in_doubt, known.in_doubt):
        assert bool(unsettled(level, known.progress, forgotten, in_doubt)) == bool(in_doubt)


@pytest.mark.parametrize(("met", "has"), [(NO_OFFSET, True), (60, True), (61, False)])
def test_a_copy_that_the_flow_back_has_met_is_on_the_map_or_under_way(met, has):
    """The last copy on the map lies at 59."""
    assert Level(THERE, MAP, met).has_all_met == has
    assert Level(THERE, OffsetMap((), 90), met).has_all_met == (met == NO_OFFSET)


@pytest.mark.parametrize(("committed", "level"), [(149, False), (150, True), (170, True)])
def test_a_group_is_level_where_nothing_on_the_map_lies_behind_its_offset(committed, level):
    """The last record on the map is 149."""
    assert is_level(MAP, committed) == level
    assert is_level(OffsetMap((), 90), committed)
