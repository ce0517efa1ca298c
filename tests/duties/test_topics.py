"""Which topics a flow copies, and what their copies are called."""

from __future__ import annotations

import uuid
from dataclasses import replace

from sparkmirror.config import (
    ClientSettings,
    DeadLetters,
    Endpoint,
    FlowConfig,
    PolicyChoice,
    PolicyKind,
    Tolerance,
)
from sparkmirror.duties.topics import choose
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.leaders import Leader
from sparkmirror.model import Alias, FlowName

NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))
A, B = (Endpoint(alias=Alias(name), consumer=NOWHERE, producer=NOWHERE, admin=NOWHERE) for name in ("A", "B"))
FLOW = FlowConfig(name=FlowName(source=A.alias, target=B.alias), source=A, target=B, replication_factor=1)
IDENTITY = replace(FLOW, policy=PolicyChoice(kind=PolicyKind.IDENTITY))


def topic_of(partitions: int) -> TopicDescription:
    return TopicDescription(uuid.uuid4(), {number: Leader(1, 0) for number in range(partitions)}, internal=False)


def test_nothing_is_copied_onto_the_flows_own_dead_letters() -> None:
    topics = {"dead": topic_of(1), "A.dead": topic_of(1), "orders": topic_of(1)}
    letters = DeadLetters(tolerance=Tolerance.ALL, topic="A.dead")
    assert list(choose(replace(FLOW, dead_letters=letters), topics)) == ["A.dead", "orders"]
    assert list(choose(replace(IDENTITY, dead_letters=letters), topics)) == ["dead", "orders"]
    inactive = replace(letters, tolerance=Tolerance.NONE)
    assert list(choose(replace(FLOW, dead_letters=inactive), topics)) == ["A.dead", "dead", "orders"]


def test_chooses_by_filter_and_policy() -> None:
    topics = {name: topic_of(1) for name in ("orders", "B.orders", "heartbeats", "__secret", "x.replica")}
    assert list(choose(FLOW, topics)) == ["heartbeats", "orders"]
    assert list(choose(replace(FLOW, topics=("none",)), topics)) == ["heartbeats"]
    assert list(choose(replace(FLOW, topics=("none",), heartbeats_replication=False), topics)) == []
