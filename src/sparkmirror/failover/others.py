"""What others have written to the copies that a flow brings home: how much of it, and up to where.

The flow that makes these copies goes on writing them while an operation of the flow that brings the rest home goes on.
So the end of such a log says nothing. What counts is the last record that no flow has brought there from the flow's
target.

Invariants: a record is one of others unless its producer is registered as one that brings records from the flow's
target; the registry is read when the ends are known, since a flow registers a producer before it writes with it;
markers of transactions are no records. A log is read once, however often an operation looks at it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.copy.origins import brought_from
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span, read_up_to
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import FlowRecord

AT_ONCE_BYTES = 1 << 20
"""Of a partition at a time; many are read side by side."""


class Written(NamedTuple):
    """Records of others in one copy.

    Attributes:
        end: the offset behind the last of them; the first one that was looked at where there is none.
        records: how many they are; what was not read counts by its offsets.
    """

    end: int
    records: int = 0

    def more(self, found: Written) -> Written:
        """These, and what was found behind them."""
        return Written(found.end, self.records + found.records) if found.records else self

    def left(self, position: int) -> int:
        """How many of them at most a flow has not brought home that stands at this offset of the copy."""
        return max(0, min(self.records, self.end - position))


def homeward_ends(flow: FlowConfig, log_ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Those of a flow's partitions that are copies of which it brings home what others wrote."""
    return {place: end for place, end in log_ends.items() if topics.is_homeward(flow, place.topic)}


def position_of(sides: Sides, place: TopicPartition) -> int:
    """Up to where a flow has copied a partition, as it is on record; 0 before it has begun."""
    progress = sides.progress.get(place)
    return 0 if progress is None else max(0, progress.position)


def brought(source: Cluster, known: FlowRecord | None) -> frozenset[int]:
    """The producers that have brought records from a flow's target to its source; to be asked when ends are known.

    Args:
        source: of the flow.
        known: the flow's record.

    Raises:
        SparkmirrorError: the source cannot be asked.
    """
    return frozenset() if known is None else brought_from(source, known.source_id, known.target_id)


def written(
    source: Cluster,
    spans: Mapping[TopicPartition, Span],
    without: Collection[int],
    timeout_ms: int,
    *,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    most: float = math.inf,
    seconds: float = math.inf,
) -> dict[TopicPartition, Written]:
    """What others have written between two offsets.

    Args:
        source: where.
        spans: from where to where; each lies within what its log has.
        without: producers whose records do not count.
        timeout_ms: of each question.
        isolation: whether records of transactions that were aborted, or are open, count too.
        most: records of a partition that are counted; behind so many, offsets stand for records.
        seconds: that are spent on it; what is not read by then counts by its offsets.

    Raises:
        SparkmirrorError: a partition cannot be read.
    """
    until = time.monotonic() + seconds
    found = {place: Written(span.first) for place, span in spans.items()}
    rest = {place: span for place, span in spans.items() if span.first < span.end}
    while rest and time.monotonic() < until:
        read = read_up_to(source, rest, _offsets, timeout_ms, AT_ONCE_BYTES, isolation, without).complete()
        for place, part in read.items():
            if part.records:
                found[place] = found[place].more(Written(max(part.records) + 1, len(part.records)))
            rest[place] = Span(part.end, spans[place].end)
            if found[place].records > most:
                found[place] = _with_unread(found[place], rest[place])
                rest[place] = Span(spans[place].end, spans[place].end)
        rest = {place: span for place, span in rest.items() if span.first < span.end}
    return found | {place: _with_unread(found[place], span) for place, span in rest.items()}


def _with_unread(found: Written, rest: Span) -> Written:
    return found.more(Written(rest.end, rest.end - rest.first))


def _offsets(table: Any) -> list[int]:
    offsets: list[int] = table.column("offset").to_pylist()
    return offsets


class Others:
    """Reads on, look by look, what others write to the copies that a flow brings home.

    Args:
        sides: the flow and its clusters.
    """

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._found: dict[TopicPartition, Written] = {}
        self._read: dict[TopicPartition, int] = {}

    def look(self, log_ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Written]:
        """What others have written from the flow's position at the first look on, also in open transactions.

        Args:
            log_ends: high watermarks of the flow's partitions; those that are no such copies are left out.

        Raises:
            SparkmirrorError: the source cannot be read.
        """
        home = homeward_ends(self._sides.flow, log_ends)
        if not home:
            return {}
        source, timeout_ms = self._sides.source, self._sides.flow.admin_timeout_ms
        starts = admin.list_offsets(source, list(home), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
        for place, end in home.items():
            if self._read.get(place, end + 1) > end:  # never looked at, or it has lost what was read
                first = min(end, max(starts[place], position_of(self._sides, place)))
                self._found[place], self._read[place] = Written(first), first
        spans = {place: Span(max(self._read[place], starts[place]), end) for place, end in home.items()}
        grown = {place: span for place, span in spans.items() if span.first < span.end}
        if grown:
            for place, more in written(source, grown, self._brought(), timeout_ms).items():
                self._found[place] = self._found[place].more(more)
        self._read |= home
        return {place: self._found[place] for place in home}

    def starts(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """From where on so many offsets lie before these ends as records of others were found there at most.

        Args:
            ends: of the copies, as they were found or before that.
        """
        return {place: max(0, ends[place] - one.records) for place, one in self._found.items() if place in ends}

    def _brought(self) -> frozenset[int]:
        assert self._sides.store is not None  # a flow that was never started brings nothing home
        return brought(self._sides.source, self._sides.store.state.flow)
