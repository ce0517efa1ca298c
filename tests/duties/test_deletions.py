"""Which copies are deleted: decisions on plain data, then looks between real clusters."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.config import ClientSettings, DeadLetters, Endpoint, FlowConfig
from sparkmirror.duties.deletions import Keep, Observed, TopicDeletions, decide
from sparkmirror.duties.duty import Sides, do_round
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.duties.own_copies import copied_topics
from sparkmirror.duties.records_of_others import Others
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic, TopicDescription
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import Leader
from sparkmirror.kafka.store import Store
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.duty_records import OccupiedTopic
from sparkmirror.offsets.records import FlowRecord, Progress
from sparkmirror.offsets.state import state_of

NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))
WRITTEN, OTHER = uuid.UUID(int=7), uuid.UUID(int=8)


def _flow() -> FlowConfig:
    a, b = Alias("A"), Alias("B")
    return FlowConfig(
        name=FlowName(source=a, target=b),
        source=Endpoint(alias=a, consumer=NOWHERE, producer=NOWHERE, admin=NOWHERE),
        target=Endpoint(alias=b, consumer=NOWHERE, producer=NOWHERE, admin=NOWHERE),
        sync_topic_deletes_enabled=True,
    )


FLOW = _flow()


def _topic(identity: uuid.UUID = WRITTEN, *, internal: bool = False) -> TopicDescription:
    return TopicDescription(identity, {0: Leader(1, 0)}, internal)


ORDERS = Observed(
    flow=FLOW,
    copied={"orders": frozenset({WRITTEN.hex}), "payments": frozenset({WRITTEN.hex})},
    known_source="a",
    source_id="a",
    source=frozenset({"payments"}),
    gone=frozenset({"orders"}),
    target={"A.orders": _topic()},
)
BEFORE = frozenset({"orders"})


def _lines(observed: Observed, before: frozenset[str] = BEFORE) -> list[str]:
    return [action.change.text for action in decide(observed, before)]


def test_a_copy_goes_when_its_source_topic_was_gone_in_two_looks() -> None:
    assert _lines(ORDERS) == ["- B: topic A.orders  deleted: its source topic orders is gone"]
    assert _lines(ORDERS, frozenset()) == []
    assert _lines(ORDERS, frozenset({"payments"})) == []
    assert _lines(replace(ORDERS, gone=frozenset()), BEFORE) == []


def test_a_copy_that_is_gone_already_needs_nothing() -> None:
    assert _lines(replace(ORDERS, target={})) == []


def test_a_copy_of_unknown_id_goes_by_its_name() -> None:
    assert len(_lines(replace(ORDERS, copied={"orders": frozenset()}))) == 1
    assert len(_lines(replace(ORDERS, target={"A.orders": _topic(uuid.UUID(int=0))}))) == 1


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        (replace(ORDERS, source=frozenset()), "! B: all topics  not deleted: the word of cluster A does not count: it"),
        (replace(ORDERS, source_id="c"), "it is cluster c now, and the flow copied from a"),
        (replace(ORDERS, target={"A.orders": _topic(OTHER)}), "made since under the same name"),
        (replace(ORDERS, target={"A.orders": _topic(internal=True)}), "it is an internal topic"),
        (replace(ORDERS, flow=replace(FLOW, dead_letters=DeadLetters(topic="A.orders"))), "dead letters"),
        (replace(ORDERS, held_before=frozenset({"A.orders"})), "it held records of others when the flow began to copy"),
        (
            replace(ORDERS, written_since={"A.orders": Others("it holds some", certain=True)}),
            "it holds some; delete it yourself where nobody",
        ),
    ],
)
def test_what_speaks_against_a_deletion_is_told(observed: Observed, reason: str) -> None:
    (kept,) = decide(observed, BEFORE)
    assert isinstance(kept, Keep)
    assert reason in kept.change.text


def test_a_copy_that_another_source_topic_has_too_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.duties.deletions.remote_topic", lambda *_: "A.orders")
    (line,) = _lines(ORDERS)
    assert line == "! B: topic A.orders  not deleted: payments is copied there too"


def test_what_was_copied_is_what_has_progress() -> None:
    first = Progress(
        partition=TopicPartition("orders", 0),
        writer=Writer(producer_id=1, epoch=0),
        generation=1,
        position=5,
        next_sequence=5,
        target_id="x",
    )
    second = replace(first, partition=TopicPartition("orders", 1), target_id="y")
    third = replace(first, partition=TopicPartition("old", 0), target_id="")
    assert copied_topics([first, second, third]) == {"orders": frozenset({"x", "y"}), "old": frozenset()}


def test_it_is_off_unless_it_is_asked_for() -> None:
    def interval(flow: FlowConfig) -> float | None:
        with_nobody = Sides(flow=flow, source=None, target=None, store=None)  # type: ignore[arg-type]  # asks nobody
        return TopicDeletions(with_nobody).interval_s

    assert interval(FLOW) == 600
    assert interval(replace(FLOW, refresh_topics_interval_s=5.0)) == 5
    assert interval(replace(FLOW, sync_topic_deletes_enabled=False)) is None


def test_before_the_first_start_nothing_was_copied() -> None:
    nothing = Sides(flow=FLOW, source=None, target=None, store=None)  # type: ignore[arg-type]  # asks nobody
    assert TopicDeletions(nothing).look() == ()


def test_nothing_goes_while_the_internal_topic_lacks_the_start_and_so_the_source_cluster_is_not_known() -> None:
    """The clusters are not even asked."""
    one = Progress(
        partition=TopicPartition("orders", 0),
        writer=Writer(producer_id=1, epoch=0),
        generation=1,
        position=5,
        next_sequence=5,
    )
    store: Any = SimpleNamespace(follow=lambda: None, state=state_of([one]))
    lacks = Sides(flow=FLOW, source=None, target=None, store=store)  # type: ignore[arg-type]  # asks nobody
    duty = TopicDeletions(lacks)
    assert [duty.look(), duty.look()] == [(), ()]


# ------------------------------------------------------------------------------------------------------ real clusters


class Site:
    """Topics on the source, their copies, and what the flow's internal topic says of them."""

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster) -> None:
        self.flow, self.source, self.target = flow, source, target
        ensure_internal_topics(flow, target)
        self.store = Store(target, internal_topic(flow.name), flow.admin_timeout_ms)

    def duty(self) -> TopicDeletions:
        sides = Sides(flow=self.flow, source=self.source, target=self.target, store=self.store)
        return TopicDeletions(sides)

    def create(self, cluster: Cluster, *names: str) -> None:
        wanted = [NewTopic(name=name, partitions=1, replication_factor=1) for name in names]
        admin.create_topics(cluster, wanted).complete()
        admin.wait_for_leaders(cluster, dict.fromkeys(names, 1)).complete()

    def delete(self, cluster: Cluster, *names: str) -> None:
        admin.delete_topics(cluster, names).complete()

    def copied(self, *topics: str) -> None:
        """Puts on record that the flow copied these, into the topics that there are now; it chooses no others."""
        self.flow = replace(self.flow, topics=topics, heartbeats_replication=False)
        there = admin.list_topics(self.target, [f"DA.{topic}" for topic in topics])
        flow = FlowRecord(
            source_alias="DA",
            source_id=admin.cluster_id(self.source),
            target_alias="DB",
            target_id=admin.cluster_id(self.target),
            naming="DefaultReplicationPolicy .",
            generation=1,
        )
        progress = [
            Progress(
                partition=TopicPartition(topic, 0),
                writer=Writer(producer_id=1, epoch=0),
                generation=1,
                position=5,
                next_sequence=5,
                target_id=there[f"DA.{topic}"].topic_id.hex,
            )
            for topic in topics
        ]
        self.store.write([flow, *progress])

    def copies(self, *topics: str) -> list[str]:
        """Those of the topics whose copies exist."""
        found = admin.list_topics(self.target, [f"DA.{topic}" for topic in topics])
        return [topic for topic in topics if f"DA.{topic}" in found]


