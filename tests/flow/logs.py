"""Logs as brokers hold them and as readers see them: what the tests of every kind of log have in common.

Readers and writers here are librdkafka and plain requests of kafka-python; nothing of sparkmirror's data path.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, Message, TopicPartition

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.records import extents
from tests import raw_batches
from tests.flow import offset_map
from tests.flow.running import ends, until

READ_SECONDS = 60.0
HEADER = struct.Struct(">qiibIhiqqqhii")
CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 7, 8, 16, 32, 64


class Record(NamedTuple):
    """A record as a reader gets it; ``stamped`` says that its time is the broker's."""

    offset: int
    stamped: bool
    time: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


Log = dict[int, list[Record]]


def read(cluster: LabCluster, topic: str, *, committed: bool = True) -> Log:
    """All records by partition, as a reader of either isolation sees them now."""
    if committed:
        goals = {number: extent.end for number, extent in extents(cluster.bootstrap_servers, topic).items()}
    else:
        goals = ends(cluster, topic)
    found: Log = {number: [] for number in goals}
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "log_level": 3,
        }
    )
    try:
        unread = {number for number, goal in goals.items() if goal}
        consumer.assign([TopicPartition(topic, number, 0) for number in unread])
        until(lambda: _read_some(consumer, goals, found, unread), f"{topic} is read", READ_SECONDS)
    finally:
        consumer.close()
    return found


def _read_some(consumer: Consumer, goals: Mapping[int, int], found: Log, unread: set[int]) -> bool:
    for message in consumer.consume(5_000, 0.05) if unread else ():
        number, offset, error = message.partition(), message.offset(), message.error()
        assert number is not None
        assert offset is not None
        assert error is None or error.code() == KafkaError._PARTITION_EOF, error
        if error is None and offset < goals[number]:
            found[number].append(_record(message))
        if offset >= goals[number] - (error is None):
            unread.discard(number)
    return not unread


def _record(message: Message) -> Record:
    kind, time = message.timestamp()
    offset, some = message.offset(), tuple(message.headers() or ())
    assert offset is not None
    return Record(offset, kind == TIMESTAMP_LOG_APPEND_TIME, time, message.key(), message.value(), some)  # type: ignore[arg-type]  # headers are bytes here


def difference(here: list[Record], there: list[Record], *, times: bool = True) -> str:
    """The first difference of two partitions, in words; "" if there is none. Offsets are not compared."""
    first = 2 if times else 3
    for number, (mine, theirs) in enumerate(zip(here, there, strict=False)):
        if mine[first:] != theirs[first:]:
            return f"record {number}: {str(mine)[:300]} and {str(theirs)[:300]}"
    return "" if len(here) == len(there) else f"{len(here)} and {len(there)} records"


class Pair(NamedTuple):
    """A topic on both sides, as readers see it."""

    here: Log
    there: Log


def mirrored(
    source: LabCluster,
    target: LabCluster,
    copies: Mapping[str, str],
    internal: str,
    *,
    committed: bool = True,
    times: bool = True,
    runs: int = 1,
) -> dict[str, Pair]:
    """Asserts that topics hold the same records on both sides and that the offset map is exact for each of them.

    Args:
        source: where they come from.
        target: where they are now.
        copies: source topic to target topic.
        internal: the flow's internal topic.
        committed: whether the flow reads committed data only.
        times: whether the target keeps the source's times.
        runs: how many runs have copied them; each may begin with an entry of its own.
    """
    entries = offset_map.journal(target, internal)
    pairs = {}
    for topic, target_topic in copies.items():
        pair = Pair(read(source, topic, committed=committed), read(target, target_topic))
        differences = {number: difference(pair.here[number], pair.there[number], times=times) for number in pair.here}
        assert not any(differences.values()), f"{topic}: {differences}"
        pieces = offset_map.segments(entries, topic)
        here, there = ({number: [r.offset for r in rows] for number, rows in side.items()} for side in pair)
        offset_map.translate(topic, pieces, here, there)
        offset_map.check_entries(topic, entries, here, runs)
        pairs[topic] = pair
    return pairs


class RawBatch(NamedTuple):
    """A batch's header as it lies in the log."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_time: int
    max_time: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_delta

    @property
    def size(self) -> int:
        return self.length + 12

    @property
    def codec(self) -> int:
        return self.attributes & CODEC

    def has(self, bit: int) -> bool:
        return bool(self.attributes & bit)


def headers(data: bytes) -> Iterator[tuple[int, RawBatch]]:
    """(position, header) of each whole batch in some bytes of a log."""
    at = 0
    while at + HEADER.size <= len(data):
        batch = RawBatch(*HEADER.unpack_from(data, at))
        if at + batch.size > len(data):
            return
        yield at, batch
        at += batch.size


def raw(cluster: Cluster, topic: str, partition: int) -> list[RawBatch]:
    """Every batch of a partition that a Fetch returns, control batches and empty ones too."""
    found: list[RawBatch] = []
    while True:
        records = raw_batches.fetch(cluster, topic, partition, found[-1].last_offset + 1 if found else 0)
        some = [batch for _, batch in headers(records)]
        if not some:
            return found
        found += some


def append(cluster: Cluster, topic: str, partition: int, batches: Iterable[bytes]) -> None:
    """Produces batches exactly as they are."""
    for batch in batches:
        raw_batches.produce(cluster, topic, batch, partition)
