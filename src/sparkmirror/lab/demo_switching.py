"""The last part of the demo: a switchover under load, back again, and then the source killed under load and a failover.

A consumer group stands in the middle of every partition. After each operation librdkafka reads what the group would
read next on the target, and what it would have read next on the source: they have to be the same record.

Invariant: what the reports say is held against the source's own log, which is started again for that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.config import load
from sparkmirror.errors import LabError
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.report import Report, as_dict
from sparkmirror.failover.states import Keep, Kind
from sparkmirror.failover.switching import Desk, prepared, prepared_back
from sparkmirror.flow.sides import connected, record
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.mirror import Mirror
from sparkmirror.lab.records import extents

GROUP = "billing"
LIVE = "live"
LOAD_S, WAIT_S, LOOK_S = 3.0, 120.0, 0.2
PER_TURN = 100
QUIET = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """What came of one operation.

    Attributes:
        kind: of it.
        report: what it said, as in its JSON file.
        same: partitions in which the group's next record on the target is that of the source.
        missing: committed records of the source that are not on the target, by the source's own log.
        seconds: it took.
        late: records that the source took while it waited for its end.
    """

    kind: str
    report: Mapping[str, Any]
    same: int
    missing: int
    seconds: float
    late: int = 0

    @property
    def partitions(self) -> int:
        """In which the group had committed."""
        places = (place for each in self.report["groups"] for place in each["partitions"])
        return sum(place["target_topic"] is not None for place in places)

    @property
    def passed(self) -> bool:
        """Whether the group goes on where it was, and the report says what is true."""
        told = self.report["lost_records"] <= self.missing
        right = told if self.kind == Kind.FAILOVER.value else self.missing == self.report["lost_records"] == 0
        return right and not self.report["troubles"] and self.report["repeated_records"] == 0 and self.all_same

    @property
    def all_same(self) -> bool:
        """Whether the group reads the same next record everywhere."""
        return 0 < self.partitions == self.same


class DemoSwitching:
    """Switches the demo's flow over, and back.

    Args:
        source, target: its clusters.
        file: its configuration, with the flows of both directions.
        topics: that are written to the source.
    """

    def __init__(self, source: LabCluster, target: LabCluster, file: Path, topics: Sequence[str]) -> None:
        self._source, self._target, self._topics = source, target, (*topics, LIVE)
        self._forth, self._back = load([str(file)]).flows
        self._file, self._directory = str(file), file.parent

    def switchover(self) -> Switched:
        """Planned, and begun while an application still writes.

        Raises:
            SparkmirrorError: it did not come to its end.
        """
        _commit(self._source, dict.fromkeys(self._topics, 0.5))
        with prepared(self._forth, self._file) as desk:
            report = self._under_load(desk, Kind.SWITCHOVER, self._source)
        return self._judged(report, self._source, self._target, self._topics)

    def failback(self) -> Switched:
        """Back, and begun while an application still writes where it is now.

        Raises:
            SparkmirrorError: it did not come to its end.
        """
        copies = [f"{self._forth.source.alias}.{topic}" for topic in self._topics]
        _commit(self._target, dict.fromkeys([*copies, LIVE], 0.75))
        with prepared_back(self._forth, self._back, self._file) as desk:
            report = self._under_load(desk, Kind.FAILBACK, self._target)
        return self._judged(report, self._target, self._source, (LIVE,))

    def failover(self, mirror: Mirror) -> Switched:
        """Unplanned: the source and the mirror are killed while the source is written to.

        Raises:
            SparkmirrorError: it did not come to its end.
        """
        _commit(self._source, dict.fromkeys(self._topics, 0.9))
        self._until_copying()
        self._until_seen()
        before = self._records()
        with _Load(self._source.bootstrap_servers):
            time.sleep(LOAD_S)
            mirror.kill()
            for broker in self._source.brokers:
                broker.kill()
        with prepared(self._forth, self._file) as desk:
            report = desk.carry_out(Kind.FAILOVER, Options(), lambda _: None)
        for broker in self._source.brokers:
            broker.start()
        found = self._judged(report, self._source, self._target, self._topics)
        return replace(found, late=self._records() - before)

    def _under_load(self, desk: Desk, kind: Kind, cluster: LabCluster) -> Report:
        """Begins while somebody writes, who stops when it has begun."""
        options = Options(idle_s=1.0, divergent=Keep.TOPIC.value, directory=str(self._directory))
        with ThreadPoolExecutor(1) as pool:
            with _Load(cluster.bootstrap_servers):
                time.sleep(LOAD_S)
                under_way = pool.submit(desk.carry_out, kind, options, lambda _: None)
                time.sleep(LOAD_S)
            return under_way.result(WAIT_S)

    def _judged(self, report: Report, left: LabCluster, taken: LabCluster, topics: Sequence[str]) -> Switched:
        same = 0
        for move in report.moves:
            for place in move.places:
                if place.target is None:
                    continue
                here = _next(left, place.partition.topic, place.partition.partition, place.committed.offset)
                there = _next(taken, place.target.topic, place.target.partition, place.offset)
                same += here == there
        copied = {each.partition: each.position for each in report.partitions}
        missing = 0
        for topic in topics:
            for number, extent in extents(left.bootstrap_servers, topic).items():
                position = next((at for place, at in copied.items() if place == (topic, number)), 0)
                missing += max(0, extent.end - position)
        return Switched(
            kind=report.operation.kind,
            report=as_dict(report),
            same=same,
            missing=missing,
            seconds=report.seconds,
        )

    def _records(self) -> int:
        """Offsets that the source has taken."""
        ends = (extents(self._source.bootstrap_servers, topic).values() for topic in self._topics)
        return sum(extent.end for some in ends for extent in some)

    def _until_copying(self) -> None:
        """Waits until a record that is written now is on the target."""
        copy = f"{self._forth.source.alias}.{LIVE}"

        def copied() -> int:
            return sum(extent.end for extent in extents(self._target.bootstrap_servers, copy).values())

        before = copied()
        producer = Producer({"bootstrap.servers": self._source.bootstrap_servers, "log_level": QUIET})
        producer.produce(LIVE, b"first")
        producer.flush(WAIT_S)
        _until(lambda: copied() > before, "the mirror copies again")

    def _until_seen(self) -> None:
        """Waits until the mirror has seen the group where it stands now."""
        began = int(time.time() * 1000)

        def seen() -> bool:
            with connected(self._forth, role="demo") as sides:
                state = record(sides)
            return state is not None and state.groups_seen is not None and state.groups_seen.time_ms > began

        _until(seen, "the mirror looks at the groups of the source")


def create_live(cluster: LabCluster) -> None:
    """The topic that applications write to while the clusters change over.

    Raises:
        LabError: the cluster does not answer.
    """
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": QUIET})
    try:
        admin.create_topics([NewTopic(LIVE, 2, 1)])[LIVE].result(WAIT_S)
    except KafkaException as failure:
        raise LabError(f"cluster {cluster.name}: {LIVE} cannot be created: {failure}") from failure


def _commit(cluster: LabCluster, shares: Mapping[str, float]) -> None:
    """The group stands at this share of every partition, as one that has left."""
    consumer = _consumer(cluster, GROUP)
    places = [
        TopicPartition(topic, number, int(extent.end * share))
        for topic, share in shares.items()
        for number, extent in extents(cluster.bootstrap_servers, topic).items()
    ]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


class _Load:
    """Writes to the live topic as an application would, until it is told to stop, or the cluster is gone."""

    def __init__(self, servers: str) -> None:
        settings = {"bootstrap.servers": servers, "log_level": QUIET, "linger.ms": 5, "message.timeout.ms": 1_000}
        self._producer = Producer(settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="load", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)

    def _write(self) -> None:
        number = 0
        while not self._stop.wait(0.005):
            for _ in range(PER_TURN):
                number += 1
                self._producer.produce(LIVE, b"late-%d" % number)
            self._producer.poll(0)
        if self._producer.flush(1):
            self._producer.purge()  # the cluster is gone
            self._producer.flush(1)


def _consumer(cluster: LabCluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": QUIET,
        }
    )


def _next(cluster: LabCluster, topic: str, partition: int, offset: int) -> tuple[bytes | None, bytes | None] | None:
    """Key and value of the first record from an offset on; None at the end.

    Raises:
        LabError: no answer in time, or none but an error.
    """
    consumer = _consumer(cluster, "sparkmirror-reader")
    consumer.assign([TopicPartition(topic, partition, offset)])
    deadline = time.monotonic() + WAIT_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(LOOK_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message.key(), message.value()
            if error.code() == KafkaError._PARTITION_EOF:
                return None
            if not error.retriable():
                raise LabError(f"{topic}-{partition} at offset {offset} on cluster {cluster.name}: {error.str()}")
        raise LabError(f"{topic}-{partition} at offset {offset} on cluster {cluster.name}: no record within {WAIT_S} s")
    finally:
        consumer.close()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"not within {WAIT_S:.0f} s: {what}")
        time.sleep(LOOK_S)
