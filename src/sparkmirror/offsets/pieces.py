"""The offset map of one partition in one writer epoch: what a sequence number stands for, and where its record lies.

Two lines (`offsets.track`), since they change for other reasons: where records lie on the source, by the segments that
are on record before the records are sent; where on the target, by what was acknowledged.

Invariants:
    * Counts go by the line of the source; that of the target is aligned to them, since both get a new point every
      `STRIDE` records.
    * What is on the target is known from a point of its line on, until an *end*: a sequence number from which on
      nothing of the epoch arrived. Behind an end the next point counts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET, UNKNOWN_SOURCE, LastRecord, TopicPartition, Writer
from sparkmirror.offsets.segments import Opening, Segments, Targets, segments_of, targets_of
from sparkmirror.offsets.track import FAR, NO_ENDS, Block, Ends, Point, Track

STRIDE = 1 << 28
"""Records after which a copy opens a new segment though there is no hole, so that counts can be told from sequences."""


class Bounds(NamedTuple):
    """Below which offsets both logs have nothing of what the map has lost, since it was removed."""

    source: int = NO_OFFSET
    target: int = NO_OFFSET


NOT_BOUNDED = Bounds()


class Range(NamedTuple):
    """Counts from ``first`` to before ``stop`` whose place on the target is known."""

    first: int
    stop: int


class Before(NamedTuple):
    """The last record that an older epoch had put on the target when another one began behind it.

    Attributes:
        sequence: its number in its own epoch; `NO_OFFSET` where it is not known.
        source, target: its offsets; the one on the target is `NO_OFFSET` where it is not known.
    """

    sequence: int
    source: int
    target: int

    @property
    def known(self) -> bool:
        """Whether it is known which record that is, and not only that there may be one."""
        return self.source != UNKNOWN_SOURCE


UNKNOWN_BEFORE = Before(NO_OFFSET, UNKNOWN_SOURCE, NO_OFFSET)


class Pieces:
    """The segments of one writer epoch, and where its records came to lie.

    Attributes:
        sources: counts to source offsets.
        anew: whether the epoch is, see `Segments`.
    """

    __slots__ = ("_aligned", "_before", "_ends", "_targets", "anew", "sources")

    def __init__(self, bounded: Bounds = NOT_BOUNDED) -> None:
        self.sources = Track(bounded.source)
        self.anew = False
        self._before: Before | None = None
        self._targets = Track(bounded.target)
        self._ends: tuple[int, ...] = ()
        self._aligned = True

    def take(self, record: Segments | Targets) -> None:
        """Adds what a record says, or replaces what was known of its key."""
        self._aligned = False
        if isinstance(record, Segments):
            self.anew = self.anew or record.anew
            self.sources.take(
                Block(record.sequence, record.source, record.holes, flagged=record.unguarded, after=record.after)
            )
        elif record.target == NO_OFFSET:
            self._targets.forget(record.sequence)
            self._ends = (*self._without(record.sequence), record.sequence)
        else:
            self._ends = self._without(record.sequence)
            self._targets.take(
                Block(record.sequence, record.target, record.holes, after=record.after, torn=record.torn)
            )

    def acknowledge(self, last: LastRecord, *, anew: bool) -> None:
        """Takes what a progress tells of the record that was acknowledged last, of what lies before it, and of anew."""
        self._aligned = False
        self.anew = self.anew or anew
        first_source, first_target = None, None
        if last.first_source != NO_OFFSET:
            first_source = Opening(0, last.first_source, last.before_source)
            first_target = Opening(0, last.first_target, last.before_target)
        self.sources.acknowledge(Ends(first_source, Opening(last.sequence, last.source)))
        self._targets.acknowledge(Ends(first_target, Opening(last.sequence, last.target)))
        if last.before_source != NO_OFFSET:
            self._before = Before(last.before_sequence, last.before_source, last.before_target)

    def outdate(self) -> None:
        """The progress is not the newest any more: where its records lay on the target may hold no more."""
        self._aligned = False
        self._targets.acknowledge(NO_ENDS)

    def bound(self, bounds: Bounds) -> None:
        """Takes the offsets below which records were removed from the map, as far as they were not needed."""
        self._aligned = False
        self.sources.bound(bounds.source)
        self._targets.bound(bounds.target)

    def unrecorded(self, partition: TopicPartition, writer: Writer) -> Iterator[Segments | Targets]:
        """What only the progress of the epoch tells: it is put on record before that goes."""
        for block in self.sources.told_by_ends():
            opening = Opening(block.sequence, block.offset, block.after)
            yield segments_of(partition, writer, [opening], unguarded=False, anew=self.anew)
        for block in self.targets.told_by_ends():
            yield targets_of(partition, writer, [Opening(block.sequence, block.offset, block.after)])

    @property
    def before(self) -> Before | None:
        """The record of an older epoch that the first one here comes after; None where that is not on record."""
        if self._before is not None:
            return self._before
        source, target = self.sources.comes_after, self._targets.comes_after
        return None if source == NO_OFFSET else Before(NO_OFFSET, source, target)

    def forget_segments(self, sequence: int) -> None:
        """Takes the tombstone of `Segments`."""
        self._aligned = False
        self.sources.forget(sequence)

    def forget_targets(self, sequence: int) -> None:
        """Takes the tombstone of `Targets`."""
        self._aligned = False
        self._targets.forget(sequence)
        self._ends = self._without(sequence)

    def _without(self, sequence: int) -> tuple[int, ...]:
        return tuple(end for end in self._ends if end != sequence) if self._ends else ()

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def targets(self) -> Track:
        """Counts to target offsets."""
        if not self._aligned:
            if len(self.sources):
                self._targets.align(self.sources.last.count)
            self._aligned = True
        return self._targets

    @property
    def end_sequences(self) -> tuple[int, ...]:
        """The sequence numbers from which on nothing arrived, as they are on record."""
        return tuple(sorted(self._ends))

    @property
    def ends(self) -> list[int]:
        """The same as counts, in order."""
        near = self.sources.last.count if len(self.sources) else 0
        return sorted(self.sources.count_of(sequence, near) for sequence in self._ends)

    @property
    def first(self) -> Point:
        """Where the source's line begins; it must not be empty."""
        return self.sources.first

    @property
    def supersedes(self) -> bool:
        """Whether older epochs end where this one begins: not if all that it had was lost, or never arrived."""
        return self.anew or len(self._targets) > 0

    def goes_behind(self, source: int) -> bool:
        """Whether a record behind that of a source offset is known to be acknowledged."""
        count = self.count_at(source)
        return count is not None and len(self._targets) > 0 and self.targets.last.count > count

    def source_of(self, count: int) -> int | None:
        """The source offset of the record with that count, if its segment is on record; see `is_exact`."""
        return self.sources.offset_of(count)

    def count_at(self, source: int) -> int | None:
        """The count of the record with that source offset, or of the next one, if its segment is on record."""
        return self.sources.count_at(source)

    def count_of_last(self, sequence: int, source: int) -> int | None:
        """The count of the last record of a progress; where the map has lost what leads there, by its sequence number.

        Args:
            sequence: of the record; `NO_OFFSET` where an older epoch has sent it.
            source: its source offset.
        """
        count, piece = self.count_at(source), self.sources.piece_at(source)
        if count is None or piece is None or piece.exact or source == piece.offset or sequence == NO_OFFSET:
            return count
        told = self.count_of(sequence, count)
        return told if piece.begin <= told < piece.end else count

    @property
    def acknowledged(self) -> int:
        """The count of the record that was acknowledged last by the progress on record; `NO_OFFSET` where none is."""
        last = self.sources.acknowledged
        return NO_OFFSET if last is None else self.count_of(last.sequence)

    @property
    def certain(self) -> int:
        """The count of the last record that is known to be acknowledged, where what lay behind it is lost."""
        if not len(self._targets):
            return NO_OFFSET
        return max(min(self.sources.last.count, self.targets.last.count), self.acknowledged)

    @property
    def lacks_begin(self) -> bool:
        """Whether the first record here comes after others of the epoch, of which none is on record."""
        return self._before is None and self.sources.lacks_begin

    def has(self, record: Before) -> bool:
        """Whether a record is one of this epoch, by its number and both of its offsets."""
        near = self.count_at(record.source) if record.known else None
        if near is None or NO_OFFSET in (record.sequence, record.target) or not len(self._targets):
            return False
        count = self.count_of(record.sequence, near)
        here, there = self.sources.piece_of(count), self.targets.piece_of(count)
        if here is None or there is None:
            return False
        return here.may_have(count, record.source) and there.may_have(count, record.target)

    def count_of(self, sequence: int, near: int | None = None) -> int:
        """The count that a sequence number stands for: of all that it can be, the one nearest to ``near``.

        Args:
            sequence: of a record that was sent.
            near: the count of a record that was sent at about the same time; by default that of the last segment,
                which is written shortly before the records behind it are sent.
        """
        return self.sources.count_of(sequence, self.sources.last.count if near is None else near)

    def is_exact(self, count: int) -> bool:
        """Whether the source offset of a count is; if not, the record lies at `source_of` it or behind it."""
        piece = self.sources.piece_of(count)
        return piece is not None and (piece.exact or count == piece.begin)

    def target_of(self, count: int) -> int | None:
        """The target offset of the record with that count, as far as its line goes and nothing ends it."""
        if not any(known.first <= count < known.stop for known in self.known()):
            return None
        return self.targets.offset_of(count)

    def last_settled(self, up_to: int = FAR) -> Point | None:
        """The last record at or before a count that is sure to be acknowledged, as the target's line tells."""
        last = None
        for known in self.known():
            if known.first > up_to:
                break
            piece = self.targets.piece_of(min(up_to, known.stop - 1))
            assert piece is not None  # the range begins at a point
            last = max(piece.begin, known.first) if up_to < known.stop - 1 or known.stop == FAR else known.stop - 1
        target = None if last is None else self.targets.offset_of(last)
        return None if last is None or target is None else Point(last, target)

    def known(self) -> Iterator[Range]:
        """Which counts lie at known places on the target, as far as its line goes; the last range may be open."""
        if not len(self._targets):
            return
        begin = self.targets.first.count
        for end in self.ends:
            if end <= begin:
                continue
            yield Range(begin, end)
            following = self._point_behind(end)
            if following is None:
                return
            begin = following
        yield Range(begin, FAR)

    def unguarded(self, since: int, until: int = FAR) -> bool:
        """Whether segments say that records from one count to before another may be unguarded."""
        return self.sources.flagged(since, until)

    def _point_behind(self, count: int) -> int | None:
        piece = self.targets.piece_of(count)
        if piece is None:
            return self.targets.first.count
        if piece.begin >= count:
            return piece.begin
        return piece.end if piece.end < FAR else None
