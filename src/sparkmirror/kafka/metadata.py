"""Who leads which partition: Metadata requests for the topics that are asked for, never for all.

Reference: KIP-516 (topic ids).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from sparkmirror.kafka.cluster import CALL_MS, Cluster
from sparkmirror.kafka.codes import LEADER_NOT_AVAILABLE

TOPICS_PER_REQUEST = 500
NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Leader:
    """The broker that leads a partition; ``node`` is -1 while there is none."""

    node: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic as the metadata shows it.

    Attributes:
        code: the error code of the topic, 0 if all is well.
        topic_id: None before Kafka 2.8.
        leaders: partition → leader.
    """

    name: str
    code: int
    topic_id: uuid.UUID | None
    leaders: dict[int, Leader]
    internal: bool = False


async def describe_topics(cluster: Cluster, topics: Iterable[str], timeout_ms: int = CALL_MS) -> dict[str, TopicView]:
    """Asks for the leaders and ids of ``topics``; also refreshes the addresses of the brokers.

    Raises:
        LinkError: no broker answered in time.
    """
    names = sorted(set(topics))
    found: dict[str, TopicView] = {}
    for start in range(0, len(names), TOPICS_PER_REQUEST):
        found.update(await _describe_some(cluster, names[start : start + TOPICS_PER_REQUEST], timeout_ms))
    return found


async def _describe_some(cluster: Cluster, names: Sequence[str], timeout_ms: int) -> dict[str, TopicView]:
    answer = await cluster.exchange(metadata_request(names), timeout_ms=timeout_ms)
    cluster.connections.cluster.update_metadata(answer)
    found = views(answer, names)
    return {name: found.get(name) or _untold(name) for name in names}


def metadata_request(names: Sequence[str]) -> Any:
    """Asks about topics, at most `TOPICS_PER_REQUEST`; creates none."""
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def views(answer: Any, names: Iterable[str]) -> dict[str, TopicView]:
    """What an answer says of the topics that were asked for."""
    return {topic.name: _view(topic) for topic in topics_of(answer, names)}


def topics_of(answer: Any, names: Iterable[str] | None) -> tuple[Any, ...]:
    """The topics of an answer that were asked for, each once; None for all that there are.

    What a broker says beyond that costs the time of a comparison, not that of a topic.
    """
    if names is None:
        return tuple(topic for topic in answer.topics if topic.name is not None)
    missing, found = set(names), []
    for topic in answer.topics:
        if topic.name in missing:
            missing.remove(topic.name)
            found.append(topic)
    return tuple(found)


def _untold(name: str) -> TopicView:
    """Of a topic that the answer leaves out."""
    return TopicView(name=name, code=LEADER_NOT_AVAILABLE, topic_id=None, leaders={})


def _view(topic: object) -> TopicView:
    identity = getattr(topic, "topic_id", None)
    return TopicView(
        name=topic.name,  # type: ignore[attr-defined]  # a generated protocol class
        code=topic.error_code,  # type: ignore[attr-defined]  # a generated protocol class
        topic_id=identity if identity is not None and identity.int != 0 else None,
        leaders={
            p.partition_index: Leader(p.leader_id if p.error_code in (0, 9) else NO_LEADER, p.leader_epoch)
            for p in topic.partitions  # type: ignore[attr-defined]  # a generated protocol class
        },
        internal=bool(topic.is_internal),  # type: ignore[attr-defined]  # a generated protocol class
    )
