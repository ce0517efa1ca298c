"""The real MirrorMaker 2 as its users run it, and steady production into its source."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition

from sparkmirror.lab import mirror
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.spark.java import find_java
from tests.flow.running import ends

END_SECONDS = 60.0
READ_SECONDS = 60.0

Headers = dict[str, str | bytes | None]

SETTINGS: Mapping[str, str] = {
    "offset.storage.replication.factor": "1",
    "offset.storage.partitions": "5",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "heartbeats.replication.enabled": "false",
    "b.offset.flush.interval.ms": "2000",
    "emit.offset-syncs.enabled": "true",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
}
"""What one broker needs, and a test that does not want to wait; no heartbeats that another test left are copied."""

_JVM = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class JavaProcess:
    """A running program of Kafka's distribution; a context manager that kills it if it still runs then."""

    def __init__(self, main: str, file: Path, log: Path) -> None:
        self.log = log
        watch = Path(mirror.__file__).with_name("watch.py")
        command = [sys.executable, "-I", "-S", str(watch), str(os.getpid()), "", str(find_java().executable), *_JVM]
        command += ["-cp", f"{mirror_maker_jars()}/*", f"org.apache.kafka.connect.{main}", str(file)]
        with log.open("wb") as out:
            self._watch = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out, process_group=0
            )
        assert self._watch.stdout is not None
        with self._watch.stdout as answer:
            self.pid = int(answer.readline())

    @property
    def output(self) -> str:
        """What it wrote so far."""
        return self.log.read_text(errors="replace")

    def stop(self) -> None:
        """As an operator would (SIGTERM); it stores its positions."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._watch.poll() is None:
            os.kill(self.pid, number)
        self._watch.wait(END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            error.add_note(self.output[-3000:])


class MirrorMaker(JavaProcess):
    """MirrorMaker 2 in its dedicated mode."""

    def __init__(self, file: Path, log: Path) -> None:
        super().__init__("mirror.MirrorMaker", file, log)


class Production:
    """Writes numbered records to partitions until it is stopped; a context manager.

    Attributes:
        written: how many of each partition the source has acknowledged.
    """

    def __init__(self, cluster: LabCluster, topics: Mapping[str, int], per_second: int = 400) -> None:
        self.written: dict[tuple[str, int], int] = defaultdict(int)
        self._places = [(topic, number) for topic, partitions in topics.items() for number in range(partitions)]
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 3}
        )
        self._pause = 0.05
        self._each = max(1, round(per_second * self._pause / len(self._places)))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(READ_SECONDS)
        assert self._producer.flush(READ_SECONDS) == 0

    def _run(self) -> None:
        sent: dict[tuple[str, int], int] = defaultdict(int)
        while not self._stop.wait(self._pause):
            for topic, number in self._places:
                for _ in range(self._each):
                    count = sent[topic, number]
                    key = None if count % 7 == 0 else b"k%d" % (count % 5)
                    headers: Headers = {"h": b"%d" % count} if count % 3 == 0 else {}
                    self._producer.produce(topic, b"%d" % count, key, number, headers=headers)
                    sent[topic, number] += 1
            self._producer.poll(0)
            self.written.update(sent)


def read_numbers(cluster: LabCluster, topics: Sequence[str]) -> dict[tuple[str, int], list[int]]:
    """The numbers in every partition, in the order of the log, as an independent client sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "log_level": 3,
            "enable.partition.eof": True,
        }
    )
    places = [TopicPartition(topic, number, 0) for topic in topics for number in ends(cluster, topic)]
    found: dict[tuple[str, int], list[int]] = {(place.topic, place.partition): [] for place in places}
    consumer.assign(places)
    done: set[tuple[str, int]] = set()
    deadline = time.monotonic() + READ_SECONDS
    while len(done) < len(places):
        assert time.monotonic() < deadline
        for message in consumer.consume(2000, 1.0):
            place = (message.topic() or "", message.partition() or 0)
            if message.error():
                done.add(place)
            else:
                found[place].append(int(message.value() or b""))
    consumer.close()
    return found
