"""Which segments go: those below the source's log start, unless something may still be decided by them."""

from __future__ import annotations

import pytest

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.bounds import bound
from sparkmirror.offsets.state import JournalState, state_of
from tests.offsets.segments import Segment, records_of

PLACE = TopicPartition("orders", 1)


def segment(epoch: int, sequence: int, source: int, target: int = NO_OFFSET, producer_id: int = 7) -> Segment:
    writer = Writer(producer_id=producer_id, epoch=epoch)
    return Segment(partition=PLACE, writer=writer, sequence=sequence, source=source, target=target)


ONE_EPOCH = [segment(0, 0, 0, 0), segment(0, 10, 20, 10), segment(0, 20, 40, 20), segment(0, 30, 60)]


def gone(segments: list[Segment], log_start: int, ids: tuple[int, ...] = (7,)) -> list[tuple[int, int]]:
    state = state_of(records_of(segments))
    keys = bound(state, {PLACE: log_start}, ids)
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


def test_what_a_lost_tail_made_void_goes_though_the_source_still_has_it():
    epochs = [segment(0, 0, 50, 50), *(segment(e, 0, 40 + e, 40 + e) for e in range(1, 4))]
    assert gone(epochs, 0) == [(0, 0)]


def test_epochs_of_an_older_producer_id_are_older_whatever_their_number():
    epochs = [segment(9, 0, 0, 0), *(segment(e, 0, 10 + e, 10 + e, producer_id=3) for e in range(3))]
    assert gone(epochs, 10, ids=(7, 3)) == [(9, 0)]
    assert gone(epochs, 10, ids=(3, 7)) == [(0, 0)]


def test_partitions_whose_log_start_is_unknown_and_unknown_partitions_keep_everything():
    state = state_of(records_of(ONE_EPOCH))
    assert bound(state, {}, (7,)) == ()
    assert bound(JournalState(), {PLACE: 100}, (7,)) == ()
