"""The offset map of one partition: source offset to target offset and back, exact at every mirrored record.

`PartitionMap` keeps what the internal topic says, `OffsetMap` is that put in one line, to look offsets up in.

Invariants:
    * Newer writer epochs go first. An older one holds for source offsets below those where a newer one began: what it
      had beyond was lost by the target, or belongs to another history of the source; and for target offsets below
      those where a newer one began: beyond, the target topic is another one.
    * A writer epoch of which nothing is left, since an unclean election brought back a log without it, holds nothing:
      it keeps its segments, but none of their target offsets.
    * In an `OffsetMap` source and target offsets grow together, and nothing that is not acknowledged is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sparkmirror.model import NO_OFFSET, Writer
from sparkmirror.offsets.pieces import Columns, Offsets, Pieces
from sparkmirror.offsets.records import Progress, Segment

_FAR = np.iinfo(np.int64).max // 2


class Stretch(NamedTuple):
    """Source offsets from ``source`` on, so many, that lie from ``target`` on; -1 while that is unknown."""

    source: int
    target: int
    length: int


class PartitionMap:
    """The segments of one partition, by writer epoch."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, int], Pieces] = {}

    def take(self, segment: Segment) -> None:
        """Adds a segment, or replaces what was known of it."""
        self.place(segment.writer.producer_id, segment.writer.epoch).take(
            segment.sequence, segment.source, segment.target, unguarded=segment.unguarded, anew=segment.anew
        )

    def place(self, producer_id: int, epoch: int) -> Pieces:
        """Where segments of that writer go."""
        pieces = self._pieces.get((producer_id, epoch))
        if pieces is None:
            pieces = self._pieces[producer_id, epoch] = Pieces()
        return pieces

    def forget(self, writer: Writer, sequence: int) -> None:
        """Takes a segment's tombstone."""
        pieces = self._pieces.get((writer.producer_id, writer.epoch))
        if pieces is not None:
            pieces.forget(sequence)

    def pieces(self, writer: Writer) -> Pieces | None:
        """The segments of a writer epoch, or None if there are none."""
        found = self._pieces.get((writer.producer_id, writer.epoch))
        return found if found is not None and len(found) else None

    def writers(self, ids: Sequence[int]) -> tuple[Writer, ...]:
        """Those who have segments, oldest first.

        Args:
            ids: the flow's producer ids in the order in which they were registered. One that is not among them is
                taken for older than all.
        """
        order = {producer_id: number for number, producer_id in enumerate(ids)}
        known = sorted(self._pieces, key=lambda writer: (order.get(writer[0], -1), writer))
        writers = (Writer(producer_id=producer_id, epoch=epoch) for producer_id, epoch in known)
        return tuple(writer for writer in writers if self.pieces(writer) is not None)

    def unguarded(self, ids: Sequence[int]) -> bool:
        """Whether what the newest writer sent last may be batches that brokers do not guard, see ``copy.retries``."""
        writers = self.writers(ids)
        pieces = self.pieces(writers[-1]) if writers else None
        return pieces is not None and pieces.ends_unguarded

    def __len__(self) -> int:
        return sum(len(pieces) for pieces in self._pieces.values())

    def offsets(self, progress: Progress | None, ids: Sequence[int]) -> OffsetMap:
        """Everything in one line.

        Args:
            progress: the newest of the partition.
            ids: as for `writers`.
        """
        lines: list[tuple[Offsets, Offsets, Offsets]] = []
        writers = self.writers(ids)
        closed = progress is not None and _newer(progress.writer, writers, ids)
        source_cut = target_cut = _FAR
        if closed and progress is not None and progress.position != NO_OFFSET:
            source_cut = progress.position  # its writer has sent nothing yet: what is mirrored lies below
        for writer in reversed(writers):
            pieces = self._pieces[writer.producer_id, writer.epoch]
            columns = pieces.columns
            newest = writer == writers[-1] and not closed
            last = progress if progress is not None and (progress.writer == writer or closed) else None
            end = _end(pieces, last, newest=newest)
            lines.append(_line(columns, end, source_cut, target_cut, newest=newest))
            if newest or pieces.supersedes:
                source_cut = min(source_cut, int(columns.sources[0]))
            closed = False
            known = columns.targets[columns.targets >= 0]
            target_cut = min(target_cut, int(known[0])) if len(known) else target_cut
        sources, targets, lengths = (
            np.concatenate([_NONE, *(line[column] for line in reversed(lines))]) for column in range(3)
        )
        return OffsetMap(sources, targets, lengths, NO_OFFSET if progress is None else progress.position)


_NONE = np.empty(0, np.int64)


def _newer(writer: Writer, writers: Sequence[Writer], ids: Sequence[int]) -> bool:
    """Whether ``writer`` came after all ``writers``, which are in order."""
    order = {producer_id: number for number, producer_id in enumerate(ids)}
    here = (order.get(writer.producer_id, -1), writer.epoch)
    return not writers or here > (order.get(writers[-1].producer_id, -1), writers[-1].epoch)


