"""What the copies of a run are called."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

_IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class Naming(StrEnum):
    """The replication policy of all flows: DefaultReplicationPolicy, or IdentityReplicationPolicy."""

    RENAMED = "renamed"
    KEPT = "kept"

    def copy(self, source: str, topic: str) -> str:
        """The copy's name, of a topic of the cluster with this alias."""
        return topic if self is Naming.KEPT else f"{source}.{topic}"

    @property
    def settings(self) -> Mapping[str, str]:
        """What the mirror's configuration says of it."""
        return {"replication.policy.class": _IDENTITY} if self is Naming.KEPT else {}
