"""What members of consumer groups are to read next, and what they do read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from sparkmirror.lab.cluster import LabCluster
from tests.flow.logs import Log

Offsets = Mapping[int, int]


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
