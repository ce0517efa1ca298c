"""Which topics a flow copies, and what their copies are called: for every duty that has to do with topics.

Invariants: no cluster is asked here; a target topic belongs to one source topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sparkmirror.config import FlowConfig
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.naming import policy_for, should_replicate, topic_filter


def choose(flow: FlowConfig, topics: Mapping[str, TopicDescription]) -> dict[str, TopicDescription]:
    """The topics of the source that the flow copies, by name in order.

    None is copied onto the flow's own dead letters: under identity naming two flows between the same clusters may give
    one name to theirs.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    return {name: topics[name] for name in wanted(flow, topics)}


def wanted(flow: FlowConfig, names: Iterable[str]) -> list[str]:
    """Those of the names that the flow copies where the source has such a topic, in order.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    policy, chosen = policy_for(flow.policy, flow.source.alias), topic_filter(flow)
    found = [name for name in sorted(set(names)) if should_replicate(name, flow, policy, chosen).replicate]
    if flow.dead_letters.active:
        reserved = flow.dead_letters.topic
        found = [name for name in found if policy.format_remote_topic(flow.source.alias, name) != reserved]
    return found


def remote_topic(flow: FlowConfig, topic: str) -> str:
    """The name on the target of a source topic."""
    return policy_for(flow.policy, flow.source.alias).format_remote_topic(flow.source.alias, topic)


def targets(flow: FlowConfig, sources: Iterable[str]) -> Iterator[tuple[str, str, str | None]]:
    """Each source topic with its name on the target, and the source topic that has that name already, or None."""
    policy = policy_for(flow.policy, flow.source.alias)
    owners: dict[str, str] = {}
    for source in sorted(sources):
        target = policy.format_remote_topic(flow.source.alias, source)
        owner = owners.setdefault(target, source)
        yield source, target, None if owner == source else owner
