"""What a group would read again or miss, by what is on record."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.failover.group_status import GroupStatus, status_of
from sparkmirror.failover.moves import decide
from tests.failover.test_moves import HERE, LEFT, sight, with_commit


def status(committed: int, **more) -> GroupStatus:
    (move,) = decide(sight(committed, **more))
    return status_of(move)


def test_a_group_reads_again_what_lies_between_its_offset_on_the_target_and_where_it_was():
    assert status(15, there=102) == GroupStatus(
        group="g", seen_ms=7, partitions=1, repeats=3, ahead=0, further=0, skipped=0, left_out=0
    )
    assert status(15, there=105).repeats == 0
    assert (status(15, there=112).repeats, status(15, there=112).further) == (0, 7), "one that is further stays there"


def test_where_a_group_without_an_offset_begins_is_not_known():
    assert status(15).repeats is None


def test_a_group_ahead_of_the_copy_misses_what_never_came():
    assert (status(40, there=115).ahead, status(40, there=115).repeats) == (8, 0)


def test_a_group_whose_offsets_the_source_has_lost_goes_by_what_was_seen_and_that_is_told():
    (move,) = decide(replace(sight(15, there=105), lost=frozenset({("g", HERE)})))
    found = status_of(move)
    assert (found.repeats, found.lost) == (0, 1)
    assert found.remark == "the source has lost its offsets in 1 partitions: it goes by what was seen before"
    assert status(15, there=105).remark == ""


def test_a_group_that_was_moved_and_that_retention_has_passed_there_skips_that_and_reads_none_of_it_again():
    (move,) = decide(with_commit(103, 15, replace(sight(15, there=103, oldest=107), left=LEFT)))
    found = status_of(move)
    assert (found.repeats, found.skipped) == (0, 4)


def test_a_group_that_lives_on_the_target_is_told_as_such():
    assert "members" in status(15, there=105, state="Stable").hindrance
