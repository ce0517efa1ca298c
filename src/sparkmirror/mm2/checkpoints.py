"""MirrorMaker 2's checkpoints: what a group's committed offset is on the target, as clients read it from there.

The bytes are Kafka's classic types, big endian: INT16, INT32, INT64, STRING (INT16 length, then UTF-8).

    key     STRING group, STRING topic as on the target, INT32 partition
    value   INT16 version 0, INT64 offset on the source, INT64 offset on the target, STRING metadata

Reference: ``org.apache.kafka.connect.mirror.Checkpoint``, ``RemoteClusterUtils.translateOffsets``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from sparkmirror.model import TopicPartition

VERSION = 0
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSETS = struct.Struct(">hqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One checkpoint.

    Attributes:
        group: the group.
        partition: of the target.
        upstream: what the group has committed on the source.
        downstream: the same on the target.
        metadata: of the commit.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    def key(self) -> bytes:
        """The record's key."""
        return _string(self.group) + _string(self.partition.topic) + _PARTITION.pack(self.partition.partition)

    def value(self) -> bytes:
        """The record's value."""
        return _OFFSETS.pack(VERSION, self.upstream, self.downstream) + _string(self.metadata)


def read_key(key: bytes) -> tuple[str, TopicPartition]:
    """The group and the partition of the target that a key names.

    Raises:
        ValueError: it is not the key of a checkpoint.
    """
    try:
        group, at = _read_string(key, 0)
        topic, at = _read_string(key, at)
        (partition,) = _PARTITION.unpack_from(key, at)
    except (struct.error, UnicodeDecodeError) as failure:
        raise ValueError(f"not the key of a checkpoint: {failure}") from failure
    return group, TopicPartition(topic, partition)


def read_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Reads one record.

    Raises:
        ValueError: it is not a checkpoint of this version.
    """
    group, partition = read_key(key)
    try:
        version, upstream, downstream = _OFFSETS.unpack_from(value)
        metadata, _ = _read_string(value, _OFFSETS.size)
    except (struct.error, UnicodeDecodeError) as failure:
        raise ValueError(f"not a checkpoint: {failure}") from failure
    if version != VERSION:
        raise ValueError(f"a checkpoint of version {version}")
    return Checkpoint(group=group, partition=partition, upstream=upstream, downstream=downstream, metadata=metadata)


def _string(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = _LENGTH.unpack_from(data, at)
    end = at + _LENGTH.size + length
    if length < 0 or end > len(data):
        raise ValueError(f"not a checkpoint: a string of {length} bytes in {len(data)}")
    return data[at + _LENGTH.size : end].decode(), end
