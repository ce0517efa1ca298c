"""Which target topics are a flow's copies: properties and rights of the source reach no others."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.duties.acls import ChangeBinding, Observed, decide
from sparkmirror.duties.duty import Sides, Sign
from sparkmirror.duties.own_copies import NotOurs, held_before, is_own, of_others, written_by
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.offsets.duty_records import OccupiedTopic
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState, state_of

A, B = Alias("A"), Alias("B")
NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))
FLOW = FlowConfig(
    name=FlowName(source=A, target=B),
    source=Endpoint(alias=A, consumer=NOWHERE, producer=NOWHERE, admin=NOWHERE),
    target=Endpoint(alias=B, consumer=NOWHERE, producer=NOWHERE, admin=NOWHERE),
)
THIS, ANOTHER = uuid.UUID(int=7), uuid.UUID(int=8)


def progress(topic: str, topic_id: str) -> Progress:
    return Progress(
        partition=TopicPartition(topic, 0),
        writer=Writer(producer_id=1, epoch=0),
        generation=1,
        position=5,
        next_sequence=5,
        target_id=topic_id,
    )


def occupied(topic_id: str, topic: str = "A.pay") -> OccupiedTopic:
    return OccupiedTopic(topic=topic, topic_id=topic_id, time_ms=1)


@pytest.mark.parametrize(
    ("copied", "record", "topic_id", "own"),
    [
        (None, None, "x", None),
        (frozenset({"x"}), None, "x", True),
        (frozenset({"x"}), None, "y", None),
        (frozenset(), None, "y", True),
        (frozenset({"x"}), None, "", True),
        (frozenset({"x"}), occupied("x"), "x", False),
        (frozenset({"x"}), occupied("y"), "x", True),
        (frozenset({"x"}), occupied("x", "A.orders"), "x", True),
        (frozenset(), occupied(""), "", False),
        (frozenset({"x"}), occupied(""), "x", False),
    ],
)
def test_a_topic_is_the_flows_where_it_copies_to_it_and_it_held_no_records_of_others_before(
    copied: frozenset[str] | None, record: OccupiedTopic | None, topic_id: str, own: bool | None
):
    state = JournalState()
    if record is not None:
        state.take(record)
    known = {} if copied is None else {"pay": copied}
    assert is_own(state, known, "pay", "A.pay", topic_id) is own


def sides_with(
    monkeypatch: pytest.MonkeyPatch, state: JournalState | None, filled: Mapping[str, int], **more: Any
) -> Sides:
    """A flow whose target topics have so many records."""

    def find_offsets(_: object, places: list[TopicPartition], at: int, **__: object) -> Results[TopicPartition, int]:
        found = {place: 3 + filled.get(place.topic, 0) if at == OffsetSpec.LATEST else 3 for place in places}
        return Results(found=found, failed={})

    monkeypatch.setattr("sparkmirror.duties.own_copies.admin.find_offsets", find_offsets)
    nothing: Any = None
    store: Any = None if state is None else SimpleNamespace(follow=lambda: None, state=state)
    return Sides(flow=replace(FLOW, **more), source=nothing, target=nothing, store=store)


PAIRS = [("pay", "A.pay"), ("orders", "A.orders"), ("new", "A.new")]
TARGET = {copy: TopicDescription(THIS, {0: None}, internal=False) for copy in ("A.pay", "A.orders")}  # type: ignore[dict-item]  # no leader is asked for


@pytest.mark.parametrize("state", [None, JournalState()])
def test_before_the_flow_has_copied_only_empty_topics_are_its_own(
    monkeypatch: pytest.MonkeyPatch, state: JournalState | None
):
    sides = sides_with(monkeypatch, state, {"A.pay": 1})
    assert of_others(sides, PAIRS, TARGET) == (NotOurs(cluster=B, source="pay", topic="A.pay"),)
    assert of_others(sides_with(monkeypatch, state, {"A.pay": 1}, topics_append=("p.*",)), PAIRS, TARGET) == ()


def test_a_topic_that_the_flow_copies_to_is_its_own_until_it_is_another_one_with_records(
    monkeypatch: pytest.MonkeyPatch,
):
    state = state_of([progress("pay", THIS.hex), progress("orders", THIS.hex)])
    assert of_others(sides_with(monkeypatch, state, {"A.pay": 9, "A.orders": 9}), PAIRS, TARGET) == ()
    recreated = {**TARGET, "A.pay": TARGET["A.pay"]._replace(topic_id=ANOTHER)}
    assert of_others(sides_with(monkeypatch, state, {}), PAIRS, recreated) == ()
    (other,) = of_others(sides_with(monkeypatch, state, {"A.pay": 9}), PAIRS, recreated)
    assert other.topic == "A.pay"
    state.take(occupied(THIS.hex, "A.orders"))
    (other,) = of_others(sides_with(monkeypatch, state, {}), PAIRS, TARGET)
    assert other.change.text.startswith("! B: topic A.orders  holds records that this flow has not copied")


def test_what_the_flow_has_made_its_copy_since_did_not_hold_records_of_others_before():
    state = state_of([progress("pay", THIS.hex), progress("orders", THIS.hex)])
    assert held_before(FLOW, state, PAIRS, TARGET) == frozenset()
    state.take(occupied(THIS.hex))
    assert held_before(FLOW, state, PAIRS, TARGET) == {"A.pay"}
    assert held_before(FLOW, state, PAIRS, {}) == frozenset()
    assert held_before(replace(FLOW, topics_append=("p.*",)), state, PAIRS, TARGET) == frozenset()
    anew = state_of([progress("pay", ANOTHER.hex)])  # the topic was created again, and the flow copies to that one
    anew.take(occupied(THIS.hex))
    assert held_before(FLOW, anew, PAIRS, {"A.pay": TARGET["A.pay"]._replace(topic_id=ANOTHER)}) == frozenset()


@pytest.mark.parametrize("beats", [True, False])
def test_a_topic_with_a_name_of_heartbeats_is_not_the_flows_by_its_name(
    monkeypatch: pytest.MonkeyPatch, *, beats: bool
):
    pair, copy = ("pay.heartbeats", "A.pay.heartbeats"), "A.pay.heartbeats"
    target = {copy: TARGET["A.pay"]}
    asked: list[list[TopicPartition]] = []

    def hold_heartbeats(_: object, places: list[TopicPartition], __: int) -> frozenset[str]:
        asked.append([*places])
        return frozenset(place.topic for place in places if beats)

    monkeypatch.setattr("sparkmirror.duties.own_copies.hold_heartbeats", hold_heartbeats)
    others = of_others(sides_with(monkeypatch, JournalState(), {copy: 9}), [pair], target)
    assert others == (() if beats else (NotOurs(cluster=B, source=pair[0], topic=copy),))
    assert asked == [[TopicPartition(copy, 0)]]
    state = state_of([progress(pair[0], THIS.hex)])
    assert held_before(FLOW, state, [pair], target) == frozenset()
    state.take(occupied(THIS.hex, copy))  # it held records of others when the flow began, whatever it holds now
    assert held_before(FLOW, state, [pair], target) == {copy}
    assert of_others(sides_with(monkeypatch, state, {copy: 9}), [pair], target) != ()


def test_a_source_topic_that_the_flow_back_writes_is_a_copy_of_the_targets_own():
    back = state_of([progress("A.pay", THIS.hex), progress("A.orders", ""), progress("A.new", THIS.hex)])
    ids = {"pay": THIS.hex, "orders": ANOTHER.hex, "new": ANOTHER.hex, "other": THIS.hex}
    assert written_by(back, [*PAIRS, ("other", "A.other"), ("gone", "A.pay")], ids) == {"pay", "orders"}
    assert written_by(back, PAIRS, {"new": ""}) == {"new"}


def test_rules_of_topics_that_are_not_the_flows_are_neither_made_nor_removed():
    def rule(topic: str) -> AclBinding:
        return AclBinding(
            ResourceType.TOPIC, topic, PatternType.LITERAL, "User:eve", "*", Operation.READ, Permission.ALLOW
        )

    other = NotOurs(cluster=B, source="pay", topic="A.pay")
    source, created = frozenset({rule("pay"), rule("orders")}), frozenset({rule("A.pay")})
    actions = decide(Observed(flow=FLOW, source=source, others=(other,)))
    assert [one.binding.name for one in actions if isinstance(one, ChangeBinding)] == ["A.orders"]
    assert other in actions
    gone = decide(Observed(flow=FLOW, source=frozenset(), created=created, others=(other,)))
    assert not [one for one in gone if one.change.sign is Sign.REMOVE]
