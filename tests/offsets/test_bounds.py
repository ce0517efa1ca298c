"""Which segments go: those below the log starts of source and copy, unless something may still be decided by them."""

from __future__ import annotations

import pytest

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.bounds import RETURNING, Starts, bound
from sparkmirror.offsets.state import JournalState, state_of
from sparkmirror.offsets.track import FAR
from sparkmirror.offsets.translation import Place, Translated, translate
from tests.offsets.segments import Segment, records_of

PLACE = TopicPartition("orders", 1)


def segment(epoch: int, sequence: int, source: int, target: int = NO_OFFSET, producer_id: int = 7) -> Segment:
    writer = Writer(producer_id=producer_id, epoch=epoch)
    return Segment(partition=PLACE, writer=writer, sequence=sequence, source=source, target=target)


ONE_EPOCH = [segment(0, 0, 0, 0), segment(0, 10, 20, 10), segment(0, 20, 40, 20), segment(0, 30, 60)]


def gone(
    segments: list[Segment], log_start: int, ids: tuple[int, ...] = (7,), copy_start: int | None = FAR
) -> list[tuple[int, int]]:
    state = state_of(records_of(segments))
    keys = bound(state, {PLACE: Starts(log_start, copy_start)}, ids)
    return sorted((s.writer.epoch, s.sequence) for s in segments if s.segments.key in keys)


@pytest.mark.parametrize(
    ("log_start", "expected"),
    [
        (0, []),
        (19, []),
        (20, [(0, 0)]),
        (39, [(0, 0)]),
        (40, [(0, 0), (0, 10)]),
        (60, [(0, 0), (0, 10)]),
        (9_999, [(0, 0), (0, 10)]),
    ],
)
def test_the_segment_that_holds_the_log_start_stays_and_so_does_the_last_that_is_settled(log_start, expected):
    assert gone(ONE_EPOCH, log_start) == expected


def test_an_older_epoch_goes_up_to_where_the_newer_one_began():
    epochs = [segment(0, 0, 0, 0), segment(0, 5, 10, 5), *(segment(e, 0, 20 * e, 20 * e) for e in range(1, 5))]
    assert gone(epochs, 10) == [(0, 0)]
    assert gone(epochs, 19) == [(0, 0)]
    assert gone(epochs, 20) == [(0, 0), (0, 5)]
    assert gone(epochs, 9_999) == [(0, 0), (0, 5), (1, 0)]


@pytest.mark.parametrize(("log_start", "copy_start"), [(0, FAR), (9_999, 0)])
@pytest.mark.parametrize(("newer", "expected"), [(RETURNING - 1, []), (RETURNING, [(0, 0)])])
def test_what_a_lost_tail_made_void_stays_while_a_former_leader_may_bring_it_back(
    newer, expected, log_start, copy_start
):
    void = [segment(0, 0, 50, 50), *(segment(e, 0, 40 + e, 40 + e) for e in range(1, newer + 1))]
    assert [one for one in gone(void, log_start, copy_start=copy_start) if one[0] == 0] == expected


def test_of_what_is_void_that_goes_which_the_source_has_lost():
    void = [segment(0, 0, 50, 50), segment(0, 5, 60, 55), segment(0, 9, 70, 59)]
    newer = [segment(e, 0, 40 + e, 40 + e) for e in range(1, 9)]
    assert gone([*void, *newer], 59) == []
    assert gone([*void, *newer], 60) == [(0, 0)]
    assert gone([*void, *newer], 9_999) == [(0, 0), (0, 5)]


def test_no_epoch_goes_that_came_after_one_that_stays():
    newer = [segment(e, 0, 10 * e - 10, 10 * e) for e in range(1, 9)]
    assert gone(newer, 45) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert gone([segment(0, 0, 0, 0), *newer], 45) == []


def test_epochs_of_an_older_producer_id_are_older_whatever_their_number():
    epochs = [segment(9, 0, 0, 0), *(segment(e, 0, 10 + e, 10 + e, producer_id=3) for e in range(3))]
    assert gone(epochs, 10, ids=(7, 3)) == [(9, 0)]
    assert gone(epochs, 10, ids=(3, 7)) == [], "the newest has superseded all of them"


def test_partitions_whose_log_start_is_unknown_and_unknown_partitions_keep_everything():
    state = state_of(records_of(ONE_EPOCH))
    assert bound(state, {}, (7,)) == ()
    assert bound(JournalState(), {PLACE: Starts(100, 100)}, (7,)) == ()
    assert gone(ONE_EPOCH, 9_999, copy_start=None) == []


@pytest.mark.parametrize(
    ("copy_start", "expected"), [(0, []), (9, []), (10, [(0, 0)]), (19, [(0, 0)]), (20, [(0, 0), (0, 10)])]
)
def test_what_the_copy_still_has_stays_though_the_source_has_lost_it(copy_start, expected):
    assert gone(ONE_EPOCH, 9_999, copy_start=copy_start) == expected


def test_what_the_source_still_has_stays_though_the_copy_has_lost_it():
    assert gone(ONE_EPOCH, 19, copy_start=9_999) == []


def test_of_older_epochs_that_stays_which_the_copy_has():
    newer = [segment(e, 0, 20 * e, 100 + 20 * e) for e in range(1, 9)]
    epochs = [segment(0, 0, 0, 100), segment(0, 5, 10, 105), *newer]
    assert gone(epochs, 9_999) == [(0, 0), (0, 5), *((e, 0) for e in range(1, 6))]
    assert gone(epochs, 9_999, copy_start=0) == []
    assert gone(epochs, 9_999, copy_start=105) == [(0, 0)]
    assert gone(epochs, 9_999, copy_start=114) == [(0, 0)]
    assert gone(epochs, 9_999, copy_start=115) == [(0, 0), (0, 5)], "there the epoch has ended"
    assert gone(epochs, 9_999, copy_start=160) == [(0, 0), (0, 5), (1, 0), (2, 0)]


def test_a_group_that_the_sources_retention_has_passed_stands_where_it_stood_on_the_target():
    """With a piece for each transaction, as their markers make it."""
    segments = [segment(0, 3 * number, 4 * number, 3 * number) for number in range(40)]
    state = state_of(records_of(segments))

    def place(committed: int) -> Translated:
        found = translate(state.map_of(PLACE).offsets(None, (7,)), committed)
        assert isinstance(found, Translated)
        return found

    before = {committed: place(committed) for committed in range(4 * 39)}
    for copy_start in (0, 30):
        for key in bound(state, {PLACE: Starts(148, copy_start)}, (7,)):
            state.forget(key)
        first = 4 * copy_start // 3
        assert {committed: place(committed) for committed in range(first, 4 * 39)} == {
            committed: lies for committed, lies in before.items() if committed >= first
        }
    assert place(8) == Translated(30, Place.FIRST), "the copy has lost it too"
