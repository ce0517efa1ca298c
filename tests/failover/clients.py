"""Consumer groups of librdkafka that commit all the time while something happens, and what they are to read next."""

from __future__ import annotations

import random
import threading
from bisect import bisect_left
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from sparkmirror.lab.cluster import LabCluster
from tests.flow.logs import Log

Offsets = Mapping[int, int]


class Readers:
    """Members of groups, one each, that read a topic slowly and commit after a random number of records.

    Args:
        cluster: to read from.
        topic: to read.
        groups: their names.
        seed: of their paces.
    """

    def __init__(self, cluster: LabCluster, topic: str, groups: list[str], seed: int) -> None:
        self._cluster, self._topic = cluster, topic
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(group, random.Random(seed + number)), daemon=True)
            for number, group in enumerate(groups)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Has them leave their groups."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _read(self, group: str, chance: random.Random) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6_000,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._topic])
        try:
            while not self._stop.is_set():
                read = consumer.consume(chance.randint(1, 40), 0.1)
                if any(message.error() is None for message in read) and chance.random() < 0.7:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException:  # nothing to commit, or the cluster is gone
            self._stop.wait(0.2)


def next_records(cluster: LabCluster, group: str, topic: str, log: Log) -> dict[int, bytes | None]:
    """The value of the first record that a member of the group gets, by partition; None where there is none.

    The group must have an offset in every partition: one without would begin anywhere, and fails here.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: dict[int, bytes | None] = {}
    try:
        consumer.assign([TopicPartition(topic, number) for number in log])
        for _ in range(600):
            if len(found) == len(log):
                break
            message = consumer.poll(0.1)
            if message is None:
                continue
            number = message.partition()
            assert number is not None
            error = message.error()
            if error is None:
                found.setdefault(number, message.value())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                found.setdefault(number, None)
    finally:
        consumer.close()
    return found


def due(log: Log, offsets: Offsets) -> dict[int, bytes | None]:
    """The value of the first record from each offset on; None behind the last."""
    found: dict[int, bytes | None] = {}
    for number, offset in offsets.items():
        place = bisect_left([record.offset for record in log[number]], offset)
        found[number] = log[number][place].value if place < len(log[number]) else None
    return found
