"""Fewer and smaller records of the offset map: those of many answers become one, and old ones are thinned. Pure.

A lane writes a record for each answer with a hole in it. What is acknowledged of them is joined, eight neighbours of a
size at a time, up to `LARGEST` bytes, so each byte is written again a few times and a start reads few large records.

What is above the budget is thinned, the oldest first: of `LESS` points one stays. Source offsets between two points
lead to a target offset that is not beyond the right one (`OffsetMap.is_exact`).

Invariants:
    * A record that a lane may still write again is left alone: its last segment is not acknowledged yet.
    * One record is written before the ones that are in it are removed; a reader of both finds the same map.
    * The record that holds the last acknowledged record of an epoch, and all behind it, are never thinned: a takeover
      needs them. Below the lowest offset that a group has committed is thinned first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.holes import join, thin
from sparkmirror.offsets.lineage import Lineage
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import Segments, SegmentsKey, Targets, TargetsKey
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.track import FAR, Block, Track

NEIGHBOURS = 8
"""So many are joined at a time at least."""

SIZES = (64, 512, 4_096)
"""Bytes of holes below which neighbours count as of one size."""

LARGEST = NEIGHBOURS * SIZES[-1]

SPAN = 1 << 29
"""Records that one record of the map may span, so that sequence numbers still tell the order."""

_BETWEEN = 2
"""Bytes of a hole between two that are joined."""

LESS = 64
LEAST = 64
"""Bytes of holes below which thinning gains nothing."""

ENOUGH = 0.75
"""Down to this part of the budget is thinned, so that it is not done each time."""

Counted = tuple[int, Block]
"""A block, and the count of its first record."""


class Condensed(NamedTuple):
    """What to write, and then to remove."""

    records: tuple[Segments | Targets, ...] = ()
    void: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Half:
    """One line of a writer epoch: where records lie on the source, or on the target.

    Attributes:
        settled: up to which count it may be written again; all of an epoch that is over.
        floor: an offset below which no group stands, or -1.
    """

    partition: TopicPartition
    writer: Writer
    pieces: Pieces
    is_source: bool
    settled: int
    floor: int

    @property
    def line(self) -> Track:
        """Its blocks."""
        return self.pieces.sources if self.is_source else self.pieces.targets

    def key(self, sequence: int) -> str:
        """The key of the record with a block."""
        kind = SegmentsKey if self.is_source else TargetsKey
        return kind(self.partition, self.writer, sequence).text

    def record(self, block: Block) -> Segments | Targets:
        """The record with a block."""
        if not self.is_source:
            return Targets(
                partition=self.partition,
                writer=self.writer,
                sequence=block.sequence,
                target=block.offset,
                holes=block.holes,
                after=block.after,
                torn=block.torn,
            )
        return Segments(
            partition=self.partition,
            writer=self.writer,
            sequence=block.sequence,
            source=block.offset,
            holes=block.holes,
            unguarded=block.flagged,
            anew=self.pieces.anew,
            after=block.after,
        )

    def done(self) -> list[Counted]:
        """Blocks that nobody writes again but whoever condenses."""
        return [(count, block) for count, block in self.line.blocks() if count + block.holes.records <= self.settled]


def size_of(state: JournalState) -> int:
    """Bytes of all holes, as they are held in memory."""
    return sum(known.size for known in state.maps.values())


def condense(
    state: JournalState, ids: Sequence[int], budget: int, *, neighbours: int = NEIGHBOURS, least: int = LEAST
) -> Condensed:
    """What to do now: thin where the map is above its budget, else join.

    Args:
        state: of the internal topic, read to its end.
        ids: the flow's producer ids in the order in which they were registered.
        budget: bytes that all holes may have.
        neighbours: how many records are joined at a time at least.
        least: bytes of holes below which a record is not thinned.
    """
    size = size_of(state)
    lines = halves(state, ids)
    if size > budget:
        return _thinned(list(lines), size, size - int(ENOUGH * budget), least)
    records: list[Segments | Targets] = []
    void: list[str] = []
    for half in lines:
        if len(half.line) >= neighbours:
            for block, gone in _joined(half, neighbours):
                records += [half.record(block)] if block is not None else []
                void += map(half.key, gone)
    return Condensed(tuple(records), tuple(void))


def halves(state: JournalState, ids: Sequence[int]) -> Iterator[Half]:
    """The lines of all writer epochs that have segments."""
    floors: dict[TopicPartition, int] = {}
    for seen in state.groups.values():
        for number, (offset, *_) in seen.offsets.items():
            place = TopicPartition(seen.topic, number)
            floors[place] = min(offset, floors.get(place, FAR))
    for partition, known in state.maps.items():
        writers, progress = known.writers(ids), state.progress.get(partition)
        for writer in writers:
            pieces = known.pieces(writer)
            if pieces is None:
                continue
            settled = FAR
            if writer == writers[-1] and not _has_ended(known, progress, ids, writer):
                last = None
                if progress is not None and progress.writer == writer and progress.source != NO_OFFSET:
                    last = pieces.count_of_last(progress.sequence, progress.source)
                settled = -FAR if last is None else last
            for is_source in (True, False):
                yield Half(partition, writer, pieces, is_source, settled, floors.get(partition, FAR))


def _has_ended(known: PartitionMap, progress: Progress | None, ids: Sequence[int], writer: Writer) -> bool:
    """Whether a newer epoch has the partition, though it has sent nothing yet: nobody writes this one's again."""
    if progress is None or progress.writer == writer:
        return False
    lineage = Lineage(progress, known, tuple(ids))
    return lineage.rank(progress.writer) > lineage.rank(writer)


