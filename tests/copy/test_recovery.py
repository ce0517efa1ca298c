"""How a lane follows the recovery points of its partitions."""

from __future__ import annotations

import pytest

from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.progress import earliest, follow
from sparkmirror.copy.recovery import Recovery
from sparkmirror.offsets.recovery import UNKNOWN_MS, Answer, RecoveryPoint
from tests.copy.making import SOURCE, partition


def level(end: int = 50) -> PartitionCopy:
    copy = partition(position=50)
    copy.end = end
    return copy


def test_an_idle_partition_moves_on_with_each_answer_that_has_no_news():
    copy = level()
    for asked in (1_000, 2_000, 3_000):
        follow(copy, asked)
        assert copy.recovery.point_ms == asked


def test_a_source_that_does_not_answer_leaves_the_point_where_it_is():
    copy = level()
    follow(copy, 1_000)
    follow(copy, 1_000)
    follow(copy, UNKNOWN_MS)
    assert copy.recovery.point_ms == 1_000


def test_a_copy_that_is_always_behind_is_as_old_as_its_copying_takes_whatever_the_timestamps():
    recovery = Recovery()
    for round_ in range(1, 100):
        recovery.answered(Answer(round_ * 1_000, round_ * 10))
        recovery.answered(Answer(round_ * 1_000 + 500, round_ * 10 + 5))
        recovery.reached(round_ * 10, newest_ms=7)
        assert recovery.point_ms == round_ * 1_000


def test_a_backlog_is_as_old_as_its_newest_timestamp_until_the_end_of_an_answer_is_reached():
    recovery = Recovery(point_ms=100)
    recovery.answered(Answer(90_000, 1_000))
    for position, newest, expected in ((10, 50, 100), (500, 40_000, 40_000), (999, 70_000, 70_000)):
        recovery.answered(Answer(90_500, 2_000))
        recovery.reached(position, newest)
        assert recovery.point_ms == expected
    recovery.reached(1_000, 70_000)
    assert recovery.point_ms == 90_000
    recovery.reached(1_000, 70_000)
    assert recovery.point_ms == 90_000


@pytest.mark.parametrize("what", ["error", "obstacle"])
def test_a_partition_that_stands_still_does_not_move_on_though_it_is_level(what: str):
    copy = level()
    follow(copy, 1_000)
    setattr(copy, what, "may not")
    follow(copy, 2_000)
    assert copy.recovery.point_ms == 1_000


def test_a_partition_whose_end_nobody_knows_is_not_known():
    copy = level(end=-1)
    follow(copy, 1_000)
    assert copy.recovery.point_ms == UNKNOWN_MS


def test_a_lane_tells_the_earliest_and_leaves_out_what_stands_still():
    first, second = level(), level()
    first.recovery.point_ms, second.recovery.point_ms = 5, 3
    assert earliest([first, second]) == RecoveryPoint(3, SOURCE)
    second.stop("may not")
    assert earliest([first, second]) == RecoveryPoint(5, SOURCE)
    first.stop("may not")
    assert earliest([first, second]) is None
