"""The target half of the map, from the target's log: where records lie whose answer was lost.

In one writer epoch target offset minus count stays the same until somebody else writes to the partition. So between two
records whose place is known, and whose differences are equal, every record's place is known; else the headers of the
batches between them tell.

Where the log cleaner has removed batches, and others wrote between them, the map says that points are missing.

What is behind the last record that the log has never arrives: the epoch ends there. That goes on record too, or a hole
between two epochs would look like a part of the older one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.segments import SEQUENCES, Targets, TargetsKey
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


@dataclass(frozen=True, slots=True)
class Found:
    """What goes on record.

    Attributes:
        targets: where others wrote in between, and the end of the epoch.
        void: keys of what is wrong now: ends behind which the log has records after all.
    """

    targets: tuple[Targets, ...] = ()
    void: tuple[str, ...] = ()


Placing: TypeAlias = Found | Unseen


@dataclass(frozen=True, slots=True)
class _Points:
    """Target offsets by counts.

    Attributes:
        known: where a straight piece begins.
        torn: of records behind which others are gone from the log, and lay nobody knows where, up to the next piece.
    """

    known: dict[int, int] = field(default_factory=dict)
    torn: dict[int, int] = field(default_factory=dict)


def place(what: Placed) -> Placing:
    """Points of the target's line that become known, and the end of the epoch."""
    before = _before(what)
    if before is not None and what.target - what.count == before.target - before.record:
        return _found(what, _Points())
    first = what.pieces.first.count
    needed = before.target if before is not None else what.target - (what.count - first)
    complete = what.since <= max(what.start, needed if before is not None else what.start)
    if not complete and not (before is None and _holds(what, first)):
        return Unseen(max(what.start, needed))
    return _found(what, _by_batches(what, before))


def _before(what: Placed) -> Known | None:
    """The last record at or before the last one whose place is known."""
    point = what.pieces.last_settled(what.count)
    best = None if point is None else Known(point.count, point.offset)
    if what.known is not None and what.known.record <= what.count and (best is None or what.known.record > best.record):
        best = what.known
    return best


def _holds(what: Placed, count: int) -> bool:
    """Whether one of the batches holds the record with that count."""
    return any(begin <= count <= begin + b.last_offset - b.base_offset for begin, b in _counted(what))


def _counted(what: Placed) -> list[tuple[int, TailBatch]]:
    return [(what.pieces.count_of(b.sequence, what.near), b) for b in what.batches]


def _by_batches(what: Placed, before: Known | None) -> _Points:
    """Walks the batches behind ``before``: each change of target minus count is a point."""
    found = _Points()
    shift, last = None if before is None else before.target - before.record, before
    for begin, batch in _counted(what):
        here = batch.base_offset - begin
        if here != shift and (before is None or begin > before.record):
            if last is not None and begin > last.record + 1 and batch.base_offset > last.target + 1:
                found.torn[last.record] = last.target
            found.known[begin] = batch.base_offset
            shift = here
        end = begin + batch.last_offset - batch.base_offset
        if last is None or end > last.record:
            last = Known(end, batch.last_offset)
    return found


def _found(what: Placed, points: _Points) -> Found:
    """Points, and the end behind the last record: what is on record of an end before that is void."""
    ends = {what.pieces.count_of(sequence): sequence for sequence in what.pieces.end_sequences}
    void = [sequence for count, sequence in ends.items() if count <= what.count and count not in points.known]
    records = [_torn(what, count, target) for count, target in sorted(points.torn.items())]
    records += [_targets(what.partition, what.writer, count, target) for count, target in sorted(points.known.items())]
    records += end_of(what.partition, what.writer, what.pieces, what.count)
    return Found(tuple(records), tuple(TargetsKey(what.partition, what.writer, sequence).text for sequence in void))


def _torn(what: Placed, count: int, target: int) -> Targets:
    """A record behind which points are not known; the block that ends with it, where there is one, says so itself."""
    blocks = what.pieces.targets.blocks() if len(what.pieces.targets) else []
    block = next((block for begin, block in blocks if begin + block.holes.records == count), None)
    if block is None or block.last != target:
        return replace(_targets(what.partition, what.writer, count, target), torn=True)
    one = _targets(what.partition, what.writer, block.sequence, block.offset)
    return replace(one, holes=block.holes, after=block.after, torn=True)


def end_of(partition: TopicPartition, writer: Writer, pieces: Pieces, count: int) -> tuple[Targets, ...]:
    """The end of an epoch behind its record ``count``; empty where that is on record."""
    behind = count + 1
    if behind in pieces.ends:
        return ()
    return (_targets(partition, writer, behind, NO_OFFSET),)


def _targets(partition: TopicPartition, writer: Writer, count: int, target: int) -> Targets:
    return Targets(partition=partition, writer=writer, sequence=count % SEQUENCES, target=target)
