"""Heartbeats: a record on the target every second, which says that the target is written to, and by which flow.

Flows copy them onward, with an alias before the name for each: so ``A.heartbeats`` on B tells that the flow A->B works,
and how old what it brings is; see `sparkmirror.flow.mirror_client`.

Invariant: the flow's source is never asked for anything, so heartbeats go on while it is away.

Reference: ``MirrorHeartbeatConnector``, ``MirrorHeartbeatTask`` (KIP-382).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.config import FlowConfig
from sparkmirror.duties.duty import Result, Sides, each
from sparkmirror.duties.mirror_topics import NOT_ALLOWED, CreateTopic, create, exists, with_remedy
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.kafka.journal import Journal
from sparkmirror.mm2.heartbeats import Heartbeat
from sparkmirror.naming import policy_for

BEAT_MS = 10_000
"""For one heartbeat: a later one is worth as much."""

_NOT_WANTED = "or set emit.heartbeats.enabled=false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat is due."""

    change: None = None


class Heartbeats:
    """The duty."""

    name = "heartbeats"

    def __init__(self, sides: Sides) -> None:
        settings = sides.flow.heartbeats
        self.interval_s: float | None = settings.interval_s if settings.enabled else None
        self._flow = sides.flow
        self._target = sides.target
        self._topic = topic_of(sides.flow)
        self._journal = Journal(sides.target, self._topic)
        self._there = False

    def look(self) -> Sequence[CreateTopic | Beat]:
        """Sees that the topic is there; asks for it no more once it was."""
        self._there = self._there or exists(self._target, self._topic, min(BEAT_MS, self._flow.admin_timeout_ms))
        return decide(self._flow, there=self._there)

    def apply(self, actions: Sequence[CreateTopic | Beat]) -> Sequence[Result]:
        """Creates the topic, or writes the heartbeat with this moment's time."""
        return each(actions, self._do)

    def _do(self, action: CreateTopic | Beat) -> None:
        try:
            if isinstance(action, CreateTopic):
                create(self._target, action, self._flow.admin_timeout_ms)
            else:
                self._beat()
        except SparkmirrorError as failure:
            self._there = False  # it may have been deleted
            if isinstance(failure, BrokerError) and failure.code in NOT_ALLOWED:
                remedy = f"allow WRITE, DESCRIBE and CREATE on Topic {self._topic} to this user, {_NOT_WANTED}"
                raise with_remedy(failure, self._topic, remedy) from failure
            raise

    def _beat(self) -> None:
        name = self._flow.name
        heartbeat = Heartbeat(source=name.source, target=name.target, timestamp_ms=int(time.time() * 1000))
        self._target.run(self._journal.append, [(heartbeat.key, heartbeat.value)], BEAT_MS)


def topic_of(flow: FlowConfig) -> str:
    """The target's own topic of heartbeats."""
    return policy_for(flow.policy, flow.source.alias).heartbeats_topic()


def decide(flow: FlowConfig, *, there: bool) -> tuple[CreateTopic | Beat, ...]:
    """A heartbeat; where there is no topic for it yet, that first.

    Args:
        flow: the flow.
        there: whether the target has the topic.
    """
    if there:
        return (Beat(),)
    creation = CreateTopic(
        cluster=flow.target.alias,
        topic=topic_of(flow),
        replication_factor=flow.heartbeats.replication_factor,
        key="heartbeats.topic.replication.factor",
    )
    return (creation,)
