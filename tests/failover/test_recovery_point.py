"""What waits at the source, in records and in time."""

from __future__ import annotations

import pytest

from sparkmirror.failover.recovery_point import NO_TIME, Behind, RecoveryPoint, behind, recovery_point
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress

PLACES = [TopicPartition("t", number) for number in range(3)]
NOW = 100_000


def progress(number: int, position: int) -> Progress:
    writer = Writer(producer_id=1, epoch=0)
    return Progress(partition=PLACES[number], writer=writer, generation=1, position=position, next_sequence=0)


@pytest.mark.parametrize(
    ("ranges", "positions", "waits"),
    [
        ([(0, 10)], [10], []),
        ([(0, 10)], [12], []),
        ([(0, 10)], [7], [(0, 7, 3)]),
        ([(4, 10)], [], [(0, 4, 6)]),
        ([(4, 10)], [2], [(0, 4, 6)]),
        ([(10, 10)], [], []),
        ([(0, 10), (0, 20), (0, 30)], [9, 5, 30], [(1, 5, 15), (0, 9, 1)]),
        ([(0, 10), (0, 10)], [8, 8], [(0, 8, 2), (1, 8, 2)]),
    ],
)
def test_what_waits_is_counted_from_the_position_or_the_log_start(ranges, positions, waits):
    asked = dict(zip(PLACES, ranges, strict=False))
    known = {PLACES[number]: progress(number, position) for number, position in enumerate(positions)}
    found = behind(asked, known)
    assert found == tuple(Behind(partition=PLACES[n], position=at, records=count) for n, at, count in waits)


@pytest.mark.parametrize(
    ("oldest", "records", "time_ms"),
    [
        ({}, 5, None),
        ({0: NOW - 700}, 5, 700),
        ({0: NOW - 700, 1: NOW - 900}, 5, 900),
        ({0: NOW + 5_000, 1: NO_TIME}, 5, 0),
        ({0: NO_TIME, 1: NO_TIME}, 5, None),
        ({0: None, 1: NOW - 900}, 2, 900),
        ({0: None, 1: None}, 0, 0),
    ],
)
def test_the_oldest_record_that_waits_gives_the_time_and_markers_are_none(oldest, records, time_ms):
    waiting = tuple(Behind(partition=PLACES[number], position=1, records=3 - number) for number in (0, 1))
    found = recovery_point(waiting, {PLACES[number]: at for number, at in oldest.items()}, now_ms=NOW)
    assert (found.records, found.time_ms) == (records, time_ms)
    assert [one.partition for one in found.partitions] == [
        place for number, place in enumerate(PLACES[:2]) if oldest.get(number, 0) is not None
    ]


def test_where_nothing_waits_nothing_is_missing():
    assert recovery_point((), {}, now_ms=NOW) == RecoveryPoint(records=0, time_ms=0)
