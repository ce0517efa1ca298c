"""Offset syncs: which are written, and that MirrorMaker 2's own store translates with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror import config
from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, OffsetSyncSettings, PolicyChoice, Side
from sparkmirror.copy.registrations import Registration
from sparkmirror.duties import offset_syncs, roster
from sparkmirror.duties.duty import Sides, do_round
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.duties.offset_syncs import MOST_AT_ONCE, Line, OffsetSyncs, decide, topic_of
from sparkmirror.flow.sides import connected
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import topic_configs
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.store import Store
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.mm2.offset_syncs import OffsetSync, read_offset_sync
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.naming import WRITERS_TOPIC, internal_topic
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import FlowRecord
from sparkmirror.spark.gateway import Gateway
from tests.flow.rights import GUARDED
from tests.flow.running import ends, until, write_file
from tests.offsets.segments import Segment, records_of
from tests.offsets.test_map import WRITER, piece_map, progress

PLACE = TopicPartition("orders", 1)
LAG = 100


def mapped(*stretches: tuple[int, int, int]) -> OffsetMap:
    """Stretches of source, target and length; everything in them is acknowledged."""
    sequence, segments = 0, []
    for source, target, length in stretches:
        segments.append((sequence, source, target))
        sequence += length
    source, target, length = stretches[-1]
    last = progress(sequence - 1, source + length - 1, target + length - 1, source + length)
    return piece_map(*segments).offsets(last, (7,))


def sync(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(partition=PLACE, upstream=upstream, downstream=downstream)


def points(
    line: OffsetMap, written: tuple[int, int] | None = None, *, still: bool = False, whole: bool = True, lag: int = LAG
) -> list[tuple[int, int]]:
    known = None if written is None else sync(*written)
    made = decide({PLACE: Line(mapped=line, written=known, still=still, whole=whole)}, lag)
    assert all(one.partition == PLACE for one in made)
    return [(one.upstream, one.downstream) for one in made]


@pytest.mark.parametrize(
    ("stretches", "written", "still", "expected"),
    [
        ([(0, 0, 50)], None, False, [(0, 0), (49, 49)]),
        ([(5, 2, 1)], None, False, [(5, 2)]),
        ([(5, 2, 10), (20, 12, 10)], None, False, [(5, 2), (20, 12), (29, 21)]),
        ([(0, 0, 250)], None, False, [(0, 0), (100, 100), (200, 200), (249, 249)]),
        ([(0, 0, 50)], (49, 49), True, []),
        ([(0, 0, 60)], (49, 49), False, []),
        ([(0, 0, 60)], (49, 49), True, [(50, 50), (59, 59)]),
        ([(0, 0, 150)], (49, 49), False, []),
        ([(0, 0, 151)], (49, 49), False, [(50, 50), (150, 150)]),
        ([(0, 0, 50), (55, 50, 5)], (49, 49), False, [(55, 50), (59, 54)]),
        ([(0, 0, 50), (50, 53, 5)], (49, 49), False, [(50, 53), (54, 57)]),
    ],
    ids=[
        "the first ones",
        "a single record",
        "one where the difference changes",
        "some on the way",
        "nothing moved",
        "moved a little, and goes on",
        "moved a little, and stands still",
        "moved by less than the lag that is allowed",
        "moved by so much",
        "a hole at the source",
        "others wrote on the target",
    ],
)
def test_what_is_written(stretches, written, still, expected):
    assert points(mapped(*stretches), written, still=still) == expected


def test_what_an_earlier_run_has_told_is_not_told_again():
    assert points(mapped((0, 0, 250), (300, 250, 10)), whole=False) == [(309, 259)]


def test_another_history_is_told_from_its_beginning():
    """The target was made anew: the reader sees an offset that it had, and forgets what it knew."""
    assert points(mapped((0, 5, 50)), (40, 40)) == [(0, 5), (49, 54)]


def test_what_the_target_lost_is_told_anew():
    assert points(mapped((0, 0, 20), (20, 21, 5)), (40, 40)) == [(0, 0), (20, 21), (24, 25)]


def test_nothing_is_told_of_what_is_not_acknowledged():
    written_ahead = piece_map((0, 0, 0), (10, 15, -1))
    assert points(written_ahead.offsets(progress(9, 9, 9, 10), (7,))) == [(0, 0), (9, 9)]
    nothing = piece_map((0, 0, -1))
    assert points(nothing.offsets(progress(-1, -1, -1, 0), (7,))) == []


lengths = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(1, 400)), min_size=1, max_size=90)


@given(lengths, st.integers(0, 150), st.booleans())
def test_every_pair_is_one_record_s_and_the_newest_is_the_last(steps, lag, whole):
    stretches, source, target = [], 0, 0
    for hole, others, length in steps:
        source, target = source + hole, target + others
        stretches.append((source, target, length))
        source, target = source + length, target + length
    line = mapped(*stretches)
    found = points(line, whole=whole, lag=lag)
    assert 1 <= len(found) <= MOST_AT_ONCE
    assert found == sorted(set(found))
    assert found[-1] == (source - 1, target - 1)
    assert all(line.mirrored(here) and line.source_to_target(here) == there for here, there in found)


def far_flow(settings: OffsetSyncSettings, policy: PolicyChoice | None = None) -> FlowConfig:
    client = ClientSettings(bootstrap_servers=("127.0.0.1:1",))
    sides = [Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client) for alias in ("A", "B")]
    name = FlowName(source=Alias("A"), target=Alias("B"))
    flow = FlowConfig(name=name, source=sides[0], target=sides[1], offset_syncs=settings)
    return flow if policy is None else replace(flow, policy=policy)


@pytest.mark.parametrize(
    ("location", "separator", "topic"),
    [
        (Side.SOURCE, ".", "mm2-offset-syncs.B.internal"),
        (Side.TARGET, ".", "mm2-offset-syncs.A.internal"),
        (Side.SOURCE, "_", "mm2-offset-syncs_B_internal"),
    ],
)
def test_the_topic_names_the_cluster_that_it_is_not_on(location, separator, topic):
    assert topic_of(far_flow(OffsetSyncSettings(location=location), PolicyChoice(separator=separator))) == topic


@pytest.mark.parametrize("enabled", [True, False])
def test_a_flow_has_the_duty_unless_it_is_switched_off(enabled):
    with connected(far_flow(OffsetSyncSettings(enabled=enabled)), role="test", started=False) as sides:
        assert ("offset syncs" in [duty.name for duty in roster.upkeep(sides)]) is enabled


@pytest.fixture(scope="module")
def guarded() -> Iterator[LabCluster]:
    """A cluster on which the mirror's user has no rights."""
    with start("readonly", security=("SASL_PLAIN",), config=GUARDED) as running:
        yield running


