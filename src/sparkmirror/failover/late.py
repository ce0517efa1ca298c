"""Records that came to the source behind what a stopped flow has copied.

Offsets do not tell: where names are kept the flow back writes to the same topics, what it has brought from the target
and, each time that it takes its partitions over, control records, which nobody reads and no flow copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkmirror.config import Isolation
from sparkmirror.copy.origins import brought_from
from sparkmirror.duties.duty import Sides
from sparkmirror.kafka import admin
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.state import JournalState

MOST = 1_000
"""Offsets that are read of one partition: so many control records do not come at once."""


def records_behind(sides: Sides, state: JournalState, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """How many records each partition has from the flow's position to its end; those without any are left out.

    Args:
        sides: the flow and its clusters.
        state: what is on record of it.
        ends: high watermarks of the source.

    Returns:
        records by partition, also of transactions that are open; offsets where they are too many to be read.

    Raises:
        SparkmirrorError: the source cannot be read.
    """
    timeout_ms = sides.flow.admin_timeout_ms
    starts = admin.list_offsets(sides.source, list(ends), OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    positions = {place: progress.position for place, progress in state.progress.items()}
    spans = {place: Span(max(starts[place], positions.get(place, 0)), end) for place, end in ends.items()}
    behind = {place: span.end - span.first for place, span in spans.items() if span.end > span.first}
    known = state.flow
    brought = frozenset() if known is None else brought_from(sides.source, known.source_id, known.target_id)
    few = {place: spans[place] for place, count in behind.items() if count <= MOST}
    counted = (
        read_records(sides.source, few, _counted, timeout_ms, Isolation.READ_UNCOMMITTED, brought).complete()
        if few
        else {}
    )
    exact = {place: sum(counted[place]) if place in counted else count for place, count in behind.items()}
    return {place: count for place, count in exact.items() if count}


def _counted(table: Any) -> list[int]:
    return [table.num_rows]
