"""Target partitions without a record: where a group goes on in a partition of which nothing was ever mirrored.

A group may have committed an offset in a partition whose records are all gone, or that never had one. No map tells
where that lies on the target. Where the target's partition has no record either, its end is the exact place: whatever
comes there comes behind. Without an offset ``auto.offset.reset`` would decide.

Invariant: the end is asked before the records below it are read, so a record that comes meanwhile is not below it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sparkmirror.config import Isolation
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.spots import Spot, read_spots
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map import OffsetMap

ASK_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""

UNCOMMITTED = Isolation.READ_UNCOMMITTED
"""A record of an open transaction may still come to be read, so its partition is not empty."""


def never_mirrored(maps: Mapping[TopicPartition, OffsetMap]) -> set[TopicPartition]:
    """The source partitions of which the flow has mirrored nothing, as their maps tell."""
    return {place for place, offsets in maps.items() if not len(offsets)}


def ends_of_empty(
    target: Cluster,
    partitions: Collection[TopicPartition],
    timeout_ms: int,
    known: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, int]:
    """The ends of those of the partitions that have no record; markers of fences and of transactions are none.

    Args:
        target: the cluster.
        partitions: that are asked for; one that cannot be asked is left out.
        timeout_ms: of the reading.
        known: what was found before: a partition with the same end is not read again.

    Raises:
        SparkmirrorError: the cluster cannot be asked at all.
    """
    if not partitions:
        return {}
    places = sorted(partitions)
    ask_ms = min(ASK_MS, timeout_ms)
    ends = admin.find_offsets(target, places, OffsetSpec.LATEST, timeout_ms=ask_ms).found
    starts = admin.find_offsets(target, sorted(ends), OffsetSpec.EARLIEST, timeout_ms=ask_ms).found
    found = {place: end for place, end in ends.items() if starts.get(place) == end or (known or {}).get(place) == end}
    spots = [Spot(place, starts[place]) for place in ends if place not in found and place in starts]
    read = read_spots(target, spots, lambda row: row.offset, timeout_ms, UNCOMMITTED) if spots else None
    if read is not None:
        empty = (spot.partition for spot, first in read.found.items() if first is None or first >= ends[spot.partition])
        found |= {place: ends[place] for place in empty}
    return found
