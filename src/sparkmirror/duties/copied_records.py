"""Whether records of the source are those that were copied: they are held against their copies.

Invariants: records of which no copy is left, or that the source has no more, say nothing, and neither do records of
others, which lie at the offsets of copies where the target has lost these; a partition costs no more
than the budgets of ``offsets.record_comparison``, and each question has a deadline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any, NamedTuple

from sparkmirror.batches import TimestampType
from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties.internal_topics import CLEANUP_POLICY
from sparkmirror.duties.topics import remote_topic
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import describe_configs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import rows
from sparkmirror.kafka.reading import Read, Span, read_up_to
from sparkmirror.kafka.rounds import Results
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.record_comparison import Comparison, Pair, Part
from sparkmirror.offsets.source_history import Alike, Looked

QUESTIONS = 3
"""A comparison ends after so many times the time that a question may take, with what is known by then."""

NEAR, NEAR_BYTES = 20, 1 << 20
"""So many records before and behind one tell of it where log cleaners have removed it, and about so many bytes."""

HELD_BYTES, ALL_HELD_BYTES = 64 << 10, 64 << 20
"""So many bytes of a partition's records are held at least, and of all partitions together where they are few."""

Maps = Callable[[Set[TopicPartition]], Mapping[TopicPartition, OffsetMap]]


class _Record(NamedTuple):
    """What is compared, and its size in bytes. Copies may have further headers."""

    offset: int
    timestamp: int
    timestamp_type: int
    content: tuple[bytes | None, bytes | None]
    size: int

    def is_copy_of(self, other: _Record) -> bool:
        """Copies have the source's time, also one that its broker has set, unless their own broker sets times."""
        untimed = self.timestamp_type != TimestampType.CREATE_TIME or other.timestamp_type == TimestampType.NONE
        return (untimed or self.timestamp == other.timestamp) and self.content == other.content


class Copy(NamedTuple):
    """Which record of the source is to lie where on the target; ``earlier`` ones by both offsets, the oldest last.

    Of those before it that are to be held too, the oldest first, are the offsets in ``held``. ``cut`` says that the
    source has lost what was copied behind it.
    """

    there: TopicPartition
    source: int
    target: int
    earlier: tuple[tuple[int, int], ...] = ()
    held: tuple[tuple[int, int], ...] = ()
    cut: bool = False

    def below(self, end: int) -> Copy | None:
        """What is to lie before an offset of the source; None where nothing is known of that."""
        if self.source < end:
            return self
        held = tuple(one for one in self.held if one[0] < end)
        earlier = tuple(one for one in self.earlier if one[0] < end)
        last = max((*held, *earlier), default=None)
        if last is None:
            return None
        return Copy(self.there, *last, tuple(one for one in earlier if one < last), held, cut=True)


class Held(Enum):
    """What came of holding the record of a `Copy` against the source."""

    SAME = "it is that record"
    OTHER = "it is another record, or the source has none there"
    GONE = "one of the logs does not go there any more"
    CLEANED = "log cleaners have removed it, and nothing near it tells"


class _Window(NamedTuple):
    """Spans of both logs."""

    source: Span
    target: Span


@dataclass(slots=True)
class _Looking:
    """One partition: its copies, what is to be compared, and why that failed."""

    there: TopicPartition
    offsets: OffsetMap
    comparison: Comparison
    copies: Span
    failure: BrokerError | LinkError | None = None


Looking = Mapping[TopicPartition, _Looking]


