"""Which copies hold records that their flow has not written, such as those of applications after a switchover.

The offset map says where the flow's own records lie. What lies between them, before the first and behind the last are
control records, or records of others: that alone is read, without the flow's producers.

Invariants: what cannot be told, or is too much to read, counts as records of others. Where the flow took a copy over
from MirrorMaker 2, what that wrote is the flow's, and where a file says that a topic that held records of others is the
copy, what lies before the flow's first record is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sparkmirror.config import Isolation
from sparkmirror.copy.origins import read_registry
from sparkmirror.copy.registrations import ids_of_flow
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import extent
from sparkmirror.kafka.reading import Span, read_records
from sparkmirror.model import TopicPartition
from sparkmirror.naming import WRITERS_TOPIC
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.state import JournalState

MOST_OFFSETS = 1_000_000
"""So many offsets of a partition are read at most: a thinned map tells of few records whose they are."""
CHUNK = 10_000
NEAR = 1_000
"""Spans that are no further apart are read as one: a question costs more than so many records."""


class Others(NamedTuple):
    """Why a copy holds records of others, or may, and whether that is certain."""

    reason: str
    certain: bool


def with_records_of_others(
    sides: Sides,
    state: JournalState,
    pairs: Sequence[tuple[str, str]],
    target: Mapping[str, TopicDescription],
    known: Mapping[str, Others],
) -> dict[str, Others]:
    """The copies that hold records of others, or may.

    Args:
        sides: of the flow.
        state: of the flow, with its record.
        pairs: source topics with the names of their copies.
        target: the copies that are there.
        known: what the look before has found: where that is certain, nothing is read again.
    """
    found: dict[str, Others] = {}
    for source, copy in pairs:
        if copy in known and known[copy].certain:
            found[copy] = known[copy]
        elif copy in target:
            try:
                first = _first_of_others(sides, state, source, copy, sorted(target[copy].partitions))
            except SparkmirrorError as failure:
                found[copy] = Others(f"whether it holds records of others cannot be told: {failure}", certain=False)
            else:
                found |= {copy: Others(first, certain=True)} if first else {}
    return found


def gaps(offsets: OffsetMap | None, first: int | None, end: int) -> Iterator[Span]:
    """The offsets of a copy from ``first`` up to ``end`` at which the map knows no record of the flow. Pure.

    Args:
        offsets: the map; None where there is none.
        first: where they begin; None for the flow's first record.
        end: behind the last.
    """
    for stretch in offsets.settled() if offsets is not None else ():
        first = stretch.target if first is None else first
        if first < min(stretch.target, end):
            yield Span(first, min(stretch.target, end))
        first = max(first, stretch.target + stretch.length)
    if first is not None and first < end:
        yield Span(first, end)


def joined(spans: Iterable[Span], start: int) -> list[Span]:
    """Spans in order from an offset on, those that are near each other as one. Pure."""
    found: list[Span] = []
    for span in spans:
        first = max(span.first, start)
        if first < span.end and found and first - found[-1].end <= NEAR:
            found[-1] = Span(found[-1].first, span.end)
        elif first < span.end:
            found.append(Span(first, span.end))
    return found


def _first_of_others(sides: Sides, state: JournalState, source: str, copy: str, numbers: Sequence[int]) -> str:
    """Where the first record of others lies, or why that cannot be told; "" where there is none.

    Raises:
        SparkmirrorError: the target cannot be read.
    """
    timeout_ms = sides.flow.admin_timeout_ms
    places = [TopicPartition(copy, number) for number in numbers]
    ends = admin.list_offsets(sides.target, places, OffsetSpec.LATEST, timeout_ms=timeout_ms)
    starts = admin.list_offsets(sides.target, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    own = own_producers(sides, state)
    claimed = any(one.topic == copy for one in state.occupied.values())
    for place in places:
        here = TopicPartition(source, place.partition)
        progress, known = state.progress.get(here), state.maps.get(here)
        offsets = None if known is None else known.offsets(progress, own, parted=False)
        begin = max(0, state.inherited[here].end) if here in state.inherited else 0
        spans = joined(gaps(offsets, None if claimed else begin, ends[place]), starts[place])
        if sum(span.end - span.first for span in spans) > MOST_OFFSETS:
            return f"the offset map does not tell which of the records of {place} are the flow's"
        for span in _in_chunks(spans):
            others = read_records(
                sides.target, {place: span}, extent, timeout_ms, Isolation.READ_UNCOMMITTED, without=own
            ).complete()[place]
            if others:
                first = others[0].first
                return f"it holds records that the flow has not written, the first at offset {first} of {place}"
    return ""


def _in_chunks(spans: Sequence[Span]) -> Iterator[Span]:
    for span in spans:
        for first in range(span.first, span.end, CHUNK):
            yield Span(first, min(first + CHUNK, span.end))


def own_producers(sides: Sides, state: JournalState) -> tuple[int, ...]:
    """The producer ids that the flow has registered on the target."""
    if state.flow is None:
        return ()
    entries = sides.target.run(read_registry, Journal(sides.target, WRITERS_TOPIC))
    return tuple(ids_of_flow(entries, str(sides.flow.name), state.flow.target_id, (state.flow.source_id,)))
