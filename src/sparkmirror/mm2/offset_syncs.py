"""Offset syncs: records that say of one record where it lies at the source and where on the target.

    key     STRING topic (as on the source), INT32 partition
    value   INT64 upstream offset, INT64 downstream offset

MirrorMaker 2 translates group offsets with them, and every tool that reads its topic. A reader keeps some of them for
each partition, in the order of the log; one whose upstream offset is below that of the one before makes it forget all
earlier ones.

Reference: ``org.apache.kafka.connect.mirror.OffsetSync``, ``OffsetSyncStore`` (KIP-382).
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.mm2.types import int32, int64, read_int32, read_int64, read_string, string
from sparkmirror.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """One offset sync.

    Attributes:
        partition: of the source.
        upstream: the offset of a record at the source.
        downstream: the offset of the same record on the target.
    """

    partition: TopicPartition
    upstream: int
    downstream: int

    @property
    def key(self) -> bytes:
        """The record's key."""
        return string(self.partition.topic) + int32(self.partition.partition)

    @property
    def value(self) -> bytes:
        """The record's value."""
        return int64(self.upstream) + int64(self.downstream)


def read_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """Reads a record.

    Raises:
        ValueError: it is no offset sync.
    """
    place = read_key(key)
    upstream, size = read_int64(value, 0)
    downstream, _ = read_int64(value, size)
    return OffsetSync(partition=place, upstream=upstream, downstream=downstream)


def read_key(key: bytes) -> TopicPartition:
    """The partition of the source that a key names.

    Raises:
        ValueError: it is not the key of an offset sync.
    """
    topic, size = read_string(key, 0)
    partition, _ = read_int32(key, size)
    if partition < 0:
        raise ValueError("the number of the partition is negative")
    return TopicPartition(topic, partition)
