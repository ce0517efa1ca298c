"""What the target lacks of a flow's topics: decided on plain data, for `creations` and for whoever explains.

Invariants: everything here is pure; a target topic belongs to one source topic; a topic that exists on the target is
used as it is, and is never shrunk; one that is not the flow's copy (``own_copies``) gets no partitions.

Reference: MirrorMaker 2's ``MirrorSourceConnector`` (``computeAndCreateTopicPartitions``, ``targetConfig``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Change, Sign
from sparkmirror.duties.properties import at_creation
from sparkmirror.duties.topics import NOTHING_BEGUN, Begun, remote_topic, targets
from sparkmirror.kafka.admin import BROKER_DEFAULT, NewTopic, TopicDescription
from sparkmirror.kafka.configs import ConfigEntry
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.naming import (
    MAX_TOPIC_NAME,
    ConfigPropertyFilter,
    config_property_filter,
    internal_topic,
    policy_for,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a round saw.

    Attributes:
        flow: the flow.
        source: the topics that it copies, as the source has them.
        homeward: copies of the target's own topics that it reads for what others wrote to them, as the source has them.
        target: all topics of the target.
        configs: properties of those source topics that the target lacks.
        unreadable: why there are none, for some of them.
        known_properties: the topic properties that the target's brokers know; empty when it has no topic to ask about.
        begun: the source topics of which copies have begun, as far as that is known when the round begins.
        others: those of the target topics with fewer partitions than the source's that are not the flow's copies.
    """

    flow: FlowConfig
    source: Mapping[str, TopicDescription] = field(default_factory=dict)
    homeward: Mapping[str, TopicDescription] = field(default_factory=dict)
    target: Mapping[str, TopicDescription] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, ConfigEntry]] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    known_properties: frozenset[str] = frozenset()
    begun: Begun = NOTHING_BEGUN
    others: frozenset[str] = frozenset()

    @property
    def grown(self) -> tuple[tuple[str, str], ...]:
        """The source topics that have more partitions than the topics of the target that they lead to, with those."""
        return tuple(
            (source, target)
            for source, target, rival in targets(self.flow, self.source, self.begun)
            if rival is None and target in self.target and _count(self.source[source]) > _count(self.target[target])
        )

    @property
    def pairs(self) -> tuple[tuple[TopicPartition, TopicPartition], ...]:
        """The partitions to copy, source and target, in order: those that exist on both sides."""
        return tuple(
            (TopicPartition(source, partition), TopicPartition(target, partition))
            for source, target, rival in targets(self.flow, self.source, self.begun)
            if rival is None and target in self.target
            for partition in sorted(self.source[source].partitions)
            if partition in self.target[target].partitions
        )

    @property
    def homeward_pairs(self) -> tuple[tuple[TopicPartition, TopicPartition], ...]:
        """The partitions of copies with their originals, in order: those that exist on both sides."""
        return tuple(
            (TopicPartition(copy, partition), TopicPartition(original, partition))
            for copy in sorted(self.homeward)
            for original in [remote_topic(self.flow, copy)]
            if not not_home(self, copy)
            for partition in sorted(self.homeward[copy].partitions)
            if partition in self.target[original].partitions
        )

    @property
    def without_original(self) -> tuple[TopicPartition, ...]:
        """The partitions of copies that their originals have not, in order."""
        return tuple(
            TopicPartition(copy, partition)
            for copy in sorted(self.homeward)
            if not not_home(self, copy)
            for partition in sorted(self.homeward[copy].partitions)
            if partition not in self.target[remote_topic(self.flow, copy)].partitions
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """The target lacks a topic.

    Attributes:
        cluster: the target.
        source, topic: the topic and its copy.
        partitions: how many it shall have.
        replication_factor: of it; -1 means the broker's default.
        configs: properties that it is created with.
        left_out: properties that are set at the source and that the target's brokers do not know.
    """

    cluster: Alias
    source: str
    topic: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def change(self) -> Change:
        """A line for the copy."""
        unknown = (f"(without {name}, which its brokers do not know)" for name in self.left_out)
        return creation(self.cluster, self.new_topic, after=tuple(unknown))

    @property
    def new_topic(self) -> NewTopic:
        """The copy, as it is created."""
        factor = self.replication_factor
        return NewTopic(name=self.topic, partitions=self.partitions, replication_factor=factor, configs=self.configs)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """A copy has fewer partitions than the source topic: ``partitions`` is what it shall have."""

    cluster: Alias
    source: str
    topic: str
    present: int
    partitions: int

    @property
    def change(self) -> Change:
        """A line for the copy."""
        detail = f"partitions: {self.present} -> {self.partitions}"
        return Change(cluster=self.cluster, sign=Sign.CHANGE, what=f"topic {self.topic}", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """A topic that the flow should copy and cannot."""

    cluster: Alias
    source: str
    topic: str
    reason: str

    @property
    def change(self) -> Change:
        """A line for the copy that is not made."""
        detail = f"{self.source} is not copied: {self.reason}"
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=f"topic {self.topic}", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepPartitions:
    """A topic that is not the flow's copy has fewer partitions than the source topic, and gets no more."""

    cluster: Alias
    source: str
    topic: str
    present: int
    partitions: int

    @property
    def reason(self) -> str:
        """Why, and what can be done about it."""
        return (
            f"partitions from {self.present} on of {self.source} are not copied: {self.topic} holds records that this "
            f"flow has not copied, or held some when the flow began, so it gets no partitions; add them yourself, or "
            f"set topics.append = {self.source} if it is the copy"
        )

    @property
    def change(self) -> Change:
        """A line for the topic."""
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=f"topic {self.topic}", detail=self.reason)


Action = CreateTopic | AddPartitions | KeepPartitions | Skip


def decide(observed: Observed) -> tuple[Action, ...]:
    """What must be done so that the target has every topic of the flow; nothing when it has."""
    cluster = observed.flow.target.alias
    properties = config_property_filter(observed.flow)
    actions: list[Action] = []
    for source, topic, rival in targets(observed.flow, observed.source, observed.begun):
        reason = _obstacle(observed, source, topic, rival)
        if reason:
            actions.append(Skip(cluster=cluster, source=source, topic=topic, reason=reason))
        elif topic not in observed.target:
            actions.append(_creation(observed, source, topic, properties))
        elif (total := _count(observed.source[source])) > (present := _count(observed.target[topic])):
            kind = KeepPartitions if topic in observed.others else AddPartitions
            actions.append(kind(cluster=cluster, source=source, topic=topic, present=present, partitions=total))
    return tuple(actions)


def not_home(observed: Observed, copy: str) -> str:
    """Why nothing can go home from a copy, as far as the topics of the target tell; "" where something can."""
    flow = observed.flow
    original = remote_topic(flow, copy)
    if original not in observed.target:
        return f"its original, {original}, is not on {flow.target.alias}, and is not made there for a copy's sake"
    before = policy_for(flow.policy, flow.source.alias).topic_source(original)
    if before is not None:
        maker = FlowName(source=before, target=flow.target.alias)
        if internal_topic(maker) in observed.target:
            return f"its original, {original}, is itself a copy, made by {maker}"
    return ""


def creation(cluster: Alias, topic: NewTopic, *, before: Sequence[str] = (), after: Sequence[str] = ()) -> Change:
    """A line for a topic that is created, with what else there is to say of it."""
    factor = "the brokers' default" if topic.replication_factor == BROKER_DEFAULT else topic.replication_factor
    said = [*before, f"partitions: {topic.partitions}", f"replication factor: {factor}"]
    said += [f"{name}: {value}" for name, value in topic.configs]
    return Change(cluster=cluster, sign=Sign.ADD, what=f"topic {topic.name}", detail=", ".join([*said, *after]))


def _obstacle(observed: Observed, source: str, target: str, rival: str | None) -> str:
    if rival is not None and rival not in observed.source:
        return (
            f"{target} is the copy of {rival}, which the flow does not copy any more: exclude {source} too with "
            f"topics.exclude; or, where nobody needs these records, delete {target}, which is created again then"
        )
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


def _creation(observed: Observed, source: str, topic: str, properties: ConfigPropertyFilter) -> CreateTopic:
    entries = at_creation(observed.configs.get(source, {}), properties, observed.flow.use_defaults_from)
    unknown = {name for name in entries if observed.known_properties and name not in observed.known_properties}
    return CreateTopic(
        cluster=observed.flow.target.alias,
        source=source,
        topic=topic,
        partitions=_count(observed.source[source]),
        replication_factor=observed.flow.replication_factor,
        configs=tuple((name, value) for name, value in entries.items() if name not in unknown),
        left_out=tuple(sorted(unknown)),
    )


def _count(topic: TopicDescription) -> int:
    return len(topic.partitions)