@dataclass(slots=True, kw_only=True)
class Site:
    """A flow whose internal topic the test writes, as lanes and driver do."""

    flow: FlowConfig
    source: Cluster
    target: Cluster
    store: Store

    def duty(self, **settings: Any) -> OffsetSyncs:
        known = OffsetSyncSettings(**{"replication_factor": 1, "lag_max": 10} | settings)
        return OffsetSyncs(
            Sides(
                flow=replace(self.flow, offset_syncs=known),
                source=self.source,
                target=self.target,
                store=Store(self.target, internal_topic(self.flow.name), 30_000),
            )
        )

    def tell(self, sequence: int, source: int, target: int, records: int) -> None:
        """One stretch of records that are copied and acknowledged."""
        self.store.write(
            [
                *records_of([Segment(partition=PLACE, writer=WRITER, sequence=sequence, source=source, target=target)]),
                progress(sequence + records - 1, source + records - 1, target + records - 1, source + records),
            ]
        )


@pytest.fixture
def site(lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]) -> Site:
    alias = Alias(topic("other"))
    name = FlowName(source=lab_flow.source.alias, target=alias)
    flow = replace(lab_flow, name=name, target=replace(lab_flow.target, alias=alias))
    source, target = lab_cluster("A"), lab_cluster("B")
    ensure_internal_topics(flow, target)
    store = Store(target, internal_topic(name), 30_000)
    record = FlowRecord(source_alias="A", source_id="s", target_alias=alias, target_id=alias, naming="", generation=1)
    store.write([record])
    writer = Registration(producer_id=WRITER.producer_id, flow=str(name), cluster=alias, origin=("s",), group=0)
    registration = writer.key, writer.value
    target.run(Journal(target, WRITERS_TOPIC).append, [registration])
    return Site(flow=flow, source=source, target=target, store=store)


