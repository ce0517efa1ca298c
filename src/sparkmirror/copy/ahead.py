"""The segments of one partition that were written ahead of their batches, and where those batches came to lie. Pure.

Invariants: segments wait in the order of their sequence numbers, and leave when the batch that holds their first record
is acknowledged; a segment that was never reached is void once the partition is handed on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.offsets.records import SEQUENCES, Segment


@dataclass(slots=True)
class SegmentsAhead:
    """What waits for its target offset.

    Attributes:
        plan: of the partition.
        settled: segments whose target offset became known, to be written with the next progress.
    """

    plan: PartitionPlan
    settled: list[Segment] = field(default_factory=list)
    _waiting: deque[Segment] = field(default_factory=deque)

    def add(self, segments: Iterable[Segment]) -> None:
        """Adds what is being put on record, behind the others."""
        self._waiting.extend(segments)

    def source_of(self, batch: Outgoing, record: int) -> int:
        """The source offset of a record of a batch that is not acknowledged: from the newest hole before it on."""
        offset = batch.source + record
        for segment in self._waiting:
            before = (segment.sequence - batch.sequence) % SEQUENCES
            if before <= record:
                offset = segment.source + record - before
        return offset

    def flag(self, batch: Outgoing) -> list[Segment]:
        """Says of ``batch`` that it is unguarded; gives the segments that have to be put on record before it goes."""
        before, inside, behind = _around(self._waiting, batch)
        if not inside or inside[0].sequence != batch.sequence:
            inside = [self._segment_of(batch), *inside]
        inside = [replace(segment, unguarded=True) for segment in inside]
        self._waiting, batch.flagged = deque([*before, *inside, *behind]), True
        return inside

    def unreached(self, unacknowledged: deque[Outgoing]) -> list[Segment]:
        """Those for records that were never sent. Those of batches without an answer stay: the target may have them."""
        if not unacknowledged:
            return list(self._waiting)
        first, last = unacknowledged[0], unacknowledged[-1]
        sent = (last.sequence - first.sequence) % SEQUENCES + last.count
        return [ahead for ahead in self._waiting if (ahead.sequence - first.sequence) % SEQUENCES >= sent]

    def place(self, batch: Outgoing, offset: int, shift: int | None) -> None:
        """The target has ``batch`` at ``offset``: so its segments begin there, and one more if others write there too.

        Args:
            batch: with the next records.
            offset: of its first record on the target.
            shift: target minus source offset of the record before it, or None if there is none.
        """
        placed = False
        while self._waiting and (self._waiting[0].sequence - batch.sequence) % SEQUENCES < batch.count:
            ahead = self._waiting.popleft()
            distance = (ahead.sequence - batch.sequence) % SEQUENCES
            self.settled.append(replace(ahead, target=offset + distance))
            placed = placed or distance == 0
        if not placed and shift is not None and offset - batch.source != shift:
            self.settled.append(replace(self._segment_of(batch), target=offset))

    def _segment_of(self, batch: Outgoing) -> Segment:
        """A segment that begins with ``batch``."""
        return Segment(
            partition=self.plan.source,
            writer=self.plan.writer,
            sequence=batch.sequence,
            source=batch.source,
            unguarded=batch.flagged,
            anew=self.plan.anew,
        )


def _around(ahead: Iterable[Segment], batch: Outgoing) -> tuple[list[Segment], list[Segment], list[Segment]]:
    """Segments that begin before ``batch``, in it, and behind it; all of them in order."""
    before, inside, behind = [], [], []
    for segment in ahead:
        distance = (segment.sequence - batch.sequence) % SEQUENCES
        if distance < batch.count:
            inside.append(segment)
        elif distance < SEQUENCES // 2:
            behind.append(segment)
        else:
            before.append(segment)
    return before, inside, behind
