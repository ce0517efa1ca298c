"""Keeps the properties of copies like those of their source topics.

One round: ask both clusters for the properties of every topic that is copied and exists on both, decide what differs,
change that and nothing else. MirrorMaker 2 sends every property in each round; the result is the same.

Invariants: `decide` is pure; a property is changed by itself, the others of the topic stay as they are; one that is
refused does not stop the others; with ``sync.topic.configs.drift=report`` nothing is changed, only told; a target topic
that is not the flow's copy (``own_copies``) is left alone.

Reference: ``MirrorSourceConnector.syncTopicConfigs``; the rule for one property is in ``duties.properties``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.config import Drift, FlowConfig
from sparkmirror.duties.duty import Change, Result, Sides, Sign
from sparkmirror.duties.notes import Notes
from sparkmirror.duties.own_copies import NotOurs, of_others
from sparkmirror.duties.properties import Wish, wish
from sparkmirror.duties.topics import begun_in, choose, targets
from sparkmirror.errors import BrokerError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import Alteration, ConfigEntry, ConfigSource, alter_configs, describe_configs
from sparkmirror.model import Alias
from sparkmirror.naming import config_property_filter

_REFUSED = frozenset({40, 42, 44})
"""INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION: what is asked for will not do."""

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a round saw.

    Attributes:
        flow: the flow.
        pairs: source topics with their copies, where both exist.
        source: properties of the source topics.
        target: properties of the copies.
        unreadable: (cluster, topic) whose properties cannot be read, and why.
        others: target topics with the names of copies that are none; they are no part of ``pairs``.
    """

    flow: FlowConfig
    pairs: tuple[tuple[str, str], ...]
    source: Mapping[str, Mapping[str, ConfigEntry]]
    target: Mapping[str, Mapping[str, ConfigEntry]]
    unreadable: Mapping[tuple[Alias, str], str] = field(default_factory=dict)
    others: tuple[NotOurs, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """A property of a copy is not what the source says.

    Attributes:
        cluster: the target.
        topic: the copy.
        name: of the property.
        present: its value there, for people.
        value: what it shall be; None: whatever the target's default is.
    """

    cluster: Alias
    topic: str
    name: str
    present: str
    value: str | None

    @property
    def change(self) -> Change:
        """A line for the property."""
        detail = f"{self.name}: {self.present} -> {_shown(self.value)}"
        return Change(cluster=self.cluster, sign=Sign.CHANGE, what=f"topic {self.topic}", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Differs:
    """The same, where nothing is to be changed."""

    cluster: Alias
    topic: str
    name: str
    present: str
    source: str

    @property
    def change(self) -> Change:
        """A line for the property."""
        detail = f"{self.name}: {_shown(self.present)}, and {_shown(self.source)} at the source"
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=f"topic {self.topic}", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The target's brokers are of another version and do not know a property that the source has."""

    cluster: Alias
    name: str
    topics: tuple[str, ...] = field(compare=False)

    @property
    def change(self) -> Change:
        """A line for the property, whatever the number of topics."""
        more = len(self.topics) - _NAMED
        named = ", ".join(self.topics[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        detail = f"its brokers do not know it, so it is not copied to {named}"
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=f"topic property {self.name}", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The properties of a topic cannot be read, so nothing is done about its copy."""

    cluster: Alias
    topic: str
    reason: str

    @property
    def change(self) -> Change:
        """A line for the topic."""
        detail = f"its properties cannot be read: {self.reason}"
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=f"topic {self.topic}", detail=detail)


Action = Alter | Differs | Unknown | Unreadable | NotOurs


class TopicConfigs:
    """The duty.

    Args:
        sides: what it works with.
    """

    name = "topic configs"

    def __init__(self, sides: Sides) -> None:
        flow = sides.flow
        self.interval_s = flow.sync_topic_configs_interval_s if flow.sync_topic_configs_enabled else None
        self._sides = sides
        self._notes: Notes[Differs | Unknown | NotOurs] = Notes()

    def look(self) -> tuple[Action, ...]:
        """Observes and decides.

        Raises:
            LinkError: a cluster cannot be asked.
        """
        found = decide(observe(self._sides))
        self._notes.stand(action for action in found if isinstance(action, Differs | Unknown | NotOurs))
        return found

    def apply(self, actions: Sequence[Action]) -> tuple[Result, ...]:
        """Changes what is to be changed; what is only told, is told once while it lasts."""
        wanted = [action for action in actions if isinstance(action, Alter)]
        failed = alter(self._sides.target, wanted, self._sides.flow.admin_timeout_ms)
        return tuple(self._results(actions, failed))

    def _results(self, actions: Sequence[Action], failed: Mapping[Alter, str]) -> Iterator[Result]:
        for action in actions:
            if isinstance(action, Alter):
                yield Result(action=action, failure=failed.get(action, ""))
            elif isinstance(action, Unreadable):
                yield Result(action=action, failure=action.reason)
            elif self._notes.tell(action):
                yield Result(action=action)


def observe(sides: Sides) -> Observed:
    """Looks at both clusters.

    Raises:
        ConfigError: an expression of the flow cannot be used.
        LinkError: one of the clusters cannot be asked.
    """
    flow, source, target, timeout_ms = sides.flow, sides.source, sides.target, sides.flow.admin_timeout_ms
    chosen = choose(flow, admin.list_topics(source, timeout_ms=timeout_ms))
    existing = admin.list_topics(target, timeout_ms=timeout_ms)
    begun = begun_in(flow, sides.progress, existing)
    ours = ((here, there) for here, there, rival in targets(flow, chosen, begun) if rival is None)
    named = [(here, there) for here, there in ours if there in existing]
    others = of_others(sides, named, existing)
    left_alone = {one.topic for one in others}
    pairs = tuple((here, there) for here, there in named if there not in left_alone)
    at_source = describe_configs(source, [here for here, _ in pairs], timeout_ms)
    at_target = describe_configs(target, [there for _, there in pairs], timeout_ms)
    unreadable = {(flow.source.alias, topic): str(failure) for topic, failure in at_source.failed.items()}
    unreadable |= {(flow.target.alias, topic): str(failure) for topic, failure in at_target.failed.items()}
    return Observed(
        flow=flow, pairs=pairs, source=at_source.found, target=at_target.found, unreadable=unreadable, others=others
    )


def decide(observed: Observed) -> tuple[Action, ...]:
    """What must be changed, or told, so that each copy has the properties that its source topic gives it."""
    flow, cluster = observed.flow, observed.flow.target.alias
    actions: list[Action] = [
        Unreadable(cluster=where, topic=topic, reason=reason) for (where, topic), reason in observed.unreadable.items()
    ]
    unknown: dict[str, list[str]] = defaultdict(list)
    for topic, name, wanted, here, there in _wishes(observed):
        if there is None and wanted is Wish.SOURCE:
            unknown[name].append(topic)
        elif there is None or _is_so(wanted, here, there):
            continue
        elif flow.sync_topic_configs_drift is Drift.MEND:
            value = here.value if wanted is Wish.SOURCE else None
            actions.append(Alter(cluster=cluster, topic=topic, name=name, present=_present(there), value=value))
        elif here.value != there.value:
            differs = Differs(
                cluster=cluster, topic=topic, name=name, present=there.value or "", source=here.value or ""
            )
            actions.append(differs)
    actions += observed.others
    actions += [Unknown(cluster=cluster, name=name, topics=tuple(topics)) for name, topics in unknown.items()]
    return tuple(actions)


def _wishes(observed: Observed) -> Iterator[tuple[str, str, Wish, ConfigEntry, ConfigEntry | None]]:
    """Copy and property, what the source means for it, and how both sides have it."""
    flow, properties = observed.flow, config_property_filter(observed.flow)
    for source, topic in observed.pairs:
        if source not in observed.source or topic not in observed.target:
            continue
        for name, here in sorted(observed.source[source].items()):
            wanted = wish(name, here, properties, flow.use_defaults_from)
            if wanted is not Wish.LEAVE:
                yield topic, name, wanted, here, observed.target[topic].get(name)


def _is_so(wanted: Wish, here: ConfigEntry, there: ConfigEntry) -> bool:
    """A value counts when it is the topic's own: the same as a default of the target may change with that."""
    own = there.source is ConfigSource.TOPIC
    return own and there.value == here.value if wanted is Wish.SOURCE else not own


def alter(target: Cluster, wanted: Sequence[Alter], timeout_ms: int) -> dict[Alter, str]:
    """Changes properties of copies; gives those that were not changed, and why.

    A cluster takes all changes of a topic or none. Where it refuses some that came together, each is sent alone.
    """
    by_topic: dict[str, list[Alter]] = defaultdict(list)
    for one in wanted:
        by_topic[one.topic].append(one)
    failed, doubtful = _send(target, by_topic, timeout_ms)
    for number in range(max(map(len, doubtful.values()), default=0)):
        alone = {topic: some[number : number + 1] for topic, some in doubtful.items() if number < len(some)}
        failed |= _send(target, alone, timeout_ms)[0]
    return failed


def _send(
    target: Cluster, wanted: Mapping[str, list[Alter]], timeout_ms: int
) -> tuple[dict[Alter, str], dict[str, list[Alter]]]:
    """What failed, and what was refused together with others."""
    sent = {topic: [Alteration(one.name, one.value) for one in some] for topic, some in wanted.items()}
    failed: dict[Alter, str] = {}
    doubtful: dict[str, list[Alter]] = {}
    for topic, failure in alter_configs(target, sent, timeout_ms).failed.items() if sent else ():
        some = wanted[topic]
        refused = isinstance(failure, BrokerError) and failure.code in _REFUSED
        if refused and len(some) > 1:
            doubtful[topic] = some
        elif refused:
            failed[some[0]] = f"{some[0].name} cannot be {_shown(some[0].value)}: {failure}"
        else:
            failed |= dict.fromkeys(some, str(failure))
    return failed, doubtful


def _present(entry: ConfigEntry) -> str:
    inherited = "" if entry.source is ConfigSource.TOPIC else " (default)"
    return _shown(entry.value or "") + inherited


def _shown(value: str | None) -> str:
    return "the default" if value is None else value or "(empty)"
