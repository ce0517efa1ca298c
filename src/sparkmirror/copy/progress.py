"""What a lane publishes while it runs: segments ahead of holes at once, the progress of its partitions every second.

Both go to the flow's internal topic; only partitions that moved are written. See ``offsets.records`` for the bytes.

Invariants:
    * A partition has one holder at a time. A stopped partition is released by its last progress, behind the tombstones
      for all segments that the target did not reach; the driver gives it to another lane only when it has read that.
      After it, this lane writes nothing of the partition. The journal keeps earlier requests from arriving later, so
      whatever the next holder writes lies behind everything that this one wrote.
    * What was not begun here, or is without the lease, is not published, nor sent again: the journal asks for the lease
      before each request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.plan import ShiftPlan
from sparkmirror.kafka.cluster import CALL_MS
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.kafka.signal import Turn
from sparkmirror.model import NO_OFFSET, Copied, TopicPartition
from sparkmirror.offsets.records import Progress, SourceEpoch
from sparkmirror.offsets.recovery import Answer, RecoveryPoint
from sparkmirror.offsets.segments import Segments, targets_of

EVERY_SECONDS = 1.0


@dataclass(slots=True)
class _Mark:
    """What was published of a partition, and when on the monotonic clock."""

    moves: tuple[int, int, int, str]
    copied: Copied
    at: float
    flowing: bool = False


def _mark(partition: PartitionCopy) -> _Mark:
    moves = (partition.position, partition.end, len(partition.tally.events), partition.error)
    return _Mark(moves, partition.copied, time.monotonic())


def _rate(partition: PartitionCopy, before: _Mark | None) -> tuple[float, float]:
    if before is None:
        return (0.0, 0.0)
    seconds = max(time.monotonic() - before.at, 0.001)
    now = partition.copied
    return ((now.records - before.copied.records) / seconds, (now.bytes - before.copied.bytes) / seconds)


def follow(partition: PartitionCopy, asked_ms: int) -> None:
    """Takes into a recovery point what the target has by now, and an answer of the source that had no news.

    Args:
        partition: whose.
        asked_ms: when the newest request left whose answer tells of the partition, or -1. Such an answer names only
            partitions with news, so nobody takes it for the others.
    """
    recovery, newest_ms = partition.recovery, partition.tally.newest_ms
    recovery.reached(partition.position, newest_ms)
    if not (partition.error or partition.obstacle or partition.unconfirmed) and partition.end != NO_OFFSET:
        recovery.answered(Answer(asked_ms, partition.end))
        recovery.reached(partition.position, newest_ms)


def earliest(partitions: Iterable[PartitionCopy]) -> RecoveryPoint | None:
    """The earliest recovery point; None where no partition is without an error."""
    return min((RecoveryPoint(p.recovery.point_ms, p.source) for p in partitions if not p.error), default=None)


class Publisher:
    """Writes for all partitions of one shift, one publication at a time: a later one never overtakes an earlier one.

    Args:
        journal: the flow's internal topic; idempotent, so that what was published last lies last in the log.
        plan: the shift.
        answered_ms: when the newest request left whose answer tells of a partition, or -1.

    Attributes:
        recovery: the earliest recovery point of the partitions, as of the last publication. Without those of which an
            error is on record: whoever reads that knows their own.
    """

    def __init__(
        self, journal: IdempotentJournal, plan: ShiftPlan, answered_ms: Callable[[PartitionCopy], int]
    ) -> None:
        self.recovery: RecoveryPoint | None = None
        self._journal = journal
        self._plan = plan
        self._answered_ms = answered_ms
        self._published: dict[TopicPartition, _Mark] = {}
        self._turn = Turn()

    async def write_ahead(self, records: Iterable[Segments | SourceEpoch], timeout_ms: int = CALL_MS) -> None:
        """Writes what must be on record before its batches are sent, and returns when it is acknowledged."""
        await self._journal.append([(record.key, record.value()) for record in records], timeout_ms)

    async def publish(self, partitions: Iterable[PartitionCopy], *, final: bool = False) -> None:
        """Writes the progress of what moved, and where on the target pieces of it begin.

        Args:
            partitions: of the shift.
            final: the shift ends: also what did not move; and segments that nothing will reach are taken back.
        """
        async with self._turn.taken():
            await self._publish(tuple(partitions), final)

    async def _publish(self, partitions: Sequence[PartitionCopy], final: bool) -> None:
        entries: list[tuple[str, str | None]] = []
        moved: dict[TopicPartition, _Mark] = {}
        held = [partition for partition in partitions if partition.position != NO_OFFSET and not partition.released]
        settled = [len(partition.ahead.settled) for partition in held]
        leaving = [partition for partition in held if partition.error and (final or partition.at_rest)]
        for partition in held:
            follow(partition, self._answered_ms(partition))
            if partition.ahead.settled:
                targets = targets_of(partition.source, partition.plan.writer, partition.ahead.settled)
                entries.append((targets.key, targets.value()))
            release = partition in leaving
            if final or release:
                unreached = partition.unreached()
                entries += [(segments.key, segments.value()) for segments in unreached.shortened]
                entries += [(key, None) for key in unreached.void]
                partition.tally.tell_of_writers(last=True)
            mark = _mark(partition)
            before = self._published.get(partition.source)
            if final or release or before is None or before.moves != mark.moves or before.flowing:
                newest = partition.newest_ahead(leaving=final or release)
                progress = replace(self._progress(partition, before, release=release), ahead=newest)
                mark.flowing = progress.rate != (0.0, 0.0)
                entries.append((progress.key, progress.value()))  # behind its segments: a release is acted upon
                moved[partition.source] = mark
        recovery = earliest(partitions)
        if entries:
            await self._journal.append(entries)
            self._published.update(moved)
            for partition, count in zip(held, settled, strict=True):
                del partition.ahead.settled[:count]
            for partition in leaving:
                partition.released = True
        self.recovery = recovery or self.recovery

    def _progress(self, partition: PartitionCopy, before: _Mark | None, *, release: bool) -> Progress:
        last, copied = partition.last, partition.copied
        return Progress(
            partition=partition.source,
            writer=partition.plan.writer,
            generation=self._plan.generation,
            position=partition.position,
            next_sequence=partition.sequence,
            sequence=last.sequence,
            source=last.source,
            target=last.target,
            first=last.first,
            before=last.before,
            inherited=partition.plan.inherited,
            began=partition.plan.began,
            end=partition.end,
            copies_end=partition.copies_end,
            leader_epoch=partition.leader_epoch,
            topic_id=partition.plan.topic_id,
            target_id=partition.target_id.hex if partition.target_id is not None else partition.plan.target_id,
            settled=partition.all_acknowledged,
            released=release,
            anew=partition.plan.anew,
            reached=partition.footing.reached,
            cut=partition.cut,
            records=copied.records,
            bytes=copied.bytes,
            dead_letters=copied.dead_letters,
            loop_filtered=copied.loop_filtered,
            rate=_rate(partition, before),
            newest_ms=partition.tally.newest_ms,
            recovery_ms=partition.recovery.point_ms,
            time_ms=int(time.time() * 1000),
            lane=self._plan.shift,
            error=partition.error,
            events=tuple(partition.tally.events),
        )
