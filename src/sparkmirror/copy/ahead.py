"""The segments of one partition that were written ahead of their batches, and where those batches came to lie. Pure.

Invariants: segments wait in the order of their sequence numbers, and leave when the batch that holds the last one of
their record is acknowledged; one that was never reached is void once the partition is handed on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.pieces import STRIDE
from sparkmirror.offsets.segments import SEQUENCES, Opening, Segments, SegmentsKey, segments_of


class Ahead(NamedTuple):
    """The segments of one record: where they begin, and whether they say that they hold unguarded batches."""

    openings: Sequence[Opening]
    unguarded: bool


class Unreached(NamedTuple):
    """What takes back segments that were never reached: records without them, and keys of records with nothing else."""

    shortened: tuple[Segments, ...]
    void: tuple[str, ...]


@dataclass(slots=True)
class SegmentsAhead:
    """What was written ahead.

    Attributes:
        plan: of the partition.
        settled: where pieces begin on the target, to be written with the next progress.
    """

    plan: PartitionPlan
    settled: list[Opening] = field(default_factory=list)
    _waiting: deque[Ahead] = field(default_factory=deque)
    _reached: int | None = None

    def add(self, openings: Sequence[Opening], *, unguarded: bool) -> None:
        """Adds what is being put on record, behind the others."""
        self._waiting.append(Ahead(openings, unguarded))

    def source_of(self, batch: Outgoing, record: int) -> int:
        """The source offset of a record of a batch that is not acknowledged: from the newest hole before it on."""
        offset = batch.source + record
        for ahead in self._waiting:
            for opening in ahead.openings:
                before = (opening.sequence - batch.sequence) % SEQUENCES
                if before <= record:
                    offset = opening.offset + record - before
        return offset

    def flag(self, batch: Outgoing) -> list[Segments]:
        """Says of ``batch`` that it is unguarded; gives the records that have to be written before it goes.

        A record that holds more than the batch is divided: first what begins later is written, and at last what is
        left of it, so that no segment is missing at any time.
        """
        batch.flagged = True
        start = Opening(batch.sequence, batch.source, batch.source - 1)  # where no other piece begins there
        kept: deque[Ahead] = deque()
        made: list[Ahead] = []
        opened = False
        for ahead in self._waiting:
            before, inside, behind = _around(ahead.openings, batch)
            if not inside and not behind:
                kept.append(ahead)
                continue
            if not opened and (not inside or inside[0].sequence != batch.sequence):
                if before:
                    inside = [start, *inside]
                else:
                    kept.append(Ahead([start], unguarded=True))
                    made.append(kept[-1])
            opened = True
            if not inside:
                kept.append(ahead)
                continue
            parts = (Ahead(before, ahead.unguarded), Ahead(inside, unguarded=True), Ahead(behind, ahead.unguarded))
            kept.extend(part for part in parts if part.openings)
            made += [part for part in reversed(parts) if part.openings]
        if not opened:
            kept.append(Ahead([start], unguarded=True))
            made.append(kept[-1])
        self._waiting = kept
        return [self._record(ahead) for ahead in made]

    def unreached(self, unacknowledged: Sequence[Outgoing]) -> Unreached:
        """Those for records that the target does not have; ``unacknowledged`` are the batches that it may have."""
        limit = self._limit(unacknowledged)
        shortened, void = [], []
        for ahead in self._waiting:
            reached = [opening for opening in ahead.openings if limit is not None and _is_before(opening, limit)]
            if not reached:
                void.append(SegmentsKey(self.plan.source, self.plan.writer, ahead.openings[0].sequence).text)
            elif len(reached) < len(ahead.openings):
                shortened.append(self._record(Ahead(reached, ahead.unguarded)))
        return Unreached(tuple(shortened), tuple(void))

    def newest(self, unacknowledged: Sequence[Outgoing] | None = None) -> int:
        """The sequence number of the newest record of segments that are not reached yet, or `NO_OFFSET`.

        Where the partition is handed on, and ``unacknowledged`` are the batches that the target may have, of those that
        stay on record: see `unreached`.
        """
        firsts = [ahead.openings[0] for ahead in self._waiting]
        if unacknowledged is not None:
            limit = self._limit(unacknowledged)
            firsts = [] if limit is None else [first for first in firsts if _is_before(first, limit)]
        return firsts[-1].sequence if firsts else NO_OFFSET

    def _limit(self, unacknowledged: Sequence[Outgoing]) -> int | None:
        """The sequence number behind the last record that the target may have; None where it has nothing."""
        if not unacknowledged:
            return self._reached
        last = unacknowledged[-1]
        return (last.sequence + last.count) % SEQUENCES

    def place(self, batch: Outgoing, offset: int, expected: int | None, before: int = NO_OFFSET) -> None:
        """The target has ``batch`` at ``offset``.

        Args:
            batch: with the next records.
            offset: of its first record on the target.
            expected: the offset after the record before it, or None if there is none.
            before: the offset of the last record of an older epoch, where the batch is the first of its own.
        """
        end = batch.sequence + batch.count
        self._reached = end % SEQUENCES
        while self._waiting and _is_before(self._waiting[0].openings[-1], self._reached):
            self._waiting.popleft()
        if offset != expected or batch.sequence // STRIDE != end // STRIDE:
            self.settled.append(Opening(batch.sequence, offset, before if expected is None else expected - 1))

    def _record(self, ahead: Ahead) -> Segments:
        plan = self.plan
        return segments_of(plan.source, plan.writer, ahead.openings, unguarded=ahead.unguarded, anew=plan.anew)


def _is_before(opening: Opening, sequence: int) -> bool:
    return (opening.sequence - sequence) % SEQUENCES >= SEQUENCES // 2


def _around(openings: Sequence[Opening], batch: Outgoing) -> tuple[list[Opening], list[Opening], list[Opening]]:
    """Those before ``batch``, in it, and behind it; all of them in order."""
    before, inside, behind = [], [], []
    for opening in openings:
        distance = (opening.sequence - batch.sequence) % SEQUENCES
        if distance < batch.count:
            inside.append(opening)
        elif distance < SEQUENCES // 2:
            behind.append(opening)
        else:
            before.append(opening)
    return before, inside, behind
