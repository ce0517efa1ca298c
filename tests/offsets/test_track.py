"""A line in blocks, looked up both ways, against the plain list of its records."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.offsets.holes import cut, pack, thin
from sparkmirror.offsets.segments import SEQUENCES
from sparkmirror.offsets.track import FAR, Block, Track

_pieces = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 5), st.sampled_from([False, False, True])), min_size=1, max_size=60
)
_firsts = st.sampled_from([0, 5, SEQUENCES - 3, SEQUENCES - 40])


def blocks_of(
    pieces: list[tuple[int, int, bool]], first: int, origin: int = 1_000
) -> tuple[list[Block], dict[int, int]]:
    """Blocks of pieces (records, hole, whether a block begins here), and the offset of each count."""
    points, lies, count, offset = [], {}, first, origin
    for records, hole, begins in pieces:
        points.append((count, offset, begins))
        lies.update({count + n: offset + n for n in range(records)})
        count, offset = count + records, offset + records + hole
    blocks: list[Block] = []
    edges = [0, *(n for n, (_, _, begins) in enumerate(points) if begins and n), len(points)]
    for a, b in itertools.pairwise(edges):
        counts, offsets = [point[0] for point in points[a:b]], [point[1] for point in points[a:b]]
        blocks.append(Block(counts[0] % SEQUENCES, offsets[0], pack(counts, offsets)))
    return blocks, lies


def check(track: Track, lies: dict[int, int]) -> None:
    at = {offset: count for count, offset in lies.items()}
    last = max(lies)
    following = last + 1
    for offset in range(max(at), min(at) - 1, -1):
        following = at.get(offset, following)
        assert track.count_at(offset) == following
    for count, offset in lies.items():
        assert track.offset_of(count) == offset
        assert track.count_of(count % SEQUENCES, last) == count
    assert track.offset_of(min(lies) - 1) is None
    assert track.count_at(min(at) - 1) is None
    told = {
        count: piece.offset_of(count)
        for piece in track.pieces(0)
        for count in range(piece.begin, min(piece.end, last + 1))
    }
    assert told == lies


@given(_pieces, _firsts, st.randoms(use_true_random=False))
def test_blocks_are_one_line_whatever_the_order_of_the_log(pieces, first, chance):
    blocks, lies = blocks_of(pieces, first)
    track = Track()
    for block in blocks:
        track.take(block)
    check(track, lies)
    log = blocks * 2
    chance.shuffle(log)
    other = Track()
    for block in log:
        other.take(block)
    check(other, lies)
    if len(blocks) > 1:
        other.forget(blocks[-1].sequence)
        assert len(other) == len(blocks) - 1
        assert other.last.offset == blocks[-2].last


@given(_pieces, _firsts, st.data())
def test_blocks_that_are_written_again_as_one_may_lie_beside_it(pieces, first, data):
    """Somebody who joins blocks may die before those that are in it now have their tombstones."""
    whole, lies = blocks_of([(records, hole, False) for records, hole, _ in pieces], first)
    parts, _ = blocks_of(pieces, first)
    track = Track()
    for block in data.draw(st.permutations([*parts[1:], *whole])):
        track.take(block)
    check(track, lies)


@given(_pieces, _firsts, st.data())
def test_a_block_that_begins_within_another_says_the_same(pieces, first, data):
    """Whoever divides a block writes what lies behind first."""
    (whole,), lies = blocks_of([(records, hole, False) for records, hole, _ in pieces], first)
    since = data.draw(st.integers(min(1, len(lies) - 1), len(lies) - 1))
    counts = sorted(lies)
    behind = counts[since:]
    points = [c for c in behind if c == behind[0] or lies[c] != lies[c - 1] + 1]
    part = Block(behind[0] % SEQUENCES, lies[behind[0]], pack(points, [lies[c] for c in points]), flagged=True)
    track = Track()
    for block in data.draw(st.permutations([whole, part])):
        track.take(block)
    check(track, lies)
    assert track.flagged(behind[0], FAR) or not since


@given(_pieces, _firsts, st.integers(2, 6))
def test_where_points_were_left_out_nothing_is_told_too_far(pieces, first, less):
    (whole,), lies = blocks_of([(records, hole, False) for records, hole, _ in pieces], first)
    track = Track()
    holes = whole.holes
    if not holes.packed:
        return
    track.take(Block(whole.sequence, whole.offset, thin(holes, less)))
    at = {offset: count for count, offset in lies.items()}
    following = max(lies) + 1
    for offset in range(max(at), min(at) - 1, -1):
        following = at.get(offset, following)
        told = track.count_at(offset)
        piece = track.piece_at(offset)
        assert told is not None
        assert piece is not None
        assert told <= following
        assert told == following or not piece.exact
        assert piece.begin <= told
    for count, offset in lies.items():
        there = track.offset_of(count)
        assert there is not None
        assert there <= offset


@given(_pieces, _firsts, st.integers(2, 6), st.data())
def test_behind_the_last_point_of_a_thinned_block_that_was_cut_off_nothing_is_exact_or_too_far(
    pieces, first, less, data
):
    (whole,), lies = blocks_of([(records, hole, False) for records, hole, _ in pieces], first)
    if not whole.holes.packed:
        return
    thinned = thin(whole.holes, less)
    left = cut(thinned, data.draw(st.integers(1, max(1, thinned.offsets)), label="cut"))
    if left == thinned or not thinned.thinned:
        return
    track = Track()
    track.take(Block(whole.sequence, whole.offset, left, torn=True))
    at = {offset: count for count, offset in lies.items()}
    following = max(lies) + 1
    for offset in range(max(at), min(at) - 1, -1):
        following = at.get(offset, following)
        piece = track.piece_at(offset)
        assert piece is not None
        assert piece.count_at(offset) <= following
        assert piece.count_at(offset) == following or not piece.exact
    for count, offset in lies.items():
        there = track.offset_of(count)
        assert there is not None
        assert there <= offset


def test_a_line_of_ten_million_holes_is_read_at_once_and_stays_small():
    track = Track()
    holes = pack([3 * n for n in range(1_000)], [4 * n for n in range(1_000)])
    for number in range(10_000):
        track.take(Block(3_000 * number, 4_000 * number, holes))
    assert track.offset_of(29_999_998) == 39_999_997
    assert track.size < 200_000


def test_a_line_that_was_counted_from_another_lap_is_aligned():
    track = Track()
    for sequence, offset in ((SEQUENCES - 10, 50), (5, 70)):
        track.take(Block(sequence, offset))
    track.align(3 * SEQUENCES + 9)
    assert [count for count, _ in track.blocks()] == [3 * SEQUENCES - 10, 3 * SEQUENCES + 5]
