"""What a lane hands back when its shift ends: one receipt for each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.events import Event
from sparkmirror.model import NO_OFFSET, NO_RECORD, UNKNOWN, LastRecord, Reached, TopicPartition, Writer
from sparkmirror.offsets.recovery import UNKNOWN_MS


class Outcome(Enum):
    """How a partition left the shift."""

    HANDED_ON = "handed on"
    DONE = "done"
    STOPPED = "stopped"
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What one shift did with one partition.

    Attributes:
        outcome: handed on to the next shift; done, its ``until`` reached; stopped by an error; or never started.
        position, sequence: where the next shift goes on; exact, whatever the outcome.
        writer: the producer id and epoch that ``sequence`` counts in.
        opened: whether that epoch's opening segment is on record.
        settled: whether every batch that was sent is acknowledged, or refused for sure. If not, the target may have
            more than ``position`` says, and the partition has to be taken over.
        leader_epoch: of the source's batch left of the position, or of a later one; -1 if nobody knows.
        epoch_on_record, anew, reached, last, copies_end: as in the plan.
        recovery_ms: the recovery point, see ``offsets.recovery``.
        first_source, last_source, first_target, last_target: offsets copied in this shift, or `NO_OFFSET`.
        records, bytes: copied in this shift.
        passed, merged, reencoded: source batches by what was done with them.
        dropped: source batches dropped (control, aborted, mirrored from the target before, empty).
        dead_letters: records put aside, because the target topic cannot hold them.
        loop_filtered: records left out, since the registry of writers says that they came from the target.
        newest_ms: the newest record timestamp copied, or -1.
        latency_ms: (p50, p99) from the arrival of a batch to its acknowledgement, or (-1, -1).
        end: the source's end as seen last, or `NO_OFFSET`.
        error: why it stopped, or "".
        events: what happened, newest last.
    """

    source: TopicPartition
    outcome: Outcome
    position: int
    sequence: int
    writer: Writer
    opened: bool = False
    settled: bool = False
    leader_epoch: int = -1
    epoch_on_record: int = -1
    anew: bool = False
    reached: Reached = UNKNOWN
    last: LastRecord = NO_RECORD
    recovery_ms: int = UNKNOWN_MS
    copies_end: int = NO_OFFSET
    first_source: int = NO_OFFSET
    last_source: int = NO_OFFSET
    first_target: int = NO_OFFSET
    last_target: int = NO_OFFSET
    records: int = 0
    bytes: int = 0
    passed: int = 0
    merged: int = 0
    reencoded: int = 0
    dropped: int = 0
    dead_letters: int = 0
    loop_filtered: int = 0
    newest_ms: int = -1
    latency_ms: tuple[float, float] = (-1.0, -1.0)
    end: int = NO_OFFSET
    error: str = ""
    events: tuple[Event, ...] = ()


def receipts(partitions: Sequence[PartitionCopy], *, started: bool) -> tuple[Receipt, ...]:
    """One receipt for each partition of a shift that has ended."""
    return tuple(_receipt(partition, started) for partition in partitions)


def _receipt(partition: PartitionCopy, started: bool) -> Receipt:
    tally = partition.tally
    return Receipt(
        source=partition.source,
        outcome=_outcome(partition, started),
        position=partition.position,
        sequence=partition.sequence,
        writer=partition.plan.writer,
        opened=partition.opened,
        settled=partition.all_acknowledged,
        leader_epoch=partition.leader_epoch,
        epoch_on_record=partition.epoch_on_record,
        anew=partition.plan.anew,
        reached=partition.footing.reached,
        last=partition.last,
        recovery_ms=partition.recovery.point_ms,
        copies_end=partition.copies_end,
        first_source=tally.first_source,
        last_source=tally.last_source,
        first_target=tally.first_target,
        last_target=tally.last_target,
        records=tally.records,
        bytes=tally.bytes,
        passed=tally.passed,
        merged=tally.merged,
        reencoded=tally.reencoded,
        dropped=tally.dropped,
        dead_letters=tally.dead_letters,
        loop_filtered=tally.loop_filtered,
        newest_ms=tally.newest_ms,
        latency_ms=(tally.latency.quantile(0.5), tally.latency.quantile(0.99)),
        end=partition.end,
        error=partition.error,
        events=tuple(tally.events),
    )


def _outcome(partition: PartitionCopy, started: bool) -> Outcome:
    if partition.error:
        return Outcome.STOPPED
    if not started:
        return Outcome.NOT_STARTED
    return Outcome.DONE if partition.done else Outcome.HANDED_ON
