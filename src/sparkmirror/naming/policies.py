"""What a topic of the source is called on the target, and what a name tells of where a topic came from.

Invariants: the answers are MirrorMaker 2 4.3.1's for every name, since files, dashboards and clients rely on them;
tests hold a table that its classes printed. The heartbeats topic is named with the prefix under every policy, because
by it clients find out over how many hops a cluster is reached.

Reference: ``ReplicationPolicy``, ``DefaultReplicationPolicy``, ``IdentityReplicationPolicy``; KIP-382, KIP-690,
KIP-949 (separator of internal topics), KIP-1074 (users' own topics that end in ``.internal`` are replicated).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sparkmirror.model import Alias

HEARTBEATS_TOPIC = "heartbeats"


class ReplicationPolicy(Protocol):
    """How topics are named on the target."""

    def format_remote_topic(self, source_alias: Alias, topic: str) -> str:
        """The name on the target of a source topic."""

    def topic_source(self, topic: str) -> Alias | None:
        """The cluster that a topic was copied from, as its name tells; None: it was not copied."""

    def upstream_topic(self, topic: str) -> str | None:
        """The name that the topic has on the cluster it was copied from; None: it was not copied."""

    def original_topic(self, topic: str) -> str:
        """The name that the topic has on the first cluster of the chain."""

    def is_internal_topic(self, topic: str) -> bool:
        """Whether it belongs to Kafka, MirrorMaker 2 or sparkmirror, and so is never copied."""

    def heartbeats_topic(self) -> str:
        """The topic of heartbeats that each cluster has of its own."""

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether it is the heartbeats topic or a copy of one."""

    def is_cycle(self, topic: str, target_alias: Alias) -> bool:
        """Whether the topic has been on the target before, as its name tells."""

    def offset_syncs_topic(self, other: Alias) -> str:
        """MirrorMaker 2's topic of offset syncs; ``other`` is the cluster of the flow that it does not lie on."""

    def checkpoints_topic(self, source_alias: Alias) -> str:
        """MirrorMaker 2's topic of checkpoints, which lies on the target."""

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether it is named like one of checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultReplicationPolicy:
    """``topic`` of cluster ``A`` is ``A.topic`` on the target.

    Attributes:
        separator: between alias and topic.
        internal_separator: before the last words of MirrorMaker 2's internal topics.
    """

    separator: str = "."
    internal_separator: str = "."

    def format_remote_topic(self, source_alias: Alias, topic: str) -> str:
        """Puts the source's alias before the name."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> Alias | None:
        """The part before the first separator, if something other than separators follows it."""
        first, *rest = topic.split(self.separator)
        return Alias(first) if any(rest) else None

    def upstream_topic(self, topic: str) -> str | None:
        """What follows the first separator."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """What is left when all aliases are taken off."""
        return _original(self, topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Whether it is Kafka's, MirrorMaker 2's or sparkmirror's own."""
        return _is_internal(topic, self.internal_separator)

    def heartbeats_topic(self) -> str:
        """``heartbeats``."""
        return HEARTBEATS_TOPIC

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the original name is ``heartbeats``."""
        return self.original_topic(topic) == HEARTBEATS_TOPIC

    def is_cycle(self, topic: str, target_alias: Alias) -> bool:
        """Whether the target is among the aliases before the name."""
        return _is_cycle(self, topic, target_alias)

    def offset_syncs_topic(self, other: Alias) -> str:
        """``mm2-offset-syncs.<other>.internal``."""
        return f"mm2-offset-syncs{self.internal_separator}{other}{self.internal_separator}internal"

    def checkpoints_topic(self, source_alias: Alias) -> str:
        """``<source>.checkpoints.internal``."""
        return source_alias + self._checkpoints

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether it ends like one of checkpoints."""
        return topic.endswith(self._checkpoints)

    @property
    def _checkpoints(self) -> str:
        return f"{self.internal_separator}checkpoints{self.internal_separator}internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityReplicationPolicy:
    """Topics keep their names, but for those that end in ``heartbeats``: these are named as the default policy does.

    Cycles cannot be told from names; the writers of batches tell them (`sparkmirror.writers.internal`).

    Attributes:
        source_alias: the cluster that every topic is said to come from.
        default: names the heartbeats topics.
    """

    source_alias: Alias
    default: DefaultReplicationPolicy = DefaultReplicationPolicy()

    def format_remote_topic(self, source_alias: Alias, topic: str) -> str:
        """The same name, except for heartbeats."""
        return self.default.format_remote_topic(source_alias, topic) if _like_heartbeats(topic) else topic

    def topic_source(self, topic: str) -> Alias | None:
        """The configured source, except for heartbeats."""
        return self.default.topic_source(topic) if _like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """The same name, except for heartbeats."""
        return self.default.upstream_topic(topic) if _like_heartbeats(topic) else topic

    def original_topic(self, topic: str) -> str:
        """The same name, except for heartbeats."""
        return _original(self, topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Whether it is Kafka's, MirrorMaker 2's or sparkmirror's own."""
        return self.default.is_internal_topic(topic)

    def heartbeats_topic(self) -> str:
        """``heartbeats``."""
        return HEARTBEATS_TOPIC

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the original name is ``heartbeats``."""
        return self.original_topic(topic) == HEARTBEATS_TOPIC

    def is_cycle(self, topic: str, target_alias: Alias) -> bool:
        """Whether a heartbeats topic has the target among its aliases; never for other topics."""
        return _is_cycle(self, topic, target_alias)

    def offset_syncs_topic(self, other: Alias) -> str:
        """As the default policy names it."""
        return self.default.offset_syncs_topic(other)

    def checkpoints_topic(self, source_alias: Alias) -> str:
        """As the default policy names it."""
        return self.default.checkpoints_topic(source_alias)

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether it ends like one of checkpoints."""
        return self.default.is_checkpoints_topic(topic)


def _original(policy: ReplicationPolicy, topic: str) -> str:
    while (upstream := policy.upstream_topic(topic)) is not None and upstream != topic:
        topic = upstream
    return topic


def _is_cycle(policy: ReplicationPolicy, topic: str, target_alias: Alias) -> bool:
    while (source := policy.topic_source(topic)) is not None:
        if source == target_alias:
            return True
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:
            return False
        topic = upstream
    return False


def _is_internal(topic: str, separator: str) -> bool:
    suffix = f"{separator}internal"
    if topic.startswith(("__", ".")) or topic.endswith(f"{separator}checkpoints{suffix}"):
        return True
    own = topic.startswith("sparkmirror.") and topic.endswith(".internal")
    return own or (topic.startswith("mm2") and topic.endswith(suffix))


def _like_heartbeats(topic: str) -> bool:
    return topic.endswith(HEARTBEATS_TOPIC)
