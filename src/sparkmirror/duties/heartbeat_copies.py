"""Which target topics hold heartbeats and nothing else: no name tells, since any client of the source may choose one.

Another mirror, such as MirrorMaker 2, has left such a topic as a copy of the source's heartbeats, and a flow may go on
behind them: of heartbeats the newest counts, and no repeated one is a fault.

Invariant: a topic that cannot be read, or has no record among its newest offsets, is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkmirror.config import Isolation
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import rows
from sparkmirror.kafka.reading import Span, read_up_to
from sparkmirror.mm2.heartbeats import read_heartbeat
from sparkmirror.model import TopicPartition

NEWEST, MOST_BYTES = 200, 64 << 10
"""So many of the last offsets of a partition are looked at, as far as about so many bytes of batches go."""

LARGEST = 64 << 10
"""Bytes of two aliases and their lengths, at most."""


def hold_heartbeats(target: Cluster, places: Iterable[TopicPartition], timeout_ms: int) -> frozenset[str]:
    """The topics of these partitions that have records, of which all that are looked at are heartbeats.

    Args:
        target: to ask.
        places: partitions of target topics.
        timeout_ms: milliseconds until partitions without an answer count as failed.
    """
    some = list(places)
    if not some:
        return frozenset()
    ends = admin.find_offsets(target, some, OffsetSpec.LATEST, timeout_ms=timeout_ms)
    firsts = admin.find_offsets(target, list(ends.found), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    spans = {
        place: Span(max(first, ends.found[place] - NEWEST), ends.found[place])
        for place, first in firsts.found.items()
        if first < ends.found[place]
    }
    read = read_up_to(target, spans, are_heartbeats, timeout_ms, MOST_BYTES, Isolation.READ_UNCOMMITTED)
    failed = {place.topic for place in (*ends.failed, *firsts.failed, *read.failed)}
    told: dict[str, list[bool]] = {}
    for place, each in read.found.items():
        told.setdefault(place.topic, []).extend(each.records)
    return frozenset(topic for topic, all_of in told.items() if all_of and all(all_of) and topic not in failed)


def are_heartbeats(table: Any) -> list[bool]:
    """Of each row of a table of records whether it is a heartbeat, and nothing more. Pure."""
    return [_is_heartbeat(row.key, row.value) for row in rows(table)]


def _is_heartbeat(key: memoryview | None, value: memoryview | None) -> bool:
    if key is None or value is None or max(len(key), len(value)) > LARGEST:
        return False
    found = bytes(key), bytes(value)
    try:
        beat = read_heartbeat(*found)
    except ValueError:
        return False
    return (beat.key, beat.value) == found
