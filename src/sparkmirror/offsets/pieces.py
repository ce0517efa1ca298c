"""The segments of one partition in one writer epoch, as arrays: which count a sequence number stands for, and where.

A *count* is the number of a record in its writer epoch, not modulo anything. Segments know sequences only, modulo
2**31; their order gives the counts back.

Invariants:
    * Within an epoch source offsets grow with the count, and two neighbouring segments are less than 2**31 records
      apart: a copy opens a segment every `STRIDE` records, even where the source has no hole.
    * Of two segments with one sequence the one that was taken last counts, as with keys of a compacted topic.
    * A segment costs 24 bytes, however many Python objects brought it here.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkmirror.offsets.records import SEQUENCES

STRIDE = 1 << 28
"""Records after which a copy opens a new segment though there is no hole, so that counts can be told from sequences."""

GONE = -1
WORDS = 3
_FLAGS = 2
"""Bits beside the target offset."""
_SLACK = 64

Offsets: TypeAlias = npt.NDArray[np.int64]


class Piece(NamedTuple):
    """Where one segment begins: at which count and offsets; ``target`` is -1 while unknown."""

    begin: int
    source: int
    target: int
    unguarded: bool
    anew: bool


class Columns(NamedTuple):
    """All segments in order: counts, source offsets, target offsets (-1 while unknown), and their two flags."""

    counts: Offsets
    sources: Offsets
    targets: Offsets
    unguarded: npt.NDArray[np.bool_]
    anew: npt.NDArray[np.bool_]


class Pieces:
    """The segments of one writer epoch. Taking one is cheap; they are put in order when they are asked for."""

    __slots__ = ("_columns", "_limit", "_words")

    def __init__(self) -> None:
        self._words = array("q")
        self._limit = _SLACK * WORDS
        self._columns: Columns | None = None

    def take(self, sequence: int, source: int, target: int, *, unguarded: bool = False, anew: bool = False) -> None:
        """Adds a segment, or replaces the one with the same sequence."""
        self._words.extend((sequence, source, target << _FLAGS | unguarded << 1 | anew))
        self._columns = None
        if len(self._words) > self._limit:
            self._order()

    def forget(self, sequence: int) -> None:
        """Removes the segment with that sequence."""
        self.take(sequence, GONE, GONE)

    @property
    def columns(self) -> Columns:
        """All segments in order."""
        if self._columns is None:
            table = self._order()
            steps = np.diff(table[:, 0]) % SEQUENCES
            counts = np.empty(len(table), np.int64)
            counts[:1] = table[:1, 0]
            counts[1:] = counts[:1] + np.cumsum(steps)
            bits = table[:, 2]
            unguarded, anew = (bits & 2).astype(np.bool_), (bits & 1).astype(np.bool_)
            self._columns = Columns(counts, table[:, 1].copy(), bits >> _FLAGS, unguarded, anew)
        return self._columns

    def __len__(self) -> int:
        return len(self.columns.counts)

    def at(self, place: int) -> Piece:
        """The segment in that place."""
        counts, sources, targets, unguarded, anew = self.columns
        return Piece(
            int(counts[place]), int(sources[place]), int(targets[place]), bool(unguarded[place]), bool(anew[place])
        )

    def place_of(self, count: int) -> int:
        """The place of the segment that holds the record with that count, or -1 if it lies before all of them."""
        return int(np.searchsorted(self.columns.counts, count, side="right")) - 1

    def last_settled(self, up_to: int | None = None) -> Piece | None:
        """The last segment whose target offset is known, at or before the count ``up_to``, or None."""
        counts, _, targets, *_ = self.columns
        settled = np.flatnonzero(targets >= 0 if up_to is None else (targets >= 0) & (counts <= up_to))
        return self.at(int(settled[-1])) if len(settled) else None

    @property
    def supersedes(self) -> bool:
        """Whether older epochs end where this one begins: not if all that it had was lost, or never arrived."""
        return bool(self.columns.anew.any() or (self.columns.targets >= 0).any())

    @property
    def ends_unguarded(self) -> bool:
        """Whether the last segment whose target offset is known, or one written ahead behind it, is unguarded."""
        _, _, targets, unguarded, _ = self.columns
        settled = np.flatnonzero(targets >= 0)
        return bool(unguarded[settled[-1] if len(settled) else 0 :].any())

    def source_of(self, count: int) -> int | None:
        """The source offset of the record with that count, if its segment is on record."""
        place = self.place_of(count)
        if place < 0:
            return None
        piece = self.at(place)
        return piece.source + count - piece.begin

    def count_at(self, source: int) -> int | None:
        """The count of the record with that source offset, if its segment is on record."""
        place = int(np.searchsorted(self.columns.sources, source, side="right")) - 1
        if place < 0:
            return None
        piece = self.at(place)
        return piece.begin + source - piece.source

    def count_of(self, sequence: int, near: int | None = None) -> int:
        """The count that a sequence number stands for: of all that it can be, the one nearest to ``near``.

        Args:
            sequence: of a record that was sent.
            near: the count of a record that was sent at about the same time; by default that of the last segment,
                which is written shortly before the records behind it are sent.
        """
        reference = int(self.columns.counts[-1]) if near is None else near
        half = SEQUENCES // 2
        return reference - half + (sequence - reference + half) % SEQUENCES

    def _order(self) -> Offsets:
        """One row for each sequence that is left, in the order of source offsets."""
        table = np.array(self._words, dtype=np.int64).reshape(-1, WORDS)
        _, newest = np.unique(table[::-1, 0], return_index=True)
        table = table[len(table) - 1 - newest]
        table = table[table[:, 1] != GONE]
        ordered: Offsets = table[np.argsort(table[:, 1], kind="stable")]
        self._words = array("q", ordered.tobytes())
        self._limit = 2 * len(self._words) + _SLACK * WORDS
        return ordered
