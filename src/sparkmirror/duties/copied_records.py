"""Whether records of the source are those that were copied: they are held against their copies.

Invariants: records of which no copy is left, or that the source has no more, say nothing, and neither do records of
others, which lie at the offsets of copies where the target has lost these; a partition costs no more
than the budgets of ``offsets.record_comparison``, and each question has a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparkmirror.batches import TimestampType
from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties.topics import remote_topic
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Read, Span, read_up_to
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.record_comparison import Comparison, Pair, Part
from sparkmirror.offsets.source_history import Alike, Looked

QUESTIONS = 3
"""A comparison ends after so many times the time that a question may take, with what is known by then."""

Maps = Callable[[Set[TopicPartition]], Mapping[TopicPartition, OffsetMap]]


class _Record(NamedTuple):
    """What is compared. Copies may have further headers."""

    offset: int
    timestamp: int
    timestamp_type: int
    content: tuple[bytes | None, bytes | None]

    def is_copy_of(self, other: _Record) -> bool:
        """Copies have the source's time, also one that its broker has set, unless their own broker sets times."""
        untimed = self.timestamp_type != TimestampType.CREATE_TIME or other.timestamp_type == TimestampType.NONE
        return (untimed or self.timestamp == other.timestamp) and self.content == other.content

    @property
    def size(self) -> int:
        return sum(len(each or b"") for each in self.content)


class Copy(NamedTuple):
    """Which record of the source is to lie where on the target."""

    there: TopicPartition
    source: int
    target: int


@dataclass(slots=True)
class _Looking:
    """One partition: its copies, what is to be compared, and why that failed."""

    there: TopicPartition
    offsets: OffsetMap
    comparison: Comparison
    copies: Span
    failure: BrokerError | LinkError | None = None


Looking = Mapping[TopicPartition, _Looking]


