"""What a failover would lose now: records of the source that are not on the target yet. Pure.

Invariant: never less than the truth. Positions were on record before the source was asked for its ends, so what a lane
copied in the second between counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.records import Progress

NO_TIME = -1
"""Of a record without a timestamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """One partition that is behind.

    Attributes:
        partition: of the source.
        position: the next source offset to copy; where the log begins for one that the flow has not found yet.
        records: source end minus position, so markers of transactions count too.
        waits_ms: the age of the oldest record that waits; None where it was not read.
    """

    partition: TopicPartition
    position: int
    records: int
    waits_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPoint:
    """What would be missing.

    Attributes:
        records: over all partitions.
        time_ms: the age of the oldest record that waits; 0 when none waits, None where it is not known.
        partitions: those that are behind, the furthest first.
    """

    records: int = 0
    time_ms: int | None = 0
    partitions: tuple[Behind, ...] = ()


def behind(
    ranges: Mapping[TopicPartition, tuple[int, int]], progress: Mapping[TopicPartition, Progress]
) -> tuple[Behind, ...]:
    """The partitions of which something waits, the furthest behind first.

    Args:
        ranges: what the source has: from, and up to.
        progress: how far the copy is.
    """
    found = []
    for place, (start, end) in ranges.items():
        known = progress.get(place)
        position = max(start, NO_OFFSET if known is None else known.position)
        if end > position:
            found.append(Behind(partition=place, position=position, records=end - position))
    return tuple(sorted(found, key=lambda one: (-one.records, one.partition)))


def recovery_point(
    waiting: tuple[Behind, ...], oldest: Mapping[TopicPartition, int | None], *, now_ms: int
) -> RecoveryPoint:
    """Puts times to what waits.

    Args:
        waiting: what `behind` gave.
        oldest: the time of the record at the position of partitions that were read, milliseconds since 1970; None where
            only markers and aborted records lie behind it, so that nothing waits.
        now_ms: this moment.
    """
    found = []
    for one in waiting:
        time_ms = oldest.get(one.partition, NO_TIME)
        if time_ms is not None:
            found.append(replace(one, waits_ms=None if time_ms == NO_TIME else max(0, now_ms - time_ms)))
    known = [one.waits_ms for one in found if one.waits_ms is not None]
    return RecoveryPoint(
        records=sum(one.records for one in found),
        time_ms=max(known, default=None) if found else 0,
        partitions=tuple(found),
    )
