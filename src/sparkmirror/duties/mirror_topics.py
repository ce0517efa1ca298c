"""MirrorMaker 2's own topics: made as MirrorMaker 2 makes them, one partition, compacted.

Invariant: one that exists is used as it is, whoever made it.

Reference: ``MirrorUtils.createSinglePartitionCompactedTopic``.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.duties.duty import Change, Sign
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.model import Alias

SEEN_MS = 10_000
"""How long a topic that somebody else has just created may take to be seen everywhere."""

NOT_ALLOWED = frozenset({29, 31})
"""TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """One of these topics is not there.

    Attributes:
        cluster: where.
        topic: its name.
        replication_factor: of it; -1 means the broker's default.
        key: that sets the replication factor.
    """

    cluster: Alias
    topic: str
    replication_factor: int
    key: str

    @property
    def change(self) -> Change:
        """The creation."""
        return Change(cluster=self.cluster, sign=Sign.ADD, what=f"topic {self.topic}", detail="1 partition, compacted")


def exists(cluster: Cluster, topic: str, timeout_ms: int) -> bool:
    """Whether the topic is there, as far as this user may see.

    Raises:
        LinkError: no broker could be asked.
    """
    return topic in admin.list_topics(cluster, [topic], timeout_ms)


def create(cluster: Cluster, action: CreateTopic, timeout_ms: int) -> None:
    """Creates the topic and waits for its leader.

    Raises:
        BrokerError: it cannot be created, or seen.
        LinkError: no broker could be asked.
    """
    wanted = NewTopic(
        name=action.topic,
        partitions=1,
        replication_factor=action.replication_factor,
        configs=(("cleanup.policy", "compact"),),
    )
    failed = admin.create_topics(cluster, [wanted], timeout_ms).failed
    for failure in failed.values():
        if not isinstance(failure, BrokerError) or failure.code != admin.TOPIC_ALREADY_EXISTS:
            raise _explained(failure, action)
    seen = admin.wait_for_leaders(cluster, {action.topic: 1}, min(timeout_ms, SEEN_MS) if failed else timeout_ms)
    for missing in seen.failed.values():
        if failed and isinstance(missing, BrokerError) and missing.code == UNKNOWN_TOPIC_OR_PARTITION:
            remedy = f"it was there before, and cannot be seen: allow DESCRIBE on Topic {action.topic} to this user"
            raise with_remedy(missing, action.topic, remedy)
    seen.complete()


def with_remedy(failure: BrokerError, topic: str, remedy: str) -> BrokerError:
    """The same refusal, with what to do about it."""
    return BrokerError(code=failure.code, name=failure.name, cluster=failure.cluster, topic=topic, remedy=remedy)


def _explained(failure: BrokerError | LinkError, action: CreateTopic) -> BrokerError | LinkError:
    if isinstance(failure, BrokerError) and failure.code == admin.INVALID_REPLICATION_FACTOR:
        factor = f"set {action.key} (it is {action.replication_factor}) to the number of brokers at most, or to -1"
        return with_remedy(failure, action.topic, factor)
    return failure
