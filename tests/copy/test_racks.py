"""Reading from the follower in the lane's rack, on three real brokers: one that is well, behind, or cut off.

The leader is broker 1, the follower broker 2. The follower falls behind since it stands still for a while, and stays
behind since its replication is throttled, which brokers do only to those that are out of sync.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.copy.lane import Lane
from sparkmirror.events import now_ms
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.link import Link, Way
from sparkmirror.model import Alias, FlowName, TopicPartition
from tests.copy.staging import WAIT_SECONDS, Stage, read, wait_until
from tests.flow import elections
from tests.flow.running import admin_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LEADER, FOLLOWER = 1, 2
RACKS = {
    "broker.rack": "rack-{node}",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "replica.lag.time.max.ms": "2000",
}
THROTTLED = "follower.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"
MANY = 30
"""Records of nearly a megabyte each; a throttled follower takes one in eleven seconds."""

PATIENT_MS = 180_000
"""A follower that is paused for as long as a busy machine takes is not left by such a lane."""


@pytest.fixture(scope="module")
def racks() -> Iterator[LabCluster]:
    with start("racks", brokers=3, security=("LINK",), config=RACKS, link_delay_ms=0.0) as running:
        configure(running, ConfigResource(ConfigResource.Type.BROKER, str(FOLLOWER)), {RATE: "1"})
        yield running


def configure(cluster: LabCluster, place: ConfigResource, wanted: Mapping[str, str]) -> None:
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()]
    resource = ConfigResource(place.restype, place.name, incremental_configs=entries)
    for future in admin_of(cluster).incremental_alter_configs([resource]).values():
        future.result(WAIT_SECONDS)


def _endpoint(alias: str, servers: str) -> Endpoint:
    client = ClientSettings(bootstrap_servers=tuple(servers.split(",")))
    return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)


@pytest.fixture
def stage(racks: LabCluster, cluster_b: LabCluster, topic_name: str) -> Iterator[Stage]:
    config = FlowConfig(
        name=FlowName(source=Alias("A"), target=Alias("B")),
        source=_endpoint("A", racks.listener("LINK")),
        target=_endpoint("B", cluster_b.bootstrap_servers),
    )
    known = {end.alias: Cluster(end.alias, end.admin, role="test") for end in (config.source, config.target)}
    made = Stage(
        config=config,
        topic=topic_name,
        clusters=lambda alias: known[Alias(alias)],
        writer=acquire_writer(known[Alias("B")], f"sparkmirror.test.{topic_name}", 60_000),
    )
    elections.create(racks, topic_name, [[LEADER, FOLLOWER]])
    wanted = [NewTopic(name=name, partitions=1) for name in (made.target_topic, made.internal, made.control)]
    admin.create_topics(known[Alias("B")], wanted).complete()
    admin.wait_for_leaders(known[Alias("B")], {topic.name: 1 for topic in wanted}).complete()
    yield made
    for cluster in known.values():
        cluster.close()


@pytest.fixture
def produce(stage: Stage, racks: LabCluster) -> Callable[..., list[int]]:
    """Writes records that the leader alone acknowledges; gives the times at which it has, at the latest."""
    producer = Producer({"bootstrap.servers": racks.bootstrap_servers, "acks": 1, "linger.ms": 0})

    def write(count: int, size: int = 100) -> list[int]:
        acknowledged: list[int] = []
        for number in range(count):
            producer.produce(
                stage.topic,
                b"%d" % number + b"x" * size,
                partition=0,
                on_delivery=lambda *_: acknowledged.append(now_ms()),
            )
            producer.poll(0)
        assert producer.flush(WAIT_SECONDS) == 0
        return acknowledged

    return write


@contextmanager
def copying(stage: Stage, threads: ThreadPoolExecutor, **client: int) -> Iterator[Lane]:
    """A lane in the rack of the follower, from when it reads there."""
    consumer = replace(stage.config.source.consumer, client_rack=f"rack-{FOLLOWER}", **client)  # type: ignore[arg-type]  # its numbers
    loop = new_loop("racks")
    source = Cluster("A", consumer, role="test", loop=loop)
    target = Cluster("B", stage.config.target.producer, role="test", loop=loop)
    config = replace(stage.config, source=replace(stage.config.source, consumer=consumer))
    lane = Lane(stage.shift("lane-0.0", stage.plans()[:1]), config, source, target)
    (copy,) = lane.partitions
    job = threads.submit(loop.run, lane.copy)
    try:
        wait_until(lambda: job.done() or copy.read_from == FOLLOWER)
        yield lane
        assert not job.done()
        assert (copy.error, copy.tally.events) == ("", [])
    finally:
        stage.drain()
        job.result(WAIT_SECONDS)
        source.close()
        target.close()
        loop.close()


def has(stage: Stage, count: int) -> None:
    """Waits until the target has so many records, and all of them are those of the source."""
    place = TopicPartition(stage.target_topic, 0)
    wait_until(lambda: admin.list_offsets(stage.clusters("B"), [place], OffsetSpec.LATEST)[place] == count)
    there = read(stage.target_servers, place)
    here = read(stage.source_servers, TopicPartition(stage.topic, 0))
    assert [record.content for record in there] == [record.content for record in here]


def throttle(racks: LabCluster, stage: Stage, replicas: str) -> None:
    configure(racks, ConfigResource(ConfigResource.Type.TOPIC, stage.topic), {THROTTLED: replicas})


def fall_behind(racks: LabCluster, stage: Stage, produce: Callable[..., list[int]]) -> list[int]:
    """Writes what the follower lacks for minutes, while it answers clients; gives when the leader had it."""
    throttle(racks, stage, f"0:{FOLLOWER}")
    follower = racks.brokers[FOLLOWER - 1].pid
    os.kill(follower, signal.SIGSTOP)
    try:
        wait_until(lambda: _as_the_leader_knows(racks, stage.topic) == (LEADER, [LEADER]))
        return produce(MANY, 900_000)
    finally:
        os.kill(follower, signal.SIGCONT)


def _as_the_leader_knows(racks: LabCluster, topic: str) -> tuple[int, list[int]]:
    """Asked by a client of its own, which knows no broker that is paused and would be waited for."""
    server = racks.bootstrap_servers.split(",")[LEADER - 1]
    return elections.leader(AdminClient({"bootstrap.servers": server, "log_level": 0}), topic)


async def follow(lane: Lane) -> None:
    """Follows as if the follower had been in sync a moment ago."""
    lane.followers.follow(lane.partitions[0], FOLLOWER)


def test_a_follower_that_fell_behind_is_left_after_the_lease_and_its_offsets_are_the_leaders_matter(
    racks: LabCluster, stage: Stage, produce: Callable[..., list[int]], threads: ThreadPoolExecutor
):
    with copying(stage, threads, metadata_max_age_ms=1_000) as lane:
        (copy,) = lane.partitions
        produce(10)
        has(stage, 10)
        wait_until(lambda: copy.read_from == FOLLOWER)
        fall_behind(racks, stage, produce)
        has(stage, 10 + MANY)
        wait_until(lambda: copy.read_from == LEADER)
        assert elections.leader(admin_of(racks), stage.topic) == (LEADER, [LEADER]), "the follower is behind still"

        lane.leaders.source.loop.call_soon_threadsafe(partial(follow, lane))
        wait_until(lambda: copy.replica.leader_only_until > 0.0)
        produce(5)
        has(stage, 15 + MANY)
        assert copy.read_from == LEADER


def test_lag_and_recovery_point_are_the_leaders_while_the_follower_is_behind(
    racks: LabCluster, stage: Stage, produce: Callable[..., list[int]], threads: ThreadPoolExecutor
):
    with copying(stage, threads, request_timeout_ms=PATIENT_MS) as lane:
        (copy,) = lane.partitions
        produce(10)
        has(stage, 10)
        taken = fall_behind(racks, stage, produce)
        wait_until(lambda: copy.end == 10 + MANY)
        for _ in range(3):
            asked_ms = copy.recovery._asked_ms
            wait_until(lambda asked_ms=asked_ms: copy.recovery._asked_ms > asked_ms)  # type: ignore[misc]  # bound here
            point_ms, end = copy.recovery.point_ms, copy.end
            assert (copy.read_from, end) == (FOLLOWER, 10 + MANY)
            assert point_ms <= taken[copy.position - 10], "what is missing would be lost"

        throttle(racks, stage, "")
        has(stage, 10 + MANY)
        wait_until(lambda: copy.recovery.point_ms > taken[-1])
        assert copy.read_from == FOLLOWER


@pytest.mark.parametrize("break_off", [Link.cut, lambda link: link.hold(Way.FROM_BROKER)], ids=["cut off", "silent"])
def test_a_follower_that_is_cut_off_or_silent_is_left(
    racks: LabCluster,
    stage: Stage,
    produce: Callable[..., list[int]],
    threads: ThreadPoolExecutor,
    break_off: Callable[[Link], None],
):
    """Its leader goes on naming it, since it is in sync."""
    with copying(stage, threads, request_timeout_ms=3_000) as lane:
        produce(10)
        has(stage, 10)
        break_off(racks.links[FOLLOWER])
        try:
            produce(10)
            has(stage, 20)
            assert lane.partitions[0].read_from == LEADER
        finally:
            racks.links[FOLLOWER].mend()
