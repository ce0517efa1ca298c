"""How many segments of the offset map become few bytes: the records between holes, and the sizes of the holes.

A row says: so many records, then a hole of so many offsets; and how often that repeats. A transaction's marker is a
hole of one offset, so such a row costs one byte up to 31 records, two up to 4,095; equal rows in succession cost one.

    packed = rows | heads | holes | repeats      all of them unsigned LEB128 numbers
    head   = records << 2 | (hole is not 1) << 1 | (repeats is not 1)
    holes, repeats: of those rows whose head says so, in order

Invariants:
    * A point is where a straight piece begins: records counted, offsets counted. The first one of `Holes` is (0, 0),
      the last one (``records``, ``offsets``), and both are exact.
    * Where `Holes` are ``thinned``, the points are exact and nothing between them is: a row then says how many of its
      offsets are records, not which.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Longs: TypeAlias = npt.NDArray[np.int64]

_BITS = 7
_MORE = 0x80
_WIDEST = 9
"""Bytes of the largest number that an offset can be."""

_SMALL = 24
"""Numbers up to which plain Python is faster than NumPy."""

_SHORT = 256
"""Bytes of rows up to which they are checked in plain Python."""

_FAR = 2.0**62
_CUT_OFF = "holes of the offset map are cut off"
_TOO_LARGE = "holes of the offset map have a number that is too large"
_NO_HOLE = "holes of the offset map have a row without a hole"

_MOST = 1 << 18
"""Points that a thinned block has at most, whatever its rows say how many they are."""

_DECODED = 32
"""Blocks whose rows are kept decoded; each is at most some hundred kilobytes."""


class Holes(NamedTuple):
    """What lies between the first point of a block and its last one.

    Attributes:
        records, offsets: from the first point to the last one.
        packed: the rows.
        thinned: whether points between them were left out.
    """

    records: int = 0
    offsets: int = 0
    packed: bytes = b""
    thinned: bool = False


NO_HOLES = Holes()


class Rows(NamedTuple):
    """`Holes` to calculate with.

    Attributes:
        counts, offsets: of the point at which each row begins.
        records, holes, repeats: of each row.
    """

    counts: Longs
    offsets: Longs
    records: Longs
    holes: Longs
    repeats: Longs


def pack(counts: Sequence[int] | Longs, offsets: Sequence[int] | Longs, *, thinned: bool = False) -> Holes:
    """Makes `Holes` of points in order, the first of which is where they begin.

    Args:
        counts: of records, ascending, from any number on.
        offsets: ascending, each step at least as large as that of the counts.
        thinned: whether points between these are left out.
    """
    if len(counts) < 2:
        return NO_HOLES
    at, to = np.asarray(counts, np.int64), np.asarray(offsets, np.int64)
    gaps = np.diff(to) - np.diff(at)
    stay = np.append(True, gaps > 0)  # the first point has nothing before it
    at, to = at[stay], to[stay]
    if len(at) < 2:
        return NO_HOLES
    last = (int(at[-1] - at[0]), int(to[-1] - to[0]))
    records = np.diff(at)
    return Holes(*last, _encode_rows(records, np.diff(to) - records, np.ones(len(records), np.int64)), thinned)


def join(blocks: Sequence[tuple[int, int, Holes]], *, thinned: bool = False) -> Holes:
    """Makes one of several blocks that follow each other and do not overlap.

    Args:
        blocks: the count and the offset of the first point of each, and its holes.
        thinned: whether what comes out is; it is also where one of the blocks is.
    """
    first = blocks[0]
    parts: list[tuple[Longs, Longs, Longs]] = []
    carry, end = 0, (first[0], first[1])
    for count, offset, holes in blocks:
        records, gap = count - end[0], offset - end[1] - (count - end[0])
        if gap:
            parts.append(_one(records + carry, gap))
            carry = 0
        else:
            carry += records
        if holes.records:
            rows = unpack(holes.packed)
            if carry:
                parts.append(_one(int(rows.records[0]) + carry, int(rows.holes[0])))
                rows, carry = _without_first(rows), 0
            parts.append((rows.records, rows.holes, rows.repeats))
        end = (count + holes.records, offset + holes.offsets)
    if not parts:
        return NO_HOLES
    records_, gaps, repeats = (np.concatenate([part[column] for part in parts]) for column in range(3))
    reach = (end[0] - carry - first[0], end[1] - carry - first[1])
    thinned = thinned or any(holes.thinned for *_, holes in blocks)
    return Holes(*reach, _encode_rows(records_, gaps, repeats), thinned)


def cut(holes: Holes, offsets: int) -> Holes:
    """The points that lie less than so many offsets behind the first one."""
    if not holes.packed or holes.offsets < offsets:
        return holes
    rows = unpack(holes.packed)
    begun = rows.offsets < offsets
    records, gaps = rows.records[begun], rows.holes[begun]
    # Row by row, and not point by point: a row may stand for as many as it says.
    repeats = np.minimum(rows.repeats[begun], (offsets - 1 - rows.offsets[begun]) // (records + gaps))
    stay = repeats > 0
    records, gaps, repeats = records[stay], gaps[stay], repeats[stay]
    if not len(records):
        return NO_HOLES
    counted = int(records @ repeats)
    return Holes(counted, counted + int(gaps @ repeats), _encode_rows(records, gaps, repeats), holes.thinned)


def thin(holes: Holes, less: int) -> Holes:
    """Leaves one of so many points, evenly, and `_MOST` at most; the first one and the last one stay."""
    rows = unpack(holes.packed)
    until = np.cumsum(rows.repeats)
    every = int(until[-1])
    points = max(2, min(_MOST, (every + 1) // less))
    if every + 1 <= points:
        return holes
    step, rest = divmod(every, points - 1)
    place = np.arange(points - 1)
    wanted = place * step + place * rest // (points - 1)
    row = np.searchsorted(until, wanted, side="right")
    turn = wanted - (until[row] - rows.repeats[row])
    counts = np.append(rows.counts[row] + turn * rows.records[row], holes.records)
    offsets = np.append(rows.offsets[row] + turn * (rows.records + rows.holes)[row], holes.offsets)
    records = np.diff(counts)
    packed = _encode_rows(records, np.diff(offsets) - records, np.ones(len(records), np.int64))
    return Holes(holes.records, holes.offsets, packed, thinned=True)


def _one(records: int, gap: int) -> tuple[Longs, Longs, Longs]:
    return np.array([records], np.int64), np.array([gap], np.int64), np.ones(1, np.int64)


def _without_first(rows: Rows) -> Rows:
    """The rows without the first turn of the first one; where they begin is not told any more."""
    skip = int(rows.repeats[0] == 1)
    repeats = rows.repeats[skip:].copy()
    if not skip:
        repeats[0] -= 1
    return rows._replace(records=rows.records[skip:], holes=rows.holes[skip:], repeats=repeats)


def check(holes: Holes) -> None:
    """Sees that the rows are such as `pack` and `join` make, and come to the points that are told beside them.

    Raises:
        ValueError: they do not.
    """
    packed = holes.packed
    records, offsets, repeats = _sums_of_few(packed) if len(packed) <= _SHORT else _sums(packed)
    if (records, offsets) != (holes.records, holes.offsets) or repeats > records + len(packed):
        raise ValueError("holes of the offset map do not come to where they are said to end")


def _sums(packed: bytes) -> tuple[int, int, int]:
    """Records, offsets and repeats of all rows together."""
    rows = _unpacked(packed)
    if not len(rows.records) or rows.holes.min() < 1 or rows.repeats.min() < 1:
        raise ValueError(_NO_HOLE)
    records, repeats = rows.records.astype(np.float64), rows.repeats.astype(np.float64)
    if float((records + rows.holes) @ repeats) > _FAR or float(repeats.sum()) > _FAR:
        raise ValueError(_TOO_LARGE)
    records_of = int(rows.records @ rows.repeats)
    return records_of, records_of + int(rows.holes @ rows.repeats), int(rows.repeats.sum())


def _sums_of_few(packed: bytes) -> tuple[int, int, int]:
    """The same in plain Python, which is faster for few."""
    size, *numbers = _decode_few(packed)
    heads, rest = numbers[:size], iter(numbers[size:])
    odd = [next(rest, 0) if head & 2 else 1 for head in heads]
    records = offsets = turns = 0
    for head, hole in zip(heads, odd, strict=True):
        repeats = next(rest, 0) if head & 1 else 1
        if hole < 1 or repeats < 1:
            raise ValueError(_NO_HOLE)
        records += (head >> 2) * repeats
        offsets += ((head >> 2) + hole) * repeats
        turns += repeats
    if len(heads) != size or next(rest, None) is not None:
        raise ValueError(_CUT_OFF)
    if offsets > _FAR:
        raise ValueError(_TOO_LARGE)
    return records, offsets, turns


def _decode_few(packed: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & _MORE - 1) << shift
        if byte < _MORE:
            numbers.append(number)
            number = shift = 0
        else:
            shift += _BITS
    if shift or not numbers:
        raise ValueError(_CUT_OFF)
    if max(numbers) >> _BITS * _WIDEST:
        raise ValueError(_TOO_LARGE)
    return numbers


@lru_cache(maxsize=_DECODED)
def unpack(packed: bytes) -> Rows:
    """The rows of `Holes`.

    Raises:
        ValueError: these are not rows.
    """
    return _unpacked(packed)


def _unpacked(packed: bytes) -> Rows:
    numbers = _decode(packed)
    size = int(numbers[0]) if len(numbers) else 0
    heads, rest = numbers[1 : 1 + size], numbers[1 + size :]
    records, odd, several = heads >> 2, (heads & 2).astype(np.bool_), (heads & 1).astype(np.bool_)
    if len(heads) != size or len(rest) != odd.sum() + several.sum():
        raise ValueError(_CUT_OFF)
    holes, repeats = np.ones(size, np.int64), np.ones(size, np.int64)
    holes[odd], repeats[several] = rest[: odd.sum()], rest[odd.sum() :]
    counts, offsets = records * repeats, (records + holes) * repeats
    return Rows(np.cumsum(counts) - counts, np.cumsum(offsets) - offsets, records, holes, repeats)


def _encode_rows(records: Longs, holes: Longs, repeats: Longs) -> bytes:
    """Packs rows, equal ones in succession as one."""
    differs = (records[1:] != records[:-1]) | (holes[1:] != holes[:-1])
    first = np.flatnonzero(np.append(True, differs))  # the first row differs from none
    records, holes, repeats = records[first], holes[first], np.add.reduceat(repeats, first)
    odd, several = holes != 1, repeats != 1
    heads = records << 2 | odd << 1 | several
    return _encode(np.concatenate([np.array([len(heads)], np.int64), heads, holes[odd], repeats[several]]))


def _encode(numbers: Longs) -> bytes:
    if len(numbers) <= _SMALL:
        return b"".join(_number(number) for number in numbers.tolist())
    sizes = np.ones(len(numbers), np.int64)
    for width in range(1, _WIDEST):
        sizes += numbers >= 1 << _BITS * width
    out = np.empty(int(sizes.sum()), np.uint8)
    starts = np.cumsum(sizes) - sizes
    for place in range(int(sizes.max())):
        here = sizes > place
        more = np.where(sizes[here] > place + 1, _MORE, 0)
        out[starts[here] + place] = numbers[here] >> _BITS * place & _MORE - 1 | more
    return out.tobytes()


def _number(number: int) -> bytes:
    out = bytearray()
    while number >= _MORE:
        out.append(number & _MORE - 1 | _MORE)
        number >>= _BITS
    out.append(number)
    return bytes(out)


def _decode(packed: bytes) -> Longs:
    data = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(data < _MORE)
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise ValueError(_CUT_OFF)
    starts = np.append(0, ends[:-1] + 1) if len(ends) else ends
    sizes = ends - starts + 1
    numbers = np.zeros(len(ends), np.int64)
    widest = int(sizes.max()) if len(sizes) else 0
    if widest > _WIDEST:
        raise ValueError(_TOO_LARGE)
    for place in range(widest):
        here = sizes > place
        numbers[here] |= (data[starts[here] + place].astype(np.int64) & _MORE - 1) << _BITS * place
    return numbers
