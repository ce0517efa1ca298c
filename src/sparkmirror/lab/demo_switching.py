"""The last part of the demo: a planned switchover, and then the source killed under load and a failover.

A consumer group stands in the middle of every partition. After each operation librdkafka reads what the group would
read next on the target, and what it would have read next on the source: they have to be the same record.

Invariant: what the reports say is held against the source's own log, which is started again for that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from sparkmirror.config import load
from sparkmirror.errors import LabError
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.report import Report, as_dict
from sparkmirror.failover.states import Kind
from sparkmirror.failover.switching import prepared
from sparkmirror.flow.sides import connected, record
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.records import extents

GROUP = "billing"
LOAD_S, WAIT_S, LOOK_S = 3.0, 60.0, 0.2
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
        return sum(len(each["partitions"]) for each in self.report["groups"])

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
    """Switches the demo's flow over.

    Args:
        source, target: its clusters.
        file: its configuration.
        topics: that are written to the source, with their partitions.
    """

    def __init__(self, source: LabCluster, target: LabCluster, file: Path, topics: Mapping[str, int]) -> None:
        self._source, self._target, self._topics = source, target, topics
        (self._flow,) = load([str(file)]).flows
        self._file = str(file)

    def switchover(self) -> Switched:
        """Planned: producers are silent, the flow runs.

        Raises:
            SparkmirrorError: it did not come to its end.
        """
        self._commit(0.5)
        return self._judged(self._carried_out(Kind.SWITCHOVER, Options(idle_s=1.0)))

    def release(self) -> None:
        """Lets the flow copy again.

        Raises:
            SparkmirrorError: it is not held.
        """
        with prepared(self._flow, self._file) as desk:
            desk.release(lambda _: None)

    def failover(self) -> Switched:
        """Unplanned: the source is killed while it is written to.

        Raises:
            SparkmirrorError: it did not come to its end.
        """
        self._commit(0.75)
        self._until_seen()
        before = self._records()
        with _Load(self._source.bootstrap_servers, next(iter(self._topics))):
            time.sleep(LOAD_S)
            for broker in self._source.brokers:
                broker.kill()
        report = self._carried_out(Kind.FAILOVER, Options())
        for broker in self._source.brokers:
            broker.start()
        return replace(self._judged(report), late=self._records() - before)

    def _carried_out(self, kind: Kind, options: Options) -> Report:
        with prepared(self._flow, self._file) as desk:
            return desk.carry_out(kind, options, lambda _: None)

    def _judged(self, report: Report) -> Switched:
        same = 0
        for move in report.moves:
            for place in move.places:
                if place.target is None:
                    continue
                here = _next(self._source, place.partition.topic, place.partition.partition, place.committed.offset)
                there = _next(self._target, place.target.topic, place.target.partition, place.offset)
                same += here == there
        copied = {each.partition: each.position for each in report.partitions}
        missing = 0
        for topic in self._topics:
            for number, extent in extents(self._source.bootstrap_servers, topic).items():
                position = next(at for place, at in copied.items() if place == (topic, number))
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

    def _commit(self, share: float) -> None:
        """The group stands at this share of every partition, as one that has left."""
        consumer = _consumer(self._source, GROUP)
        places = [
            TopicPartition(topic, number, int(extent.end * share))
            for topic in self._topics
            for number, extent in extents(self._source.bootstrap_servers, topic).items()
        ]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    def _until_seen(self) -> None:
        """Waits until the mirror has seen the group where it stands now."""
        began = int(time.time() * 1000)

        def seen() -> bool:
            with connected(self._flow, role="demo") as sides:
                state = record(sides)
            return state is not None and state.groups_seen is not None and state.groups_seen.time_ms > began

        _until(seen, "the mirror looks at the groups of the source")


class _Load:
    """Writes to a topic as fast as a small application, until the cluster is gone."""

    def __init__(self, servers: str, topic: str) -> None:
        settings = {"bootstrap.servers": servers, "log_level": QUIET, "linger.ms": 5, "message.timeout.ms": 1_000}
        self._producer = Producer(settings)
        self._topic = topic
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
                self._producer.produce(self._topic, b"late-%d" % number)
            self._producer.poll(0)
        self._producer.purge()
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
