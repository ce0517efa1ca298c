"""What groups have left behind counts until they have another offset there, or none."""

from __future__ import annotations

import pytest

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit, GroupLeft
from sparkmirror.offsets.left_offsets import (
    NOTHING_LOST,
    KnownOffsets,
    Left,
    at_release,
    came_back,
    left_of,
    moved_at,
    renewed,
    used,
    with_left,
)
from sparkmirror.offsets.records import parse
from sparkmirror.offsets.state import JournalState

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


MOVED_MS = 1_000


def left(time_ms: int = MOVED_MS, **offsets: int) -> dict[str, GroupLeft]:
    """The record of a group, by its key."""
    by_number = {int(number[1:]): offset for number, offset in offsets.items()}
    one = GroupLeft(group="g", topic="orders", offsets=by_number, time_ms=time_ms)
    return {one.key: one}


def is_open(time_ms: int = MOVED_MS) -> dict[str, GroupLeft]:
    """The record of a group of which nothing is known yet."""
    one = GroupLeft(group="g", topic="", offsets={}, time_ms=time_ms)
    return {one.key: one}


@pytest.mark.parametrize("record", [left(p0=7, p3=9), left(), is_open()])
def test_a_record_is_read_as_it_was_written_and_leaves_with_its_tombstone(record):
    (one,) = record.values()
    assert parse(one.key, one.value()) == one
    state = JournalState()
    state.take(one)
    assert state.left == record
    state.forget(one.key)
    assert state.left == {}


@pytest.mark.parametrize(("on_record", "committed", "counts"), [(15, 15, True), (15, 16, False)])
def test_only_the_very_offset_is_left_behind(on_record, committed, counts):
    known = left_of(left(p0=on_record), {})
    assert known.has("g", ZERO, committed, NOTHING_LOST) is counts
    assert not known.has("g", ONE, committed, NOTHING_LOST)
    assert not known.has("h", ZERO, committed, NOTHING_LOST)


def test_all_is_left_behind_by_a_group_that_has_not_been_asked():
    known = left_of(left(p0=15) | is_open(), {})
    assert known.has("g", ZERO, 16, NOTHING_LOST)
    assert known.has("g", ONE, 3, NOTHING_LOST)
    assert not known.has("h", ZERO, 16, NOTHING_LOST)


def test_what_is_left_behind_stays_so_where_the_source_has_lost_it_whatever_is_known_of_that():
    """What was seen before counts only up to where the log of the source parts, so that it is another offset."""
    lost = frozenset({("g", ZERO)})
    known, found = left_of(left(p0=15, p1=3), {}), KnownOffsets({"g": {ZERO: (12, ""), ONE: (4, "")}})
    assert known.has("g", ZERO, 12, lost)
    assert not known.has("g", ONE, 4, lost)
    assert not known.has("h", ZERO, 12, frozenset({("h", ZERO)}))
    assert renewed(left(p0=15, p1=3), found, lost) == (tuple(left(p0=15).values()), ())
    assert at_release(left(p0=15, p1=3), ["g"], found, 900, lost) == left(p0=15, p1=4)
    assert at_release({}, ["g"], found, 900, lost) == left(900, p0=12, p1=4)


def test_an_operation_adds_what_it_moves_to_what_is_on_record():
    assert with_left(left(p0=5), {"g": {ONE: 9}}, 2_000) == tuple(left(2_000, p0=5, p1=9).values())
    assert with_left(left(p0=5), {"g": {ZERO: 6}}, 2_000) == tuple(left(2_000, p0=6).values())
    assert with_left(left(p0=5), {"g": {ZERO: 5}}, 2_000) == tuple(left(2_000, p0=5).values())
    assert with_left(left(p0=5), {}, 2_000) == ()