def _round(duty: TopicDeletions) -> list[str]:
    return [result.failure or str(result.action.change and result.action.change.text) for result in do_round(duty)]


@pytest.fixture
def site(lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster]) -> Site:
    a, b = Alias("DA"), Alias("DB")
    flow = replace(
        lab_flow,
        name=FlowName(source=a, target=b),
        source=replace(lab_flow.source, alias=a),
        target=replace(lab_flow.target, alias=b),
        sync_topic_deletes_enabled=True,
        admin_timeout_ms=20_000,
    )
    return Site(flow, lab_cluster("A"), lab_cluster("B"))


@pytest.mark.kafka
def test_the_second_look_deletes_what_was_copied_and_nothing_else(site: Site, topic: Callable[..., str]) -> None:
    gone, alive, excluded, never = (topic(name) for name in ("gone", "alive", "excluded", "never"))
    site.create(site.source, gone, alive)
    site.create(site.target, *(f"DA.{name}" for name in (gone, alive, excluded, never)))
    site.copied(gone, alive, excluded)
    site.flow = replace(site.flow, topics_exclude=(excluded,))
    duty = site.duty()
    assert [_round(duty), _round(duty)] == [[], []]
    site.delete(site.source, gone)
    assert _round(duty) == []
    assert site.copies(gone, alive, excluded, never) == [gone, alive, excluded, never]
    assert _round(duty) == [f"- DB: topic DA.{gone}  deleted: its source topic {gone} is gone"]
    assert site.copies(gone, alive, excluded, never) == [alive, excluded, never]
    assert _round(duty) == []


