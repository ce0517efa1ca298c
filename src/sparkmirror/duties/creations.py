"""Sees to it that the target has each topic of a flow, with as many partitions.

Done by the copying at the start, and each time that it looks for new topics: it needs what this duty saw.

Invariants: a topic that cannot be had is reported and does not stop the others; nothing is ever deleted, shrunk or,
once it exists, configured anew here; a topic that is not the flow's copy stays as large as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Result, Sides
from sparkmirror.duties.flow_back import FlowBackRecord
from sparkmirror.duties.missing_topics import Action, AddPartitions, CreateTopic, KeepPartitions, Observed, Skip, decide
from sparkmirror.duties.own_copies import brought_there, of_others
from sparkmirror.duties.topics import begun_in, choose, homeward, remote_topic
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import describe_configs
from sparkmirror.kafka.topic_ids import in_hexadecimal


class TopicCreations:
    """The duty.

    Args:
        sides: what it works with.

    Attributes:
        observed: what its last round saw, with what that changed; nothing before the first.
    """

    name = "topic creations"

    def __init__(self, sides: Sides) -> None:
        flow = sides.flow
        self.interval_s = flow.refresh_topics_interval_s if flow.refresh_topics_enabled else None
        self.observed = Observed(flow=flow)
        self._sides = sides

    def look(self) -> tuple[Action, ...]:
        """Observes and decides.

        Raises:
            ConfigError: an expression of the flow cannot be used.
            LinkError: one of the clusters cannot be asked.
        """
        seen = observe(self._sides.flow, self._sides.source, self._sides.target)
        seen = replace(seen, begun=begun_in(self._sides.flow, self._sides.progress, seen.target))
        self.observed = replace(seen, others=self._others(seen))
        return decide(self.observed)

    def apply(self, actions: Sequence[Action]) -> tuple[Result, ...]:
        """Carries the actions out on the target, and sees what is there then; one that fails does not stop the others.

        Raises:
            LinkError: the target cannot be asked.
        """
        refused = self._carry_out(actions)
        there = {topic for topic, failure in refused.items() if _is_there(failure)}
        failed = {topic: str(failure) for topic, failure in refused.items() if topic not in there}
        due = [
            action
            for action in actions
            if isinstance(action, CreateTopic | AddPartitions) and action.topic not in failed
        ]
        # One that somebody else created is as large as they made it; the next round enlarges it.
        changed = {action.topic: 1 if action.topic in there else action.partitions for action in due}
        if changed:
            self.observed = replace(self.observed, target={**self.observed.target, **self._found(changed)})
        failed |= {topic: self._unseen(topic) for topic in changed if topic not in self.observed.target}
        return tuple(
            Result(
                action=action,
                failure=action.reason if isinstance(action, KeepPartitions | Skip) else failed.get(action.topic, ""),
            )
            for action in actions
        )

    def _others(self, seen: Observed) -> frozenset[str]:
        """The target topics that would get partitions, and are not the flow's copies.

        One that an order is about to have the flow copy to is, and one whose source topic is itself a copy of it.
        """
        sides, store = self._sides, self._sides.store
        ordered = frozenset() if store is None else frozenset(one.partition.topic for one in store.state.moves.values())
        found = of_others(sides, [pair for pair in seen.grown if pair[0] not in ordered], seen.target)
        ids = {one.source: in_hexadecimal(seen.source[one.source].topic_id) for one in found}
        brought = brought_there(FlowBackRecord(sides), [(one.source, one.topic) for one in found], ids)
        return frozenset(one.topic for one in found if one.source not in brought)

    def _carry_out(self, actions: Sequence[Action]) -> dict[str, BrokerError | LinkError]:
        """What the target did not do, by the names of the copies."""
        target, timeout_ms = self._sides.target, self._sides.flow.admin_timeout_ms
        creations = [action.new_topic for action in actions if isinstance(action, CreateTopic)]
        additions = {action.topic: action.partitions for action in actions if isinstance(action, AddPartitions)}
        failed: dict[str, BrokerError | LinkError] = {}
        if creations:
            failed |= admin.create_topics(target, creations, timeout_ms).failed
        if additions:
            failed |= admin.create_partitions(target, additions, timeout_ms).failed
        return failed

    def _found(self, changed: Mapping[str, int]) -> dict[str, TopicDescription]:
        """The copies that were changed, as the target has them once they have leaders."""
        target, timeout_ms = self._sides.target, self._sides.flow.admin_timeout_ms
        now = admin.wait_for_leaders(target, changed, timeout_ms)
        return dict(now.found) | admin.list_topics(target, list(now.failed), timeout_ms)

    def _unseen(self, topic: str) -> str:
        return (
            f"cluster {self._sides.flow.target.alias}, {topic}: it was created, or was there before, and cannot be "
            f"seen: allow DESCRIBE on Topic {topic} to this user"
        )


def problems(results: Sequence[Result]) -> dict[str, str]:
    """The source topics that should be copied, wholly or partly, and are not, and why."""
    actions = ((result.action, result.failure) for result in results if not result.done)
    return {action.source: failure for action, failure in actions if isinstance(action, Action)}


def observe(flow: FlowConfig, source: Cluster, target: Cluster) -> Observed:
    """Looks at both clusters.

    Raises:
        ConfigError: an expression of the flow cannot be used.
        LinkError: one of the clusters cannot be asked.
    """
    listed = admin.list_topics(source, timeout_ms=flow.admin_timeout_ms)
    chosen = choose(flow, listed)
    existing = admin.list_topics(target, timeout_ms=flow.admin_timeout_ms)
    missing = [topic for topic in chosen if remote_topic(flow, topic) not in existing]
    described = describe_configs(source, missing, flow.admin_timeout_ms)
    return Observed(
        flow=flow,
        source=chosen,
        homeward={name: listed[name] for name in homeward(flow, listed)},
        target=existing,
        configs=described.found,
        unreadable={topic: str(failure) for topic, failure in described.failed.items()},
        known_properties=_known_properties(target, existing, flow) if missing else frozenset(),
    )


def _known_properties(target: Cluster, topics: Mapping[str, TopicDescription], flow: FlowConfig) -> frozenset[str]:
    """Brokers of another version know other properties, and refuse a topic for one that they do not know."""
    for some in sorted(topics, key=lambda name: not name.startswith("sparkmirror."))[:1]:
        described = describe_configs(target, [some], flow.admin_timeout_ms)
        return frozenset(described.found.get(some, {}))
    return frozenset()


def _is_there(failure: BrokerError | LinkError) -> bool:
    """Whether somebody else was faster, whose topic is used as it is."""
    return isinstance(failure, BrokerError) and failure.code == admin.TOPIC_ALREADY_EXISTS
