"""Whether logs still have what a flow has written to them, or copied from them, by topic ids and leader epochs.

A log loses its end by an unclean election, or by a power failure with replication factor 1, and all of it with its
topic. A flow that runs sees that by itself; the record of one that is held is of what the log had. Others may have
written at the same offsets since, also in a topic that was created again.

References: OffsetForLeaderEpoch (KIP-101, KIP-320), topic ids (KIP-516).
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties.topics import remote_topic
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import believed_ends
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import extent
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import UNKNOWN, Reached, TopicPartition
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
    ends = lost_ends(target, {there: known for there, (_, known) in reached.items()}, timeout_ms)
    return Results(
        found=dict.fromkeys(again, 0) | {reached[there][0]: end for there, end in ends.found.items()},
        failed={reached[there][0]: failure for there, failure in ends.failed.items()},
    )


def lost_ends(
    cluster: Cluster, reached: Mapping[TopicPartition, Reached], timeout_ms: int
) -> Results[TopicPartition, int]:
    """From which offset on, at the latest, logs have lost what they had; nothing where they have all of it.

    A leader forgets an epoch of which it has no batch: where a replica was built after the log cleaner had taken the
    last ones, its naming an older epoch says nothing, unless a record lies where the log ended then.

    Args:
        cluster: where.
        reached: how far the logs went, up to a record of that leader epoch.
        timeout_ms: until partitions whose leader has not answered count as failed.
    """
    ends = believed_ends(cluster, {place: known.leader_epoch for place, known in reached.items()}, timeout_ms)
    # A log that went back as a whole tells nothing of its own.
    shorter = {place: max(0, end.end) for place, end in ends.found.items() if end.end < reached[place].end}
    last = {
        place: reached[place].end - 1
        for place, end in ends.found.items()
        if end.epoch != reached[place].leader_epoch and place not in shorter and reached[place].end > 0
    }
    there = records_at(cluster, last, timeout_ms) if last else Results(found={}, failed={})
    others = {place: last[place] for place, has_record in there.found.items() if has_record}
    return Results(found=shorter | others, failed={**ends.failed, **there.failed})


def records_at(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], timeout_ms: int
) -> Results[TopicPartition, bool]:
    """Whether a record lies at an offset of each log; nothing does below the log's start.

    Args:
        cluster: where.
        offsets: at most behind the last record.
        timeout_ms: until partitions whose leader has not answered count as failed.
    """
    starts = admin.find_offsets(cluster, list(offsets), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    spans = {place: Span(offsets[place], offsets[place] + 1) for place, at in starts.found.items()}
    spans = {place: span for place, span in spans.items() if starts.found[place] <= span.first}
    read = read_records(cluster, spans, extent, timeout_ms, Isolation.READ_UNCOMMITTED)
    return Results(
        found={place: bool(read.found.get(place)) for place in starts.found if place not in read.failed},
        failed={**starts.failed, **read.failed},
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