@pytest.mark.kafka
def test_a_topic_that_comes_back_between_look_and_deletion_keeps_its_copy(
    site: Site, topic: Callable[..., str]
) -> None:
    name, other = topic("back"), topic("other")
    site.create(site.source, other)
    site.create(site.target, f"DA.{name}")
    site.copied(name)
    duty = site.duty()
    assert duty.look() == ()
    actions = duty.look()
    assert len(actions) == 1
    site.create(site.source, name)
    assert duty.apply(actions) == ()
    assert site.copies(name) == [name]
    assert duty.look() == ()


@pytest.mark.kafka
def test_a_copy_that_was_made_anew_by_somebody_else_stays_and_is_told_once(
    site: Site, topic: Callable[..., str]
) -> None:
    name, other = topic("foreign"), topic("other")
    site.create(site.source, other)
    site.create(site.target, f"DA.{name}")
    site.copied(name)
    site.delete(site.target, f"DA.{name}")
    site.create(site.target, f"DA.{name}")
    duty = site.duty()
    rounds = [_round(duty) for _ in range(3)]
    (told,) = rounds[1]
    assert f"topic DA.{name}  not deleted: it is not the topic that {name} was copied to" in told
    assert rounds == [[], [told], []]
    assert site.copies(name) == [name]


@pytest.mark.kafka
def test_a_topic_that_held_records_of_others_stays_unless_the_file_says_that_it_is_the_copy(
    site: Site, topic: Callable[..., str]
) -> None:
    before, ours, appended, anew, other = (topic(name) for name in ("before", "ours", "appended", "anew", "other"))
    names = (before, ours, appended, anew)
    site.create(site.source, other)
    site.create(site.target, *(f"DA.{name}" for name in names))
    site.copied(*names)
    ids = {name: one.topic_id.hex for name, one in admin.list_topics(site.target).items()} | {f"DA.{anew}": OTHER.hex}
    copies = (f"DA.{name}" for name in (before, appended, anew))
    site.store.write([OccupiedTopic(topic=copy, topic_id=ids[copy], time_ms=1) for copy in copies])
    site.flow = replace(site.flow, topics_append=(appended,))
    duty = site.duty()
    rounds = [_round(duty) for _ in range(3)]
    (told,) = (line for line in rounds[1] if line.startswith("!"))
    assert f"topic DA.{before}  not deleted: it held records of others when the flow began to copy {before}" in told
    assert rounds == [[], [told, *rounds[1][1:]], []]
    assert site.copies(*names) == [before]


def _write(cluster: LabCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


@pytest.mark.kafka
def test_a_copy_to_which_others_have_written_since_stays_and_is_told_once(
    site: Site, topic: Callable[..., str], cluster_b: LabCluster
) -> None:
    used, ours, other = (topic(name) for name in ("used", "ours", "other"))
    site.create(site.source, other)
    site.create(site.target, *(f"DA.{name}" for name in (used, ours)))
    site.copied(used, ours)
    _write(cluster_b, f"DA.{used}", 3)
    duty = site.duty()
    rounds = [_round(duty) for _ in range(3)]
    (told,) = (line for line in rounds[1] if line.startswith("!"))
    assert (
        f"topic DA.{used}  not deleted: it holds records that the flow has not written, the first at offset 0 of "
        f"DA.{used}-0; delete it yourself" in told
    )
    assert rounds == [[], [told, f"- DB: topic DA.{ours}  deleted: its source topic {ours} is gone"], []]
    assert site.copies(used, ours) == [used]
    site.store.follow()
    (event,) = site.store.state.events.values()
    assert event.partition == TopicPartition(used, 0)
    assert event.event.text.startswith(
        f"the copy DA.{used} on DB is not deleted: it holds records that the flow has not"
    )
    assert event.event.time_ms
