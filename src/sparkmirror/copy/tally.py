"""Counters of one partition in one shift, and how long its batches took."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sparkmirror.copy.doubted_writers import DoubtedWriters
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.errors import BatchError, RecordTooLargeError
from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.model import NO_OFFSET

BUCKETS_PER_DOUBLING = 4
BUCKETS = 80
EVENTS_KEPT = 20
LETTERS_TOLD = 5
"""Dead letters of a shift that are events of their own; all of them are counted."""


def kind_of_batch(error: BatchError) -> Kind:
    """What the event is about when a batch cannot be copied."""
    return Kind.RECORD_TOO_LARGE if isinstance(error, RecordTooLargeError) else Kind.STOPPED


@dataclass(slots=True)
class Latency:
    """A histogram of milliseconds with buckets a fourth of a doubling wide, from 0.1 ms to about a day."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)

    def add(self, milliseconds: float) -> None:
        """Counts one batch."""
        place = math.log2(max(milliseconds, 0.1) * 10) * BUCKETS_PER_DOUBLING
        self.counts[min(BUCKETS - 1, int(place))] += 1

    def quantile(self, share: float) -> float:
        """The upper edge of the bucket that holds the quantile, in milliseconds; -1 without any batch."""
        total = sum(self.counts)
        if total == 0:
            return -1.0
        wanted, seen = share * total, 0
        for bucket, count in enumerate(self.counts):
            seen += count
            if seen >= wanted and count:
                return round(math.pow(2, (bucket + 1) / BUCKETS_PER_DOUBLING) / 10, 2)
        return -1.0


@dataclass(slots=True)
class Tally:
    """What happened to one partition in one shift; offsets are `NO_OFFSET` while nothing was copied."""

    records: int = 0
    bytes: int = 0
    passed: int = 0
    merged: int = 0
    reencoded: int = 0
    dropped: int = 0
    dead_letters: int = 0
    loop_filtered: int = 0
    newest_ms: int = -1
    first_source: int = NO_OFFSET
    last_source: int = NO_OFFSET
    first_target: int = NO_OFFSET
    last_target: int = NO_OFFSET
    latency: Latency = field(default_factory=Latency)
    events: list[Event] = field(default_factory=list)
    doubted: DoubtedWriters = field(default_factory=lambda: DoubtedWriters(Kind.UNCONFIRMED_WRITER))
    late: DoubtedWriters = field(default_factory=lambda: DoubtedWriters(Kind.LATE_WRITER))

    def count(self, batch: Outgoing, now: float) -> None:
        """Counts one acknowledged batch; ``now`` is the monotonic clock."""
        self.records += batch.count
        self.bytes += batch.held
        if batch.opened:
            self.reencoded += batch.batches
        elif batch.batches > 1:
            self.merged += batch.batches
        else:
            self.passed += 1
        self.newest_ms = max(self.newest_ms, batch.newest_ms)
        if self.first_source == NO_OFFSET:
            self.first_source, self.first_target = batch.source, batch.base_offset
        self.last_source, self.last_target = batch.last_source, batch.base_offset + batch.count - 1
        self.latency.add((now - batch.arrived) * 1000)

    def put_aside(self, offset: int, event: str) -> None:
        """Counts a record that became a dead letter. The first few are events, then one in ten, a hundred and so on."""
        self.dead_letters += 1
        if self.dead_letters <= LETTERS_TOLD:
            self.note(event, Kind.DEAD_LETTER, offset, offset)
        elif math.log10(self.dead_letters).is_integer():
            text = f"{event}; {self.dead_letters} of them in this shift so far"
            self.note(text, Kind.DEAD_LETTER, offset, offset)

    def meet_others(self, topic: str, first: int, last: int) -> None:
        """Notes that somebody else writes to a topic that is the mirror's alone: target offsets it has not written."""
        text = (
            f"another producer writes to the mirror's topic {topic} (offsets {first} to {last} there, and maybe more "
            "since): its records mix with the copy; nothing of the copy is lost"
        )
        self.note(text, Kind.FOREIGN_WRITER, first, last)

    def tell_of_writers(self, *, last: bool = False) -> None:
        """Tells of producers that their cluster does not confirm; each event tells of all of them.

        Args:
            last: whether the shift ends.
        """
        for each in (self.doubted, self.late):
            if each.is_due(last=last):
                self.note(each.tell(), each.kind, each.first, each.last)

    def note(self, text: str, kind: Kind = Kind.NOTE, first: int = NO_OFFSET, last: int = NO_OFFSET) -> None:
        """Keeps an event, the newest `EVENTS_KEPT` of them, and the same in a row only once.

        Their times rise, so that who has seen one can tell which came later.
        """
        latest = self.events[-1] if self.events else None
        moment = now_ms() if latest is None else max(now_ms(), latest.time_ms + 1)
        event = Event(kind=kind, text=text, first=first, last=last, time_ms=moment)
        if event != latest:
            self.events.append(event)
            del self.events[:-EVENTS_KEPT]
