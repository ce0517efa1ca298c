"""Segments as few bytes: against a plain reading, and against the list of all points."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.offsets.holes import NO_HOLES, Holes, _sums, _sums_of_few, check, cut, join, pack, thin, unpack
from tests.offsets.segments import rows

_numbers = st.one_of(st.integers(1, 40), st.integers(1, 2**13), st.integers(1, 2**40))
_steps = st.lists(st.tuples(_numbers, _numbers, st.sampled_from([1, 1, 1, 2, 30])), max_size=60)


def line(steps: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """All points (count, offset) of rows of records, hole and repeats."""
    found = [(0, 0)]
    for records, hole, repeats in steps:
        for _ in range(repeats):
            found.append((found[-1][0] + records, found[-1][1] + records + hole))
    return found


def packed(points: Sequence[tuple[int, int]]) -> Holes:
    return pack([count for count, _ in points], [offset for _, offset in points])


@given(_steps, st.data())
def test_what_is_cut_off_leaves_the_points_before(steps, data):
    points = line(steps)
    offsets = data.draw(st.sampled_from([offset for _, offset in points]) | st.integers(1, points[-1][1] + 1))
    left = [point for point in points if point[1] < offsets] or points[:1]
    holes = cut(packed(points), offsets)
    assert line(rows(holes.packed)) == left
    assert (holes.records, holes.offsets) == left[-1]


def test_a_row_that_stands_for_any_number_of_points_is_cut_and_thinned_without_them():
    """Who forges one would have a takeover or a driver run out of memory else."""
    holes = Holes(2**40, 2**41, b"\x01\x05" + b"\x80" * 5 + b"\x20")  # 2**40 times: one record, one hole
    check(holes)
    left = cut(holes, 2**40 + 1)
    assert (left.records, left.offsets) == (2**39, 2**40)
    check(left)
    thinned = thin(holes, 64)
    check(thinned)
    assert (thinned.records, thinned.offsets, thinned.thinned) == (holes.records, holes.offsets, True)


@given(_steps, st.integers(0, 2**40), st.integers(0, 2**40))
def test_what_was_packed_is_what_a_plain_reader_finds(steps, count, offset):
    points = line(steps)
    holes = packed([(count + a, offset + b) for a, b in points])
    assert line(rows(holes.packed)) == points
    assert (holes.records, holes.offsets) == points[-1]
    unpacked = unpack(holes.packed) if holes.packed else None
    if unpacked is not None:
        known = list(zip(unpacked.records.tolist(), unpacked.holes.tolist(), unpacked.repeats.tolist(), strict=True))
        assert line(known) == points
        starts = [a for a, _ in itertools.groupby(unpacked.counts.tolist())]
        assert starts == unpacked.counts.tolist()
        assert {(0, 0), *zip(unpacked.counts.tolist(), unpacked.offsets.tolist(), strict=True)} <= set(points)


@pytest.mark.parametrize(
    ("points", "size"),
    [
        ([(0, 0)], 0),
        ([(10 * n, 11 * n) for n in range(1_000_000)], 5),
        ([(n * (n + 1) % 7 + 10 * n, n * (n + 1) % 7 + 11 * n) for n in range(10_000)], 10_050),
    ],
)
def test_holes_of_transactions_cost_a_byte_and_regular_ones_nothing(points, size):
    assert len(packed(points).packed) <= size


def test_a_point_without_a_hole_before_it_is_none():
    assert pack([0, 5, 9], [0, 5, 10]) == pack([0, 9], [0, 10])
    assert pack([0, 5], [0, 5]) == NO_HOLES


@given(_steps, st.lists(st.integers(0, 200), max_size=8))
def test_blocks_that_follow_each_other_are_joined_to_what_one_would_have_been(steps, cuts):
    points = line(steps)
    edges = sorted({0, len(points), *(cut for cut in cuts if cut < len(points))})
    parts = [points[a:b] for a, b in itertools.pairwise(edges)]
    assert join([(*part[0], packed(part)) for part in parts]) == packed(points)


@given(_steps, st.integers(1, 30))
def test_a_block_that_begins_without_a_hole_adds_none(steps, records):
    points = line(steps)
    count, offset = points[-1]
    behind = [(count + records + a, offset + records + b) for a, b in points]
    joined = join([(0, 0, packed(points)), (*behind[0], packed(points))])
    assert joined == packed([*points, *behind])


@given(_steps, st.integers(2, 20))
def test_thinned_points_are_some_of_all_with_the_first_and_the_last(steps, less):
    points = line(steps)
    holes = packed(points)
    if not holes.packed:
        return
    thinned = thin(holes, less)
    most = max(2, len(points) // less)
    left = line(rows(thinned.packed))
    assert set(left) <= set(points)
    assert (left[0], left[-1]) == (points[0], points[-1])
    assert len(left) == min(most, len(points))
    assert thinned.thinned == (len(points) > most)


@pytest.mark.parametrize("damaged", [b"\x81", b"\x02\x28", b"\x01\x2a", b"\x01\x28\x01", b"\xff" * 12 + b"\x01"])
def test_what_is_cut_off_is_an_error(damaged):
    with pytest.raises(ValueError, match="holes of the offset map"):
        unpack(damaged)


@given(_steps, st.data())
def test_what_was_packed_is_sound_and_few_rows_are_checked_as_many_are(steps, data):
    holes = packed(line(steps))
    if not holes.packed:
        return
    check(holes)
    check(thin(holes, 3))
    assert _sums_of_few(holes.packed) == _sums(holes.packed)
    bits = bytearray(holes.packed)
    bits[data.draw(st.integers(0, len(bits) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found: list[tuple[int, int, int] | None] = []
    for sums in (_sums_of_few, _sums):
        try:
            found.append(sums(bytes(bits)))
        except ValueError:
            found.append(None)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "holes",
    [
        Holes(3, 4, b""),
        Holes(3, 4, b"\x01"),
        Holes(3, 4, b"\x80"),
        Holes(3, 5, pack([0, 3], [0, 4]).packed),
        Holes(4, 5, pack([0, 3], [0, 4]).packed),
        Holes(3, 3, b"\x01\x0e\x00"),
        Holes(3, 4, b"\x01\x0d\x00"),
        Holes(0, 2**50, b"\x01\x01" + b"\x80" * 7 + b"\x02"),
        Holes(3, 4, b"\xff" * 300 + b"\x01"),
    ],
)
def test_rows_that_are_none_or_come_to_another_end_are_refused(holes: Holes):
    with pytest.raises(ValueError, match="holes of the offset map"):
        check(holes)
