"""The topics of a flow: which are copied, and that the target has them with as many partitions.

Invariants: `decide` is pure; a topic that cannot be had is reported and does not stop the others; nothing is ever
deleted, shrunk or, once it exists, configured anew here; a target topic belongs to one source topic; a topic that
exists on the target is used as it is.

Reference: MirrorMaker 2's ``MirrorSourceConnector`` (``computeAndCreateTopicPartitions``, ``targetConfig``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sparkmirror.config import FlowConfig
from sparkmirror.duties.properties import at_creation
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic, TopicDescription
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import ConfigEntry, describe_configs
from sparkmirror.kafka.rounds import ADMIN_MS
from sparkmirror.model import TopicPartition
from sparkmirror.naming import (
    MAX_TOPIC_NAME,
    ConfigPropertyFilter,
    config_property_filter,
    policy_for,
    should_replicate,
    topic_filter,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a round saw.

    Attributes:
        flow: the flow.
        source: the topics that it copies, as the source has them.
        target: all topics of the target.
        configs: properties of those source topics that the target lacks.
        unreadable: why there are none, for some of them.
        known_properties: the topic properties that the target's brokers know; empty when it has no topic to ask about.
    """

    flow: FlowConfig
    source: Mapping[str, TopicDescription]
    target: Mapping[str, TopicDescription]
    configs: Mapping[str, Mapping[str, ConfigEntry]]
    unreadable: Mapping[str, str]
    known_properties: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """The target lacks a topic.

    Attributes:
        left_out: properties that are set at the source and that the target's brokers do not know.
    """

    source: str
    target: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """The target topic has fewer partitions than the source topic."""

    source: str
    target: str
    present: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A topic that the flow should copy and cannot."""

    source: str
    target: str
    reason: str


Action = CreateTopic | AddPartitions | Skip


class Outcome(Enum):
    """What became of an action."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of an action, and why."""

    action: Action
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of this duty: what there is now, and what became of what was missing."""

    observed: Observed
    results: tuple[Result, ...]

    @property
    def pairs(self) -> tuple[tuple[TopicPartition, TopicPartition], ...]:
        """The partitions to copy, source and target, in order."""
        return pairs(self.observed)

    @property
    def problems(self) -> tuple[Result, ...]:
        """The topics that should be copied, wholly or partly, and are not."""
        return tuple(result for result in self.results if result.outcome is not Outcome.DONE)


def replicate_topics(flow: FlowConfig, source: Cluster, target: Cluster) -> Round:
    """One round: observes, decides, applies, and observes what has changed.

    Raises:
        ConfigError: an expression of the flow cannot be used.
        LinkError: one of the clusters cannot be asked.
    """
    observed = observe(flow, source, target)
    actions = decide(observed)
    results = apply(actions, target, flow.admin_timeout_ms)
    changed = dict(_size(result.action) for result in results if result.outcome is Outcome.DONE)
    if not changed:
        return Round(observed=observed, results=results)
    now = admin.wait_for_leaders(target, changed, flow.admin_timeout_ms)
    seen = dict(observed.target) | dict(now.found) | admin.list_topics(target, list(now.failed), flow.admin_timeout_ms)
    after = replace(observed, target=seen)
    return Round(observed=after, results=tuple(_seen(result, after) for result in results))


def observe(flow: FlowConfig, source: Cluster, target: Cluster) -> Observed:
    """Looks at both clusters.

    Raises:
        ConfigError: an expression of the flow cannot be used.
        LinkError: one of the clusters cannot be asked.
    """
    chosen = choose(flow, admin.list_topics(source, timeout_ms=flow.admin_timeout_ms))
    existing = admin.list_topics(target, timeout_ms=flow.admin_timeout_ms)
    missing = [topic for topic in chosen if remote_topic(flow, topic) not in existing]
    described = describe_configs(source, missing, flow.admin_timeout_ms)
    return Observed(
        flow=flow,
        source=chosen,
        target=existing,
        configs=described.found,
        unreadable={topic: str(failure) for topic, failure in described.failed.items()},
        known_properties=_known_properties(target, existing, flow) if missing else frozenset(),
    )


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


def decide(observed: Observed) -> tuple[Action, ...]:
    """What must be done so that the target has every topic of the flow; nothing when it has."""
    properties = config_property_filter(observed.flow)
    actions: list[Action] = []
    for source, target, rival in targets(observed.flow, observed.source):
        reason = _obstacle(observed, source, target, rival)
        if reason:
            actions.append(Skip(source=source, target=target, reason=reason))
        elif target not in observed.target:
            actions.append(_creation(observed, source, target, properties))
        elif (total := _count(observed.source[source])) > (present := _count(observed.target[target])):
            actions.append(AddPartitions(source=source, target=target, present=present, total=total))
    return tuple(actions)


def apply(actions: Sequence[Action], target: Cluster, timeout_ms: int = ADMIN_MS) -> tuple[Result, ...]:
    """Carries the actions out on the target; one that fails says why and does not stop the others."""
    creations = [action for action in actions if isinstance(action, CreateTopic)]
    additions = {action.target: action.total for action in actions if isinstance(action, AddPartitions)}
    failed: dict[str, BrokerError | LinkError] = {}
    if creations:
        failed |= admin.create_topics(target, [_new_topic(action) for action in creations], timeout_ms).failed
    if additions:
        failed |= admin.create_partitions(target, additions, timeout_ms).failed
    return tuple(_result(action, failed) for action in actions)


def pairs(observed: Observed) -> tuple[tuple[TopicPartition, TopicPartition], ...]:
    """The partitions to copy, source and target, in order: those that exist on both sides."""
    return tuple(
        (TopicPartition(source, partition), TopicPartition(target, partition))
        for source, target, rival in targets(observed.flow, observed.source)
        if rival is None and target in observed.target
        for partition in sorted(observed.source[source].partitions)
        if partition in observed.target[target].partitions
    )


def _obstacle(observed: Observed, source: str, target: str, rival: str | None) -> str:
    if rival is not None:
        return f"{rival} is copied to {target} already: exclude one of the two with topics.exclude"
    if target in observed.target:
        return ""
    if len(target) > MAX_TOPIC_NAME:
        return (
            f"its name on the target has {len(target)} characters, {MAX_TOPIC_NAME} are allowed: exclude it with "
            "topics.exclude, or use IdentityReplicationPolicy"
        )
    if source in observed.unreadable:
        return f"its configs cannot be read: {observed.unreadable[source]}"
    return ""


def _creation(observed: Observed, source: str, target: str, properties: ConfigPropertyFilter) -> CreateTopic:
    entries = at_creation(observed.configs.get(source, {}), properties, observed.flow.use_defaults_from)
    unknown = {name for name in entries if observed.known_properties and name not in observed.known_properties}
    return CreateTopic(
        source=source,
        target=target,
        partitions=_count(observed.source[source]),
        replication_factor=observed.flow.replication_factor,
        configs=tuple((name, value) for name, value in entries.items() if name not in unknown),
        left_out=tuple(sorted(unknown)),
    )


def _count(topic: TopicDescription) -> int:
    return len(topic.partitions)


def _known_properties(target: Cluster, topics: Mapping[str, TopicDescription], flow: FlowConfig) -> frozenset[str]:
    """Brokers of another version know other properties, and refuse a topic for one that they do not know."""
    for some in sorted(topics, key=lambda name: not name.startswith("sparkmirror."))[:1]:
        described = describe_configs(target, [some], flow.admin_timeout_ms)
        return frozenset(described.found.get(some, {}))
    return frozenset()


def _new_topic(action: CreateTopic) -> NewTopic:
    return NewTopic(
        name=action.target,
        partitions=action.partitions,
        replication_factor=action.replication_factor,
        configs=action.configs,
    )


def _result(action: Action, failed: Mapping[str, BrokerError | LinkError]) -> Result:
    if isinstance(action, Skip):
        return Result(action=action, outcome=Outcome.SKIPPED, reason=action.reason)
    failure = failed.get(action.target)
    if failure is None or (isinstance(failure, BrokerError) and failure.code == admin.TOPIC_ALREADY_EXISTS):
        return Result(action=action, outcome=Outcome.DONE)
    return Result(action=action, outcome=Outcome.FAILED, reason=str(failure))


def _size(action: Action) -> tuple[str, int]:
    """The topic that an action changes on the target, and how many partitions it has then."""
    if isinstance(action, AddPartitions):
        return action.target, action.total
    return action.target, action.partitions if isinstance(action, CreateTopic) else 0


def _seen(result: Result, observed: Observed) -> Result:
    target = result.action.target
    if result.outcome is not Outcome.DONE or target in observed.target:
        return result
    reason = (
        f"cluster {observed.flow.target.alias}, {target}: it was created, or was there before, and cannot be seen: "
        f"allow DESCRIBE on Topic {target} to this user"
    )
    return replace(result, outcome=Outcome.FAILED, reason=reason)
