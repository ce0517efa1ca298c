"""Records that came to the source behind what a stopped flow has copied.

Offsets do not tell: where names are kept the flow back writes to the same topics, what it has brought from the target
and, each time that it takes its partitions over, control records, which nobody reads and no flow copies. Where only
what others wrote to copies goes home, the flow that makes them writes on. So records are counted, however many
offsets there are.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.duties.duty import Sides
from sparkmirror.duties.written_by_others import written
from sparkmirror.failover.others import brought
from sparkmirror.kafka import admin
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.state import JournalState

MOST = 1_000
"""Records that are counted of one partition: behind so many, offsets stand for records."""

SECONDS = 60.0
"""That are spent on it: what the flow back has brought since may be much."""


def records_behind(sides: Sides, state: JournalState, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """How many records each partition has from the flow's position to its end; those without any are left out.

    Args:
        sides: the flow and its clusters.
        state: what is on record of it.
        ends: high watermarks of the source.

    Returns:
        records by partition, also of transactions that are open; offsets for what is too much to be read.

    Raises:
        SparkmirrorError: the source cannot be read.
    """
    timeout_ms = sides.flow.admin_timeout_ms
    starts = admin.list_offsets(sides.source, list(ends), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    positions = {place: progress.position for place, progress in state.progress.items()}
    spans = {place: Span(max(starts[place], positions.get(place, 0)), end) for place, end in ends.items()}
    behind = {place: span for place, span in spans.items() if span.end > span.first}
    if not behind:
        return {}
    without = brought(sides.source, state.flow)
    found = written(sides.source, behind, without, timeout_ms, most=MOST, seconds=SECONDS)
    return {place: one.records for place, one in found.items() if one.records}
