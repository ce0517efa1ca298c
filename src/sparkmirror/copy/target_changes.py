"""A target that is set otherwise while a partition is copied: what its answers and the driver tell of that.

Invariants: a partition whose topic is seen to ask for something else than its plan says stops at once, to be planned
again; what was sent before still counts. From then on its batches are guarded by their own times. An answer that only
a batch gets which the broker has had before counts for no other one.

References: ``UnifiedLog.append`` answers a duplicate with its offset and its newest time, whatever the topic does.
"""

from __future__ import annotations

import time
from dataclasses import replace

from sparkmirror.copy.guard import FORGOTTEN
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.target_facts import TargetFacts, timestamp_type
from sparkmirror.events import Kind


def compare(partition: PartitionCopy, facts: TargetFacts) -> None:
    """Stops a partition whose target topic asks for something else than its plan says."""
    planned = partition.plan.facts
    if facts == planned or partition.error:
        return
    _guard_by_records(partition)
    topic, changes = partition.target.topic, planned.changes(facts)
    partition.stop(
        f"the target topic {topic} was changed: {changes}; planned again for that",
        Kind.TARGET_CHANGED,
    )


def remember(partition: PartitionCopy, age_ms: int) -> None:
    """The target's brokers remember writers of records up to this age now; what they forgot stays forgotten."""
    if not partition.guard.remembers(partition.remembered_ms):
        partition.remembered_ms = FORGOTTEN
    partition.guard = replace(partition.guard, age_ms=age_ms)


def acknowledge(partition: PartitionCopy, batch: Outgoing, base_offset: int, stamped_ms: int) -> None:
    """Takes the answer for a batch that the target has, and stops if it shows another timestamp type than planned.

    A topic with CreateTime is answered with a time only for a batch that the broker has already: one that was sent
    twice, or another one with its sequence numbers, which somebody else has written. So such an answer counts only for
    what was sent twice, and only with the time of its newest record. Else a takeover compares what lies there.

    Args:
        partition: whose.
        batch: which.
        base_offset: of its first record on the target.
        stamped_ms: the time that the broker has set, or has of the batch that it had already; -1 for none.
    """
    planned, broker_time = partition.plan.log_append_time, stamped_ms >= 0
    # One that was sent twice has the time of the first, whatever the topic does, where the target had that already.
    tells = not batch.open
    changed = tells and broker_time != planned
    if tells:
        partition.stamped_at = time.monotonic()
    if changed:
        _guard_by_records(partition)
    if broker_time and not planned and (changed or stamped_ms != batch.newest_ms):
        _doubt(partition, batch, stamped_ms)
        return
    partition.acknowledged(batch, base_offset)
    if changed and not partition.error:
        last = max(batch.last_source, partition.last_sent)
        before, after = timestamp_type(log_append_time=planned), timestamp_type(log_append_time=broker_time)
        text = (
            f"the target topic {partition.target.topic} was changed: message.timestamp.type from {before} to {after}; "
            f"source offsets {batch.source} to {last} were written as for {before}; planned again for {after}"
        )
        partition.stop(text, Kind.TARGET_CHANGED, last, first=batch.source)


def _doubt(partition: PartitionCopy, batch: Outgoing, stamped_ms: int) -> None:
    """What the target says to have may be another batch, and may be this one if its topic sets times now."""
    last = max(batch.last_source, partition.last_sent)
    text = (
        f"the target topic {partition.target.topic} was changed: message.timestamp.type from CreateTime to "
        f"LogAppendTime; or the target had a batch with the sequence numbers of source offsets {batch.source} to "
        f"{batch.last_source} before this flow sent it: its answer has the time {stamped_ms}"
    )
    partition.doubt(batch, text, Kind.TARGET_CHANGED, last)


def _guard_by_records(partition: PartitionCopy) -> None:
    partition.guard = replace(partition.guard, broker_time=False)
