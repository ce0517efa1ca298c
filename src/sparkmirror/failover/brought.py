"""Whether the cluster that came back still has what had been brought there when groups were moved to it.

The flow that brings it finds a loss by itself, and brings again what was lost, behind what others have written there by
then. From then on its own record says nothing of the loss any more. So the operation keeps how far the logs went before
it moves groups, and of which topics they were.

References: OffsetForLeaderEpoch (KIP-101, KIP-320), topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sparkmirror.config import FlowConfig
from sparkmirror.duties.lost_copies import lost_ends
from sparkmirror.duties.topics import remote_topic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, UNKNOWN, Reached, TopicPartition
from sparkmirror.offsets.records import Progress


def rows_of(flow: FlowConfig, progress: Iterable[Progress]) -> list[list[Any]]:
    """How far logs go, for the record.

    Args:
        flow: that brings copies there.
        progress: of its partitions.

    Returns:
        of each log topic, partition, leader epoch and end, the offset behind the last copy, and the topic's id.
    """
    return [
        [remote_topic(flow, one.partition.topic), one.partition.partition, *one.reached, _end(one), one.target_id]
        for one in progress
        if one.reached.leader_epoch != UNKNOWN.leader_epoch and _end(one) > 0
    ]


def _end(progress: Progress) -> int:
    return progress.reached.end if progress.target == NO_OFFSET else progress.target + 1


def lost_since(cluster: Cluster, rows: Iterable[Sequence[Any]], timeout_ms: int) -> dict[TopicPartition, int]:
    """From which offset on logs have lost copies since, as far as their leaders answer.

    What a log has lost behind the last copy was others'.

    Args:
        cluster: that came back.
        rows: as `rows_of` gives them.
        timeout_ms: until a leader that does not answer says nothing.

    Raises:
        SparkmirrorError: the cluster does not answer.
    """
    known = {
        TopicPartition(topic, number): (Reached(epoch, reached), end, topic_id)
        for topic, number, epoch, reached, end, topic_id in rows
    }
    named = {place.topic for place, (*_, before) in known.items() if before}
    ids = ids_of_topics(cluster, named, timeout_ms) if named else {}
    again = {place for place, (*_, before) in known.items() if before and ids.get(place.topic, "") not in ("", before)}
    asked = {place: reached for place, (reached, *_) in known.items() if place not in again}
    ends = lost_ends(cluster, asked, timeout_ms).found
    lost = dict.fromkeys(again, 0) | {place: at for place, at in ends.items() if at < known[place][1]}
    return dict(sorted(lost.items()))
