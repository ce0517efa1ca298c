"""The end of a partition's log, as headers: what `takeover` decides on and ``kafka.tails`` reads.

The two values live here because ``offsets`` lies below ``kafka``; whoever reads a log imports them from here.

Invariants: batches are in offset order and lie below the high watermark; between ``since`` and the high watermark none
is missing. Offsets without a batch there were removed by the log cleaner or by retention.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.model import UNKNOWN, Reached

NO_SEQUENCE = -1
NO_PRODUCER = -1


class TailBatch(NamedTuple):
    """The header of one batch.

    Attributes:
        base_offset, last_offset: the offsets that it spans, both included.
        producer_id, epoch: its writer, or -1.
        sequence: of its first record, or -1 if it has none.
        count: of its records; fewer than offsets where the log cleaner thinned it.
        control: whether it is a transaction's marker.
        newest_ms: its newest record timestamp, or -1.
        leader_epoch: of the leader that appended it, or -1.
    """

    base_offset: int
    last_offset: int
    producer_id: int
    epoch: int
    sequence: int
    count: int  # type: ignore[assignment]  # the word of the rest of the code; nobody counts in a header
    control: bool
    newest_ms: int
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Tail:
    """What was read of one partition's log.

    Attributes:
        start: the log's start.
        high_watermark: the offset after the last one that all in-sync replicas have.
        batches: in offset order.
        since: the offset from which on ``batches`` is complete.
    """

    start: int
    high_watermark: int
    batches: tuple[TailBatch, ...]
    since: int

    @property
    def reached(self) -> Reached:
        """How far the log goes, as its last batch tells."""
        return Reached(self.batches[-1].leader_epoch, self.batches[-1].last_offset + 1) if self.batches else UNKNOWN

    def last_of(self, ids: Collection[int]) -> TailBatch | None:
        """The last batch, or marker, of these producers; None where there is none."""
        return next((batch for batch in reversed(self.batches) if batch.producer_id in ids), None)
