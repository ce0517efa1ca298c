"""Whether records of the source are those that were copied: they are held against their copies.

Invariant: records of which no copy is left, or that the source has no more, say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties.topics import remote_topic
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.source_history import Alike

FEW = 20
"""Records that are compared; one copy of them that is left is enough."""

STEPS = (200, 2_000, 20_000)
"""Offsets that are read of a span, more and more, until there is such a record."""

Maps = Callable[[Set[TopicPartition]], Mapping[TopicPartition, OffsetMap]]


class _Record(NamedTuple):
    """What is compared. Copies may have further headers, and brokers that stamp records give them another time."""

    offset: int
    timestamp: int
    stamped: bool
    content: tuple[bytes | None, bytes | None]

    def is_copy_of(self, other: _Record) -> bool:
        times = self.stamped or other.stamped or self.timestamp == other.timestamp
        return times and self.content == other.content


@dataclass(slots=True)
class _Looking:
    """What is still to be read of one partition, and what was seen."""

    span: Span
    failure: BrokerError | LinkError | None = None
    seen: list[bool] = field(default_factory=list)


class CopiedRecords:
    """Compares records of a flow's source with their copies.

    Args:
        flow: the flow.
        source, target: its clusters.
        maps: gives the maps of partitions, of all that was copied.
        timeout_ms: of each question.
    """

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster, maps: Maps, timeout_ms: int) -> None:
        self._flow, self._source, self._target, self._maps = flow, source, target, maps
        self._timeout_ms = timeout_ms

    def compare(self, spans: Mapping[TopicPartition, Span]) -> Results[TopicPartition, Alike]:
        """Holds the first records in spans of the source's offsets against their copies.

        Raises:
            SparkmirrorError: the maps cannot be read.
        """
        maps = self._maps(set(spans))
        looking = {place: _Looking(span) for place, span in spans.items()}
        bounds = self._bounds(self._source, looking, {place: place for place in looking}, self._flow.isolation)
        for place, there in bounds.items():
            span = looking[place].span
            looking[place].span = Span(max(span.first, there.first), min(span.end, there.end))
        for step in STEPS:
            left = {place: one for place, one in looking.items() if place in maps and _is_open(one)}
            self._look({place: _cut(one.span, step) for place, one in left.items()}, looking, maps)
            for one in left.values():
                one.span = one.span._replace(first=_cut(one.span, step).end)
        return Results(
            found={place: _alike(one.seen) for place, one in looking.items() if one.failure is None},
            failed={place: one.failure for place, one in looking.items() if one.failure is not None},
        )

    def _look(
        self,
        spans: Mapping[TopicPartition, Span],
        looking: Mapping[TopicPartition, _Looking],
        maps: Mapping[TopicPartition, OffsetMap],
    ) -> None:
        originals = self._read(self._source, spans, looking, {place: place for place in spans}, self._flow.isolation)
        wanted = {place: _copies(records, maps[place]) for place, records in originals.items()}
        copied = {place: one for place, one in wanted.items() if one}
        there = {place: TopicPartition(remote_topic(self._flow, place.topic), place.partition) for place in copied}
        gone = admin.absent(self._target, there.values(), self._timeout_ms)
        copied = {place: one for place, one in copied.items() if there[place] not in gone}
        there = {place: there[place] for place in copied}
        bounds = self._bounds(self._target, looking, there, Isolation.READ_UNCOMMITTED)
        copies = {
            place: Span(max(min(copied[place]), log.first), min(max(copied[place]) + 1, log.end))
            for place, log in bounds.items()
        }
        copies = {place: span for place, span in copies.items() if span.first < span.end}
        there = {place: there[place] for place in copies}
        found = self._read(self._target, copies, looking, there, Isolation.READ_UNCOMMITTED)
        for place, records in found.items():
            looking[place].seen = [
                copied[place][one.offset].is_copy_of(one) for one in records if one.offset in copied[place]
            ]

    def _bounds(
        self,
        cluster: Cluster,
        looking: Mapping[TopicPartition, _Looking],
        there: Mapping[TopicPartition, TopicPartition],
        isolation: Isolation,
    ) -> dict[TopicPartition, Span]:
        """What logs have to be read, by partition of the source."""
        timeout_ms = self._timeout_ms
        oldest = admin.find_offsets(cluster, sorted(there.values()), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        ends = admin.find_offsets(
            cluster, sorted(oldest.found), OffsetSpec.LATEST, isolation=isolation, timeout_ms=timeout_ms
        )
        for place, other in there.items():
            for answers in (oldest, ends):
                looking[place].failure = answers.failed.get(other, looking[place].failure)
        return {
            place: Span(oldest.found[other], ends.found[other]) for place, other in there.items() if other in ends.found
        }

    def _read(
        self,
        cluster: Cluster,
        spans: Mapping[TopicPartition, Span],
        looking: Mapping[TopicPartition, _Looking],
        there: Mapping[TopicPartition, TopicPartition],
        isolation: Isolation,
    ) -> dict[TopicPartition, list[_Record]]:
        wanted = {there[place]: span for place, span in spans.items()}
        read = read_records(cluster, wanted, _records, self._timeout_ms, isolation)
        for place, other in there.items():
            if other in read.failed:
                looking[place].failure = read.failed[other]
        return {place: read.found[other] for place, other in there.items() if other in read.found}


def _is_open(one: _Looking) -> bool:
    return one.failure is None and not one.seen and one.span.first < one.span.end


def _cut(span: Span, step: int) -> Span:
    return Span(span.first, min(span.end, span.first + step))


def _copies(records: list[_Record], offsets: OffsetMap) -> dict[int, _Record]:
    """The first records that were copied, by the offsets of their copies."""
    found: dict[int, _Record] = {}
    for record in records:
        copy = offsets.source_to_target(record.offset) if offsets.is_exact(record.offset) else None
        if copy is not None and offsets.target_to_source(copy) == record.offset:
            found[copy] = record
        if len(found) == FEW:
            break
    return found


def _alike(seen: list[bool]) -> Alike:
    if not seen:
        return Alike.UNKNOWN
    return Alike.SAME if all(seen) else Alike.OTHER


def _records(table: Any) -> list[_Record]:
    return [
        _Record(
            offset=each["offset"],
            timestamp=each["timestamp"],
            stamped=each["timestamp_type"] != 0,
            content=(each["key"], each["value"]),
        )
        for each in table.slice(0, FEW * FEW).to_pylist()
    ]
