"""The map of one partition: pieces in arrays, put in one line, looked up both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.map import OffsetMap, PartitionMap, Stretch
from sparkmirror.offsets.records import Progress, part_of
from sparkmirror.offsets.segments import SEQUENCES, MapKey, Parted
from sparkmirror.offsets.state import state_of
from tests.offsets.segments import Segment, records_of

PLACE = TopicPartition("orders", 1)
WRITER = Writer(producer_id=7, epoch=1)


def piece_map(
    *segments: tuple[int, int, int], writer: Writer = WRITER, into: PartitionMap | None = None
) -> PartitionMap:
    made = into or PartitionMap()
    for sequence, source, target in segments:
        for record in records_of(
            [Segment(partition=PLACE, writer=writer, sequence=sequence, source=source, target=target)]
        ):
            made.take(record)
    return made


def progress(sequence: int, source: int, target: int, position: int, writer: Writer = WRITER) -> Progress:
    return Progress(
        partition=PLACE,
        writer=writer,
        generation=1,
        position=position,
        next_sequence=(sequence + 1) % SEQUENCES,
        sequence=sequence,
        source=source,
        target=target,
    )


def two_pieces() -> OffsetMap:
    """Source 100 to 104 and 110 to 114; others have written at target 5 and 6; the position is 120."""
    return piece_map((0, 100, 0), (5, 110, 7)).offsets(progress(9, 114, 11, 120), (7,))


def test_an_epoch_that_ended_in_order_ends_with_the_last_record_of_its_progress():
    """The next one begins behind a hole, and behind what others wrote; nothing else says that it lies behind them."""
    newer = Writer(producer_id=7, epoch=2)
    state = state_of(
        [
            *records_of([Segment(partition=PLACE, writer=WRITER, sequence=0, source=0, target=0)]),
            replace(progress(9, 9, 9, 15), settled=True),
            *records_of([Segment(partition=PLACE, writer=newer, sequence=0, source=15, target=13)]),
            progress(0, 15, 13, 16, newer),
        ]
    )
    mapped = state.map_of(PLACE).offsets(state.progress[PLACE], (7,))
    assert [mapped.source_to_target(source) for source in (9, 10, 14, 15)] == [9, 13, 13, 13]
    assert [mapped.target_to_source(target) for target in (9, 10, 12, 13)] == [9, 15, 15, 15]
    assert not mapped.mirrored(10)


@pytest.mark.parametrize(
    ("source", "target"),
    [(99, None), (100, 0), (104, 4), (105, 7), (109, 7), (110, 7), (114, 11), (115, 12), (120, 12), (121, None)],
)
def test_source_offsets_translate_and_holes_lead_to_the_next_record(source, target):
    assert two_pieces().source_to_target(source) == target


def test_the_position_of_an_older_epoch_does_not_hold_behind_the_begin_of_a_newer_one():
    """A source that lost its tail goes on lower down: until the newer epoch has progress, nothing lies behind that."""
    newer = Writer(producer_id=7, epoch=2)
    made = piece_map((0, 0, 0))
    for record in records_of([Segment(partition=PLACE, writer=newer, sequence=0, source=50, target=-1, anew=True)]):
        made.take(record)
    offsets = made.offsets(progress(99, 99, 99, 100), (7,))
    assert offsets.source_to_target(49) == 49
    assert [offsets.source_to_target(offset) for offset in (51, 75, 100)] == [None] * 3
    assert offsets.position == 50
    begun = made.offsets(progress(9, 59, 109, 60, newer), (7,))
    assert begun.position == 60


@pytest.mark.parametrize(
    ("after", "left"),
    [
        (NO_OFFSET, [(100, 0, 5), (110, 7, 5)]),
        (99, [(100, 0, 5), (110, 7, 5)]),
        (102, [(103, 3, 2), (110, 7, 5)]),
        (104, [(110, 7, 5)]),
        (107, [(110, 7, 5)]),
        (110, [(111, 8, 4)]),
        (114, []),
        (200, []),
    ],
)
def test_what_lies_behind_an_offset_comes_in_order(after, left):
    assert [tuple(stretch) for stretch in two_pieces().settled(after)] == left


def test_what_has_no_known_target_is_not_settled():
    ahead = piece_map((0, 100, 0), (5, 110, -1)).offsets(progress(4, 104, 4, 120), (7,))
    assert [tuple(stretch) for stretch in ahead.settled()] == [(100, 0, 5)]


@pytest.mark.parametrize(
    ("target", "source"),
    [(-1, None), (0, 100), (4, 104), (5, 110), (6, 110), (7, 110), (11, 114), (12, 120), (99, 120)],
)
def test_target_offsets_translate_back_and_others_records_lead_to_the_next(target, source):
    assert two_pieces().target_to_source(target) == source


def test_a_target_offset_that_is_not_known_yet_is_not_guessed():
    offsets = piece_map((0, 100, 0), (5, 110, NO_OFFSET)).offsets(progress(4, 104, 4, 105), (7,))
    assert offsets.source_to_target(104) == 4
    assert offsets.source_to_target(110) is None
    assert not offsets.mirrored(110)


def test_records_that_are_not_acknowledged_are_not_in_the_map():
    offsets = piece_map((0, 100, 0)).offsets(progress(4, 104, 4, 105), (7,))
    assert [offsets.mirrored(source) for source in (99, 100, 104, 105)] == [False, True, True, False]
    assert offsets.count(0, 1_000) == 5
    assert offsets.count(102, 104) == 2


def test_a_newer_epoch_goes_first():
    newer = Writer(producer_id=7, epoch=2)
    both = piece_map((0, 105, 9), writer=newer, into=piece_map((0, 100, 0)))
    offsets = both.offsets(progress(4, 109, 13, 110, writer=newer), (7,))
    assert [tuple(stretch) for stretch in offsets] == [(100, 0, 5), (105, 9, 5)]


def test_another_target_topic_voids_what_the_old_one_had():
    newer = Writer(producer_id=7, epoch=2)
    both = piece_map((0, 105, 0), writer=newer, into=piece_map((0, 100, 50)))
    offsets = both.offsets(progress(4, 109, 4, 110, writer=newer), (7,))
    assert [tuple(stretch) for stretch in offsets] == [(105, 0, 5)]


@pytest.mark.parametrize("newer", [Writer(producer_id=7, epoch=2), Writer(producer_id=3, epoch=0)])
def test_who_goes_on_with_the_copy_is_the_newest_that_anything_is_on_record_of(newer):
    """A segment that is written ahead, or progress: which comes first differs."""
    made, ids = piece_map((0, 0, 0)), (7, 3)
    older = progress(4, 4, 4, 5)
    assert made.offsets(older, ids).writer == made.offsets(None, ids).writer == WRITER
    assert made.offsets(progress(-1, -1, -1, 5, newer), ids).writer == newer
    for record in records_of([Segment(partition=PLACE, writer=newer, sequence=0, source=5, target=-1)]):
        made.take(record)
    assert made.offsets(older, ids).writer == newer
    assert made.offsets(older, ids).below(3).writer == newer
    assert made.offsets(progress(0, 5, 5, 6, newer), ids).writer == newer
    assert PartitionMap().offsets(None, ids).writer is None


def test_an_empty_map_knows_nothing():
    offsets = PartitionMap().offsets(None, ())
    assert (len(offsets), offsets.end(), offsets.source_to_target(0), offsets.target_to_source(0)) == (
        0,
        None,
        None,
        None,
    )


@pytest.mark.parametrize(("source", "target"), [(0, 0), (6, 6), (7, 10), (9, 10), (11, 10), (12, 10), (13, 11)])
def test_older_epochs_hold_below_the_offset_at_which_the_source_has_parted_from_them(source, target):
    """Offsets 0 to 9 were copied, the source lost 7 to 9, has others up to 11, and the flow was ordered to 12."""
    newer = Writer(producer_id=7, epoch=2)
    known = piece_map((0, 12, 10), writer=newer, into=piece_map((0, 0, 0)))
    own = progress(1, 13, 11, 14, newer)
    parted = Parted(partition=PLACE, writer=newer, source=7)
    known.take(parted)
    offsets = known.offsets(own, (7,))
    assert offsets.source_to_target(source) == target
    assert [offsets.target_to_source(here) for here in (6, 7, 9, 10)] == [6, 12, 12, 12]
    assert offsets.mirrored(source) is (source < 7 or source > 11)
    before = known.offsets(own, (7,), parted=False)
    assert before.source_to_target(8) == 8
    key = part_of(parted.key)
    assert isinstance(key, MapKey)
    known.forget(key)
    assert known.offsets(own, (7,)).source_to_target(8) == 8


@pytest.mark.parametrize(("cut", "left"), [(0, []), (100, []), (103, [(100, 0, 3)]), (112, [(100, 0, 5), (110, 7, 2)])])
def test_a_map_can_be_looked_at_as_if_it_ended_earlier(cut, left):
    offsets = two_pieces().below(cut)
    assert ([tuple(one) for one in offsets], offsets.position) == (left, cut)


@pytest.mark.parametrize("cut", [0, 3, 5, 6, 7, 9, 11, 12, 50])
def test_a_map_can_be_looked_at_as_if_the_target_ended_earlier(cut):
    places = [
        (each.source + step, each.target + step) for each in two_pieces().settled() for step in range(each.length)
    ]
    left = two_pieces().before_target(cut)
    kept = [(each.source + step, each.target + step) for each in left.settled() for step in range(each.length)]
    assert kept == [(source, target) for source, target in places if target < cut]
    assert left.first_without_copy(cut) == cut
    assert left.position == min([120, *(source for source, target in places if target >= cut)])


@pytest.mark.parametrize(("source", "target"), [(6, 6), (7, 10), (11, 10), (12, 10), (13, None)])
def test_what_comes_first_after_a_parting_lies_behind_all_that_is_on_the_target(source, target):
    """The same, when the newer epoch has sent nothing yet."""
    newer = Writer(producer_id=7, epoch=2)
    known = piece_map((0, 0, 0))
    known.take(Parted(partition=PLACE, writer=newer, source=7))
    own = progress(NO_OFFSET, 9, 9, 12, newer)
    assert known.offsets(own, (7,)).source_to_target(source) == target


def test_the_first_stretch_is_looked_up_once_since_each_translation_asks_for_it(monkeypatch):
    offsets = two_pieces()
    first = offsets.first()
    assert first == Stretch(100, 0, 5)
    monkeypatch.setattr(OffsetMap, "__iter__", lambda _self: iter(()))
    assert offsets.first() == first
