"""The log cleaner of the target removes what was copied last, and drivers die: nothing is copied again."""

from __future__ import annotations

import os
import signal
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow import logs
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.running import Running, create_topic, ends, set_property, until, write_file
from tests.flow.test_died_unheard import newest
from tests.flow.test_events import of_kind, records
from tests.flow.test_source_histories import flow_file
from tests.flow.test_torn_while_idle import IDENTITY, cut_log, mirrored, progress_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "300",
    "delete.retention.ms": "500",
}
INTERNAL = "sparkmirror.s.t.internal"
ROWS = [(b"A", b"1"), (b"B", b"1"), (b"C", b"1"), (b"C", b"2"), (b"D", b"1"), (b"C", None), (b"D", None)]


class Follower:
    """A consumer of the target that reads all the time: what is written is seen before it is cleaned away."""

    def __init__(self, cluster: LabCluster, copy: str) -> None:
        self.seen: list[tuple[bytes | None, bytes | None]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": copy,
                "fetch.wait.max.ms": 50,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(copy, 0, 0)])

    def read(self, seconds: float = 0.2) -> int:
        """Reads for a moment; gives how many records were seen so far."""
        for message in self._consumer.consume(100, seconds):
            if message.error() is None:
                self.seen.append((message.key(), message.value()))
        return len(self.seen)

    def wait_for(self, number: int) -> None:
        """Until so many records were seen."""
        until(lambda: self.read() >= number, f"{number} records", PATIENCE_SECONDS)

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.long
def test_kills_of_an_idle_mirror_repeat_nothing_of_what_was_cleaned_away(cluster_a, topic, tmp_path):
    name = topic("tombstones")
    copy = f"{name}.{name}"
    with start("t", config={"log.cleaner.backoff.ms": "200"}) as target:
        create_topic(cluster_a, name)
        create_topic(target, copy, config=COMPACTED)
        file = flow_file(tmp_path, cluster_a, target, name)
        follower = Follower(target, copy)
        mirror = Running(file, log=tmp_path / "0.log")
        producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 0})
        for number, (key, value) in enumerate(ROWS, 1):
            producer.produce(name, value, key, 0)
            assert producer.flush(30) == 0
            follower.wait_for(number)
            time.sleep(0.4)  # segments are rolled by time, and the cleaner leaves the active one alone
        for run in range(1, 4):
            mirror.kill()
            time.sleep(3)  # the cleaner's turn, and that of delete.retention.ms
            mirror = Running(file, log=tmp_path / f"{run}.log")
            wait_for_lane(target, name, run + 1)
            follower.read(3)
        mirror.stop_in_time()
        follower.read(1)
        follower.close()
        assert follower.seen == ROWS
        assert of_kind(file, name, "target-tail-lost") == []


def write_keyed(cluster: LabCluster, name: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for value in values:
        producer.produce(name, value, value, 0)
    assert producer.flush(30) == 0


def wait_for_lane(target: LabCluster, name: str, generation: int) -> None:
    """Until a lane of that start has published."""

    def begun() -> bool:
        known = newest(target, name, name)
        return bool(known.get("lane")) and known["generation"] >= generation

    until(begun, "it has begun", PATIENCE_SECONDS)


def test_what_a_target_lost_is_copied_again_though_what_others_wrote_there_was_cleaned_away(cluster_a, topic, tmp_path):
    """Kept names: applications fill the log, and newer values of theirs leave a hole where the last record was."""
    name = topic("filled")
    settings = {"replication.policy.class": IDENTITY, "replication.factor": "1", "tasks.max": "1"}
    with start("t", config={"log.cleaner.backoff.ms": "200"}) as target:
        (broker,) = target.brokers
        for cluster in (cluster_a, target):
            create_topic(cluster, name, 1)
        file = write_file(tmp_path / "mm2.properties", {"s": cluster_a, "t": target}, {"s->t": name}, settings)
        with Running(file, log=tmp_path / "first.log") as mirror:
            for number in (0, 5):
                write_keyed(cluster_a, name, records(5, number))
                until(lambda: mirrored(target, name) == records(number + 5), "5 more", PATIENCE_SECONDS)  # noqa: B023 - at once
            until(lambda: progress_of(target, INTERNAL, name).get("position") == 10, "on record", PATIENCE_SECONDS)
            for pid in (*mirror.lane_workers(), mirror.pid):
                os.kill(pid, signal.SIGKILL)
        broker.kill()
        cut_log(broker, name, 5)
        broker.start()
        until(lambda: ends(target, name) == {0: 5}, "records are really lost")
        for key, value in COMPACTED.items():
            set_property(target, name, key, value)
        producer = Producer({"bootstrap.servers": target.bootstrap_servers, "log_level": 0})
        for number in range(7):  # the last value of the lost offset's key comes behind it
            producer.produce(name, b"born on the target %d" % number, b"A", 0)
            assert producer.flush(30) == 0
            time.sleep(0.4 if number > 4 else 0)
        until(lambda: 9 not in [one.offset for one in logs.read(target, name)[0]], "cleaned", PATIENCE_SECONDS)
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
        assert mirrored(target, name) == records(10)
        (told,) = of_kind(file, name, "target-tail-lost")
        assert (told.first, told.last) == (5, 9)
