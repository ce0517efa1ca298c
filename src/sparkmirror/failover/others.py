"""What others have written to the copies that a flow brings home: how much of it, and up to where.

The flow that makes these copies goes on writing them while an operation of the flow that brings the rest home goes on.
So the end of such a log says nothing. What counts is the last record that no flow has brought there from the flow's
target.

Invariants: a record is one of others unless its producer is registered as one that brings records from the flow's
target; the registry is read when the ends are known, since a flow registers a producer before it writes with it;
markers of transactions are no records. A log is read once, however often an operation looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.config import FlowConfig
from sparkmirror.copy.origins import brought_from
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.written_by_others import Written, written
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import FlowRecord


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
