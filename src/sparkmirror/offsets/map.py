"""The offset map of one partition: source offset to target offset and back, exact at every mirrored record.

`PartitionMap` keeps what the internal topic says, `OffsetMap` is that put in one line, to look offsets up in.

Invariants:
    * Newer writer epochs go first. An older one holds for source offsets below those where a newer one began: what it
      had beyond was lost by the target, or belongs to another history of the source; and for target offsets below
      those where a newer one began: beyond, the target topic is another one.
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
            segment.sequence, segment.source, segment.target, segment.unguarded
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
        source_cut = target_cut = _FAR
        newest = True
        for writer in reversed(self.writers(ids)):
            pieces = self._pieces[writer.producer_id, writer.epoch]
            end = _end(pieces, writer, progress, newest)
            lines.append(_line(pieces.columns, end, source_cut, target_cut))
            source_cut = min(source_cut, int(pieces.columns.sources[0]))
            known = pieces.columns.targets[pieces.columns.targets >= 0]
            target_cut = min(target_cut, int(known[0])) if len(known) else target_cut
            newest = False
        position = NO_OFFSET if progress is None else progress.position
        sources, targets, lengths = (
            np.concatenate([_NONE, *(line[column] for line in reversed(lines))]) for column in range(3)
        )
        return OffsetMap(sources, targets, lengths, position)


_NONE = np.empty(0, np.int64)


def _end(pieces: Pieces, writer: Writer, progress: Progress | None, newest: bool) -> int:
    """The count after the last record that is known to be acknowledged; far away where a newer epoch shows the end."""
    if progress is not None and progress.writer == writer and progress.source != NO_OFFSET:
        last = pieces.count_at(progress.source)
        return _settled_end(pieces) if last is None else max(last + 1, _settled_end(pieces))
    return _settled_end(pieces) if newest else _FAR


def _settled_end(pieces: Pieces) -> int:
    piece = pieces.last_settled()
    return 0 if piece is None else piece.begin + 1


def _line(columns: Columns, end: int, source_cut: int, target_cut: int) -> tuple[Offsets, Offsets, Offsets]:
    """Source offsets, target offsets and lengths of an epoch's pieces, as far as they hold."""
    counts, sources, targets, _ = columns
    lengths = np.minimum(np.append(counts[1:], _FAR), end) - counts
    lengths = np.minimum(lengths, source_cut - sources)
    lengths = np.where(targets >= 0, np.minimum(lengths, target_cut - targets), lengths)
    holds = lengths > 0
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

    def count(self, start: int, stop: int) -> int:
        """How many records from source offset ``start`` to before ``stop`` were mirrored."""
        first = np.maximum(self._sources, start)
        last = np.minimum(self._sources + self._lengths, stop)
        return int(np.maximum(last - first, 0).sum())

    def _row(self, place: int) -> tuple[int, int, int]:
        return int(self._sources[place]), int(self._targets[place]), int(self._lengths[place])
