"""Which topics a flow copies, and what their copies are called: for every duty that has to do with topics.

Beside these a flow may read copies of its target's own topics, for what others wrote to them (*homeward* topics). The
target's topic is the original: whoever creates, configures or deletes copies must not ask for these.

Invariants: no cluster is asked here; a target topic belongs to one source topic.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from sparkmirror.config import FlowConfig
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.topic_ids import in_hexadecimal
from sparkmirror.model import TopicPartition
from sparkmirror.naming import Decision, append_filter, homeward_original, policy_for, should_replicate, topic_filter
from sparkmirror.offsets.records import FlowRecord, Progress


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
    policy = policy_for(flow.policy, flow.source.alias)
    found = [name for name, decision in _decisions(flow, names) if decision.replicate]
    if flow.dead_letters.active:
        reserved = flow.dead_letters.topic
        found = [name for name in found if policy.format_remote_topic(flow.source.alias, name) != reserved]
    return found


def withheld(flow: FlowConfig, names: Iterable[str]) -> list[tuple[str, Decision]]:
    """Those of the names that `topics` has and that are not copied for what they are, in order, and why.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    of_interest = (Decision.DIVERGENT, Decision.RESERVED)
    return [(name, decision) for name, decision in _decisions(flow, names) if decision in of_interest]


def homeward(flow: FlowConfig, names: Iterable[str]) -> list[str]:
    """Those of the names that the flow reads for what others wrote to them, in order.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    if not flow.brings_home:
        return []
    reserved = flow.dead_letters.topic if flow.dead_letters.active else ""
    found = (name for name, decision in _decisions(flow, names) if decision is Decision.HOMEWARD)
    return [name for name in found if remote_topic(flow, name) != reserved]


def read(flow: FlowConfig, names: Iterable[str], begun: Iterable[TopicPartition]) -> list[str]:
    """Those of the names that the flow copies, and the homeward ones that it has begun with, in order.

    Args:
        flow: the flow.
        names: of source topics.
        begun: partitions with a position on record.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    known = {place.topic for place in begun}
    names = list(names)
    return sorted({*wanted(flow, names), *(name for name in homeward(flow, names) if name in known)})


def left_out(flow: FlowConfig, begun: Iterable[TopicPartition]) -> list[str]:
    """The source topics that the flow has begun with and does not copy any more, as it is configured, in order.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    known = {place.topic for place in begun}
    return sorted(known.difference(read(flow, known, begun)))


def left_out_since(flow: FlowConfig, told: FlowRecord | None, begun: Iterable[TopicPartition]) -> list[str]:
    """Those of `left_out` that the flow's newest run has copied: the configuration has changed since, in order.

    Args:
        flow: the flow, as it is configured.
        told: its record, with what that run was to copy; releases before have not told it.
        begun: partitions with a position on record.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    begun = tuple(begun)
    without = left_out(flow, begun)
    return read(as_told(flow, told), without, begun) if without and told is not None and told.topics else []


def as_told(flow: FlowConfig, told: FlowRecord) -> FlowConfig:
    """The flow with the topics that its newest run was to copy."""
    return replace(flow, topics=told.topics, topics_exclude=told.topics_exclude, homeward=told.homeward)


def places(
    flow: FlowConfig, topics: Mapping[str, TopicDescription], begun: Container[TopicPartition]
) -> list[TopicPartition]:
    """The partitions that the flow copies, and the homeward ones that it has begun with, in order.

    Args:
        flow: the flow.
        topics: of the source.
        begun: partitions with a position on record.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    copied = [TopicPartition(name, number) for name in wanted(flow, topics) for number in topics[name].partitions]
    home = (TopicPartition(name, number) for name in homeward(flow, topics) for number in topics[name].partitions)
    return sorted([*copied, *(place for place in home if place in begun)])


def is_homeward(flow: FlowConfig, topic: str) -> bool:
    """Whether a source topic that the flow reads is a copy of the target's own."""
    return homeward_original(topic, flow, policy_for(flow.policy, flow.source.alias)) is not None


def remote_topic(flow: FlowConfig, topic: str) -> str:
    """The name on the target of a source topic."""
    policy = policy_for(flow.policy, flow.source.alias)
    return homeward_original(topic, flow, policy) or policy.format_remote_topic(flow.source.alias, topic)


