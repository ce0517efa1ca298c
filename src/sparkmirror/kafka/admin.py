"""Topics of a cluster: what there is, their offsets, creating, enlarging, deleting.

Invariants: everything is asked for in bulk, in requests of a size that brokers take; a topic that fails does not stop
the others (`Results`); errors name the cluster, the topic and the permission or setting that is missing; nothing here
ever makes a broker create a topic by asking for it.

Reference: the Metadata, CreateTopics (KIP-4, KIP-464), CreatePartitions (KIP-195), DeleteTopics,
ListOffsets (KIP-79, KIP-98, KIP-320) and DescribeProducers (KIP-664) APIs. For threads of a driver: these functions
block.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.config import Isolation
from sparkmirror.errors import BrokerError
from sparkmirror.kafka import changes
from sparkmirror.kafka.changes import Change, explaining, remedy_of
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import GONE, UNAUTHORIZED, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.leaders import Leader, OffsetSpec, ask_leaders
from sparkmirror.kafka.metadata import topics_of
from sparkmirror.kafka.producer_states import ProducerState, ask_leaders_for_producers
from sparkmirror.kafka.rounds import ADMIN_MS, Answer, Deadline, Results, chunks, explained, repeat
from sparkmirror.model import ClusterId, TopicPartition

TOPIC_ALREADY_EXISTS = 36
INVALID_REPLICATION_FACTOR = 38

BROKER_DEFAULT = -1
"""As a replication factor or a number of partitions: what the broker is configured to."""

NAMED_TOPICS = 1_000
"""Per request."""

_UNSUPPORTED_VERSION = 35

_ABSENT_MS = 1_000
"""A broker that knows nothing of a topic is asked again for so long: a new one spreads meanwhile."""


class TopicDescription(NamedTuple):
    """A topic as one broker knows it."""

    topic_id: uuid.UUID
    partitions: Mapping[int, Leader]
    internal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: tuple[tuple[str, str], ...] = ()


def cluster_id(cluster: Cluster, timeout_ms: int = ADMIN_MS) -> ClusterId:
    """The identity that the cluster gives itself.

    Raises:
        BrokerError: the broker is too old to have one.
        LinkError: no broker could be asked.
    """
    found = cluster.run(_metadata, cluster, [], timeout_ms).cluster_id
    if not found:
        raise explained(
            _UNSUPPORTED_VERSION, cluster.alias, topic="", remedy="brokers before 0.10.1 have no cluster id"
        )
    return ClusterId(found)


def list_topics(
    cluster: Cluster, topics: Sequence[str] | None = None, timeout_ms: int = ADMIN_MS
) -> dict[str, TopicDescription]:
    """The topics that there are and that this user may see, with their leaders; -1 is a partition without one.

    Args:
        cluster: where.
        topics: only these; None for all. Those that do not exist are left out.
        timeout_ms: milliseconds for each request.

    Raises:
        LinkError: no broker could be asked.
    """
    found: dict[str, TopicDescription] = {}
    for piece in [None] if topics is None else chunks(list(topics), NAMED_TOPICS):
        topics_there = topics_of(cluster.run(_metadata, cluster, piece, timeout_ms), piece)
        found.update((topic.name, _described(topic)) for topic in topics_there if topic.partitions)
    return found


def visible_topics(
    cluster: Cluster, topics: Sequence[str], timeout_ms: int = ADMIN_MS, *, right: str = "DESCRIBE"
) -> dict[str, TopicDescription]:
    """Like `list_topics`, for callers that must not take a topic that is hidden from this user for one that is absent.

    Brokers refuse a topic that is asked for by name whether it exists or not.

    Args:
        cluster: where.
        topics: which. Those that do not exist are left out.
        timeout_ms: milliseconds for each request.
        right: what the caller needs on them, for the message.

    Raises:
        BrokerError: this user may not DESCRIBE one of them.
        LinkError: no broker could be asked.
    """
    explain = explaining(cluster, right)
    found: dict[str, TopicDescription] = {}
    for piece in chunks(list(topics), NAMED_TOPICS):
        answer = cluster.run(_metadata, cluster, piece, timeout_ms)
        for topic in topics_of(answer, piece):
            if topic.error_code in UNAUTHORIZED:
                raise explain(topic.name, topic.error_code, "")
            if topic.partitions:
                found[topic.name] = _described(topic)
    return found


def absent(
    cluster: Cluster, partitions: Iterable[TopicPartition], timeout_ms: int = ADMIN_MS
) -> frozenset[TopicPartition]:
    """Those of the partitions that do not exist; one that is hidden from this user, or has no leader, is none of them.

    Args:
        cluster: where.
        partitions: which.
        timeout_ms: milliseconds for each request.

    Raises:
        LinkError: no broker could be asked.
    """

    def ask(wanted: Sequence[TopicPartition], _deadline: Deadline) -> Iterable[Answer[TopicPartition, None]]:
        codes: dict[str, int] = {}
        numbers: dict[str, set[int]] = {}
        for piece in chunks(sorted({place.topic for place in wanted}), NAMED_TOPICS):
            for topic in topics_of(cluster.run(_metadata, cluster, piece, timeout_ms), piece):
                codes[topic.name] = topic.error_code
                numbers[topic.name] = {part.partition_index for part in topic.partitions}
        for place in wanted:
            known = numbers.get(place.topic, set())
            gone = codes.get(place.topic) in GONE or (bool(known) and place.partition not in known)
            yield Answer(key=place, code=UNKNOWN_TOPIC_OR_PARTITION if gone else 0)

    def explain(place: TopicPartition, code: int, _message: str) -> BrokerError:
        return explained(code, cluster.alias, topic=place.topic, partition=place.partition)

    asked = repeat(list(partitions), ask, explain, timeout_ms, cluster.backoff, unknown_ms=_ABSENT_MS)
    return frozenset(asked.failed)


def wait_for_leaders(
    cluster: Cluster, partitions: Mapping[str, int], timeout_ms: int = ADMIN_MS
) -> Results[str, TopicDescription]:
    """Waits until topics are as large as they are known to be and each of their partitions has a leader.

    A topic that is not there is waited for until the end, since what another broker has just created looks the same.

    Args:
        cluster: where.
        partitions: topic to the least number of its partitions.
        timeout_ms: milliseconds until topics that are not ready count as failed.

    Raises:
        LinkError: no broker could be asked.
    """

    def ask(names: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, TopicDescription]]:
        known = list_topics(cluster, names, deadline.attempt_ms)
        for name in names:
            found = known.get(name)
            if found is None or len(found.partitions) < partitions[name]:
                yield Answer(key=name, code=3)
            elif any(leader.node < 0 for leader in found.partitions.values()):
                yield Answer(key=name, code=5)
            else:
                yield Answer(key=name, value=found)

    explain = explaining(cluster, "DESCRIBE")
    return repeat(list(partitions), ask, explain, timeout_ms, cluster.backoff, unknown_ms=timeout_ms)


def create_topics(
    cluster: Cluster, topics: Sequence[NewTopic], timeout_ms: int = ADMIN_MS, *, validate_only: bool = False
) -> Results[str, None]:
    """Creates topics, or only asks whether they could be created.

    One that was there before is a failure with code `TOPIC_ALREADY_EXISTS`, so that the caller can look at it.
    """
    wanted = {topic.name: topic for topic in topics}
    attempts: Counter[str] = Counter()

    def request(names: Sequence[str], broker_ms: int) -> Any:
        attempts.update(names)
        return CreateTopicsRequest(
            topics=[_creatable(wanted[name]) for name in names], timeout_ms=broker_ms, validate_only=validate_only
        )

    def read(response: Any) -> Iterable[Answer[str, None]]:
        for topic in response.topics:
            # An earlier attempt that seemed to fail has created it after all.
            late = topic.error_code == TOPIC_ALREADY_EXISTS and attempts[topic.name] > 1
            yield Answer(
                key=topic.name, code=0 if late else topic.error_code, message=cluster.told(topic.error_message)
            )

    sizes = {name: max(1, topic.partitions) for name, topic in wanted.items()}
    factors = {name: topic.replication_factor for name, topic in wanted.items()}
    explain = explaining(cluster, "CREATE", factors=factors)
    return changes.apply(cluster, Change(sizes=sizes, request=request, read=read, explain=explain), timeout_ms)


def create_partitions(cluster: Cluster, totals: Mapping[str, int], timeout_ms: int = ADMIN_MS) -> Results[str, None]:
    """Enlarges topics to the given numbers of partitions."""

    def request(names: Sequence[str], broker_ms: int) -> Any:
        topic = CreatePartitionsRequest.CreatePartitionsTopic
        wanted = [topic(name=name, count=totals[name], assignments=None) for name in names]
        return CreatePartitionsRequest(topics=wanted, timeout_ms=broker_ms, validate_only=False)

    def read(response: Any) -> Iterable[Answer[str, None]]:
        for result in response.results:
            yield Answer(key=result.name, code=result.error_code, message=cluster.told(result.error_message))

    explain = explaining(cluster, "ALTER")
    return changes.apply(cluster, Change(sizes=totals, request=request, read=read, explain=explain), timeout_ms)


def delete_topics(cluster: Cluster, topics: Sequence[str], timeout_ms: int = ADMIN_MS) -> Results[str, None]:
    """Deletes topics; one that is not there is a failure."""

    def request(names: Sequence[str], broker_ms: int) -> Any:
        state = DeleteTopicsRequest.DeleteTopicState
        wanted = [state(name=name) for name in names]
        return DeleteTopicsRequest(topics=wanted, topic_names=list(names), timeout_ms=broker_ms)

    def read(response: Any) -> Iterable[Answer[str, None]]:
        for result in response.responses:
            yield Answer(key=result.name, code=result.error_code, message=cluster.told(result.error_message))

    explain = explaining(cluster, "DELETE")
    sizes = dict.fromkeys(topics, 1)
    return changes.apply(cluster, Change(sizes=sizes, request=request, read=read, explain=explain), timeout_ms)


def find_offsets(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    spec: OffsetSpec | int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    timeout_ms: int = ADMIN_MS,
) -> Results[TopicPartition, int]:
    """The first or the end offsets of partitions, asked of their leaders, one request for each leader.

    Args:
        cluster: where.
        partitions: which.
        spec: EARLIEST, or LATEST: the high watermark, under read_committed the last stable offset. Or a time in
            milliseconds since 1970: the first record of that time or a later one, -1 where there is none.
        isolation: whether records of open transactions count.
        timeout_ms: milliseconds until partitions whose leader has not answered count as failed.
    """

    def ask(wanted: Sequence[TopicPartition], deadline: Deadline) -> Iterable[Answer[TopicPartition, int]]:
        leaders, without = _leaders(cluster, wanted, deadline)
        yield from without
        yield from ask_leaders(cluster, leaders, spec, isolation, deadline.attempt_ms)

    return repeat(partitions, ask, _explaining(cluster, "DESCRIBE"), timeout_ms, cluster.backoff)


def _leaders(
    cluster: Cluster, wanted: Sequence[TopicPartition], deadline: Deadline
) -> tuple[dict[TopicPartition, Leader], list[Answer[TopicPartition, Any]]]:
    """The leaders of partitions, and the answers for those that have none."""
    known = list_topics(cluster, sorted({partition.topic for partition in wanted}), deadline.attempt_ms)
    leaders: dict[TopicPartition, Leader] = {}
    without: list[Answer[TopicPartition, Any]] = []
    for partition in wanted:
        described = known.get(partition.topic)
        leader = described.partitions.get(partition.partition) if described else None
        if leader is None:
            without.append(Answer(key=partition, code=3))
        elif leader.node < 0:
            without.append(Answer(key=partition, code=5))
        else:
            leaders[partition] = leader
    return leaders, without


def _explaining(cluster: Cluster, right: str) -> Callable[[TopicPartition, int, str], BrokerError]:
    def explain(partition: TopicPartition, code: int, message: str) -> BrokerError:
        remedy = remedy_of(right, code, partition.topic)
        number = partition.partition
        return explained(code, cluster.alias, topic=partition.topic, partition=number, remedy=remedy, message=message)

    return explain


def find_producers(
    cluster: Cluster, partitions: Sequence[TopicPartition], timeout_ms: int = ADMIN_MS
) -> Results[TopicPartition, Mapping[int, ProducerState]]:
    """The producers of partitions, by their ids, asked of the leaders (KIP-664).

    A leader forgets a producer that has written nothing for ``producer.id.expiration.ms``.
    """

    def ask(
        wanted: Sequence[TopicPartition], deadline: Deadline
    ) -> Iterable[Answer[TopicPartition, Mapping[int, ProducerState]]]:
        leaders, without = _leaders(cluster, wanted, deadline)
        yield from without
        nodes = {partition: leader.node for partition, leader in leaders.items()}
        yield from cluster.run(ask_leaders_for_producers, cluster, nodes, deadline.attempt_ms)

    return repeat(partitions, ask, _explaining(cluster, "READ"), timeout_ms, cluster.backoff)


def list_offsets(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    spec: OffsetSpec | int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    timeout_ms: int = ADMIN_MS,
) -> dict[TopicPartition, int]:
    """Like `find_offsets`, for callers that need all of them.

    Raises:
        BrokerError: a partition is not there, has no leader, or may not be read.
        LinkError: a leader could not be asked.
    """
    return find_offsets(cluster, partitions, spec, isolation, timeout_ms).complete()


async def _metadata(cluster: Cluster, topics: Sequence[str] | None, timeout_ms: int) -> Any:
    topic = MetadataRequest.MetadataRequestTopic
    wanted = None if topics is None else [topic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    answer = await cluster.exchange(request, None, timeout_ms)
    # Brokers come and go: requests to a leader need its address, which only these answers tell.
    cluster.connections.cluster.update_metadata(answer)
    return answer


def _described(topic: Any) -> TopicDescription:
    leaders = {part.partition_index: Leader(part.leader_id, part.leader_epoch) for part in topic.partitions}
    return TopicDescription(topic.topic_id, leaders, bool(topic.is_internal))


def _creatable(topic: NewTopic) -> Any:
    wire = CreateTopicsRequest.CreatableTopic
    configs = [wire.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs]
    return wire(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[],
        configs=configs,
    )
