"""Whose records a target topic holds before a flow has copied anything to it: case by case, on real brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror import config
from sparkmirror.config import (
    AutoOffsetReset,
    Beginning,
    ClientSettings,
    Endpoint,
    FlowConfig,
    PolicyChoice,
    PolicyKind,
    StartPlace,
    StartPlaces,
)
from sparkmirror.copy.registrations import Registration
from sparkmirror.duties import duty
from sparkmirror.duties.own_copies import of_others
from sparkmirror.duties.topics import remote_topic
from sparkmirror.events import Event, Kind
from sparkmirror.flow.dry_run import preview
from sparkmirror.flow.occupied import Found, Occupied, TargetLogs, repeating
from sparkmirror.flow.planner import _beginning
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.tails import read_headers
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.records import Reader, Row, extents, row_of
from sparkmirror.mm2.heartbeats import Heartbeat
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset
from sparkmirror.mm2.tail import Seen
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.naming import WRITERS_TOPIC
from tests.flow.running import Running, admin_of, count, create_topic, write_file
from tests.flow.test_once import produce

WHEN = 1_700_000_000_000
IDENTITY = PolicyChoice(kind=PolicyKind.IDENTITY)
KEPT = {"retention.ms": "-1"}
"""Records of that time would be gone as soon as the broker looks."""

TEN = range(10)
NONE: Mapping[str, str | bool] = {}
IDEMPOTENT: Mapping[str, str | bool] = {"enable.idempotence": True}


def _endpoint(alias: str) -> Endpoint:
    client = ClientSettings(bootstrap_servers=("localhost:1",))
    return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)


FLOW = FlowConfig(name=FlowName(source=Alias("A"), target=Alias("B")), source=_endpoint("A"), target=_endpoint("B"))


class Sides:
    """Topics of a flow, and what its target holds before it begins."""

    def __init__(
        self, flow: FlowConfig, connect: Callable[[str], Cluster], clusters: tuple[LabCluster, LabCluster]
    ) -> None:
        self.flow, self.connect = flow, connect
        self.source, self.target = clusters
        self.burst = False  # whether all records have the same time
        self.ids = admin.cluster_id(connect("A"), 60_000), admin.cluster_id(connect("B"), 60_000)

    def topic(self, name: str, *, config: dict[str, str] | None = None) -> str:
        """Creates it on both sides, with ten records on the source."""
        create_topic(self.source, name, 1, KEPT)
        create_topic(self.target, self.copy(name), 1, KEPT | (config or {}))
        self.write(self.source, name)
        return name

    def copy(self, name: str) -> str:
        return remote_topic(self.flow, name)

    def write(
        self, cluster: LabCluster, topic: str, numbers: Sequence[int] = TEN, more: Mapping[str, str | bool] = NONE
    ) -> None:
        """As MirrorMaker 2 copies: the same records, with their times."""
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3, **more})
        if "transactional.id" in more:
            producer.init_transactions(60)
            producer.begin_transaction()
        for number in numbers:
            producer.produce(topic, str(number), str(number), timestamp=WHEN + (0 if self.burst else number))
        assert producer.flush(60) == 0
        if "transactional.id" in more:
            producer.abort_transaction(60)

    def cut(self, topic: str, before: int) -> None:
        """Deletes what lies below an offset, -1 for everything."""
        for future in admin_of(self.target).delete_records([Place(topic, 0, before)]).values():
            future.result(60)

    def register(self, alias: str, topic: str, origin: str, flow: str = "") -> None:
        """Puts on record that a flow, this one by default, wrote what a topic holds, from a cluster."""
        cluster = self.connect(alias)
        found = read_headers(cluster, {TopicPartition(topic, 0): 0}, 60_000).complete()
        (ids,) = ({batch.producer_id for batch in tail.batches} for tail in found.values())
        mine = self.ids[0] if alias == "A" else self.ids[1]
        entries = [
            Registration(producer_id=one, flow=flow or str(self.flow.name), cluster=mine, origin=(origin,))
            for one in ids
            if one >= 0
        ]
        assert entries
        if not admin.list_topics(cluster, [WRITERS_TOPIC]):
            create_topic(self.source if alias == "A" else self.target, WRITERS_TOPIC, 1, {"cleanup.policy": "compact"})
        cluster.run(Journal(cluster, WRITERS_TOPIC).append, [(one.key, one.value) for one in entries], 60_000)

    def refused(self, *topics: str, flow: FlowConfig | None = None) -> dict[str, Event]:
        """Those of the topics that may not begin, and why."""
        flow = flow or self.flow
        logs = TargetLogs(flow, self.connect("A"), self.connect("B"), *self.ids)
        pairs = [(TopicPartition(one, 0), TopicPartition(remote_topic(flow, one), 0)) for one in topics]
        return {here.topic: event for here, event in Occupied(flow, logs).look(pairs).items()}


@pytest.fixture
def sides(lab_flow, lab_cluster, cluster_a, cluster_b) -> Sides:
    return Sides(lab_flow, lab_cluster, (cluster_a, cluster_b))


@pytest.mark.kafka
def test_records_of_another_mirror_stop_a_topic_of_the_flow_alone(sides: Sides, topic) -> None:
    names = ("empty", "cut", "markers", "ours", "copied", "others", "aborted")
    empty, cut, markers, ours, copied, others, aborted = (sides.topic(topic(name)) for name in names)
    for name in (cut, copied):
        sides.write(sides.target, sides.copy(name))
    sides.cut(sides.copy(cut), -1)
    for name in (markers, aborted):
        sides.write(sides.target, sides.copy(name), more={"transactional.id": name})
    sides.cut(sides.copy(markers), 10)  # the marker alone is left
    sides.write(sides.target, sides.copy(ours), more=IDEMPOTENT)
    sides.register("B", sides.copy(ours), sides.ids[0])
    sides.write(sides.target, sides.copy(others), [77])
    told = sides.refused(empty, cut, markers, ours, copied, others, aborted)
    assert set(told) == {copied, others, aborted}
    event = told[copied]
    assert event.kind is Kind.TARGET_NOT_EMPTY
    assert f"record 9 of {sides.copy(copied)}-0 was written by another producer" in event.text
    for choice in ("--take-over mm2", "--offsets-topic", "delete or empty", "start.positions", "topics.append"):
        assert choice in event.text

    appended = replace(sides.flow, topics_append=(f"{copied[:3]}.*", others))
    assert set(sides.refused(copied, others, aborted, flow=appended)) == {aborted}
    sides.cut(sides.copy(aborted), -1)
    assert sides.refused(aborted) == {}


@pytest.mark.kafka
def test_where_others_may_write_the_topic_only_copies_of_the_source_stop_it(sides: Sides, topic) -> None:
    sides.flow = replace(sides.flow, policy=IDENTITY)
    names = ("apps", "copied", "returned", "relayed")
    apps, copied, returned, relayed = (sides.topic(topic(name)) for name in names)
    broker_time = sides.topic(topic("time"), config={"message.timestamp.type": "LogAppendTime"})
    sides.write(sides.target, apps, range(100, 120))
    for name in (copied, broker_time, relayed):
        sides.write(sides.target, name)
    sides.write(sides.target, copied, [500])  # an application goes on behind what was copied
    # What the flow back brought to the source was born on the target: no copy of the source's.
    sides.write(sides.target, returned, range(100, 110))
    sides.write(sides.source, returned, range(100, 110), more=IDEMPOTENT)
    sides.register("A", returned, sides.ids[1])
    told = sides.refused(apps, copied, returned, relayed, broker_time)
    assert set(told) == {copied, relayed, broker_time}
    assert f"of {copied}-0 is the same as one of the source" in told[copied].text

    # Long ago a mirror copied from the target to the source, and applications have gone on there.
    other_way = sides.topic(topic("other"))
    sides.write(sides.target, other_way)
    for first in range(1000, 1600, 100):
        sides.write(sides.target, other_way, range(first, first + 100))
    event = sides.refused(other_way)[other_way]
    assert f"of {other_way}-0 is the same as one of the source" in event.text

    sides.burst = True
    burst = sides.topic(topic("burst"))
    sides.write(sides.target, burst, range(5000, 5300))  # an application's, before the copies
    for cluster in (sides.source, sides.target):
        sides.write(cluster, burst, range(2000, 2600))
    sides.write(sides.target, apps, range(3000, 3300))
    assert set(sides.refused(burst, apps)) == {burst}
    sides.burst = False

    homeward = replace(sides.flow, policy=PolicyChoice(), homeward_back=True)
    create_topic(sides.target, remote_topic(homeward, apps), 1, KEPT)
    sides.write(sides.target, remote_topic(homeward, apps), range(100, 120))
    assert sides.refused(apps, flow=homeward) == {}
    assert set(sides.refused(apps, flow=replace(homeward, homeward_back=False))) == {apps}


@pytest.mark.kafka
@pytest.mark.parametrize("policy", [PolicyChoice(), IDENTITY], ids=["renamed", "kept"])
def test_a_topic_that_another_flow_has_written_is_not_begun(sides: Sides, topic, policy: PolicyChoice) -> None:
    sides.flow = replace(sides.flow, policy=policy)
    shared, alone = (sides.topic(topic(name)) for name in ("shared", "alone"))
    for name, flow in ((shared, "Z->B"), (alone, "")):
        sides.write(sides.target, sides.copy(name), range(100, 110), more=IDEMPOTENT)
        sides.register("B", sides.copy(name), sides.ids[0], flow)
    told = sides.refused(shared, alone)
    assert set(told) == {shared}
    event = told[shared]
    assert event.kind is Kind.TARGET_NOT_EMPTY
    assert (
        f"flow Z->B has written to the target topic {sides.copy(shared)}, and this one has not begun there"
        in event.text
    )
    assert f"say topics.append = {shared}" in event.text
    assert sides.refused(shared, flow=replace(sides.flow, topics_append=(shared,))) == {}
    may_share = policy is IDENTITY
    assert sides.refused(shared, flow=replace(sides.flow, provenance_header=True)).keys() == (
        set() if may_share else {shared}
    )


@pytest.mark.kafka
def test_a_name_of_heartbeats_makes_no_topic_of_the_target_a_copy_of_heartbeats(sides: Sides, topic) -> None:
    apps, beats, mixed = (f"{topic(name)}.heartbeats" for name in ("apps", "beats", "mixed"))
    for name in (apps, beats, mixed):
        create_topic(sides.source, name, 2, KEPT)
        create_topic(sides.target, sides.copy(name), 1, KEPT)
    sides.write(sides.target, sides.copy(apps))
    for name in (beats, mixed):  # as MirrorMaker 2 copies them
        producer = Producer({"bootstrap.servers": sides.target.bootstrap_servers, "log_level": 3})
        for number in range(3):
            beat = Heartbeat(source="z", target="A", timestamp_ms=WHEN + number)
            producer.produce(sides.copy(name), beat.value, beat.key, timestamp=WHEN)
        assert producer.flush(60) == 0
    sides.write(sides.target, sides.copy(mixed), [1])
    pairs = [(TopicPartition(one, 0), TopicPartition(sides.copy(one), 0)) for one in (apps, beats, mixed)]
    logs = TargetLogs(sides.flow, sides.connect("A"), sides.connect("B"), *sides.ids)
    others = {sides.copy(apps), sides.copy(mixed)}
    assert sides.refused(apps, beats, mixed).keys() == {apps, mixed}
    assert Occupied(sides.flow, logs).held(pairs) == others
    named, there = [(here.topic, copy.topic) for here, copy in pairs], admin.list_topics(sides.connect("B"))
    asked = duty.Sides(flow=sides.flow, source=sides.connect("A"), target=sides.connect("B"), store=None)
    assert {one.topic for one in of_others(asked, named, there)} == others


LATEST, EARLIEST = StartPlace(kind=Beginning.LATEST), StartPlace(kind=Beginning.EARLIEST)
MOMENT = StartPlace(kind=Beginning.TIMESTAMP, value=WHEN)


@pytest.mark.parametrize(
    ("changes", "topic", "asked"),
    [
        ({}, "t", True),
        ({}, "heartbeats", True),
        ({"auto_offset_reset": AutoOffsetReset.LATEST}, "t", False),
        ({"start": StartPlaces(position=LATEST)}, "t", False),
        ({"start": StartPlaces(position=MOMENT)}, "t", False),
        ({"start": StartPlaces(position=EARLIEST)}, "t", True),
        ({"start": StartPlaces(position=EARLIEST), "auto_offset_reset": AutoOffsetReset.LATEST}, "t", True),
        ({"start": StartPlaces(topics=(("t", LATEST),))}, "t", False),
        ({"start": StartPlaces(topics=(("other", LATEST),))}, "t", True),
        ({"start": StartPlaces(partitions=(("t", 0, StartPlace(kind=Beginning.OFFSET, value=3)),))}, "t", False),
        ({"start": StartPlaces(partitions=(("t", 1, StartPlace(kind=Beginning.OFFSET, value=3)),))}, "t", True),
        ({"topics_append": ("a.*", "t")}, "t", False),
        ({"topics_append": ("a.*",)}, "t", True),
        ({"homeward": True}, "A.t", True),
        ({"homeward": True}, "B.t", False),
    ],
)
def test_only_a_start_at_the_oldest_record_that_nobody_chose_is_asked_about(changes, topic, asked) -> None:
    flow = replace(FLOW, **changes)
    pair = (TopicPartition(topic, 0), TopicPartition(f"A.{topic}", 0))
    assert list(repeating(flow, [pair])) == ([pair] if asked else [])


@pytest.mark.kafka
def test_a_run_copies_the_other_topics_and_takes_such_a_one_over_by_an_order(
    cluster_a: LabCluster, cluster_b: LabCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    stem, offsets = topic("occupied"), topic("connect-offsets")
    known, fresh = f"{stem}-known", f"{stem}-fresh"
    for cluster, name, partitions in (
        (cluster_a, known, 2),
        (cluster_a, fresh, 1),
        (cluster_b, f"{stem}.{known}", 2),
        (cluster_b, offsets, 1),
    ):
        create_topic(cluster, name, partitions)
    produce(cluster_a, fresh, records=100)
    produce(cluster_a, known, records=100)
    produce(cluster_b, f"{stem}.{known}", records=60)
    file = write_file(tmp_path / "mm2.properties", {stem: cluster_a, "b": cluster_b}, {f"{stem}->b": f"{stem}-.*"})
    (note,) = [line for line in planned(file) if "is not copied" in line]
    assert f"! b: topic {known} is not copied  the target topic {stem}.{known} was written before this flow" in note
    with Running(file, log=tmp_path / "first.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
    assert f"the target topic {stem}.{known} was written before this flow began" in " ".join(mirror.output.split())
    assert (count(cluster_b, f"{stem}.{known}"), count(cluster_b, f"{stem}.{fresh}")) == (60, 100)

    owner = Owner(connector="MirrorSourceConnector", cluster=Alias(stem))
    stored = StoredOffset(owner=owner, partition=TopicPartition(known, 0), offset=49)
    producer = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "log_level": 3})
    producer.produce(offsets, stored.value, stored.key)
    assert producer.flush(60) == 0
    options = ("--once", "--take-over", "mm2", "--offsets-topic", offsets)
    with Running(file, log=tmp_path / "second.log", options=options) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    # Other times than the source's: what lies beyond the stored position cannot be told, and is named.
    assert "1 partitions of 1 topics were taken over from MirrorMaker 2" in " ".join(mirror.output.split())
    assert (len(records(cluster_b, f"{stem}.{known}")), len(records(cluster_b, f"{stem}.{fresh}"))) == (60 + 50, 100)


@pytest.mark.parametrize("beats", [True, False])
def test_heartbeats_of_other_mirrors_stop_no_copy_of_heartbeats(*, beats: bool) -> None:
    here, there = TopicPartition("pay.heartbeats", 0), TopicPartition("A.pay.heartbeats", 0)
    written, flow = (
        Found(records={there: [Seen(7, WHEN, b"x")]}, failed={}),
        Found(records={}, failed={}, flows={there: "C->B"}),
    )
    for found in (written, flow):
        held = frozenset({there.topic} if beats else ())
        logs: Any = SimpleNamespace(of_others=lambda _, found=found: found, hold_heartbeats=lambda _, held=held: held)
        subject = Occupied(FLOW, logs)
        assert (subject.held([(here, there)]) == frozenset()) is beats
        assert (subject.look([(here, there)]) == {}) is beats


@pytest.mark.parametrize("policy", [PolicyChoice(), IDENTITY], ids=["renamed", "kept"])
@pytest.mark.parametrize("reset", AutoOffsetReset)
def test_a_name_of_heartbeats_is_no_way_into_a_topic_of_others(policy: PolicyChoice, reset: AutoOffsetReset) -> None:
    """Whoever may create topics on the source chooses it, and may leave the topic empty at first."""
    flow = replace(FLOW, policy=policy, auto_offset_reset=reset)
    here, there = TopicPartition("pay.heartbeats", 0), TopicPartition("A.pay.heartbeats", 0)
    found = Found(records={there: [Seen(7, WHEN, b"x")]}, failed={})
    logs: Any = SimpleNamespace(
        of_others=lambda _: found,
        hold_heartbeats=lambda _: frozenset(),
        copied=lambda _, found: replace(found, records={}),  # of none there is an equal one on the source
    )
    (event,) = Occupied(flow, logs).look([(here, there)]).values()
    assert event.kind is Kind.TARGET_NOT_EMPTY
    assert "record 7 of A.pay.heartbeats-0 was written by another producer" in event.text
    assert Occupied(replace(flow, topics_append=("pay.heartbeats",)), logs).look([(here, there)]) == {}
    assert _beginning(flow, [here, PLAIN], {here: 0, PLAIN: 0}, {here: 0, PLAIN: 0}) == {here}
    assert _beginning(flow, [here, PLAIN], {here: 0, PLAIN: 0}, {here: 0, PLAIN: 1}) == {here, PLAIN}


PLAIN = TopicPartition("orders", 0)


@pytest.mark.parametrize("policy", [PolicyChoice(), IDENTITY])
@pytest.mark.parametrize("name", ["{0}", "{topic:>100}", "{", "}", "{topic}", "C->B"])
def test_the_name_of_another_flow_is_told_as_it_is(name: str, policy: PolicyChoice) -> None:
    flow = replace(FLOW, policy=policy)
    found = Found(records={}, failed={}, flows={TopicPartition("copy", 0): name})
    logs: Any = SimpleNamespace(of_others=lambda _: found, copied=lambda _, found: found)
    (event,) = Occupied(flow, logs).look([(TopicPartition("pay", 0), TopicPartition("copy", 0))]).values()
    assert event.text.startswith(f"flow {name} has written to the target topic copy, and this one has not begun there")
    assert event.text.endswith("topics.append = pay")


def records(cluster: LabCluster, name: str) -> list[Row]:
    """All records of a topic; a takeover leaves control records beside them."""
    ends = extents(cluster.bootstrap_servers, name)
    with Reader(cluster.bootstrap_servers, name, ends) as reader:
        return [row_of(message) for messages in reader for message in messages]


def planned(file: Path) -> list[str]:
    (found,) = preview(config.load([file]))
    assert found.failure == ""
    return [change.text for change in found.changes]
