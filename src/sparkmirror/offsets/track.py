"""A line that maps counts of records to offsets, straight but for holes: in blocks, as the internal topic has them.

One such line says where the records of a writer epoch lie on the source, another one where on the target. A *count* is
the number of a record in its writer epoch, not modulo anything. Blocks know sequences only, modulo 2**31; their order
gives the counts back.

Invariants:
    * Offsets grow with the count, by at least as much; neighbouring blocks begin less than 2**31 records apart.
    * Of two blocks with one sequence the one that was taken last counts, as with keys of a compacted topic.
    * Blocks that overlap say the same where they do: one that lies wholly in another adds nothing but its flags.
    * A block costs its packed bytes and a fixed part, and is decoded when an offset in it is looked up.
    * Taking a block behind the last one puts nothing in order anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparkmirror.offsets.holes import NO_HOLES, Holes, unpack
from sparkmirror.offsets.segments import SEQUENCES

FAR = 1 << 62
"""Beyond every count and offset."""


class Point(NamedTuple):
    """A record whose place is known: its count, or sequence number, and its offset."""

    count: int  # type: ignore[assignment]  # the word of the rest of the code; nobody counts in a point
    offset: int


class Piece(NamedTuple):
    """Records one behind the other: from the count ``begin`` at ``offset`` on, up to the next piece.

    Attributes:
        begin, offset: of the first record.
        end, stop: those of the first record of the next piece, or `FAR`.
        exact: whether the records lie side by side; if not, so many of its offsets are records, who knows which.
    """

    begin: int
    offset: int
    end: int
    stop: int
    exact: bool

    def offset_of(self, count: int) -> int:
        """The offset of a record in it; where it is not exact, one that is not beyond."""
        return self.offset + count - self.begin

    def count_at(self, offset: int) -> int:
        """The count of the record at an offset, or of the next one; where it is not exact, one that is not beyond."""
        if self.exact:
            return min(self.begin + offset - self.offset, self.end)
        return max(self.begin, self.end - (self.stop - offset))


@dataclass(frozen=True, slots=True)
class Block:
    """Some pieces, as one record of the internal topic has them.

    Attributes:
        sequence, offset: of its first record.
        holes: between that and the first record of its last piece.
        flagged: whether batches from its first record on may be unguarded, until the next block.
    """

    sequence: int
    offset: int
    holes: Holes = NO_HOLES
    flagged: bool = False

    @property
    def last(self) -> int:
        """The offset at which its last piece begins."""
        return self.offset + self.holes.offsets


class Track:
    """The blocks of one line.

    Attributes:
        size: bytes of their packed holes.
    """

    __slots__ = ("_blocks", "_counts", "_flags", "_offsets", "_order", "_sorted", "size")

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._order: list[Block] = []
        self._counts: list[int] = []
        self._offsets: list[int] = []
        self._flags: list[bool] = []
        self._sorted = True
        self.size = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def take(self, block: Block) -> None:
        """Adds a block, or replaces the one with the same sequence."""
        known = self._blocks.get(block.sequence)
        self._blocks[block.sequence] = block
        self.size += len(block.holes.packed) - (0 if known is None else len(known.holes.packed))
        if self._sorted and known is None and (not self._order or block.offset > self._order[-1].last):
            self._append(block)
        else:
            self._sorted = False

    def forget(self, sequence: int) -> None:
        """Removes the block with that sequence."""
        known = self._blocks.pop(sequence, None)
        if known is not None:
            self.size -= len(known.holes.packed)
            self._sorted = False

    def blocks(self) -> list[tuple[int, Block]]:
        """Those that say something, in order, each with the count of its first record."""
        self._sort()
        return list(zip(self._counts, self._order, strict=True))

    def stored(self) -> Iterator[tuple[int, Block]]:
        """All that are on record, those too that others hold, each with a count of its first record."""
        self._sort()
        for sequence, block in self._blocks.items():
            at = max(0, bisect_right(self._offsets, block.offset) - 1)
            yield self._counts[at] + (sequence - self._order[at].sequence) % SEQUENCES, block

    @property
    def first(self) -> Point:
        """Where it begins; it must not be empty."""
        self._sort()
        return Point(self._counts[0], self._offsets[0])

    @property
    def last(self) -> Point:
        """Where its last piece begins; it must not be empty."""
        self._sort()
        block = self._order[-1]
        return Point(self._counts[-1] + block.holes.records, block.last)

    def piece_of(self, count: int) -> Piece | None:
        """The piece that holds a count, or None before the first one."""
        self._sort()
        at = bisect_right(self._counts, count) - 1
        if at < 0:
            return None
        block, inside = self._order[at], count - self._counts[at]
        if inside >= block.holes.records:
            return self._last_piece(at)
        rows = unpack(block.holes.packed)
        row = int(np.searchsorted(rows.counts, inside, side="right")) - 1
        return self._piece(at, row, (inside - int(rows.counts[row])) // int(rows.records[row]))

    def piece_at(self, offset: int) -> Piece | None:
        """The last piece that begins at or before an offset, or None before the first one."""
        self._sort()
        at = bisect_right(self._offsets, offset) - 1
        if at < 0:
            return None
        block, inside = self._order[at], offset - self._offsets[at]
        if inside >= block.holes.offsets:
            return self._last_piece(at)
        rows = unpack(block.holes.packed)
        row = int(np.searchsorted(rows.offsets, inside, side="right")) - 1
        step = int(rows.records[row] + rows.holes[row])
        return self._piece(at, row, (inside - int(rows.offsets[row])) // step)

    def pieces(self, count: int) -> Iterator[Piece]:
        """All pieces from that which holds a count on, or from the first one."""
        piece = self.piece_of(max(count, self._counts[0])) if len(self._blocks) and self._sort() else None
        while piece is not None:
            yield piece
            piece = self.piece_of(piece.end) if piece.end < FAR else None

    def offset_of(self, count: int) -> int | None:
        """The offset of the record with that count; None before the first one."""
        piece = self.piece_of(count)
        return None if piece is None else piece.offset_of(count)

    def count_at(self, offset: int) -> int | None:
        """The count of the record at that offset, or of the next one; None before the first one."""
        piece = self.piece_at(offset)
        return None if piece is None else piece.count_at(offset)

    def count_of(self, sequence: int, near: int) -> int:
        """The count that a sequence number stands for: of all that it can be, the one nearest to ``near``."""
        half = SEQUENCES // 2
        return near - half + (sequence - near + half) % SEQUENCES

    def align(self, near: int) -> None:
        """Counts anew so that the last block's count is the nearest to ``near`` that it can be."""
        self._sort()
        if self._counts:
            shift = self.count_of(self._order[-1].sequence, near) - self._counts[-1]
            if shift:
                self._counts = [count + shift for count in self._counts]

    def flagged(self, since: int, until: int = FAR) -> bool:
        """Whether a block says that records from one count to before another may be unguarded."""
        self._sort()
        first = max(0, bisect_right(self._counts, since) - 1)
        last = bisect_right(self._counts, until - 1)
        return any(self._flags[first:last])

    def _last_piece(self, at: int) -> Piece:
        block = self._order[at]
        begin, offset = self._counts[at] + block.holes.records, block.last
        if at + 1 == len(self._order):
            return Piece(begin, offset, FAR, FAR, exact=True)
        return Piece(begin, offset, self._counts[at + 1], self._offsets[at + 1], exact=True)

    def _piece(self, at: int, row: int, turn: int) -> Piece:
        block, rows = self._order[at], unpack(self._order[at].holes.packed)
        records, hole = int(rows.records[row]), int(rows.holes[row])
        begin = self._counts[at] + int(rows.counts[row]) + turn * records
        offset = block.offset + int(rows.offsets[row]) + turn * (records + hole)
        end, stop = begin + records, offset + records + hole
        if at + 1 < len(self._order) and self._counts[at + 1] < end:
            end, stop = self._counts[at + 1], self._offsets[at + 1]  # the next block begins within this piece
        return Piece(begin, offset, end, stop, exact=not block.holes.thinned)

    def _append(self, block: Block) -> None:
        count = block.sequence
        if self._order:
            count = self._counts[-1] + (block.sequence - self._order[-1].sequence) % SEQUENCES
        self._order.append(block)
        self._counts.append(count)
        self._offsets.append(block.offset)
        self._flags.append(block.flagged)

    def _sort(self) -> bool:
        if not self._sorted:
            self._order, self._counts, self._offsets, self._flags = [], [], [], []
            for block in sorted(self._blocks.values(), key=lambda block: (block.offset, -block.holes.offsets)):
                if self._order and block.last <= self._order[-1].last:
                    self._flags[-1] = self._flags[-1] or block.flagged  # it lies wholly in the one before
                else:
                    self._append(block)
            self._sorted = True
        return True
