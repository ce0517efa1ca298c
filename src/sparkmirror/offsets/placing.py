"""The target half of the map, from the target's log: where segments lie whose answer was lost.

In one writer epoch target offset minus count stays the same until somebody else writes to the partition. So between two
records whose place is known, and whose differences are equal, every record's place is known; else the headers of the
batches between them tell.

What is behind the last record that the log has never arrives: the epoch ends there. That goes on record too, as a
segment whose target stays unknown, or a hole between two epochs would look like a part of the older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.records import SEQUENCES, Segment
from sparkmirror.offsets.tail import TailBatch


class Known(NamedTuple):
    """A record whose place is known: its count and target offset."""

    record: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What is to be placed.

    Attributes:
        partition: of the source.
        writer, pieces: the writer epoch and its segments.
        batches: of that epoch, as read, in the order of the log.
        known: a record that was acknowledged, at or before ``count``, or None.
        count, target: of the last record that the log has.
        near: a count near those of the batches, as for `Pieces.count_of`.
        since: from which offset on ``batches`` is complete.
        start: the log's start.
    """

    partition: TopicPartition
    writer: Writer
    pieces: Pieces
    batches: Sequence[TailBatch]
    known: Known | None
    count: int
    target: int
    near: int | None
    since: int
    start: int


@dataclass(frozen=True, slots=True)
class Unseen:
    """Headers from this offset on are needed first."""

    offset: int


Placing: TypeAlias = tuple[Segment, ...] | Unseen


def place(what: Placed) -> Placing:
    """Segments whose target offset becomes known, and new ones where somebody else wrote in between."""
    counts, _, targets, *_ = what.pieces.columns
    within = counts <= what.count
    unknown = counts[within & (targets < 0)]
    before = _before(what, int(unknown[0]) if len(unknown) else what.count)
    if before is not None and what.target - what.count == before.target - before.record:
        shift = before.target - before.record
        return _segments(what, {int(count): int(count) + shift for count in unknown})
    first = int(counts[0])
    needed = before.target if before is not None else what.target - (what.count - first)
    complete = what.since <= max(what.start, needed if before is not None else what.start)
    if not complete and not (before is None and _holds(what, first)):
        return Unseen(max(what.start, needed))
    return _by_batches(what, before, frozenset(unknown.tolist()))


def _before(what: Placed, count: int) -> Known | None:
    """The last record at or before ``count`` whose place is known."""
    piece = what.pieces.last_settled(count)
    best = None if piece is None else Known(piece.begin, piece.target)
    if what.known is not None and what.known.record <= count and (best is None or what.known.record > best.record):
        best = what.known
    return best


def _holds(what: Placed, count: int) -> bool:
    """Whether one of the batches holds the record with that count."""
    return any(begin <= count <= begin + b.last_offset - b.base_offset for begin, b in _counted(what))


def _counted(what: Placed) -> list[tuple[int, TailBatch]]:
    return [(what.pieces.count_of(b.sequence, what.near), b) for b in what.batches]


def _by_batches(what: Placed, before: Known | None, unknown: frozenset[int]) -> tuple[Segment, ...]:
    """Walks the batches behind ``before``: each change of target minus count is a segment."""
    found: dict[int, int] = {}
    shift = None if before is None else before.target - before.record
    for begin, batch in _counted(what):
        here, end = batch.base_offset - begin, begin + batch.last_offset - batch.base_offset
        if here != shift and (before is None or begin > before.record):
            found[begin] = batch.base_offset
            shift = here
        found.update((count, count + here) for count in unknown if begin <= count <= end)
    return _segments(what, found)


def _segments(what: Placed, targets: dict[int, int]) -> tuple[Segment, ...]:
    """Segments with their targets, and one behind the last record: a target that never comes ends the piece before."""
    placed = tuple(_segment(what, count, target) for count, target in sorted(targets.items()))
    behind = what.count + 1
    if behind in what.pieces.columns.counts:
        return placed
    return (*placed, _segment(what, behind, NO_OFFSET))


def _segment(what: Placed, count: int, target: int) -> Segment:
    at = what.pieces.at(what.pieces.place_of(count))
    return Segment(
        partition=what.partition,
        writer=what.writer,
        sequence=count % SEQUENCES,
        source=at.source + count - at.begin,
        target=target,
        unguarded=at.unguarded,
        anew=at.anew,
    )
