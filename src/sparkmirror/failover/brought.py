"""Whether the cluster that came back still has what had been brought there when groups were moved to it.

The flow that brings it finds a loss by itself, and brings again what was lost, behind what others have written there by
then. From then on its own record says nothing of the loss any more. So the operation keeps how far the logs went before
it moves groups.

Reference: OffsetForLeaderEpoch (KIP-101, KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sparkmirror.config import FlowConfig
from sparkmirror.duties.topics import remote_topic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import believed_ends
from sparkmirror.model import NO_OFFSET, UNKNOWN, TopicPartition
from sparkmirror.offsets.records import Progress


def rows_of(flow: FlowConfig, progress: Iterable[Progress]) -> list[list[Any]]:
    """How far logs go, for the record: topic, partition, leader epoch, and the offset behind the last copy.

    Args:
        flow: that brings copies there.
        progress: of its partitions.
    """
    return [
        [remote_topic(flow, one.partition.topic), one.partition.partition, one.reached.leader_epoch, _end(one)]
        for one in progress
        if one.reached.leader_epoch != UNKNOWN.leader_epoch and _end(one) > 0
    ]


def _end(progress: Progress) -> int:
    return progress.reached.end if progress.target == NO_OFFSET else progress.target + 1


def lost_since(cluster: Cluster, rows: Iterable[Sequence[Any]], timeout_ms: int) -> dict[TopicPartition, int]:
    """From which offset on logs have lost copies since, as far as their leaders answer.

    Args:
        cluster: that came back.
        rows: as `rows_of` gives them.
        timeout_ms: until a leader that does not answer says nothing.

    Raises:
        SparkmirrorError: the cluster does not answer.
    """
    known = {TopicPartition(topic, number): (epoch, end) for topic, number, epoch, end in rows}
    ends = believed_ends(cluster, {place: epoch for place, (epoch, _) in known.items()}, timeout_ms).found
    return {place: max(0, each.end) for place, each in sorted(ends.items()) if (each.epoch, each.end) < known[place]}
