"""Which broker a partition is fetched from: its leader, or a follower that the leader named (KIP-392).

Pure; times are seconds of a monotonic clock.

Invariants:
    * A follower is kept for one lease. Then the leader is asked again, which names only followers in sync.
    * A follower that failed is not asked for again before as long a time has passed: until then the leader is fetched
      from without a rack, since it would name the same follower again and give no records.

References: ``SubscriptionState.updatePreferredReadReplica``, ``AbstractFetch.selectReadReplica`` and
``ReplicaManager.findPreferredReadReplica`` of Kafka. Java's consumer has the lease, and nothing like the second: one
that cannot reach a follower which the leader holds to be in sync reads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.kafka.metadata import NO_LEADER


@dataclass(slots=True)
class ReadReplica:
    """The follower that one partition is fetched from.

    Attributes:
        node: the follower, or `NO_LEADER` while the leader is fetched from.
        leader_only_until: until when the leader is not asked for a follower.
    """

    node: int = NO_LEADER
    leader_only_until: float = 0.0
    _until: float = 0.0

    @property
    def followed(self) -> bool:
        """Whether a follower is fetched from."""
        return self.node != NO_LEADER

    def follow(self, node: int, now: float, lease_s: float) -> None:
        """Takes the follower that the leader has named."""
        self.node, self._until = node, now + lease_s

    def is_due(self, now: float) -> bool:
        """Whether the lease of the follower is over."""
        return self.followed and now >= self._until

    def leave(self) -> None:
        """Goes back to the leader, which may name a follower again."""
        self.node = NO_LEADER

    def avoid(self, now: float, lease_s: float) -> None:
        """Goes back to the leader, since the follower failed."""
        self.node, self.leader_only_until = NO_LEADER, now + lease_s