def on_record(cluster: LabCluster, topic: str) -> list[tuple[int, int]]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([Place(topic, 0, 0)])
        messages = consumer.consume(ends(cluster, topic)[0], timeout=20)
    syncs = [read_offset_sync(message.key() or b"", message.value() or b"") for message in messages]
    assert {one.partition for one in syncs} <= {PLACE}
    return [(one.upstream, one.downstream) for one in syncs]


def rounds(duty: OffsetSyncs, number: int) -> list[str]:
    return [result.failure or type(result.action).__name__ for _ in range(number) for result in do_round(duty)]


@pytest.mark.kafka
def test_rounds_write_what_moved_and_nothing_else(
    site: Site, cluster_a: LabCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"mm2-offset-syncs.{site.flow.target.alias}.internal"
    duty = site.duty()
    assert rounds(duty, 3) == ["CreateTopic"]
    site.tell(0, 0, 0, 5)
    assert rounds(duty, 3) == ["WriteSyncs"]
    site.tell(5, 7, 5, 3)
    assert rounds(duty, 3) == ["WriteSyncs"]
    expected = [(0, 0), (4, 4), (7, 5), (9, 7)]
    assert on_record(cluster_a, topic) == expected
    configs = topic_configs(site.source, [topic])[topic]
    assert configs["cleanup.policy"].value == "compact"

    again = site.duty()
    assert rounds(again, 3) == ["WriteSyncs"]
    assert on_record(cluster_a, topic) == [*expected, (9, 7)]
    site.tell(8, 10, 8, 2)
    assert rounds(again, 1) == []
    assert rounds(again, 2) == ["WriteSyncs"]
    assert on_record(cluster_a, topic)[-2:] == [(10, 8), (11, 9)]

    admin.delete_topics(site.source, [topic]).complete()
    until(lambda: topic not in admin.list_topics(site.source, [topic]), "the topic is gone")
    site.tell(10, 20, 10, 1)
    monkeypatch.setattr(offset_syncs, "CALL_MS", 1_000)
    (lost,) = rounds(again, 1)
    assert topic in lost
    assert rounds(again, 3) == ["CreateTopic", "WriteSyncs"]
    assert on_record(cluster_a, topic) == [(0, 0), (7, 5), (10, 8), (20, 10)]


@pytest.mark.kafka
def test_the_topic_lies_on_the_target_where_the_file_says_so(site: Site, cluster_b: LabCluster) -> None:
    duty = site.duty(location=Side.TARGET)
    topic = topic_of(replace(site.flow, offset_syncs=OffsetSyncSettings(location=Side.TARGET)))
    site.tell(0, 3, 1, 4)
    made = rounds(duty, 2)
    assert made[-1] == "WriteSyncs"
    assert on_record(cluster_b, topic)[-1] == (6, 4)


@pytest.mark.kafka
def test_a_source_with_fewer_brokers_is_told_which_key_to_set(site: Site) -> None:
    (refused,) = rounds(site.duty(replication_factor=3), 1)
    assert "set offset-syncs.topic.replication.factor (it is 3) to the number of brokers at most" in refused


@pytest.mark.kafka
def test_a_source_that_may_not_be_written_is_told_with_the_ways_out(
    site: Site, guarded: LabCluster, cluster_b: LabCluster, tmp_path: Path
) -> None:
    file = write_file(
        tmp_path / "mm2.properties",
        {"A": guarded.client_properties("SASL_PLAIN"), "B": cluster_b},
        {"A->B": "orders"},
    )
    with closing(Cluster("A", config.load([file]).flows[0].source.admin, role="test")) as source:
        site.source = source
        (refused,) = rounds(site.duty(), 1)
    topic = f"mm2-offset-syncs.{site.flow.target.alias}.internal"
    assert f"cluster A, {topic}: " in refused
    assert f"allow WRITE, DESCRIBE and CREATE on Topic {topic} to this user" in refused
    assert "set offset-syncs.topic.location=target, or set emit.offset-syncs.enabled=false" in refused


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


def translated(jvm: Any, syncs: list[tuple[int, int]], offsets: list[int]) -> Mapping[int, int]:
    """What MirrorMaker 2's store, having read the syncs, makes of a group's offsets at the source."""
    kafka = jvm.org.apache.kafka
    kind = kafka.connect.mirror.OffsetSync._java_lang_class.getClassLoader().loadClass(
        "org.apache.kafka.connect.mirror.OffsetSyncStore"
    )
    made = next(one for one in kind.getDeclaredConstructors() if not one.getParameterCount())
    made.setAccessible(True)
    nothing = jvm.java.util.ArrayList().toArray()
    store = made.newInstance(nothing)
    for name, value in (("initializationMustReadToEnd", False), ("readToEnd", True)):
        field = kind.getDeclaredField(name)
        field.setAccessible(True)
        field.setBoolean(store, value)
    take = next(one for one in kind.getDeclaredMethods() if one.getName() == "handleRecord")
    take.setAccessible(True)
    for one in (sync(*pair) for pair in syncs):
        arguments = jvm.java.util.ArrayList()
        arguments.add(kafka.clients.consumer.ConsumerRecord("t", 0, 0, one.key, one.value))
        take.invoke(store, arguments.toArray())
    place = kafka.common.TopicPartition(*PLACE)
    answers = {offset: store.translateDownstream("group", place, offset) for offset in offsets}
    return {offset: answer.getAsLong() for offset, answer in answers.items() if answer.isPresent()}


@pytest.mark.kafka
def test_mm2_translates_with_them_and_never_too_far(jvm: Any) -> None:
    """A transaction marker every 40 records at the source; others wrote once on the target."""
    first = [(41 * n, 40 * n, 40) for n in range(20)]
    line = mapped(*first)
    told = points(line)
    later = mapped(*first, (820, 805, 300))
    told += points(later, told[-1])
    offsets = list(range(1120))
    answers = translated(jvm, told, offsets)
    assert list(answers) == offsets
    exact = {offset: later.source_to_target(offset) for offset in offsets}
    assert all(answers[offset] <= (exact[offset] or 0) for offset in offsets)
    last = told[-1]
    assert last == (1119, 1104)
    assert (answers[1119], answers[0]) == (1104, 0)
    assert (exact[1000] or 0) - answers[1000] <= 2 * LAG


def test_a_past_of_very_many_stretches_is_told_by_points_spread_over_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offset_syncs, "MOST_STRETCHES", 500)
    line = mapped(*((11 * n, 10 * n, 10) for n in range(2_000)))
    told = points(line)
    assert len(told) == MOST_AT_ONCE
    assert told[-1] == (11 * 1_999 + 9, 10 * 1_999 + 9)
    assert told == sorted(told)
    assert all(line.source_to_target(upstream) == downstream for upstream, downstream in told)
    steps = [b[0] - a[0] for a, b in itertools.pairwise(told)]
    assert max(steps) < 2 * 11 * 2_000 / MOST_AT_ONCE
