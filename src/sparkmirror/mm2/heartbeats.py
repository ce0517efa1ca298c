"""Heartbeats: records that say of a flow that somebody wrote to its target, and when.

    key     STRING source alias, STRING target alias
    value   INT16 version, INT64 timestamp

Reference: ``org.apache.kafka.connect.mirror.Heartbeat`` (KIP-382).
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.mm2.types import int16, int64, read_int16, read_int64, read_string, string

VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """One heartbeat.

    Attributes:
        source, target: aliases of the flow's clusters.
        timestamp_ms: when it was written, milliseconds since 1970.
    """

    source: str
    target: str
    timestamp_ms: int

    @property
    def key(self) -> bytes:
        """The record's key."""
        return string(self.source) + string(self.target)

    @property
    def value(self) -> bytes:
        """The record's value."""
        return int16(VERSION) + int64(self.timestamp_ms)


def read_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    """Reads a record.

    Raises:
        ValueError: it is no heartbeat, or one of another version.
    """
    source, size = read_string(key, 0)
    target, _ = read_string(key, size)
    version, size = read_int16(value, 0)
    if version != VERSION:
        raise ValueError(f"a heartbeat of version {version}; {VERSION} is known")
    timestamp_ms, _ = read_int64(value, size)
    return Heartbeat(source=source, target=target, timestamp_ms=timestamp_ms)
