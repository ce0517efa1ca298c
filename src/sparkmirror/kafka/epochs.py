"""Where leader epochs end: whether what was copied still lies on the history that the source has now.

A log that lost its tail in an unclean election has, from some offset on, other records under the old offsets. Its
leader epochs tell: each election has a number, each batch carries that of the leader that took it, and a leader knows
where each number ends in its log.

Invariant: only leaders are asked, and with the leader epoch that the metadata shows, so that a deposed one says so.

References: OffsetForLeaderEpoch (KIP-101, KIP-279, KIP-320); ``LeaderEpochFileCache.endOffsetFor``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import LEADER_NOT_AVAILABLE, UNAUTHORIZED, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.leaders import LEADER_MS, Leader, failed, together
from sparkmirror.kafka.rounds import ADMIN_MS, Answer, Deadline, Results, explained, repeat
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.source_history import UNDEFINED, Ask, Begun, Compared, EpochEnd, compare


def epoch_ends(
    cluster: Cluster, epochs: Mapping[TopicPartition, int], timeout_ms: int = ADMIN_MS
) -> Results[TopicPartition, EpochEnd]:
    """Where epochs end in the logs as they are now, one request for each leader.

    Args:
        cluster: where.
        epochs: which epoch of which partition.
        timeout_ms: milliseconds until partitions whose leader has not answered count as failed.
    """

    def ask(wanted: Sequence[TopicPartition], deadline: Deadline) -> Iterable[Answer[TopicPartition, EpochEnd]]:
        known = list_topics(cluster, sorted({partition.topic for partition in wanted}), deadline.attempt_ms)
        leaders: dict[TopicPartition, Leader] = {}
        for partition in wanted:
            described = known.get(partition.topic)
            leader = described.partitions.get(partition.partition) if described else None
            if leader is None or leader.node < 0:
                yield Answer(key=partition, code=UNKNOWN_TOPIC_OR_PARTITION if leader is None else LEADER_NOT_AVAILABLE)
            else:
                leaders[partition] = leader
        yield from cluster.run(ask_leaders_of_epochs, cluster, leaders, epochs, min(deadline.attempt_ms, LEADER_MS))

    def explain(partition: TopicPartition, code: int, message: str) -> BrokerError:
        remedy = f"allow DESCRIBE on Topic {partition.topic} to this user" if code in UNAUTHORIZED else ""
        number = partition.partition
        return explained(code, cluster.alias, topic=partition.topic, partition=number, remedy=remedy, message=message)

    return repeat(tuple(epochs), ask, explain, timeout_ms, cluster.backoff)


def newest_epochs(
    cluster: Cluster, partitions: Iterable[TopicPartition], timeout_ms: int = ADMIN_MS
) -> dict[TopicPartition, int]:
    """The newest leader epoch that each log has now; partitions without an answer are not there.

    While a log has that epoch up to an offset, it still has what lay before that offset.

    Raises:
        LinkError: the cluster does not answer.
    """
    places = list(partitions)
    known = list_topics(cluster, sorted({place.topic for place in places}), timeout_ms) if places else {}
    leaders = {
        place: leader.epoch
        for place in places
        if place.topic in known and (leader := known[place.topic].partitions.get(place.partition)) is not None
    }
    told = epoch_ends(cluster, leaders, timeout_ms).found
    return {place: end.epoch for place, end in told.items() if end.end != UNDEFINED}


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedLog:
    """What was copied of a log, and is compared with it.

    Attributes:
        epoch: the leader epoch of the batch left of the position, or a later one.
        position: up to which it was copied.
        history: the leader epochs that were copied, in order.
    """

    epoch: int
    position: int
    history: Sequence[Begun] = ()


def meeting_points(
    cluster: Cluster, copied: Mapping[TopicPartition, CopiedLog], timeout_ms: int = ADMIN_MS
) -> Results[TopicPartition, EpochEnd]:
    """Up to where logs are what was copied of them, see ``offsets.source_history``; an end behind that is no matter.

    Args:
        cluster: where.
        copied: of each partition.
        timeout_ms: of each question; in most cases there is one.

    Raises:
        LinkError: the cluster does not answer.
    """
    answers: dict[TopicPartition, dict[int, EpochEnd]] = {place: {} for place in copied}
    newest: dict[TopicPartition, int] = {}
    points: dict[TopicPartition, EpochEnd] = {}
    failed: dict[TopicPartition, BrokerError | LinkError] = {}
    open_ones = dict(copied)
    while open_ones:
        wanted: dict[TopicPartition, int] = {}
        for place, one in open_ones.items():
            finding = compare(
                Compared(
                    history=one.history,
                    epoch=one.epoch,
                    position=one.position,
                    newest=newest.get(place, UNDEFINED),
                    answers=answers[place],
                )
            )
            if isinstance(finding, Ask):
                wanted[place] = finding.epoch
            else:
                points[place] = finding
        told = epoch_ends(cluster, wanted, timeout_ms)
        failed |= told.failed
        unknown = [place for place, end in told.found.items() if end.end == UNDEFINED and place not in newest]
        newest |= dict.fromkeys(unknown, UNDEFINED) | newest_epochs(cluster, unknown, timeout_ms)
        for place, end in told.found.items():
            answers[place][wanted[place]] = end
        open_ones = {place: open_ones[place] for place in told.found}
    return Results(found=points, failed=failed)


async def ask_leaders_of_epochs(
    cluster: Cluster, leaders: Mapping[TopicPartition, Leader], epochs: Mapping[TopicPartition, int], timeout_ms: int
) -> list[Answer[TopicPartition, EpochEnd]]:
    """Asks once, all leaders at the same time.

    Args:
        cluster: where.
        leaders: of the partitions, with the leader epoch that is believed to be theirs.
        epochs: which epoch of which partition.
        timeout_ms: milliseconds for the answer of each leader.
    """
    by_node: dict[int, dict[TopicPartition, Leader]] = defaultdict(dict)
    for partition, leader in leaders.items():
        by_node[leader.node][partition] = leader
    requests = {node: _request(some, epochs) for node, some in by_node.items()}
    answers = await together(cluster, requests, timeout_ms)
    return [
        told
        for node, answer in answers.items()
        for told in (failed(answer, by_node[node]) if isinstance(answer, LinkError) else _read(answer))
    ]


def _request(leaders: Mapping[TopicPartition, Leader], epochs: Mapping[TopicPartition, int]) -> Any:
    wire = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    topics: dict[str, list[Any]] = defaultdict(list)
    for partition, leader in leaders.items():
        topics[partition.topic].append(
            wire.OffsetForLeaderPartition(
                partition=partition.partition, current_leader_epoch=leader.epoch, leader_epoch=epochs[partition]
            )
        )
    wanted = [wire(topic=name, partitions=parts) for name, parts in topics.items()]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=wanted, min_version=2)


def _read(response: Any) -> Iterable[Answer[TopicPartition, EpochEnd]]:
    for topic in response.topics:
        for part in topic.partitions:
            yield Answer(
                key=TopicPartition(topic.topic, part.partition),
                value=EpochEnd(int(part.leader_epoch), int(part.end_offset)),
                code=part.error_code,
            )