def test_when_a_group_was_moved_is_on_record_also_where_it_has_left_nothing_behind():
    """With the fault the release of the flow the other way took it for one that lives where it had been before."""
    for known, kept in (({}, left(2_000)), (left(p1=3), left(2_000, p1=3)), (left(p0=5), left(2_000))):
        written = with_left(known, {"g": {ZERO: NO_OFFSET}}, 2_000)
        assert written == tuple(kept.values())
        assert moved_at(written) == {"g": 2_000}
        assert came_back(left(1_999, p0=5), moved_at(written)) == tuple(left())
    both = with_left({}, {"g": {ZERO: NO_OFFSET, ONE: 9}}, 2_000)
    assert both == tuple(left(2_000, p1=9).values())


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ({"g": {ZERO: (15, ""), ONE: (3, "")}}, ()),
        ({"g": {ZERO: (16, ""), ONE: (3, "")}}, tuple(left(p1=3).values())),
        ({"g": {ZERO: (16, "")}}, tuple(left(p1=3).values())),
        ({"g": {}}, ()),
        ({"h": {}}, ()),
    ],
)
def test_what_the_group_has_committed_since_is_its_own_and_when_it_was_moved_is_kept(found, kept):
    assert renewed(left(p0=15, p1=3), KnownOffsets(found)) == (kept, ())


def test_what_was_not_known_at_the_release_is_all_that_the_source_says_next():
    unknown = left(p0=9) | is_open()
    assert renewed(unknown, KnownOffsets({"g": {ZERO: (15, ""), ONE: (3, "")}})) == (
        tuple(left(p0=15, p1=3).values()),
        tuple(is_open()),
    )
    assert renewed(unknown, KnownOffsets({"g": {}})) == (tuple(left().values()), tuple(is_open()))
    assert renewed(unknown, KnownOffsets({"h": {}})) == ((), ())


HELD_MS = 900


def test_a_release_counts_all_that_consumers_have_committed_until_then_in_any_partition():
    found = KnownOffsets({"g": {ZERO: (15, ""), ONE: (5, "")}})
    assert at_release(left(p0=10), ["g"], found, HELD_MS) == left(p0=15, p1=5)
    assert at_release({}, ["g"], found, HELD_MS) == left(HELD_MS, p0=15, p1=5)
    assert at_release(left(p0=10), ["g"], KnownOffsets({"g": {}}), HELD_MS) == left()
    assert at_release(left(p0=10), [], found, HELD_MS) == {}, "it does not live on the target"
    assert at_release(left(p0=10), ["g"], KnownOffsets({}), HELD_MS) == left(p0=10) | is_open(HELD_MS)


@pytest.mark.parametrize(
    ("back", "counts"), [({}, True), ({"h": 2_000}, True), ({"g": 1_000}, True), ({"g": 1_001}, False)]
)
def test_nothing_is_left_behind_by_a_group_that_the_flow_back_has_moved_here_since(back, counts):
    known = left(p0=15)
    assert left_of(known, back) == (Left(offsets={"g": {ZERO: 15}}) if counts else Left())
    assert came_back(known, back) == (() if counts else tuple(known))


def test_a_group_was_moved_when_the_newest_of_its_records_says():
    more = GroupLeft(group="g", topic="bills", offsets={}, time_ms=MOVED_MS + 1)
    assert moved_at([*left(p0=1).values(), more]) == {"g": MOVED_MS + 1}


@pytest.mark.parametrize(
    ("there", "is_used"),
    [
        ({ZERO: (10, ""), ONE: (3, "")}, False),
        ({ZERO: (10, "")}, False),
        ({ZERO: (11, ""), ONE: (3, "")}, True),
        pytest.param({ZERO: (9, ""), ONE: (3, "")}, True, id="its owner may have set it back to there"),
        ({ZERO: (10, ""), TopicPartition("orders", 2): (1, "")}, True),
        ({}, False),
    ],
)
def test_a_group_is_used_where_it_has_another_offset_than_the_flow_has_committed_last(there, is_used):
    commits = {"g": {ZERO: FlowCommit(10, 7, (FlowCommit(9, 6),)), ONE: FlowCommit(3, 3)}}
    assert used({"g": there}, commits) == ({"g"} if is_used else set())
