"""What a topic's name tells of the clusters that it has come through.

Invariant: a policy that gives every topic the same source is no endless loop.

Reference: ``MirrorClient.allSources``, ``MirrorClient.countHopsForTopic``.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.model import Alias
from sparkmirror.naming.policies import ReplicationPolicy

NO_WAY = -1
"""Hops from a cluster that a topic has not come through."""


def sources(policy: ReplicationPolicy, topic: str) -> tuple[Alias, ...]:
    """The clusters that the topic has come through, the nearest first, each once."""
    return tuple(_way(policy, topic))


def hops(policy: ReplicationPolicy, topic: str, upstream: Alias) -> int:
    """Over how many flows the topic has come from ``upstream``, or `NO_WAY`."""
    for number, source in enumerate(_way(policy, topic), start=1):
        if source == upstream:
            return number
    return NO_WAY


def _way(policy: ReplicationPolicy, topic: str) -> Iterator[Alias]:
    seen: set[Alias] = set()
    name: str | None = topic
    while name is not None and (source := policy.topic_source(name)) is not None and source not in seen:
        yield source
        seen.add(source)
        name = policy.upstream_topic(name)
