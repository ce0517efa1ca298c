"""Offsets of partitions, which only their leaders know.

Invariants: one ListOffsets request for each leader, all leaders at the same time; each partition is asked with the
leader epoch that the caller knows, so that a deposed leader says so and does not answer with an old offset.

Reference: ListOffsets (KIP-79), last stable offset (KIP-98), leader epochs (KIP-320).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.consumer import ListOffsetsRequest

from sparkmirror.config import Isolation
from sparkmirror.errors import LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.rounds import Answer, chunks
from sparkmirror.model import TopicPartition

V = TypeVar("V")

NODES_AT_ONCE = 200
"""A process may often have 1,024 files and sockets open, and whoever passes for a broker names others."""

LEADER_MS = 10_000
"""For one request: a leader that says nothing for so long is looked up anew."""


class Leader(NamedTuple):
    """The broker that leads a partition, -1 for none, and since which election."""

    node: int
    epoch: int


class OffsetSpec(IntEnum):
    """Which offset of a partition; the number is the one of the ListOffsets request."""

    LATEST = -1
    EARLIEST = -2


def ask_leaders(
    cluster: Cluster,
    leaders: Mapping[TopicPartition, Leader],
    spec: OffsetSpec | int,
    isolation: Isolation,
    timeout_ms: int,
) -> Iterable[Answer[TopicPartition, int]]:
    """Asks each leader once for all of its partitions and yields what became of each; for threads of a driver."""
    answers: list[Answer[TopicPartition, int]] = cluster.run(
        ask_each_leader, cluster, leaders, spec, isolation, timeout_ms
    )
    return answers


async def ask_each_leader(
    cluster: Cluster,
    leaders: Mapping[TopicPartition, Leader],
    spec: OffsetSpec | int,
    isolation: Isolation,
    timeout_ms: int,
) -> list[Answer[TopicPartition, int]]:
    """Like `ask_leaders`, for coroutines on the cluster's loop."""
    timeout_ms = min(timeout_ms, LEADER_MS)
    by_node: dict[int, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for partition, leader in leaders.items():
        by_node[leader.node][partition.topic].append((partition.partition, leader.epoch))
    requests = {node: _request(topics, spec, isolation, timeout_ms) for node, topics in by_node.items()}
    answers = await together(cluster, requests, timeout_ms)
    return [
        told
        for node, answer in answers.items()
        for told in of_asked(cluster, node, frozenset(_partitions(by_node[node])), answer, _read)
    ]


def of_asked(
    cluster: Cluster,
    node: int,
    asked: frozenset[TopicPartition],
    answer: Any,
    read: Callable[[Any], Iterable[Answer[TopicPartition, V]]],
) -> Iterable[Answer[TopicPartition, V]]:
    """What a leader said of each partition that it was asked about, and of no other.

    Args:
        cluster: whose leader.
        node: which.
        asked: the partitions.
        answer: the response, or the `LinkError` in its place.
        read: what a response says.
    """
    if isinstance(answer, LinkError):
        return failed(answer, asked)
    found = {one.key: one for one in read(answer) if one.key in asked}
    reason = f"broker {node} answered without them"
    return (*found.values(), *failed(cluster.link_error(ConnectionError(reason)), sorted(asked - found.keys())))


def _request(
    topics: Mapping[str, list[tuple[int, int]]], spec: OffsetSpec | int, isolation: Isolation, timeout_ms: int
) -> Any:
    wire = ListOffsetsRequest.ListOffsetsTopic
    part = wire.ListOffsetsPartition
    wanted = [
        wire(
            name=name,
            partitions=[
                part(partition_index=number, current_leader_epoch=epoch, timestamp=int(spec))
                for number, epoch in partitions
            ],
        )
        for name, partitions in topics.items()
    ]
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation.value, topics=wanted, timeout_ms=timeout_ms, min_version=2
    )


async def together(cluster: Cluster, requests: Mapping[int, Any], timeout_ms: int) -> dict[int, Any]:
    """Sends one request to each node and gathers the answers, a `LinkError` in the place of one that failed.

    Args:
        cluster: whose.
        requests: by node. Of more than `NODES_AT_ONCE` the others wait: each may need a new socket.
        timeout_ms: milliseconds to all answers.
    """
    end = time.monotonic() + timeout_ms / 1000
    answers: dict[int, Any] = {}
    for some in chunks(tuple(requests), NODES_AT_ONCE):
        left_ms = timeout_ms if not answers else int((end - time.monotonic()) * 1000)
        if left_ms <= 0:
            answers |= {node: cluster.link_error(ConnectionError(f"no time to ask broker {node}")) for node in some}
            continue
        under_way = {
            node: cluster.loop.call_soon_with_future(cluster.exchange, requests[node], node, left_ms) for node in some
        }
        for node, future in under_way.items():
            try:
                answers[node] = await future
            except LinkError as failure:
                answers[node] = failure
    return answers


async def once_together(
    cluster: Cluster, requests: Mapping[int, Sequence[Any]], timeout_ms: int, allowed: Callable[[], bool]
) -> dict[int, list[Any]]:
    """Sends some requests to each node and gathers the answers in order, as `Cluster.exchange_once`.

    Args:
        cluster: whose.
        requests: by node.
        timeout_ms: milliseconds for each answer.
        allowed: asked right before the requests of a node leave.
    """
    under_way = {
        node: cluster.loop.call_soon_with_future(cluster.exchange_once, some, node, timeout_ms, allowed)
        for node, some in requests.items()
    }
    return {node: await future for node, future in under_way.items()}


def failed(failure: LinkError, partitions: Iterable[TopicPartition]) -> Iterable[Answer[TopicPartition, Any]]:
    """What becomes of partitions whose leader could not be asked."""
    return (Answer(key=partition, link=failure) for partition in partitions)


def _partitions(topics: Mapping[str, list[tuple[int, int]]]) -> Iterable[TopicPartition]:
    return (TopicPartition(name, number) for name, partitions in topics.items() for number, _ in partitions)


def _read(response: Any) -> Iterable[Answer[TopicPartition, int]]:
    for topic in response.topics:
        for part in topic.partitions:
            yield Answer(
                key=TopicPartition(topic.name, part.partition_index), value=int(part.offset), code=part.error_code
            )
