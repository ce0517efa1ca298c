"""Copies that are on the target and not on record yet: where a group goes on behind them is not known.

A lane puts on record once a second what the target has acknowledged, and one that stands still or has died puts nothing
there. Where two flows write to one topic, the position of the flow back on the target moves over copies as soon as
they are there. A group that is level with the flow's map would go to that position, behind copies that it has not read.

Invariants: the leader of the copy tells what the flow's producer has written last; the flow's record is older, so
where both are the same nothing was written in between. One that does not say so is under way. An older epoch of the
producer, or an older producer, is settled: its last word came on record before the next one began.

Reference: DescribeProducers (KIP-664).
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import ProducerState
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress

ASK_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""


def under_way(
    target: Cluster,
    copies: Mapping[TopicPartition, TopicPartition],
    progress: Mapping[TopicPartition, Progress],
    timeout_ms: int,
) -> frozenset[TopicPartition]:
    """The partitions of the source of which the target may have copies that the flow's record does not have.

    Args:
        target: the cluster.
        copies: by partition of the source, that of the target.
        progress: of the flow, as it is on record.
        timeout_ms: of each question.

    Raises:
        SparkmirrorError: the cluster cannot be asked at all.
    """
    if not copies:
        return frozenset()
    asked = admin.find_producers(target, sorted(copies.values()), min(ASK_MS, timeout_ms))
    return frozenset(
        place for place, copy in copies.items() if not is_settled(progress.get(place), asked.found.get(copy))
    )


def is_level(offsets: OffsetMap, committed: int) -> bool:
    """Whether nothing that is on the map lies behind a committed offset. Pure."""
    end = offsets.end()
    return end is None or committed > end.source


def is_settled(progress: Progress | None, producers: Mapping[int, ProducerState] | None) -> bool:
    """Whether the record of a partition has all that the flow has written. Pure.

    Args:
        progress: the newest on record, or None.
        producers: of the copy, by their ids; None where its leader does not tell.
    """
    if progress is None or producers is None:
        return False
    state = producers.get(progress.writer.producer_id)
    if state is None or state.epoch < progress.writer.epoch:
        return True
    return state == ProducerState(progress.writer.epoch, progress.sequence)
