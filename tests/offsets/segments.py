"""Segments as tests tell of them, one by one with both offsets, and the records that say the same.

`told` reads records as docs/internal-topics.md has it, in plain Python, without ``sparkmirror.offsets``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.ordered_out import Span
from sparkmirror.offsets.parts import Part
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.segments import Segments, Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One straight piece; ``target`` is `NO_OFFSET` where nothing of it was acknowledged."""

    partition: TopicPartition
    writer: Writer
    sequence: int
    source: int
    target: int = NO_OFFSET
    unguarded: bool = False
    anew: bool = False

    @property
    def segments(self) -> Segments:
        """The source's half."""
        return Segments(
            partition=self.partition,
            writer=self.writer,
            sequence=self.sequence,
            source=self.source,
            unguarded=self.unguarded,
            anew=self.anew,
        )

    @property
    def targets(self) -> Targets:
        """The target's half."""
        return Targets(partition=self.partition, writer=self.writer, sequence=self.sequence, target=self.target)


def records_of(segments: Iterable[Segment]) -> list[Segments | Targets]:
    """The records that say it: one for each piece, and one more where it has a target."""
    made: list[Segments | Targets] = []
    for segment in segments:
        made += [segment.segments] if segment.target == NO_OFFSET else [segment.segments, segment.targets]
    return made


def end(partition: TopicPartition, writer: Writer, sequence: int) -> Targets:
    """Nothing of the epoch arrived from this sequence number on."""
    return Targets(partition=partition, writer=writer, sequence=sequence, target=NO_OFFSET)


def offset_map(
    stretches: Sequence[tuple[int, int, int]], position: int, ordered_out: Sequence[tuple[int, int]] = ()
) -> OffsetMap:
    """A map of (source, target, length) in order; a target is `NO_OFFSET` while it is unknown.

    Orders have left out what lies from the first to before the second of each pair of ``ordered_out``.
    """
    pieces, parts, count = Pieces(), [], 0
    place, writer = TopicPartition("orders", 0), Writer(producer_id=7, epoch=0)
    for source, target, length in stretches:
        segment = Segment(partition=place, writer=writer, sequence=count, source=source, target=target)
        for record in records_of([segment]):
            pieces.take(record)
        parts.append(Part(pieces, count, count + length, known=target != NO_OFFSET, writer=writer))
        count += length
    return OffsetMap(parts, position, ordered_out=[Span(*span) for span in ordered_out])


def told(records: Iterable[Segments | Targets]) -> list[Segment]:
    """Where pieces begin, on the source or on the target, of one writer epoch, in order; before sequences wrap."""
    known = list(records)
    sources = sorted(
        (point, record) for record in known if isinstance(record, Segments) for point in points(record, record.source)
    )
    targets = sorted(
        point
        for record in known
        if isinstance(record, Targets) and record.target != NO_OFFSET
        for point in points(record, record.target)
    )
    made = []
    for sequence in sorted({*(point[0] for point, _ in sources), *(point[0] for point in targets)}):
        (count, source), record = max((each for each in sources if each[0][0] <= sequence), key=lambda each: each[0])
        there = max((point for point in targets if point[0] <= sequence), default=None)
        made.append(
            Segment(
                partition=record.partition,
                writer=record.writer,
                sequence=sequence,
                source=source + sequence - count,
                target=NO_OFFSET if there is None else there[1] + sequence - there[0],
                unguarded=record.unguarded,
                anew=record.anew,
            )
        )
    return made


def points(record: Segments | Targets, offset: int) -> list[tuple[int, int]]:
    """Sequence number and offset of each point of a record."""
    found, count = [(record.sequence, offset)], record.sequence
    for records, hole, repeats in rows(record.holes.packed):
        for _ in range(repeats):
            count, offset = count + records, offset + records + hole
            found.append((count, offset))
    assert found[-1] == (record.sequence + record.holes.records, found[0][1] + record.holes.offsets)
    return found


def rows(packed: bytes) -> list[tuple[int, int, int]]:
    """Records, the size of the hole behind them, and how often that repeats."""
    numbers, number, shift = [], 0, 0
    for byte in packed:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    assert shift == 0
    if not numbers:
        return []
    heads, rest = numbers[1 : 1 + numbers[0]], iter(numbers[1 + numbers[0] :])
    holes = [next(rest) if head & 2 else 1 for head in heads]
    repeats = [next(rest) if head & 1 else 1 for head in heads]
    assert next(rest, None) is None
    return [(head >> 2, hole, repeat) for head, hole, repeat in zip(heads, holes, repeats, strict=True)]


__all__ = ["Segment", "end", "offset_map", "points", "records_of", "rows", "told"]
