"""Records that came to the source behind what a stopped flow has copied.

Offsets do not tell: where names are kept the flow back writes to the same topics, what it has brought from the target
and, each time that it takes its partitions over, control records, which nobody reads and no flow copies. Where only
what others wrote to copies goes home, the flow that makes them writes on: there records are counted, however many
offsets there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkmirror.config import Isolation
from sparkmirror.duties.duty import Sides
from sparkmirror.failover.others import brought, homeward_ends, written
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
    if not behind:
        return {}
    without, home = brought(sides.source, state.flow), homeward_ends(sides.flow, behind)
    few = {place: spans[place] for place, count in behind.items() if count <= MOST and place not in home}
    counted = (
        read_records(sides.source, few, _counted, timeout_ms, Isolation.READ_UNCOMMITTED, without).complete()
        if few
        else {}
    )
    of_others = written(sides.source, {place: spans[place] for place in home}, without, timeout_ms, most=MOST)
    exact = behind | {place: sum(counts) for place, counts in counted.items()}
    exact |= {place: one.records for place, one in of_others.items()}
    return {place: count for place, count in exact.items() if count}


def _counted(table: Any) -> list[int]:
    return [table.num_rows]
