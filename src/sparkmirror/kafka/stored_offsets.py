"""Kafka Connect's topic of stored positions: read whole, and written where Connect's own producer would write.

Invariants: a position counts where its key's hash leads; in another partition, left from before the topic was enlarged,
only as long as there is none there. Positions of transactions that were aborted do not count (KIP-618).

References: ``KafkaOffsetBackingStore``; ``BuiltInPartitioner`` (murmur2 of the key).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kafka.partitioner.default import murmur2

from sparkmirror.config import Isolation
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNKNOWN_TOPIC_OR_PARTITION, broker_error
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import rows
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset, newest
from sparkmirror.model import TopicPartition

LARGEST = 64 << 10
"""Bytes of a key or a value: two names and a few words, or a number."""

Pair = tuple[bytes, bytes | None]


def read_stored(cluster: Cluster, topic: str, timeout_ms: int) -> dict[Owner, dict[TopicPartition, int]]:
    """What is stored, by owner and source partition: the offset of the last record that was copied.

    Args:
        cluster: where it is stored.
        topic: which holds it.
        timeout_ms: of each of the steps.

    Raises:
        BrokerError: the topic is not there, or cannot be read.
        LinkError: the cluster does not answer.
        SparkmirrorError: a position cannot be read.
    """
    described = admin.list_topics(cluster, [topic], timeout_ms)
    places = [TopicPartition(topic, number) for one in described.values() for number in sorted(one.partitions)]
    if not places:  # a list without it must not read as positions that were never stored
        raise broker_error(UNKNOWN_TOPIC_OR_PARTITION, cluster.alias, topic=topic)
    first = admin.list_offsets(cluster, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    ends = admin.list_offsets(
        cluster, places, OffsetSpec.LATEST, isolation=Isolation.READ_COMMITTED, timeout_ms=timeout_ms
    )
    spans = {place: Span(first[place], ends[place]) for place in places if ends[place] > first[place]}
    found = read_records(cluster, spans, _pairs, timeout_ms).complete()
    at_home: list[Pair] = []
    elsewhere: list[Pair] = []
    for place, pairs in found.items():
        for pair in pairs:
            (at_home if place.partition == home(pair[0], len(places)) else elsewhere).append(pair)
    try:
        return newest([*elsewhere, *at_home])
    except ValueError as failure:
        raise SparkmirrorError(f"cluster {cluster.alias}, {topic}: {failure}") from failure


def write_stored(
    cluster: Cluster, topic: str, partitions: int, stored: Sequence[StoredOffset], timeout_ms: int
) -> None:
    """Writes positions and waits until all in-sync replicas have them.

    Raises:
        BrokerError: the topic cannot be written.
        LinkError: the cluster does not answer.
    """
    by_partition: dict[int, list[Pair]] = defaultdict(list)
    for one in stored:
        by_partition[home(one.key, partitions)].append((one.key, one.value))
    for number, pairs in sorted(by_partition.items()):
        cluster.run(Journal(cluster, topic, number).append, pairs, timeout_ms)


def home(key: bytes, partitions: int) -> int:
    """The partition in which a Java producer puts a key."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions


def _pairs(table: Any) -> list[Pair]:
    """The records that have a key, without such as are far too large for one; a value that is cut cannot be read."""
    return [
        (bytes(row.key), None if row.value is None else bytes(memoryview(row.value)[:LARGEST]))
        for row in rows(table)
        if row.key is not None and len(row.key) <= LARGEST
    ]
