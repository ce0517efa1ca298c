"""Kafka Connect's topic of stored positions: read whole, and written where Connect's own producer would write.

Invariants: of what is read only the newest position of each key is kept, and no more than `MOST_POSITIONS`: whoever may
write there may write anything, and Connect's own topic keeps records of all its connectors until it is compacted. A
position counts where its key's hash leads; in another partition, left from before the topic was enlarged,
only as long as there is none there. Positions of transactions that were aborted do not count (KIP-618).

References: ``KafkaOffsetBackingStore``; ``BuiltInPartitioner`` (murmur2 of the key).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
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
from sparkmirror.kafka.reading import Span, read_each
from sparkmirror.mm2.stored_offsets import Newest, Owner, StoredOffset, is_position
from sparkmirror.model import TopicPartition

LARGEST = 64 << 10
"""Bytes of a key or a value: two names and a few words, or a number."""

MOST_POSITIONS, MOST_BYTES = 600_000, 256 << 20
"""Of all connectors that share the topic, and of their keys; twice as many as a cluster has partitions."""

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
        SparkmirrorError: a position cannot be read, or there are more than `MOST_POSITIONS`.
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
    held = Positions(len(places))
    read_each(cluster, spans, lambda place: partial(held.take, place.partition), timeout_ms).complete()
    try:
        return held.found()
    except ValueError as failure:
        raise SparkmirrorError(f"cluster {cluster.alias}, {topic}: {failure}") from failure


class Positions:
    """What holds of the records that were read so far.

    A partition may be read once more from its begin: its newest records come last then too.

    Args:
        partitions: how many the topic has.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._at_home = Newest()
        self._elsewhere: dict[int, Newest] = defaultdict(Newest)

    def take(self, partition: int, table: Any) -> list[None]:
        """Takes records of a partition, given as an Arrow table; keeps nothing of them but positions."""
        for key, value in _pairs(table):
            if not self._full and is_position(key):  # the hash of a key takes far longer than a look at it
                at_home = partition == home(key, self._partitions)
                (self._at_home if at_home else self._elsewhere[partition]).add(key, value)
        return []

    def found(self) -> dict[Owner, dict[TopicPartition, int]]:
        """The positions by owner and source partition.

        Raises:
            ValueError: one cannot be read, or there are too many.
        """
        if self._full:
            raise ValueError(
                f"it holds more than {MOST_POSITIONS} positions, or {MOST_BYTES} bytes of their keys: remove those "
                "that nobody needs, with records without a value and time for the topic to be compacted; or start the "
                "flow with --take-over none"
            )
        held = Newest()
        for _, newer in sorted(self._elsewhere.items()):
            held.update(newer)
        held.update(self._at_home)
        return held.positions()

    @property
    def _full(self) -> bool:
        held = (self._at_home, *self._elsewhere.values())
        return sum(map(len, held)) > MOST_POSITIONS or sum(each.key_bytes for each in held) > MOST_BYTES


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


def _pairs(table: Any) -> Iterator[Pair]:
    """The records that have a key, without such as are far too large for one; a value that is cut cannot be read."""
    for row in rows(table):
        if row.key is not None and len(row.key) <= LARGEST:
            yield bytes(row.key), None if row.value is None else bytes(memoryview(row.value)[:LARGEST])