class HeldRecords:
    """Holds single records of a flow's target against those of its source that they are to be copies of.

    Where the source's log goes on over an offset at which it has no record, no copy is of that offset: it is a
    marker's, or that of an aborted record. Only where log cleaners remove records the ones near it tell.

    Args:
        flow: the flow.
        source, target: its clusters.
        timeout_ms: of each question.
    """

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster, timeout_ms: int) -> None:
        self._flow, self._source, self._target, self._timeout_ms = flow, source, target, timeout_ms
        self._failed: dict[TopicPartition, BrokerError | LinkError] = {}

    def hold(self, places: Mapping[TopicPartition, Copy]) -> Results[TopicPartition, Held]:
        """Holds one record of each partition of the source."""
        self._failed = {}
        logs = self._logs(places)
        found = self._together(places, logs)
        left = logs.keys() - found.keys() - self._failed.keys()
        found |= self._one_by_one({here: places[here] for here in left}, logs)
        return Results(
            found={here: one for here, one in found.items() if here not in self._failed}, failed=self._failed
        )

    def _together(
        self, places: Mapping[TopicPartition, Copy], logs: Mapping[TopicPartition, _Window]
    ) -> dict[TopicPartition, Held]:
        """Holds all records that are to be held; nothing is told of partitions of which the last one was not read."""
        windows = {
            here: _Window(
                Span(max(one.held[0][0], logs[here].source.first), min(one.held[-1][0] + 1, logs[here].source.end)),
                Span(max(one.held[0][1], logs[here].target.first), min(one.held[-1][1] + 1, logs[here].target.end)),
            )
            for here, one in places.items()
            if one.held and here in logs
        }
        windows = {here: one for here, one in windows.items() if all(span.first < span.end for span in one)}
        most = min(NEAR_BYTES, max(HELD_BYTES, ALL_HELD_BYTES // max(1, len(windows))))
        found = dict[TopicPartition, Held]()
        for here, both in self._read(places, windows, most).items():
            pairs, last = _pairs(places[here].held, *both), (places[here].target, places[here].source)
            if not all(copy.is_copy_of(original) for copy, original in pairs):
                found[here] = Held.OTHER
            elif any((copy.offset, original.offset) == last for copy, original in pairs):
                found[here] = Held.SAME
        return found

    def _one_by_one(
        self, places: Mapping[TopicPartition, Copy], logs: Mapping[TopicPartition, _Window]
    ) -> dict[TopicPartition, Held]:
        """Holds the last records alone."""
        windows = {
            here: _Window(Span(one.source, one.source + 1), Span(one.target, one.target + 1))
            for here, one in places.items()
            if _goes_to(logs[here].source, one.source) and _goes_to(logs[here].target, one.target)
        }
        found = {here: _without(places[here], logs[here]) for here in places.keys() - windows.keys()}
        near = dict[TopicPartition, _Window]()
        empty = set[TopicPartition]()
        for here, (originals, copies) in self._read(places, windows, 1).items():
            if originals.records and copies.records:
                same = copies.records[0].is_copy_of(originals.records[0])
                found[here] = Held.SAME if same else Held.OTHER
            elif originals.records:
                near[here] = _around(places[here], logs[here])
            else:
                empty.add(here)
        cleaned = self._cleaned(empty)
        found |= dict.fromkeys(empty - cleaned, Held.OTHER)
        near |= {here: _around(places[here], logs[here]) for here in cleaned}
        for here, (originals, copies) in self._read(places, near, NEAR_BYTES).items():
            found[here] = _by_those_near(places[here], near[here], originals, copies)
        return found

    def _logs(self, places: Mapping[TopicPartition, Copy]) -> dict[TopicPartition, _Window]:
        """What both logs have."""
        here = {place: place for place in places}
        sources = _bounds(self._source, here, self._flow.isolation, self._timeout_ms, self._failed)
        there = {place: places[place].there for place in sources}
        targets = _bounds(self._target, there, Isolation.READ_UNCOMMITTED, self._timeout_ms, self._failed)
        return {place: _Window(sources[place], target) for place, target in targets.items()}

    def _read(
        self, places: Mapping[TopicPartition, Copy], windows: Mapping[TopicPartition, _Window], most: int
    ) -> dict[TopicPartition, tuple[Read[_Record], Read[_Record]]]:
        """The records of both sides, of about so many bytes."""
        if not windows:
            return {}
        spans = {here: window.source for here, window in windows.items()}
        originals = read_up_to(self._source, spans, _records, self._timeout_ms, most, self._flow.isolation)
        self._failed |= originals.failed
        there = {places[here].there: here for here in originals.found}
        spans = {place: windows[here].target for place, here in there.items()}
        copies = read_up_to(self._target, spans, _records, self._timeout_ms, most, Isolation.READ_UNCOMMITTED)
        self._failed |= {there[place]: failure for place, failure in copies.failed.items()}
        return {there[place]: (originals.found[there[place]], read) for place, read in copies.found.items()}

    def _cleaned(self, places: Set[TopicPartition]) -> set[TopicPartition]:
        """Those of which the source's log cleaner removes records, or may: its properties cannot be read."""
        topics = {here.topic for here in places}
        try:
            told = (
                describe_configs(self._source, sorted(topics), self._timeout_ms, (CLEANUP_POLICY,)) if topics else None
            )
        except LinkError as failure:
            self._failed |= dict.fromkeys(places, failure)
            return set()
        policies = {} if told is None else {topic: each[CLEANUP_POLICY].value for topic, each in told.found.items()}
        return {here for here in places if "compact" in (policies.get(here.topic, "compact") or "")}


def _without(one: Copy, logs: _Window) -> Held:
    """What it says that one of the logs does not go there; no copy is of what the source has not got yet.

    Where the source lacks records before those that are to be held too, it has lost some. One that has lost the marker
    of a transaction does not give its records out any more, or not yet.
    """
    ahead = not one.cut and bool(one.held) and one.held[0][0] <= logs.source.end <= one.source
    return Held.OTHER if ahead else Held.GONE


def _goes_to(log: Span, offset: int) -> bool:
    return log.first <= offset < log.end


def _around(one: Copy, logs: _Window) -> _Window:
    """The records near one: those before it whose places are known, and on the source as many behind it."""
    source, target = one.earlier[-1] if one.earlier else (one.source, one.target)
    return _Window(
        Span(max(source, logs.source.first), min(one.source + NEAR + 1, logs.source.end)),
        Span(max(target, logs.target.first), one.target + 1),
    )


def _by_those_near(one: Copy, window: _Window, originals: Read[_Record], copies: Read[_Record]) -> Held:
    """What the records near one tell, where cleaners have removed it on one side: both sides have been read there.

    A copy of a record further on is not of this one. Where the map has lost entries, the ones near it are others too.
    """
    here = {record.offset: record for record in originals.records}
    pairs = _pairs(one.earlier, originals, copies)
    last = next((record for record in copies.records if record.offset == one.target), None)
    if any(not copy.is_copy_of(original) for copy, original in pairs):
        return Held.OTHER
    if last is not None and any(last.is_copy_of(each) for offset, each in here.items() if offset > one.source):
        return Held.OTHER
    whole = originals.end >= window.source.end and copies.end >= window.target.end
    return Held.SAME if pairs and whole else Held.CLEANED


def _pairs(
    offsets: Iterable[tuple[int, int]], originals: Read[_Record], copies: Read[_Record]
) -> list[tuple[_Record, _Record]]:
    """Copies and their originals, by source and target offsets, of which both have been read."""
    here = {record.offset: record for record in originals.records}
    there = {record.offset: record for record in copies.records}
    return [(there[target], here[source]) for source, target in offsets if source in here and target in there]


def _bounds(
    cluster: Cluster,
    there: Mapping[TopicPartition, TopicPartition],
    isolation: Isolation,
    timeout_ms: int,
    failed: dict[TopicPartition, BrokerError | LinkError],
) -> dict[TopicPartition, Span]:
    """What logs have, by partition of the source."""
    oldest = admin.find_offsets(cluster, sorted(there.values()), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    ends = admin.find_offsets(
        cluster, sorted(oldest.found), OffsetSpec.LATEST, isolation=isolation, timeout_ms=timeout_ms
    )
    for answers in (oldest, ends):
        failed |= {place: answers.failed[other] for place, other in there.items() if other in answers.failed}
    return {
        place: Span(oldest.found[other], ends.found[other]) for place, other in there.items() if other in ends.found
    }


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
        here = {place: place for place in there}
        originals = _bounds(self._source, here, self._flow.isolation, self._timeout_ms, failed)
        copies = _bounds(self._target, there, Isolation.READ_UNCOMMITTED, self._timeout_ms, failed)
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
            offset=each.offset,
            timestamp=each.timestamp,
            timestamp_type=each.timestamp_type,
            content=(_digest(each.key), _digest(each.value)),
            size=sum(len(part) for part in (each.key, each.value) if part is not None),
        )
        for each in rows(table)
    ]


def _digest(part: Any | None) -> bytes | None:
    return None if part is None else blake2b(part, digest_size=16).digest()