def _joined(half: Half, neighbours: int) -> Iterator[tuple[Block | None, list[int]]]:
    """Blocks to write instead of others, with the sequences of those; None where others say it already."""
    done = half.done()
    for group in _groups(done, neighbours):
        (_, first), *others = group
        holes = join([(at, block.offset, block.holes) for at, block in group])
        yield replace(first, holes=holes), [block.sequence for _, block in others]
    known = {block.sequence for _, block in half.line.blocks()}
    gone = [
        block.sequence
        for count, block in half.line.stored()
        if block.sequence not in known and count + block.holes.records <= half.settled
    ]
    if gone:
        yield None, gone


def _groups(done: Sequence[Counted], neighbours: int) -> Iterator[list[Counted]]:
    """Neighbours that are to be one, of which there are at least two."""
    stack: list[list[Counted]] = []
    sizes: list[int] = []
    for each in done:
        # One behind which points are missing stays: joined, what lies before its last point would not be exact either.
        if stack and (each[1].torn or not _alike(stack[-1][0], each) or _crosses(stack[-1][-1], each)):
            yield from (group for group in stack if len(group) > 1)
            stack, sizes = [], []
        stack.append([each])
        sizes.append(len(each[1].holes.packed) + _BETWEEN)
        for limit in SIZES:
            several = _trailing(sizes, limit)
            if several >= neighbours and each[0] - stack[-several][0][0] < SPAN:
                stack[-several:] = [[one for group in stack[-several:] for one in group]]
                sizes[-several:] = [sum(sizes[-several:])]
    yield from (group for group in stack if len(group) > 1)


def _crosses(one: Counted, following: Counted) -> bool:
    """Whether two are no line: the log was cut off between them, and no takeover has put that on record yet.

    Or points between them are lost. Or somebody else wrote one of them: what comes between the last point of one and
    the first of the next cannot be.
    """
    (count, block), (next_count, next_block) = one, following
    records, offsets = next_count - count, next_block.offset - block.offset
    last = records - block.holes.records, offsets - block.holes.offsets
    lost = block.torn or next_block.after not in (NO_OFFSET, block.last + last[0] - 1)
    return lost or offsets < records or last[1] < last[0] or last[0] < 0 or next_block.last > FAR


def _alike(one: Counted, other: Counted) -> bool:
    """Whether two may be in one record."""
    here, there = one[1], other[1]
    same = (here.flagged, here.holes.thinned) == (there.flagged, there.holes.thinned)
    return same or (here.flagged == there.flagged and not (here.holes.packed and there.holes.packed))


def _trailing(sizes: Sequence[int], limit: int) -> int:
    """How many at the end are below a size."""
    several = 0
    while several < len(sizes) and sizes[-1 - several] < limit:
        several += 1
    return several


def _thinned(lines: Sequence[Half], size: int, excess: int, least: int) -> Condensed:
    """Takes from each partition as much as it has of the whole."""
    own: dict[TopicPartition, list[Half]] = {}
    for half in lines:
        own.setdefault(half.partition, []).append(half)
    records: list[Segments | Targets] = []
    for some in own.values():
        quota = excess * sum(half.line.size for half in some) / size
        for half, (_, block) in sorted(_candidates(some, least), key=_first_to_go):
            if quota <= 0:
                break
            holes = thin(block.holes, LESS)
            if len(holes.packed) < len(block.holes.packed):
                quota -= len(block.holes.packed) - len(holes.packed)
                records.append(half.record(replace(block, holes=holes)))
    return Condensed(tuple(records))


def _candidates(lines: Sequence[Half], least: int) -> Iterator[tuple[Half, Counted]]:
    for half in lines:
        done = half.done()
        for each, following in itertools.pairwise(done):
            if len(each[1].holes.packed) >= least and following[0] <= half.settled:
                yield half, each


def _first_to_go(candidate: tuple[Half, Counted]) -> tuple[bool, bool]:
    """What no group needs before what one may, and what is exact before what was thinned; else in order of age."""
    half, (_, block) = candidate
    needed = half.is_source and block.last >= half.floor
    return block.holes.thinned, needed


def committed(
    state: JournalState, partitions: Mapping[TopicPartition, object]
) -> dict[TopicPartition, dict[tuple[int, Writer], int]]:
    """What groups had committed of partitions, with the target offset that it had under a writer epoch at that time."""
    found: dict[TopicPartition, dict[tuple[int, Writer], int]] = {}
    for seen in state.groups.values():
        for number, target in seen.targets.items():
            place = TopicPartition(seen.topic, number)
            if place in partitions and number in seen.offsets:
                found.setdefault(place, {})[seen.offsets[number][0], target.writer] = target.offset
    return found