def are_copies(
    flow: FlowConfig, source: Cluster, target: Cluster, places: Mapping[TopicPartition, Copy], timeout_ms: int
) -> Results[TopicPartition, bool]:
    """Whether records lie where they are to lie; also where nothing tells, since either side has none there any more.

    The source may have deleted them, or have lost the end of its log, and cleaners of both sides remove records.

    Args:
        flow: the flow.
        source: its source.
        target: its target.
        places: one record of each partition of the source.
        timeout_ms: of each question.
    """
    oldest = admin.find_offsets(source, sorted(places), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    ends = admin.find_offsets(source, sorted(oldest.found), OffsetSpec.LATEST, flow.isolation, timeout_ms)
    left = {here: places[here] for here, end in ends.found.items() if oldest.found[here] <= places[here].source < end}
    spans = {place: Span(one.source, one.source + 1) for place, one in left.items()}
    originals = read_up_to(source, spans, _records, timeout_ms, 1, flow.isolation)
    spans = {left[place].there: Span(left[place].target, left[place].target + 1) for place in originals.found}
    copies = read_up_to(target, spans, _records, timeout_ms, 1, Isolation.READ_UNCOMMITTED)
    failed = {**oldest.failed, **ends.failed, **originals.failed}
    found = dict.fromkeys(ends.found.keys() - left.keys(), True)
    for place, read in originals.found.items():
        there = places[place].there
        if there in copies.failed:
            failed[place] = copies.failed[there]
        else:
            pairs = zip(copies.found[there].records, read.records, strict=False)
            found[place] = all(copy.is_copy_of(original) for copy, original in pairs)
    return Results(found=found, failed=failed)


class CopiedRecords:
    """Compares records of a flow's source with their copies.

    Args:
        flow: the flow.
        source, target: its clusters.
        maps: gives the maps of partitions, of all that was copied.
        timeout_ms: of each question; all of a comparison take `QUESTIONS` times as long, at most.
        now: seconds on a clock.
    """

    def __init__(
        self,
        flow: FlowConfig,
        source: Cluster,
        target: Cluster,
        maps: Maps,
        timeout_ms: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._flow, self._source, self._target, self._maps = flow, source, target, maps
        self._timeout_ms, self._now = timeout_ms, now

    def compare(self, spans: Mapping[TopicPartition, Span]) -> Results[TopicPartition, Looked]:
        """Holds records in spans of the source's offsets against their copies, see ``offsets.record_comparison``.

        Raises:
            SparkmirrorError: the maps cannot be read.
        """
        failed: dict[TopicPartition, BrokerError | LinkError] = {}
        looking = self._begin(spans, failed)
        until = self._now() + QUESTIONS * self._timeout_ms / 1_000
        while wanted := _wanted(looking, over=self._now() > until):
            self._look(wanted, looking)
        failed |= {place: one.failure for place, one in looking.items() if one.failure is not None}
        nothing = {place: Looked(Alike.UNKNOWN, span.end) for place, span in spans.items() if place not in looking}
        found = nothing | {place: one.comparison.result for place, one in looking.items()}
        return Results(found={place: one for place, one in found.items() if place not in failed}, failed=failed)

    def _begin(
        self, spans: Mapping[TopicPartition, Span], failed: dict[TopicPartition, BrokerError | LinkError]
    ) -> dict[TopicPartition, _Looking]:
        """Those of which both sides have something, from the first offset that may still have a copy on."""
        maps = {place: one for place, one in self._maps(set(spans)).items() if place in spans}
        there = {place: TopicPartition(remote_topic(self._flow, place.topic), place.partition) for place in maps}
        gone = admin.absent(self._target, there.values(), self._timeout_ms)
        there = {place: other for place, other in there.items() if other not in gone}
        originals = self._bounds(self._source, {place: place for place in there}, self._flow.isolation, failed)
        copies = self._bounds(self._target, there, Isolation.READ_UNCOMMITTED, failed)
        looking: dict[TopicPartition, _Looking] = {}
        for place in originals.keys() & copies.keys():
            begin = maps[place].target_to_source(copies[place].first) or 0
            span = Span(
                max(spans[place].first, originals[place].first, begin), min(spans[place].end, originals[place].end)
            )
            if span.first < span.end:
                comparison = Comparison(span.first, span.end, len(spans))
                looking[place] = _Looking(there[place], maps[place], comparison, copies[place])
        return looking

    def _look(self, wanted: Mapping[TopicPartition, Part], looking: Looking) -> None:
        """Reads a part of each, and the copies of it."""
        spans = {place: Span(part.first, part.end) for place, part in wanted.items()}
        originals = self._read(
            self._source, spans, looking, {place: place for place in spans}, self._flow.isolation, None
        )
        expected = {place: _copies(read.records, looking[place].offsets) for place, read in originals.items()}
        copies = {
            place: Span(max(min(one), looking[place].copies.first), min(max(one) + 1, looking[place].copies.end))
            for place, one in expected.items()
            if one
        }
        copies = {place: span for place, span in copies.items() if span.first < span.end}
        there = {place: looking[place].there for place in copies}
        mine = {there[place]: looking[place].offsets.producer_ids for place in copies}
        found = self._read(self._target, copies, looking, there, Isolation.READ_UNCOMMITTED, mine)
        for place, read in originals.items():
            one, originally = looking[place], expected[place]
            if one.failure is not None:
                continue
            seen = found.get(place, Read([], NO_OFFSET))
            pairs = [
                Pair(originally[copy.offset].offset, copy.is_copy_of(originally[copy.offset]))
                for copy in seen.records
                if copy.offset in originally
            ]
            reached = seen.end if place in found else one.copies.end
            unread = [record.offset for copy, record in originally.items() if reached <= copy < one.copies.end]
            size = sum(record.size for record in read.records)
            one.comparison.take(wanted[place], pairs, min([read.end, *unread]), size)

    def _bounds(
        self,
        cluster: Cluster,
        there: Mapping[TopicPartition, TopicPartition],
        isolation: Isolation,
        failed: dict[TopicPartition, BrokerError | LinkError],
    ) -> dict[TopicPartition, Span]:
        """What logs have, by partition of the source."""
        timeout_ms = self._timeout_ms
        oldest = admin.find_offsets(cluster, sorted(there.values()), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        ends = admin.find_offsets(
            cluster, sorted(oldest.found), OffsetSpec.LATEST, isolation=isolation, timeout_ms=timeout_ms
        )
        for answers in (oldest, ends):
            failed |= {place: answers.failed[other] for place, other in there.items() if other in answers.failed}
        return {
            place: Span(oldest.found[other], ends.found[other]) for place, other in there.items() if other in ends.found
        }

    def _read(
        self,
        cluster: Cluster,
        spans: Mapping[TopicPartition, Span],
        looking: Looking,
        there: Mapping[TopicPartition, TopicPartition],
        isolation: Isolation,
        only: Mapping[TopicPartition, Collection[int]] | None,
    ) -> dict[TopicPartition, Read[_Record]]:
        if not spans:
            return {}
        most = min(looking[place].comparison.step_bytes for place in spans)
        wanted = {there[place]: span for place, span in spans.items()}
        read = read_up_to(cluster, wanted, _records, self._timeout_ms, most, isolation, only=only)
        for place, other in there.items():
            if other in read.failed:
                looking[place].failure = read.failed[other]
        return {place: read.found[other] for place, other in there.items() if other in read.found}


def _wanted(looking: Looking, *, over: bool) -> dict[TopicPartition, Part]:
    """What is compared next of each; where the time is ``over`` a last part at most."""
    wanted: dict[TopicPartition, Part] = {}
    for place, one in looking.items():
        if over:
            one.comparison.stop()
        part = None if one.failure is not None else one.comparison.next()
        if part is not None:
            wanted[place] = part
    return wanted


def _copies(records: Sequence[_Record], offsets: OffsetMap) -> dict[int, _Record]:
    """The records that were copied, by the offsets of their copies."""
    found: dict[int, _Record] = {}
    for record in records:
        copy = offsets.source_to_target(record.offset) if offsets.is_exact(record.offset) else None
        if copy is not None and offsets.target_to_source(copy) == record.offset:
            found[copy] = record
    return found


def _records(table: Any) -> list[_Record]:
    return [
        _Record(
            offset=each["offset"],
            timestamp=each["timestamp"],
            timestamp_type=each["timestamp_type"],
            content=(each["key"], each["value"]),
        )
        for each in table.to_pylist()
    ]
