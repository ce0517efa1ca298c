"""What the matrix writes: every kind of record, in every kind of batch, by producers that others wrote.

A *cell* is a producer and a codec, with a topic of its own. Its partitions hold batches of one record that wait
together, large batches, and one lone small batch.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import NewTopic

from kafka import KafkaProducer
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.producers import JavaProducer, LibrdkafkaProducer, Record, RecordWriter
from sparkmirror.lab.readers import Logs, Seen
from sparkmirror.spark.gateway import Gateway
from tests.flow.running import admin_of, ends, until

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""In the order of their numbers in a batch's attributes."""

ONES, MANY, LONE = range(3)
PARTITIONS: Final = 3
ACKNOWLEDGED_S = 60.0
BATCH_BYTES = 900_000
BULKY = 60

Batches = Mapping[int, Sequence[Sequence[Record]]]
"""Partition to its batches, each with its records."""

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_LENGTH_ENDS = 12


class Cell(NamedTuple):
    """Who writes, and in which codec."""

    writer: str
    codec: str

    def __str__(self) -> str:
        return f"{self.writer}-{self.codec}"


class Stored(NamedTuple):
    """A batch as it lies in a broker's log."""

    codec: str
    records: int
    payload: bytes


class KafkaPythonProducer:
    """kafka-python's producer behind the lab's face."""

    def __init__(self, servers: str, codec: str) -> None:
        self._unacknowledged: list[Any] = []
        self._producer = KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            linger_ms=10_000,
            batch_size=BATCH_BYTES,
        )

    def write(self, topic: str, record: Record) -> None:
        sent = self._producer.send(
            topic, record.value, record.key, list(record.headers), record.partition, record.timestamp_ms
        )
        self._unacknowledged.append(sent)

    def flush(self) -> None:
        self._producer.flush(ACKNOWLEDGED_S)
        for sent in self._unacknowledged:
            sent.get(ACKNOWLEDGED_S)
        self._unacknowledged.clear()

    def close(self) -> None:
        self._producer.close(ACKNOWLEDGED_S)


def _java(gateway: Gateway, servers: str, codec: str) -> RecordWriter:
    settings = {"compression.type": codec, "linger.ms": "10000", "batch.size": str(BATCH_BYTES)}
    return JavaProducer(gateway, servers, settings)


def _librdkafka(_: Gateway, servers: str, codec: str) -> RecordWriter:
    settings: dict[str, Any] = {"compression.type": codec, "linger.ms": 10_000, "batch.size": BATCH_BYTES}
    return LibrdkafkaProducer(servers, settings)


def _kafka_python(_: Gateway, servers: str, codec: str) -> RecordWriter:
    return KafkaPythonProducer(servers, codec)


WRITERS: Final[Mapping[str, Callable[[Gateway, str, str], RecordWriter]]] = {
    "java": _java,
    "librdkafka": _librdkafka,
    "kafka-python": _kafka_python,
}

_REFUSED: Final[Mapping[str, Callable[[Record], bool]]] = {
    "java": lambda record: (record.timestamp_ms or 0) < 0,
    "librdkafka": lambda record: record.timestamp_ms == 0,  # taken for now
    "kafka-python": lambda record: (
        record.key is record.value is None or any(each is None for _, each in record.headers)
    ),
}
"""What a producer's interface does not let an application write."""


def kinds(now_ms: int) -> list[Record]:
    """Every kind of record; the first is the newest, so that all that follow have negative timestamp deltas."""
    some = b"value " * 40
    ages = {b"earlier": now_ms - 1, b"1970": 1, b"now again": now_ms, b"zero": 0, b"before 1970": -(2**41), b"-1": -1}
    return [
        Record(b"first", some, (), now_ms),
        Record(None, b"no key " * 40, (), now_ms - 70_000),
        Record(b"no value", None, (), now_ms - 2),
        Record(b"empty value", b"", (), now_ms - 3),
        Record(b"", b"empty key " * 30, (), now_ms - 4),
        Record(None, None, (), now_ms - 5),
        Record(b"repeated headers", some, (("h", b"1"), ("other", b"x" * 200), ("h", b"2"), ("h", b"1")), now_ms),
        Record(b"null headers", some, (("h", None), ("h", b""), ("h", None)), now_ms),
        Record(b"names", some, (("", b"of no name"), ("ä €", bytes(range(256))), ("empty", b"")), now_ms),
        Record(bytes(range(256)), bytes(range(256)) * 4, (), now_ms),
        *(Record(name, some, (), age) for name, age in ages.items()),
        Record(b"last", some, (), now_ms),
    ]


