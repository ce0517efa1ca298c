"""Where a partition begins is decided once: it is on record before a lane has it, and holds whatever comes after."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.config import AutoOffsetReset, Beginning, FlowConfig, StartPlace, StartPlaces
from sparkmirror.flow.homecoming import Homecoming
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.planning import Planned, Planning
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.store import Store
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.records import Progress
from tests.flow import offset_map
from tests.flow.running import Running, create_topic, until, write_file
from tests.flow.test_events import delete_records, read_all, records, write

pytestmark = pytest.mark.kafka

LATER = 4_000_000_000_000
LATEST = StartPlaces(position=StartPlace(kind=Beginning.LATEST))
OF_A_LATER_TIME = StartPlaces(position=StartPlace(kind=Beginning.TIMESTAMP, value=LATER))


class Drivers:
    """One flow of one partition on real clusters, for drivers one after the other; lanes there are none."""

    def __init__(self, flow: FlowConfig, connect: Callable[[str], Cluster], name: str) -> None:
        self.name = name
        self.flow = replace(flow, name=FlowName(source=Alias(name), target=Alias("B")), topics=(name,))
        self.here, self.there = TopicPartition(name, 0), TopicPartition(f"{name}.{name}", 0)
        self._source, self._target = connect("A"), connect("B")

    def starts(self) -> tuple[Opened, Planning]:
        """A driver takes the flow, as one does after the former has crashed."""
        opened = open_flow(self.flow, self._source, self._target, "file", "run", Identities("file"))
        homecoming = Homecoming(self.flow, opened, self._source)
        return opened, Planning(self.flow, opened, self._source, self._target, homecoming, once=False)

    def plan(self, planning: Planning) -> Planned:
        """Decides where the partition begins."""
        return planning.plan([(self.here, self.there)], {}, {})

    def on_record(self) -> Progress | None:
        """What anybody reads in the internal topic."""
        store = Store(self._target, internal_topic(self.flow.name), 30_000)
        store.follow()
        return store.state.progress.get(self.here)

    @property
    def oldest(self) -> int:
        """Where the source's log begins."""
        return admin.list_offsets(self._source, [self.here], OffsetSpec.EARLIEST)[self.here]


@pytest.fixture
def drivers(
    lab_flow: FlowConfig,
    lab_cluster: Callable[[str], Cluster],
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    topic: Callable[[str], str],
) -> Drivers:
    made = Drivers(lab_flow, lab_cluster, topic("begins"))
    create_topic(cluster_a, made.name)
    create_topic(cluster_b, made.there.topic)
    return made


@pytest.mark.parametrize(
    "change",
    [{"start": LATEST}, {"start": OF_A_LATER_TIME}, {"auto_offset_reset": AutoOffsetReset.LATEST}],
    ids=["latest", "of a time", "by the consumer's setting"],
)
def test_what_comes_between_two_decisions_is_not_skipped(
    drivers: Drivers, cluster_a: LabCluster, change: dict[str, Any]
) -> None:
    drivers.flow = replace(drivers.flow, **change)
    write(cluster_a, drivers.name, [0], records(50))
    opened, planning = drivers.starts()
    (plan,) = drivers.plan(planning).plans
    assert plan.position == 50
    known = drivers.on_record()
    assert known is not None
    assert (known.position, known.end, known.next_sequence, known.settled, known.released) == (50, 50, 0, True, False)
    assert (known.writer, known.generation) == (plan.writer, opened.generation), "a lane's first word replaces it"

    write(cluster_a, drivers.name, [0], records(20, 50))
    planning.resuming.hand_out([drivers.here])
    (again,) = drivers.plan(planning).plans
    assert again.position == 50, "its lane was lost"
    _, another = drivers.starts()
    (again,) = drivers.plan(another).plans
    assert again.position == 50, "the driver was lost"


def test_a_start_at_the_oldest_record_stays_there_when_that_is_removed(drivers: Drivers, cluster_a: LabCluster) -> None:
    """So that the lane finds the gap, and tells of it."""
    write(cluster_a, drivers.name, [0], records(50))
    _, planning = drivers.starts()
    (plan,) = drivers.plan(planning).plans
    assert plan.position == 0
    delete_records(cluster_a, drivers.name, 30)
    until(lambda: drivers.oldest == 30, "records are removed", 30)
    _, another = drivers.starts()
    (again,) = drivers.plan(another).plans
    assert again.position == 0


def test_a_partition_that_waits_since_its_target_is_occupied_has_not_begun(
    drivers: Drivers, cluster_a: LabCluster, cluster_b: LabCluster
) -> None:
    write(cluster_a, drivers.name, [0], records(5))
    write(cluster_b, drivers.there.topic, [0], [b"another's"])
    _, planning = drivers.starts()
    planned = drivers.plan(planning)
    assert (planned.plans, set(planned.waiting)) == ((), {drivers.here})
    assert drivers.on_record() is None


def test_a_start_within_an_open_transaction_is_no_lost_tail(drivers: Drivers, cluster_a: LabCluster) -> None:
    """Its position lies beyond what readers of committed records get to."""
    write(cluster_a, drivers.name, [0], records(5))
    when = int(time.time() * 1000) + 60_000
    start = StartPlaces(position=StartPlace(kind=Beginning.TIMESTAMP, value=when + 2))
    drivers.flow = replace(drivers.flow, start=start)
    servers = cluster_a.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "transactional.id": drivers.name})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(5):
        producer.produce(drivers.name, b"open", partition=0, timestamp=when + number)
    assert producer.flush(60) == 0
    try:
        for _ in range(2):
            _, planning = drivers.starts()
            planned = drivers.plan(planning)
            assert ([plan.position for plan in planned.plans], planned.events) == ([7], ())
    finally:
        producer.abort_transaction(60)


@pytest.mark.slow
def test_a_lane_that_dies_before_it_has_told_anything_skips_nothing(
    cluster_a: LabCluster, cluster_b: LabCluster, topic: Callable[[str], str], tmp_path: Path
) -> None:
    name = topic("latest")
    copy, internal = f"l.{name}", "sparkmirror.l.b.internal"
    create_topic(cluster_a, name)
    write(cluster_a, name, [0], records(50))
    settings = {"tasks.max": "1", "start.position": "latest"}
    file = write_file(tmp_path / "mm2.properties", {"l": cluster_a, "b": cluster_b}, {"l->b": name}, settings)

    def begun() -> bool:
        entries = offset_map.journal(cluster_b, internal)
        return any(key[:2] == ("progress", name) for key in entries)

    with Running(file, log=tmp_path / "run.log") as mirror:
        until(begun, "the start is on record")
        write(cluster_a, name, [0], records(20, 50))
        for pid in until(mirror.lane_workers, "a lane"):
            os.kill(pid, signal.SIGKILL)
        write(cluster_a, name, [0], records(5, 70))
        until(lambda: read_all(cluster_b, copy).get(0, []) == records(25, 50), "all that came since the start")
        mirror.stop_in_time()
