"""Counters of one partition in one shift, and how long its batches took."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.model import NO_OFFSET

BUCKETS_PER_DOUBLING = 4
BUCKETS = 80
LETTERS_TOLD = 5
"""Dead letters of a shift that are events of their own; all of them are counted."""


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
    newest_ms: int = -1
    first_source: int = NO_OFFSET
    last_source: int = NO_OFFSET
    first_target: int = NO_OFFSET
    last_target: int = NO_OFFSET
    latency: Latency = field(default_factory=Latency)
    events: list[str] = field(default_factory=list)

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

    def put_aside(self, event: str) -> None:
        """Counts a record that became a dead letter. The first few are events, then one in ten, a hundred and so on."""
        self.dead_letters += 1
        if self.dead_letters <= LETTERS_TOLD:
            self.note(event)
        elif math.log10(self.dead_letters).is_integer():
            self.note(f"{event}; {self.dead_letters} of them in this shift so far")

    def note(self, event: str, most: int = 20) -> None:
        """Keeps an event, the newest ``most`` of them, and one of the same kind in a row only once."""
        if not self.events or self.events[-1] != event:
            self.events.append(event)
            del self.events[:-most]
