"""Which topics a flow copies, and what their copies are called."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

import pytest

from sparkmirror.config import (
    ClientSettings,
    DeadLetters,
    Endpoint,
    FlowConfig,
    PolicyChoice,
    PolicyKind,
    Tolerance,
)
from sparkmirror.duties.topics import NOTHING_BEGUN, Begun, begun_in, choose, targets
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.leaders import Leader
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.naming.policies import DefaultReplicationPolicy
from sparkmirror.offsets.records import Progress

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


class OneNameForAll(DefaultReplicationPolicy):
    """An own policy that gives all topics one name."""

    def format_remote_topic(self, source_alias: Alias, topic: str) -> str:  # noqa: ARG002  # as the protocol has it
        return "all"


def begun(topics: Iterable[str], there: Iterable[str]) -> Begun:
    return Begun(frozenset(topics), frozenset(there))


@pytest.mark.parametrize(
    ("known", "sources", "owner"),
    [
        (begun("", ""), "ab", "a"),
        (begun("b", "b"), "ab", "b"),
        (begun("b", "b"), "a", "b"),
        (begun("b", ""), "ab", "b"),
        (begun("b", ""), "a", "a"),
        (begun("ab", "b"), "a", "b"),
        (begun("ab", "ab"), "b", "b"),
    ],
    ids=[
        "the first by name",
        "the one whose copy has begun",
        "also where the flow does not copy it any more",
        "also where its copy was deleted",
        "but then only while the flow copies it",
        "not the one whose copy was another topic of the name",
        "of two that have begun, the one that the flow copies",
    ],
)
def test_a_name_on_the_target_belongs_to(
    monkeypatch: pytest.MonkeyPatch, known: Begun, sources: str, owner: str
) -> None:
    monkeypatch.setattr("sparkmirror.duties.topics.policy_for", lambda *_: OneNameForAll())
    found = list(targets(FLOW, sources, known))
    assert found == [(name, "all", None if name == owner else owner) for name in sorted(sources)]


@pytest.mark.parametrize(("kept", "there"), [(True, True), (False, False), (None, True)])
def test_a_copy_is_there_while_it_is_the_topic_that_was_copied_to(kept: bool | None, there: bool) -> None:
    copy = topic_of(1)
    ids = {True: copy.topic_id.hex, False: uuid.uuid4().hex, None: ""}
    one = Progress(
        partition=TopicPartition("orders", 0),
        writer=Writer(producer_id=1, epoch=1),
        generation=1,
        position=1,
        next_sequence=1,
        target_id=ids[kept],
    )
    progress = {one.partition: one}
    names = frozenset({"orders"})
    assert begun_in(FLOW, progress, {"A.orders": copy}) == Begun(names, names if there else frozenset())
    assert begun_in(FLOW, progress, {"orders": copy}) == Begun(names), "it was deleted"


def test_what_is_brought_home_holds_no_name() -> None:
    one = TopicPartition("B.orders", 0)
    brought = Progress(partition=one, writer=Writer(producer_id=1, epoch=1), generation=1, position=1, next_sequence=1)
    target = {"orders": topic_of(1), "A.B.orders": topic_of(1)}
    assert begun_in(replace(FLOW, homeward=True), {one: brought}, target) == NOTHING_BEGUN
