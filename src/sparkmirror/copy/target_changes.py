"""A target that is set otherwise while a partition is copied: what its answers and the driver tell of that.

Invariants: a partition whose topic is seen to ask for something else than its plan says stops at once, to be planned
again; what was sent before still counts. From then on its batches are guarded by their own times.
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
    partition.stop(f"the target topic {topic} was changed: {changes}; planned again for that", Kind.TARGET_CHANGED)


def remember(partition: PartitionCopy, age_ms: int) -> None:
    """The target's brokers remember writers of records up to this age now; what they forgot stays forgotten."""
    if not partition.guard.remembers(partition.remembered_ms):
        partition.remembered_ms = FORGOTTEN
    partition.guard = replace(partition.guard, age_ms=age_ms)


def acknowledge(partition: PartitionCopy, batch: Outgoing, base_offset: int, *, broker_time: bool) -> None:
    """Takes the answer for a batch that the target has, and stops if it shows another timestamp type than planned.

    Args:
        partition: whose.
        batch: which.
        base_offset: of its first record on the target.
        broker_time: whether the broker has set its timestamps.
    """
    planned = partition.plan.log_append_time
    # One that was sent twice has the time of the first, whatever the topic does, where the target had that already.
    tells = not batch.open
    changed = tells and broker_time != planned
    if tells:
        partition.stamped_at = time.monotonic()
    if changed:
        _guard_by_records(partition)
    partition.acknowledged(batch, base_offset)
    if changed and not partition.error:
        last = max(batch.last_source, partition.last_sent)
        before, after = timestamp_type(log_append_time=planned), timestamp_type(log_append_time=broker_time)
        text = (
            f"the target topic {partition.target.topic} was changed: message.timestamp.type from {before} to {after}; "
            f"source offsets {batch.source} to {last} were written as for {before}; planned again for {after}"
        )
        partition.stop(text, Kind.TARGET_CHANGED, last, first=batch.source)


def _guard_by_records(partition: PartitionCopy) -> None:
    partition.guard = replace(partition.guard, broker_time=False)
