"""Produce requests with batches as they are: one batch for each partition, acknowledged by all in-sync replicas.

Reference: KIP-98 (idempotent producer), KIP-516 (topic ids, Produce version 13).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafka.protocol.producer import ProduceRequest

from sparkmirror.model import TopicPartition

LAST_VERSION_WITH_NAMES = 12
ALL_IN_SYNC = -1


class Load(NamedTuple):
    """One batch for one partition."""

    partition: TopicPartition
    topic_id: uuid.UUID | None
    payload: memoryview


class Produced(NamedTuple):
    """The broker's answer for one batch: the error code and, for 0, the offset of its first record."""

    partition: TopicPartition
    code: int
    base_offset: int
    message: str


def produce_request(loads: Iterable[Load], timeout_ms: int) -> Any:
    """One request; at most one load for each partition."""
    topics: dict[str, list[Any]] = defaultdict(list)
    ids: dict[str, uuid.UUID | None] = {}
    for load in loads:
        ids[load.partition.topic] = load.topic_id
        topics[load.partition.topic].append(
            ProduceRequest.TopicProduceData.PartitionProduceData(index=load.partition.partition, records=load.payload)
        )
    by_id = all(identity is not None for identity in ids.values())
    return ProduceRequest(
        transactional_id=None,
        acks=ALL_IN_SYNC,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(name=name, topic_id=ids[name], partition_data=parts)
            for name, parts in topics.items()
        ],
        max_version=None if by_id else LAST_VERSION_WITH_NAMES,
    )


def produced(answer: Any, names: dict[uuid.UUID, str]) -> Iterator[Produced]:
    """What an answer says of each batch; ``names`` gives the topic of a topic id."""
    for topic in answer.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for part in topic.partition_responses:
            yield Produced(
                TopicPartition(name, part.index), part.error_code, part.base_offset, part.error_message or ""
            )
