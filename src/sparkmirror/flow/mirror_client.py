"""What the topics of one cluster tell of the flows into it: where they come from, over how many hops.

The questions of MirrorMaker 2's ``MirrorClient``, with its answers, for whoever fails applications over or watches
replication. They hold for topics that MirrorMaker 2 wrote and for those that sparkmirror wrote.

Invariants: nothing is changed and no record is read; each question asks the cluster anew. The answers are pure, in
``naming.lineage``.

Reference: ``org.apache.kafka.connect.mirror.MirrorClient`` of Kafka 4.3.1 (KIP-382).
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from sparkmirror.config import Endpoint, FlowConfig
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.rounds import ADMIN_MS
from sparkmirror.model import Alias
from sparkmirror.naming import NO_WAY, Lineage, ReplicationPolicy, lineage, policy_for


class MirrorClient:
    """Asks one cluster; a context manager that closes its connections.

    Args:
        cluster: to ask, with its admin settings.
        policy: that named its topics.
        timeout_ms: of each question.
    """

    def __init__(self, cluster: Endpoint, policy: ReplicationPolicy, *, timeout_ms: int = ADMIN_MS) -> None:
        self.policy = policy
        self._cluster = Cluster(cluster.alias, cluster.admin, role="mirror-client")
        self._timeout_ms = timeout_ms

    @classmethod
    def of(cls, flow: FlowConfig) -> Self:
        """For the target of a flow."""
        policy = policy_for(flow.policy, flow.source.alias)
        return cls(flow.target, policy, timeout_ms=flow.admin_timeout_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._cluster.close()

    def replication_hops(self, upstream: str) -> int:
        """The fewest flows from a cluster to this one, as heartbeats have come; -1 where none has come from it.

        Raises:
            LinkError: the cluster cannot be asked.
        """
        return self.lineage().upstream.get(upstream, NO_WAY)

    def upstream_clusters(self) -> frozenset[Alias]:
        """The clusters that heartbeats have come from, over one flow or several.

        Raises:
            LinkError: the cluster cannot be asked.
        """
        return frozenset(map(Alias, self.lineage().upstream))

    def heartbeat_topics(self) -> frozenset[str]:
        """The topics of heartbeats: the cluster's own, and copies.

        Raises:
            LinkError: the cluster cannot be asked.
        """
        return frozenset(self.lineage().heartbeats)

    def checkpoint_topics(self) -> frozenset[str]:
        """The topics of checkpoints.

        Raises:
            LinkError: the cluster cannot be asked.
        """
        return frozenset(self.lineage().checkpoints)

    def remote_topics(self, source: str | None = None) -> frozenset[str]:
        """The topics that were copied here, internal ones left out.

        Args:
            source: only those that come from it directly.

        Raises:
            LinkError: the cluster cannot be asked.
        """
        return frozenset(topic for topic, origin in self.lineage().remote.items() if source in (None, origin))

    def lineage(self) -> Lineage:
        """All answers at once.

        Raises:
            LinkError: the cluster cannot be asked.
        """
        found = admin.list_topics(self._cluster, timeout_ms=self._timeout_ms)
        return lineage(self.policy, [name for name, topic in found.items() if not topic.internal])