def copy_of(flow: FlowConfig, topic: str) -> str:
    """The name on the source of the copy that the flow the other way makes of a topic of the target."""
    return policy_for(flow.policy, flow.source.alias).format_remote_topic(flow.target.alias, topic)


def unclaimed(flow: FlowConfig, places: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Those of the partitions of which nobody has said that their copies may hold records of others when they begin.

    What homeward topics lead to is the target's own. That a name ends in ``heartbeats`` says nothing: clients of the
    source choose names.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    appended, some = append_filter(flow), set(places)
    free = {
        topic for topic in {here.topic for here in some} if not (is_homeward(flow, topic) or appended.matches(topic))
    }
    return {here for here in some if here.topic in free and not flow.start.chosen(*here)}


def is_heartbeats(flow: FlowConfig, topic: str) -> bool:
    """Whether a source topic has heartbeats, which mirrors write without end: no copy of them is ever complete."""
    return policy_for(flow.policy, flow.source.alias).is_heartbeats_topic(topic)


def original_of(flow: FlowConfig, topic: str) -> str | None:
    """The topic of the target of which a source topic is a direct copy, as its name tells; None for any other."""
    policy = policy_for(flow.policy, flow.source.alias)
    if flow.policy.keeps_names or policy.topic_source(topic) != flow.target.alias:
        return None
    return policy.upstream_topic(topic)


def _decisions(flow: FlowConfig, names: Iterable[str]) -> Iterator[tuple[str, Decision]]:
    policy, chosen, ordered = policy_for(flow.policy, flow.source.alias), topic_filter(flow), sorted(set(names))
    chosen.learn(ordered)
    return ((name, should_replicate(name, flow, policy, chosen)) for name in ordered)


class Begun(NamedTuple):
    """Source topics of which copies have begun, whether the flow copies them still or not.

    Attributes:
        topics: all of them.
        there: those whose copies are on the target, and are the topics that the flow has copied to.
    """

    topics: frozenset[str] = frozenset()
    there: frozenset[str] = frozenset()


NOTHING_BEGUN = Begun()


def begun_in(
    flow: FlowConfig, progress: Mapping[TopicPartition, Progress], target: Mapping[str, TopicDescription]
) -> Begun:
    """Whose copies have begun; homeward topics lead to the target's own ones, and hold no name.

    Args:
        flow: the flow.
        progress: of its partitions, as it is on record.
        target: topics of the target.
    """
    ids: dict[str, set[str]] = {}
    for place, one in progress.items():
        ids.setdefault(place.topic, set()).add(one.target_id)
    copies = {name: remote_topic(flow, name) for name in ids if not is_homeward(flow, name)}
    there = {
        name
        for name, copy in copies.items()
        if copy in target and _is_one_of(in_hexadecimal(target[copy].topic_id), ids[name])
    }
    return Begun(frozenset(copies), frozenset(there))


def targets(
    flow: FlowConfig, sources: Iterable[str], begun: Begun = NOTHING_BEGUN
) -> Iterator[tuple[str, str, str | None]]:
    """Each source topic with its name on the target, and the source topic that has that name already, or None.

    Args:
        flow: the flow.
        sources: names of source topics.
        begun: those of which copies have begun: no other one takes the name from them, nor, while the copy is there,
            from one that is not among the sources any more.
    """
    policy, ours = policy_for(flow.policy, flow.source.alias), set(sources)
    named = [(name, policy.format_remote_topic(flow.source.alias, name)) for name in sorted(ours | begun.there)]
    owners: dict[str, str] = {}
    for name, target in sorted(named, key=lambda pair: _rank(pair[0], ours, begun)):
        owners.setdefault(target, name)
    for name, target in named:
        if name in ours:
            yield name, target, None if owners[target] == name else owners[target]


def _is_one_of(topic_id: str, known: Container[str]) -> bool:
    """Whether a topic is one that the flow has copied to, as far as the ids tell."""
    return topic_id in known or "" in known or not topic_id


def _rank(name: str, ours: Container[str], begun: Begun) -> tuple[bool, bool, bool]:
    """The least has the name."""
    return name not in begun.there, name not in begun.topics, name not in ours