def _end(pieces: Pieces, progress: Progress | None, *, newest: bool) -> int:
    """The count after an epoch's last record that was acknowledged, or far away where something else shows the end.

    Args:
        pieces: of the epoch.
        progress: that which knows its last record, or None.
        newest: whether the epoch goes on. One that does not ends with a segment that never got its target, or, where
            it was ended in order, with the last record of its progress.
    """
    piece = pieces.last_settled()
    settled = 0 if piece is None else piece.begin + 1
    if not newest and pieces.at(-1).target == NO_OFFSET:
        return _FAR
    last = None if progress is None or progress.source == NO_OFFSET else pieces.count_at(progress.source)
    if last is not None:
        return max(last + 1, settled)
    return settled if newest else _FAR


def _line(
    columns: Columns, end: int, source_cut: int, target_cut: int, *, newest: bool
) -> tuple[Offsets, Offsets, Offsets]:
    """Source offsets, target offsets and lengths of an epoch's pieces, as far as they hold.

    Only the newest epoch's unknown targets may still become known; what others wrote ahead never arrived.
    """
    counts, sources, targets, *_ = columns
    lengths = np.minimum(np.append(counts[1:], _FAR), end) - counts
    lengths = np.minimum(lengths, source_cut - sources)
    lengths = np.where(targets >= 0, np.minimum(lengths, target_cut - targets), lengths)
    holds = (lengths > 0) & (newest | (targets >= 0))
    return sources[holds], targets[holds], lengths[holds]


class OffsetMap:
    """A partition's map at one moment.

    Args:
        sources, targets, lengths: of its stretches, in order; a target is -1 while unknown.
        position: the next source offset to copy, or `NO_OFFSET` if unknown.
    """

    __slots__ = ("_lengths", "_position", "_settled", "_sources", "_targets")

    def __init__(self, sources: Offsets, targets: Offsets, lengths: Offsets, position: int) -> None:
        self._sources, self._targets, self._lengths = sources, targets, lengths
        self._position = position
        known = targets >= 0
        every = bool(known.all())
        self._settled = (sources, targets, lengths) if every else (sources[known], targets[known], lengths[known])

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Stretch]:
        for row in zip(self._sources, self._targets, self._lengths, strict=True):
            yield Stretch(*map(int, row))

    def source_to_target(self, offset: int) -> int | None:
        """The target offset from which on everything lies that the source has from ``offset`` on.

        That of the record itself, where it was mirrored; in a hole that of the next one that was; behind the last one
        the offset after it. None where the map does not reach: below it, beyond the position, target not known yet.
        """
        place = int(np.searchsorted(self._sources, offset, side="right")) - 1
        if place < 0:
            return None
        source, target, length = self._row(place)
        if offset - source < length:
            return target + offset - source if target >= 0 else None
        if place + 1 < len(self):
            _, following, _ = self._row(place + 1)
            return following if following >= 0 else None
        return target + length if target >= 0 and offset <= self._position else None

    def target_to_source(self, offset: int) -> int | None:
        """The source offset from which on everything lies that the flow has put at ``offset`` and behind it.

        Between mirrored records, where others wrote or a marker lies, that of the next one; behind the last one the
        position. None below the map, or where the position is unknown.
        """
        sources, targets, lengths = self._settled
        place = int(np.searchsorted(targets, offset, side="right")) - 1
        if place < 0:
            return None
        if offset - targets[place] < lengths[place]:
            return int(sources[place] + offset - targets[place])
        if place + 1 < len(targets):
            return int(sources[place + 1])
        return self._position if self._position != NO_OFFSET else None

    def mirrored(self, offset: int) -> bool:
        """Whether the record at that source offset is on the target, as far as the map tells."""
        place = int(np.searchsorted(self._sources, offset, side="right")) - 1
        return place >= 0 and offset - int(self._sources[place]) < int(self._lengths[place])

    def settled(self, after: int = NO_OFFSET) -> Iterator[Stretch]:
        """What lies behind the source offset ``after`` and has a known target offset, in order."""
        sources, targets, lengths = self._settled
        first = max(0, int(np.searchsorted(sources, after, side="right")) - 1)
        for place in range(first, len(sources)):
            source, target, length = int(sources[place]), int(targets[place]), int(lengths[place])
            cut = max(0, after + 1 - source)
            if cut < length:
                yield Stretch(source + cut, target + cut, length - cut)

    def end(self) -> Stretch | None:
        """The last mirrored record whose target offset is known, as a stretch of one."""
        sources, targets, lengths = self._settled
        if not len(sources):
            return None
        return Stretch(int(sources[-1] + lengths[-1]) - 1, int(targets[-1] + lengths[-1]) - 1, 1)

    def count(self, start: int, stop: int) -> int:
        """How many records from source offset ``start`` to before ``stop`` were mirrored."""
        first = np.maximum(self._sources, start)
        last = np.minimum(self._sources + self._lengths, stop)
        return int(np.maximum(last - first, 0).sum())

    def _row(self, place: int) -> tuple[int, int, int]:
        return int(self._sources[place]), int(self._targets[place]), int(self._lengths[place])
