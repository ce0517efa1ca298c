"""A line that maps counts of records to offsets, straight but for holes: in blocks, as the internal topic has them.

One such line says where the records of a writer epoch lie on the source, another one where on the target. A *count* is
the number of a record in its writer epoch, not modulo anything. Blocks know sequences only, modulo 2**31; their order
gives the counts back.

Invariants:
    * Offsets grow with the count, by at least as much; neighbouring blocks begin less than 2**31 records apart.
    * Of two blocks with one sequence the one that was taken last counts, as with keys of a compacted topic.
    * Blocks that overlap say the same where they do: one that lies wholly in another adds nothing but its flags.
    * Where the line does not lead to the record that a block says it comes after, points between are lost: what lies
      there is not exact. Nor is it where the record that was acknowledged last lies further on than the line leads, or
      where the line begins behind the first record, and not because both logs have lost what lies before.
    * A block costs its packed bytes and a fixed part, and is decoded when an offset in it is looked up.
    * Blocks are put in order when something is looked up first; taking one behind the last one leaves that order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.holes import NO_HOLES, Holes, unpack
from sparkmirror.offsets.segments import SEQUENCES, Opening

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
        return self.begin if self.end == FAR else max(self.begin, self.end - (self.stop - offset))

    def may_have(self, count: int, offset: int) -> bool:
        """Whether the record with a count may lie at an offset, as far as this tells."""
        least = self.offset_of(count)
        if self.exact or count == self.begin:
            return offset == least
        return least <= offset and (self.end == FAR or offset <= self.stop - (self.end - count))


@dataclass(frozen=True, slots=True)
class Block:
    """Some pieces, as one record of the internal topic has them.

    Attributes:
        sequence, offset: of its first record.
        holes: between that and the first record of its last piece.
        flagged: whether batches from its first record on may be unguarded, until the next block.
        after: the offset of the record before its first one; `NO_OFFSET` where it is not known.
        torn: whether points behind its last one were left out, up to the next block.
    """

    sequence: int
    offset: int
    holes: Holes = NO_HOLES
    flagged: bool = False
    after: int = NO_OFFSET
    torn: bool = False

    @property
    def last(self) -> int:
        """The offset at which its last piece begins."""
        return self.offset + self.holes.offsets


class Ends(NamedTuple):
    """Records of a line that are on record beside its blocks.

    Attributes:
        first: of all, which may come after one of another line; None where that is not on record.
        last: that was acknowledged; None where that is not on record, or holds no more.
    """

    first: Opening | None = None
    last: Opening | None = None


NO_ENDS = Ends()


def _lacks_begin(blocks: Sequence[Block], first: Opening, bounded: int) -> bool:
    """Whether blocks, in order, begin behind the first record of their line, and nothing has outlived what is before.

    Args:
        blocks: that are on record.
        first: the first record.
        bounded: the offset below which blocks were removed, as far as they were not needed; or `NO_OFFSET`.
    """
    return not blocks or (blocks[0].offset > first.offset and blocks[0].offset > bounded)


def _only_opens(block: Block, first: Opening) -> bool:
    """Whether a block says where a copy went on before its first record was met, which lies further on."""
    return block.sequence == first.sequence and block.offset < first.offset


class _Line:
    """The blocks that say something, in order, each with the count of its first record.

    Attributes:
        begin_lost: whether the first block is none that was taken, but the first record of all.
        lost: whether the last block is none that was taken, but the record that was acknowledged last.
    """

    __slots__ = ("begin_lost", "counts", "flags", "lost", "offsets", "order")

    def __init__(self, blocks: Iterable[Block], ends: Ends, bounded: int) -> None:
        self.begin_lost = self.lost = False
        self.order: list[Block] = []
        self.counts: list[int] = []
        self.offsets: list[int] = []
        self.flags: list[bool] = []
        first = ends.first
        known = sorted(
            (block for block in blocks if first is None or not _only_opens(block, first)),
            key=lambda block: (block.offset, -block.holes.offsets),
        )
        if first is not None and _lacks_begin(known, first, bounded):
            self.append(Block(first.sequence, first.offset, after=first.after))
            self.begin_lost = True
        for block in known:
            if self.order and block.last <= self.order[-1].last:
                self.flags[-1] = self.flags[-1] or block.flagged  # it lies wholly in the one before
            else:
                self.append(block)
        last = ends.last
        if last is not None and self.falls_short_of(last):
            self.append(Block(last.sequence, last.offset, after=last.offset - 1))
            self.lost = True

    def falls_short_of(self, last: Opening) -> bool:
        """Whether the line leads to an offset before that of a record which lies behind its last point."""
        if not self.order:
            return False
        block = self.order[-1]
        records = (last.sequence - block.sequence) % SEQUENCES - block.holes.records
        return 0 < records < SEQUENCES // 2 and not block.torn and block.last + records < last.offset

    def append(self, block: Block) -> None:
        count = block.sequence
        if self.order:
            count = self.counts[-1] + (block.sequence - self.order[-1].sequence) % SEQUENCES
        self.order.append(block)
        self.counts.append(count)
        self.offsets.append(block.offset)
        self.flags.append(block.flagged)


class Track:
    """The blocks of one line.

    Attributes:
        size: bytes of their packed holes.
    """

    __slots__ = ("_blocks", "_bounded", "_ends", "_known_line", "size")

    def __init__(self, bounded: int = NO_OFFSET) -> None:
        self._blocks: dict[int, Block] = {}
        self._bounded = bounded
        self._ends = NO_ENDS
        self._known_line: _Line | None = None
        self.size = 0

    def __len__(self) -> int:
        return len(self._blocks) or int(self._ends.first is not None)

    def take(self, block: Block) -> None:
        """Adds a block, or replaces the one with the same sequence."""
        known = self._blocks.get(block.sequence)
        self._blocks[block.sequence] = block
        self.size += len(block.holes.packed) - (0 if known is None else len(known.holes.packed))
        line = self._known_line
        behind = line is not None and (not line.order or block.offset > line.order[-1].last)
        if line is not None and known is None and behind and not line.lost:
            line.append(block)
        else:
            self._known_line = None

    def acknowledge(self, ends: Ends) -> None:
        """Takes the places of the first record and of that which was acknowledged last, as they are on record."""
        before, line = self._ends, self._known_line
        self._ends = ends
        if line is None:
            return
        last = ends.last
        if before.first != ends.first or line.lost or (last is not None and line.falls_short_of(last)):
            self._known_line = None

    def bound(self, offset: int) -> None:
        """Takes the offset below which blocks were removed, as far as they were not needed."""
        self._bounded, self._known_line = offset, None

    def lost(self) -> Iterator[Piece]:
        """The pieces in which points are lost, in order."""
        line = self._line
        for at, (block, following) in enumerate(pairwise(line.order)):
            if following.after != NO_OFFSET and not block.torn:
                piece = self._last_piece(at)
                if not piece.exact:
                    yield piece

    def told_by_ends(self) -> tuple[Block, ...]:
        """The blocks that were never taken: the first record, or the one that was acknowledged last."""
        line = self._line
        return (*line.order[: line.begin_lost], *line.order[len(line.order) - line.lost :])

    @property
    def acknowledged(self) -> Opening | None:
        """The record that was acknowledged last, where its progress is on record."""
        return self._ends.last

    def forget(self, sequence: int) -> None:
        """Removes the block with that sequence."""
        known = self._blocks.pop(sequence, None)
        if known is not None:
            self.size -= len(known.holes.packed)
            self._known_line = None
        if self._ends.first is not None and sequence == self._ends.first.sequence:
            self.acknowledge(Ends(None, self._ends.last))  # what is removed is not lost

    def blocks(self) -> list[tuple[int, Block]]:
        """Those that say something, in order, each with the count of its first record."""
        line = self._line
        return list(zip(line.counts, line.order, strict=True))

    def taken(self) -> Mapping[int, Block]:
        """All that are on record, by their sequences."""
        return self._blocks

    def stored(self) -> Iterator[tuple[int, Block]]:
        """All that are on record, those too that others hold, each with a count of its first record."""
        line = self._line
        for sequence, block in self._blocks.items():
            at = max(0, bisect_right(line.offsets, block.offset) - 1)
            yield line.counts[at] + (sequence - line.order[at].sequence) % SEQUENCES, block

    @property
    def first(self) -> Point:
        """Where it begins; it must not be empty."""
        line = self._line
        return Point(line.counts[0], line.offsets[0])

    @property
    def comes_after(self) -> int:
        """The offset of the record of another line that its first record comes after; `NO_OFFSET` where not known."""
        first = self._line.order[0] if len(self) else None
        return NO_OFFSET if first is None or first.sequence != 0 or first.offset <= self._bounded else first.after

    @property
    def lacks_begin(self) -> bool:
        """Whether its first record comes after another one of the line that was not removed with both logs."""
        first = self._line.order[0] if len(self) else None
        return first is not None and first.sequence != 0 and first.after > self._bounded

    @property
    def last(self) -> Point:
        """Where its last piece begins; it must not be empty."""
        line = self._line
        block = line.order[-1]
        return Point(line.counts[-1] + block.holes.records, block.last)

    def piece_of(self, count: int) -> Piece | None:
        """The piece that holds a count, or None before the first one."""
        line = self._line
        at = bisect_right(line.counts, count) - 1
        if at < 0:
            return None
        block, inside = line.order[at], count - line.counts[at]
        if inside >= block.holes.records:
            return self._last_piece(at)
        rows = unpack(block.holes.packed)
        row = int(np.searchsorted(rows.counts, inside, side="right")) - 1
        return self._piece(at, row, (inside - int(rows.counts[row])) // int(rows.records[row]))

    def piece_at(self, offset: int) -> Piece | None:
        """The last piece that begins at or before an offset, or None before the first one."""
        line = self._line
        at = bisect_right(line.offsets, offset) - 1
        if at < 0:
            return None
        block, inside = line.order[at], offset - line.offsets[at]
        if inside >= block.holes.offsets:
            return self._last_piece(at)
        rows = unpack(block.holes.packed)
        row = int(np.searchsorted(rows.offsets, inside, side="right")) - 1
        step = int(rows.records[row] + rows.holes[row])
        return self._piece(at, row, (inside - int(rows.offsets[row])) // step)

    def pieces(self, count: int) -> Iterator[Piece]:
        """All pieces from that which holds a count on, or from the first one."""
        piece = self.piece_of(max(count, self._line.counts[0])) if len(self) else None
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
        line = self._line
        if line.counts:
            shift = self.count_of(line.order[-1].sequence, near) - line.counts[-1]
            if shift:
                line.counts = [count + shift for count in line.counts]

    def flagged(self, since: int, until: int = FAR) -> bool:
        """Whether a block says that records from one count to before another may be unguarded."""
        line = self._line
        first = max(0, bisect_right(line.counts, since) - 1)
        last = bisect_right(line.counts, until - 1)
        return any(line.flags[first:last])

    def _last_piece(self, at: int) -> Piece:
        line = self._line
        block = line.order[at]
        begin, offset = line.counts[at] + block.holes.records, block.last
        if at + 1 == len(line.order):
            return Piece(begin, offset, FAR, FAR, exact=not block.torn)
        end, after = line.counts[at + 1], line.order[at + 1].after
        leads_there = after in (NO_OFFSET, offset + end - 1 - begin)
        return Piece(begin, offset, end, line.offsets[at + 1], exact=leads_there and not block.torn)

    def _piece(self, at: int, row: int, turn: int) -> Piece:
        line = self._line
        block, rows = line.order[at], unpack(line.order[at].holes.packed)
        records, hole = int(rows.records[row]), int(rows.holes[row])
        begin = line.counts[at] + int(rows.counts[row]) + turn * records
        offset = block.offset + int(rows.offsets[row]) + turn * (records + hole)
        end, stop = begin + records, offset + records + hole
        if at + 1 < len(line.order) and line.counts[at + 1] < end:
            end, stop = line.counts[at + 1], line.offsets[at + 1]  # the next block begins within this piece
        return Piece(begin, offset, end, stop, exact=not block.holes.thinned)

    @property
    def _line(self) -> _Line:
        if self._known_line is None:
            self._known_line = _Line(self._blocks.values(), self._ends, self._bounded)
        return self._known_line
