"""The map of one partition: pieces in arrays, put in one line, looked up both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.map import OffsetMap, PartitionMap
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.records import SEQUENCES, Progress, Segment

PLACE = TopicPartition("orders", 1)
WRITER = Writer(producer_id=7, epoch=1)


def piece_map(
    *segments: tuple[int, int, int], writer: Writer = WRITER, into: PartitionMap | None = None
) -> PartitionMap:
    made = into or PartitionMap()
    for sequence, source, target in segments:
        made.take(Segment(partition=PLACE, writer=writer, sequence=sequence, source=source, target=target))
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


@pytest.mark.parametrize(
    ("source", "target"),
    [(99, None), (100, 0), (104, 4), (105, 7), (109, 7), (110, 7), (114, 11), (115, 12), (120, 12), (121, None)],
)
def test_source_offsets_translate_and_holes_lead_to_the_next_record(source, target):
    assert two_pieces().source_to_target(source) == target


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


def test_an_empty_map_knows_nothing():
    offsets = PartitionMap().offsets(None, ())
    assert (len(offsets), offsets.end(), offsets.source_to_target(0), offsets.target_to_source(0)) == (
        0,
        None,
        None,
        None,
    )


_segments = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 500), st.booleans()), min_size=1, max_size=300)


@given(_segments, st.integers(0, SEQUENCES - 1), st.randoms(use_true_random=False))
def test_pieces_come_back_in_order_whatever_the_order_of_the_log(steps, first, chance):
    """As a plain list says it: counts grow by each length, sources by the length and the hole behind it."""
    count, source = first, 0
    plain: list[tuple[int, int, int, bool, bool]] = []
    for length, hole, unguarded in steps:
        plain.append((count, source, count + 3, unguarded, length % 2 == 0))
        count, source = count + length, source + length + hole
    log = plain * 2
    chance.shuffle(log)
    pieces = Pieces()
    for begin, at, _, unguarded, anew in plain:
        pieces.take(begin % SEQUENCES, at, NO_OFFSET, unguarded=unguarded, anew=anew)
    for begin, at, target, unguarded, anew in log:
        pieces.take(begin % SEQUENCES, at, target, unguarded=unguarded, anew=anew)
    assert [tuple(pieces.at(place)) for place in range(len(pieces))] == plain
    begin, at, *_ = chance.choice(plain)
    assert pieces.source_of(begin) == at
    assert pieces.count_at(at) == begin
    assert pieces.count_of(begin % SEQUENCES, begin + 17) == begin
    pieces.forget(begin % SEQUENCES)
    assert len(pieces) == len(plain) - 1


def test_a_million_segments_stay_small():
    pieces = Pieces()
    for number in range(1_000_000):
        pieces.take(number * 3, number * 4, number * 3)
    assert len(pieces) == 1_000_000
    assert pieces.source_of(2_999_998) == 4 * 999_999 + 1
    held = pieces._words.itemsize * len(pieces._words) + sum(column.nbytes for column in pieces.columns)
    assert held < 64 << 20
