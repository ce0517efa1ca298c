"""What a cluster says of itself to somebody who has just connected: its id, brokers, version, and this user's rights.

Invariants: nothing is changed; the version is the newest release whose protocol the broker speaks, since brokers do not
tell their own; rights are what the broker's authorizer grants on the cluster itself, all of them where there is none.

Reference: DescribeCluster (KIP-700), authorized operations (KIP-430), ApiVersions (KIP-35).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kafka.protocol.admin import DescribeClusterRequest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.errors import LinkError
from sparkmirror.kafka.acls import Operation
from sparkmirror.kafka.cluster import CALL_MS, Cluster
from sparkmirror.kafka.metadata import topics_of
from sparkmirror.kafka.rounds import explained
from sparkmirror.model import ClusterId


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one cluster said.

    Attributes:
        cluster_id: of the cluster.
        brokers: how many there are.
        version: the newest release whose protocol the broker that was asked speaks, such as (4, 3).
        rights: operations on the cluster itself that this user may do; None where the broker does not tell.
    """

    cluster_id: ClusterId
    brokers: int
    version: tuple[int, ...]
    rights: tuple[str, ...] | None


def survey(cluster: Cluster, timeout_ms: int = CALL_MS) -> Survey:
    """Connects and asks.

    Raises:
        BrokerError: the broker refuses.
        LinkError: no connection, such as for a wrong password or certificate, or no answer in time.
    """
    request = DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=1)
    answer = cluster.call(request, timeout_ms=timeout_ms)
    if answer.error_code:
        raise explained(answer.error_code, cluster.alias, topic="", remedy="allow DESCRIBE on Cluster to this user")
    known = cluster.connections.broker_version
    if known is None:
        raise LinkError(cluster=cluster.alias, address=cluster.address, reason="the connection was lost again")
    return Survey(
        cluster_id=ClusterId(answer.cluster_id),
        brokers=len(answer.brokers),
        version=tuple(known),
        rights=_rights(answer.authorized_operations),
    )


def topic_rights(
    cluster: Cluster, topics: Sequence[str] | None, timeout_ms: int = CALL_MS
) -> dict[str, frozenset[Operation]]:
    """What this user may do with topics: all that there is where the cluster has no authorizer, or does not tell.

    Args:
        cluster: where.
        topics: which; None for all. Those that do not exist, or that this user may not see, are left out.
        timeout_ms: milliseconds to the answer.

    Raises:
        LinkError: no broker could be asked.
    """
    named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(
        topics=named,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=True,
    )
    answer = cluster.call(request, timeout_ms=timeout_ms)
    # None where a broker tells nothing: kafka-python takes the one bit that says so for no value.
    known = {topic.name: topic.authorized_operations for topic in topics_of(answer, topics) if topic.error_code == 0}
    every = frozenset(Operation)
    return {
        name: every if bits is None else frozenset(each for each in Operation if each in bits)
        for name, bits in known.items()
    }


def _rights(bits: Collection[int] | None) -> tuple[str, ...] | None:
    if bits is None:
        return None
    return tuple(operation.name for operation in Operation if operation in bits)