def batches_for(writer: str) -> Batches:
    """What a producer writes into the topic of each of its cells."""
    now_ms = int(time.time() * 1000)
    able = [record for record in kinds(now_ms) if not _REFUSED[writer](record)]
    old = [Record(b"lone", b"alone " * 40, (("h", b"1"),), 1)]
    bulky = _bulky(now_ms)
    many = [[*able, *bulky], [*old, *bulky, *able], [*reversed(able), *bulky]]
    batches = {ONES: [[record] for record in able], MANY: many, LONE: [old]}
    return {
        partition: [[record._replace(partition=partition) for record in batch] for batch in some]
        for partition, some in batches.items()
    }


def _bulky(now_ms: int) -> list[Record]:
    """Enough to make a batch of more than 32 KiB in every codec: half of it cannot be compressed."""
    dice = random.Random(7)
    return [
        Record(b"bulky-%d" % number, dice.randbytes(700) + b"the same " * 80, (), now_ms - dice.randrange(1_000_000))
        for number in range(BULKY)
    ]


def write(producer: RecordWriter, topic: str, batches: Batches) -> None:
    """Writes each batch as one: it is complete before anything is sent."""
    for some in batches.values():
        for batch in some:
            for record in batch:
                producer.write(topic, record)
            producer.flush()


def write_transactions(gateway: Gateway, servers: str, topic: str, batches: Batches, codec: str) -> None:
    """Commits each batch of all partitions in a transaction of its own, with an aborted one behind it."""
    settings = {"compression.type": codec, "linger.ms": "10000", "batch.size": str(BATCH_BYTES)}
    producer = JavaProducer(gateway, servers, settings | {"transactional.id": topic})
    for some in batches.values():
        for batch in some:
            for conclude in (producer.commit, producer.abort):
                producer.begin()
                for record in batch:
                    producer.write(topic, record)
                conclude()
    producer.close()


def create_topics(cluster: LabCluster, names: Sequence[str]) -> None:
    """Creates them all at once; nothing expires, since some records are older than any retention."""
    topics = [NewTopic(name, PARTITIONS, 1, config={"retention.ms": "-1"}) for name in names]
    admin = admin_of(cluster)  # a name for it, since its requests end with it
    for future in admin.create_topics(topics).values():
        future.result(60)
    until(lambda: all(len(ends(cluster, name)) == PARTITIONS for name in names), "leaders of all topics")


def as_given(topic: str, batches: Batches) -> Logs:
    """What a reader should see of a topic that these batches were written to, but for the offsets."""
    return {
        (topic, partition): [
            Seen(number, "CreateTime", record.timestamp_ms or 0, record.key, record.value, record.headers)
            for number, record in enumerate(record for batch in some for record in batch)
        ]
        for partition, some in batches.items()
    }


def stored(cluster: LabCluster, topic: str, partition: int) -> list[Stored]:
    """The batches in the log of a partition, read from the disk."""
    directory = cluster.brokers[0].directory / "data" / f"{topic}-{partition}"
    return [batch for file in sorted(directory.glob("*.log")) for batch in _stored(file.read_bytes())]


def _stored(data: bytes) -> Iterable[Stored]:
    at = 0
    while at < len(data):
        header = _HEADER.unpack_from(data, at)
        end = at + _BEFORE_LENGTH_ENDS + header[1]
        yield Stored(codec=CODECS[header[5] & 7], records=header[-1], payload=data[at + _HEADER.size : end])
        at = end
