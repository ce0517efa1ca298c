"""What the names of a cluster's topics tell of the flows into it, in one answer: MirrorMaker 2's questions, pure.

Invariant: sparkmirror's own topics are never remote ones, which MirrorMaker 2's client takes them for where an alias
could be ``sparkmirror``.

Reference: ``org.apache.kafka.connect.mirror.MirrorClient`` of Kafka 4.3.1 (KIP-382).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sparkmirror.model import Alias
from sparkmirror.naming.policies import ReplicationPolicy
from sparkmirror.naming.upstream import NO_WAY, hops, sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where the topics of one cluster come from; names are in order.

    Attributes:
        upstream: the clusters that heartbeats have come from, each with the fewest flows from there to here.
        remote: topic that was copied here, internal ones left out, to the cluster that it comes from directly.
        checkpoints: the topics of checkpoints.
        heartbeats: the topics of heartbeats, the cluster's own and copies.
    """

    upstream: Mapping[str, int] = field(default_factory=dict)
    remote: Mapping[str, str] = field(default_factory=dict)
    checkpoints: tuple[str, ...] = ()
    heartbeats: tuple[str, ...] = ()


def lineage(policy: ReplicationPolicy, topics: Iterable[str]) -> Lineage:
    """Answers all questions.

    Args:
        policy: that named the topics.
        topics: of the cluster, without the brokers' own.
    """
    names = sorted(topics)
    heartbeats = tuple(name for name in names if policy.is_heartbeats_topic(name))
    clusters = sorted({source for name in heartbeats for source in sources(policy, name)})
    origins = {name: policy.topic_source(name) for name in names if not policy.is_internal_topic(name)}
    return Lineage(
        upstream={str(cluster): _fewest(policy, heartbeats, cluster) for cluster in clusters},
        remote={name: str(source) for name, source in origins.items() if source is not None},
        checkpoints=tuple(name for name in names if policy.is_checkpoints_topic(name)),
        heartbeats=heartbeats,
    )


def _fewest(policy: ReplicationPolicy, heartbeats: Iterable[str], cluster: Alias) -> int:
    return min(number for name in heartbeats if (number := hops(policy, name, cluster)) != NO_WAY)
