"""Up to where records of the source are those that were copied: what is compared next, and what is known. Pure.

Two logs that begin a leader epoch with the same records need not have the same ones behind them: a log whose disk is an
older copy gives out the epoch again, and an application may send again what it had sent. So all records of a span are
compared, as far as budgets go; of a longer span its first and last ones, and some at even distances.

Bisection would not find the first difference: what is sent again may be the same at one offset, other records at the
next, and the same again behind it. So from where a difference is known, records are compared from the first one on.

Where some records are the same and later ones differ, the logs part behind the last one that is the same: what lies
between the two has no copy, since a transaction's marker lay there, or the copy is gone.

Invariants: a record is believed to be the same only where no compared record before it differs; where budgets end
before the first difference is found, nothing behind what was compared is believed; records without a copy say nothing;
each answer moves the comparison on, so it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkmirror.offsets.source_history import Alike, Looked

FEW = 20
"""If one of so many first records differs, the epoch has begun with other records."""

OPENING = (200, 2_000, 20_000)
"""Offsets that are read until there is a record with a copy, more and more."""

LAST, PROBES, PROBE = 200, 16, 50
"""Offsets at the end of a span, and at even distances in one that is too long to be compared as a whole."""

STEP, OFFSETS, LEAST_OFFSETS = 2_000, 20_000, 1_000
"""Offsets that are compared at once, in all, and at least, one record after the other."""

STEP_BYTES, BYTES, LEAST_BYTES = 4 << 20, 32 << 20, 64 << 10
"""The same in bytes of one log; a batch that is larger than the rest of it is still read."""

AT_FULL_LENGTH = 8
"""So many spans have budgets of their own; more of them share those of so many."""


class Part(NamedTuple):
    """Offsets from ``first`` to before ``end``."""

    first: int
    end: int


class Pair(NamedTuple):
    """A record of the source that has a copy, and whether the two are the same."""

    offset: int
    same: bool


class Comparison:
    """Of one span of offsets.

    Args:
        first: its first offset.
        end: the one behind it.
        beside: how many spans are compared at the same time.

    Attributes:
        step_bytes: how much is to be read at once.
    """

    def __init__(self, first: int, end: int, beside: int = 1) -> None:
        share = max(AT_FULL_LENGTH, beside)
        self._first, self._end = first, end
        self._same_to = first  # all compared below it is the same
        self._last_same = first  # the offset behind the last record that is known to be
        self._until = end  # from there on all compared is the same, or a record is another
        self._differs = False
        self._opening: list[bool] = []
        self._steps = list(OPENING)
        self._last_read = False
        self._probes = _places(first, end)
        self._offsets = max(LEAST_OFFSETS, OFFSETS * AT_FULL_LENGTH // share)
        self._bytes = max(4 * LEAST_BYTES, BYTES * AT_FULL_LENGTH // share)
        self.step_bytes = max(LEAST_BYTES, STEP_BYTES * AT_FULL_LENGTH // share)

    def next(self) -> Part | None:
        """The offsets whose records are compared next; None where nothing more is to be learnt, or may be read."""
        if self._same_to >= self._until or not all(self._opening):
            return None
        if self._opening and not self._last_read:
            return Part(max(self._same_to, self._end - LAST), self._end)
        if self._bytes <= 0:
            return None
        if not self._opening:
            return self._from_first(self._steps[0]) if self._steps else None
        if self._differs or self._until - self._same_to <= self._offsets:
            return self._from_first(STEP) if self._offsets > 0 else None
        while self._probes and not self._same_to < self._probes[0] < self._until - PROBE:
            del self._probes[0]
        return Part(self._probes[0], self._probes[0] + PROBE) if self._probes else None

    def take(self, part: Part, pairs: Sequence[Pair], read_to: int, size: int) -> None:
        """Takes what was seen.

        Args:
            part: as `next` gave it.
            pairs: the records with copies, in order.
            read_to: the offset up to which that is all; where nothing could be read, as if all had been.
            size: bytes of the records.
        """
        read_to = read_to if part.first < read_to < part.end else part.end
        self._bytes -= size
        other = next((pair.offset for pair in pairs if not pair.same), None)
        if other is not None:
            self._differs, self._until = True, min(self._until, other)
        if not self._opening:
            self._opening = [pair.same for pair in pairs[:FEW]]
            del self._steps[:1]
        elif not self._last_read:
            self._last_read = True
            if other is None and read_to == self._end:
                self._until = part.first
        elif part.first == self._same_to:
            self._offsets -= read_to - part.first
        else:
            del self._probes[:1]
        if part.first == self._same_to:
            self._same_to = min(read_to, self._until)
            same = [pair.offset + 1 for pair in pairs if pair.same and pair.offset < self._same_to]
            self._last_same = max([self._last_same, *same])

    def stop(self) -> None:
        """The time is over: at most the last records are still compared, as where a budget is used up."""
        self._bytes = 0

    def _from_first(self, offsets: int) -> Part:
        return Part(self._same_to, min(self._until, self._same_to + offsets))

    @property
    def result(self) -> Looked:
        """What is known, when there is nothing more to compare."""
        if not self._opening:
            return Looked(Alike.UNKNOWN, self._end)
        if not all(self._opening):
            return Looked(Alike.OTHER, self._first, differs=True)
        if self._differs:
            return Looked(Alike.SAME, self._last_same, differs=True, proven=self._same_to == self._until)
        return Looked(Alike.SAME, self._end)


def _places(first: int, end: int) -> list[int]:
    """Where to look in a long span, the last ones first: what a log has given out again lies at its end."""
    return [first + (end - first) * number // (PROBES + 1) for number in range(PROBES, 0, -1)]
