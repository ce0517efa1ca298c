"""MirrorMaker 2's checkpoints: what a group's committed offset is on the target, as clients read it from there.

    key     STRING group, STRING topic as on the target, INT32 partition
    value   INT16 version 0, INT64 offset on the source, INT64 offset on the target, STRING metadata

Reference: ``org.apache.kafka.connect.mirror.Checkpoint``, ``RemoteClusterUtils.translateOffsets``.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.mm2.types import (
    int16,
    int32,
    int64,
    read_int16,
    read_int32,
    read_int64,
    read_string,
    string,
)
from sparkmirror.model import TopicPartition

VERSION = 0


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
        return string(self.group) + string(self.partition.topic) + int32(self.partition.partition)

    def value(self) -> bytes:
        """The record's value."""
        return int16(VERSION) + int64(self.upstream) + int64(self.downstream) + string(self.metadata)


def read_key(key: bytes) -> tuple[str, TopicPartition]:
    """The group and the partition of the target that a key names.

    Raises:
        ValueError: it is not the key of a checkpoint.
    """
    try:
        group, size = read_string(key, 0)
        topic, more = read_string(key, size)
        partition, _ = read_int32(key, size + more)
    except ValueError as failure:
        raise ValueError(f"not the key of a checkpoint: {failure}") from failure
    return group, TopicPartition(topic, partition)


def read_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """Reads one record.

    Raises:
        ValueError: it is not a checkpoint of this version.
    """
    group, partition = read_key(key)
    try:
        version, at = read_int16(value, 0)
        upstream, size = read_int64(value, at)
        downstream, more = read_int64(value, at + size)
        metadata, _ = read_string(value, at + size + more)
    except ValueError as failure:
        raise ValueError(f"not a checkpoint: {failure}") from failure
    if version != VERSION:
        raise ValueError(f"a checkpoint of version {version}")
    return Checkpoint(group=group, partition=partition, upstream=upstream, downstream=downstream, metadata=metadata)
