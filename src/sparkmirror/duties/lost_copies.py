"""Whether logs still have what a flow has written to them, or copied from them, by topic ids and leader epochs.

A log loses its end by an unclean election, or by a power failure with replication factor 1, and all of it with its
topic. A flow that runs sees that by itself; the record of one that is held is of what the log had. Others may have
written at the same offsets since, also in a topic that was created again.

References: OffsetForLeaderEpoch (KIP-101, KIP-320), topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.config import FlowConfig
from sparkmirror.duties.topics import remote_topic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import believed_ends
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import UNKNOWN, TopicPartition
from sparkmirror.offsets.records import Progress


def lost_copies(
    flow: FlowConfig, target: Cluster, progress: Mapping[TopicPartition, Progress], timeout_ms: int
) -> Results[TopicPartition, int]:
    """From which target offset on a log has lost what the flow had written; nothing where it has all of it.

    Args:
        flow: the flow.
        target: its target.
        progress: by partition of the source.
        timeout_ms: until partitions whose leader has not answered count as failed.

    Returns:
        by partition of the source. An offset may lie behind the last copy: then nothing of the flow's is lost.

    Raises:
        SparkmirrorError: the target does not say which topics it has.
    """
    again = recreated_copies(flow, target, progress, timeout_ms)
    reached = {
        TopicPartition(remote_topic(flow, place.topic), place.partition): (place, one.reached)
        for place, one in progress.items()
        if one.reached.leader_epoch != UNKNOWN.leader_epoch and place not in again
    }
    asked = {there: known.leader_epoch for there, (_, known) in reached.items()}
    ends = believed_ends(target, asked, timeout_ms)
    return Results(
        found=dict.fromkeys(again, 0)
        | {
            reached[there][0]: max(0, end.end)  # a log that went back as a whole tells nothing of its own
            for there, end in ends.found.items()
            if end.epoch != asked[there] or end.end < reached[there][1].end
        },
        failed={reached[there][0]: failure for there, failure in ends.failed.items()},
    )


def lost_sources(
    source: Cluster, progress: Mapping[TopicPartition, Progress], timeout_ms: int
) -> Results[TopicPartition, int]:
    """From which offset on a log of the source is not the one any more that the flow has copied.

    Args:
        source: the cluster.
        progress: by partition of it.
        timeout_ms: until partitions whose leader has not answered count as failed.

    Raises:
        SparkmirrorError: the cluster does not say which topics it has.
    """
    known = {place: one.topic_id for place, one in progress.items() if one.topic_id}
    ids = ids_of_topics(source, {place.topic for place in known}, timeout_ms) if known else {}
    again = {place for place, topic_id in known.items() if ids.get(place.topic, "") not in ("", topic_id)}
    asked = {place: one.leader_epoch for place, one in progress.items() if one.leader_epoch >= 0 and place not in again}
    ends = believed_ends(source, asked, timeout_ms)
    # A leader forgets an epoch of which it has no batch: that it names an older one says nothing by itself.
    parted = {place: max(0, end.end) for place, end in ends.found.items() if end.end < progress[place].position}
    return Results(found=dict.fromkeys(again, 0) | parted, failed=ends.failed)


def recreated_copies(
    flow: FlowConfig, target: Cluster, progress: Mapping[TopicPartition, Progress], timeout_ms: int
) -> frozenset[TopicPartition]:
    """The source partitions of which the copy was deleted and created again since; none before Kafka 2.8.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    known = {place: one.target_id for place, one in progress.items() if one.target_id}
    copies = {place: remote_topic(flow, place.topic) for place in known}
    ids = ids_of_topics(target, set(copies.values()), timeout_ms) if copies else {}
    return frozenset(place for place, copy in copies.items() if ids.get(copy, "") not in ("", known[place]))
