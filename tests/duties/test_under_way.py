"""Whether the flow's record has all that its producer has written to a copy."""

from __future__ import annotations

import pytest

from sparkmirror.duties.under_way import is_level, is_settled
from sparkmirror.kafka.admin import ProducerState
from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress
from tests.duties.groups import MAP

OTHERS = {8: ProducerState(0, 99)}


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
        pytest.param(progress(2, 40), None, True, id="it has written nothing for a day, or nothing at all"),
    ],
)
def test_the_record_has_all_where_it_names_the_last_one_that_the_leader_knows(known, state, settled):
    producers = OTHERS if state is None else OTHERS | {7: state}
    assert is_settled(known, producers) == settled


def test_a_partition_is_not_settled_where_nothing_is_on_record_or_its_leader_does_not_tell():
    assert not is_settled(None, OTHERS)
    assert not is_settled(progress(2, 40), None)


@pytest.mark.parametrize(("committed", "level"), [(149, False), (150, True), (170, True)])
def test_a_group_is_level_where_nothing_on_the_map_lies_behind_its_offset(committed, level):
    """The last record on the map is 149."""
    assert is_level(MAP, committed) == level
    assert is_level(OffsetMap((), 90), committed)
