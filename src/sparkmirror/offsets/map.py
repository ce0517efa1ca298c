"""The offset map of one partition: source offset to target offset and back, exact at every mirrored record.

`PartitionMap` keeps what the internal topic says, `OffsetMap` is that put in one line, to look offsets up in.

Invariants:
    * Newer writer epochs go first. An older one holds for source offsets below those where a newer one began: what it
      had beyond was lost by the target, or belongs to another history of the source; and for target offsets below
      those where a newer one began: beyond, the target topic is another one.
    * A writer epoch of which nothing is left, since an unclean election brought back a log without it, holds nothing:
      it keeps its segments, but none of their target offsets.
    * Where a newer epoch began further on than the source's log parts from what older ones knew, they hold below that.
    * In an `OffsetMap` source and target offsets grow together, and nothing that is not acknowledged is in it.
    * Where segments were thinned, an offset leads to one that is not beyond the right one, and `OffsetMap.is_exact`
      says so: a reader reads records of that piece again, and skips none. The same holds between two epochs where the
      newer one came after a record to which the older ones do not lead: what lay there is lost (``offsets.losses``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET, WENT_ON, Began, TopicPartition, Writer
from sparkmirror.offsets.losses import Back, Losses
from sparkmirror.offsets.ordered_out import Reset, Span, ordered_out
from sparkmirror.offsets.parts import Part, source_of, target_of
from sparkmirror.offsets.passed_over import Turn, idle, passed_over, turns_of, unfinished, up_to, with_lost_ends
from sparkmirror.offsets.pieces import NOT_BOUNDED, UNKNOWN_BEFORE, Before, Bounds, Pieces
from sparkmirror.offsets.records import Progress, closing
from sparkmirror.offsets.segments import (
    SEQUENCES,
    Bounded,
    BoundedKey,
    MapKey,
    MapRecord,
    Moved,
    MovedKey,
    Ordered,
    OrderedKey,
    Parted,
    PartedKey,
    SegmentsKey,
)
from sparkmirror.offsets.track import FAR, Block, Piece, Track


class Stretch(NamedTuple):
    """Source offsets from ``source`` on, so many, that lie from ``target`` on; -1 while that is unknown."""

    source: int
    target: int
    length: int


class Begins(NamedTuple):
    """Where an epoch is to begin anew, or has begun of which nothing else is on record.

    Attributes:
        position: the source offset.
        limit: that from which on older epochs hold no more.
        before: the record that it came after, where that is on record.
    """

    position: int
    limit: int
    before: Before | None = None


class PartitionMap:
    """What is on record of one partition, by writer epoch."""

    __slots__ = ("_bounds", "_ended", "_moved", "_ordered", "_parted", "_pieces", "_told")

    def __init__(self) -> None:
        self._bounds = NOT_BOUNDED
        self._ended: dict[Writer, Progress] = {}
        self._pieces: dict[tuple[int, int], Pieces] = {}
        self._parted: dict[Writer, int] = {}
        self._moved: dict[Writer, int] = {}
        self._told: dict[Writer, Began] = {}
        self._ordered: dict[Writer, Ordered] = {}

    def take(self, record: MapRecord) -> None:
        """Adds a record, or replaces what was known of its key."""
        if isinstance(record, Parted):
            self._parted[record.writer] = record.source
            return
        if isinstance(record, Moved):
            self._moved[record.writer] = record.source
            return
        if isinstance(record, Ordered):
            self._ordered[record.writer] = record
            return
        if isinstance(record, Bounded):
            self._bound(Bounds(record.source, record.target))
            return
        self.pieces_of(record.writer).take(record)

    def pieces_of(self, writer: Writer) -> Pieces:
        """What is on record of a writer epoch, which may be nothing."""
        key = writer.producer_id, writer.epoch
        pieces = self._pieces.get(key)
        if pieces is None:
            pieces = self._pieces[key] = Pieces(self._bounds)
        return pieces

    def _bound(self, bounds: Bounds) -> None:
        self._bounds = bounds
        for pieces in self._pieces.values():
            pieces.bound(bounds)

    def forget(self, key: MapKey) -> None:
        """Takes a tombstone."""
        if isinstance(key, PartedKey | MovedKey):
            (self._parted if isinstance(key, PartedKey) else self._moved).pop(key.writer, None)
            self._told.pop(key.writer, None)
            return
        if isinstance(key, OrderedKey):
            self._ordered.pop(key.writer, None)
            return
        if isinstance(key, BoundedKey):
            self._bound(NOT_BOUNDED)
            return
        pieces = self._pieces.get((key.writer.producer_id, key.writer.epoch))
        if pieces is None:
            return
        if isinstance(key, SegmentsKey):
            pieces.forget_segments(key.sequence)
        else:
            pieces.forget_targets(key.sequence)

    def end(self, progress: Progress) -> None:
        """Takes the progress of an epoch that is over: if that ended in order, nothing else tells with which record."""
        if progress.settled and progress.sequence != NO_OFFSET:
            self._ended[progress.writer] = progress

    def acknowledge(self, progress: Progress) -> None:
        """Takes an epoch's first and last acknowledged record, and why it began: what the map has not of it is lost."""
        self.pieces_of(progress.writer).acknowledge(progress.last, anew=progress.anew)
        if progress.began != WENT_ON:
            self._told[progress.writer] = progress.began

    def began(self, writer: Writer) -> Began:
        """Why an epoch began where it did, as far as that is on record."""
        told = self._told.get(writer, WENT_ON)
        return Began(self._moved.get(writer, told.moved), self._parted.get(writer, told.parted))

    def unrecorded(self, partition: TopicPartition, writer: Writer) -> tuple[MapRecord, ...]:
        """What of an epoch only its progress tells, since the topic has lost the rest; empty where nothing is lost."""
        pieces, told = self.pieces(writer), self._told.get(writer, WENT_ON)
        lost = list[MapRecord]()
        if told.moved != NO_OFFSET and writer not in self._moved:
            lost.append(Moved(partition=partition, writer=writer, source=told.moved))
        if told.parted != NO_OFFSET and writer not in self._parted:
            lost.append(Parted(partition=partition, writer=writer, source=told.parted))
        return (*lost, *(() if pieces is None else pieces.unrecorded(partition, writer)))

    def outdate(self, writer: Writer) -> None:
        """The progress of an epoch is not the newest any more."""
        pieces = self._pieces.get((writer.producer_id, writer.epoch))
        if pieces is not None:
            pieces.outdate()

    def ending(self, partition: TopicPartition, writer: Writer) -> tuple[MapRecord, ...]:
        """What is put on record in the place of the progress of an epoch that is over; empty where all of it is."""
        lost = self.unrecorded(partition, writer)
        return lost if self._ended_before(writer) == FAR else (*lost, *closing(self._ended[writer]))

    def closing(self, progress: Progress) -> tuple[MapRecord, ...]:
        """What is put on record of an epoch where the copy goes on elsewhere: its end, and what only progress tells."""
        pieces, lost = self.pieces(progress.writer), self.unrecorded(progress.partition, progress.writer)
        return lost if pieces is not None and pieces.goes_behind(progress.source) else (*lost, *closing(progress))

    def lost(self, ids: Sequence[int]) -> tuple[Piece, ...]:
        """Where segments are lost, so that source offsets are not exact: in order of epochs, see `writers`."""
        return tuple(
            piece
            for writer in self.writers(ids)
            for piece in self._pieces[writer.producer_id, writer.epoch].sources.lost()
        )

    def pieces(self, writer: Writer) -> Pieces | None:
        """What is on record of a writer epoch, or None if it has no segments."""
        found = self._pieces.get((writer.producer_id, writer.epoch))
        return found if found is not None and len(found) else None

    def half(self, writer: Writer, *, is_source: bool) -> Mapping[int, Block]:
        """The blocks of one line of a writer epoch that are on record, by their sequences."""
        pieces = self.pieces_of(writer)
        return (pieces.sources if is_source else pieces.targets).taken()

    def has(self, record: Parted | Moved | Ordered | Bounded) -> bool:
        """Whether a record that is not of a writer epoch's lines is on record."""
        if isinstance(record, Bounded):
            return self._bounds == Bounds(record.source, record.target)
        if isinstance(record, Ordered):
            return self._ordered.get(record.writer) == record
        known = self._parted if isinstance(record, Parted) else self._moved
        return known.get(record.writer) == record.source

    def others_than(
        self, left: PartitionMap, partition: TopicPartition
    ) -> Iterator[Parted | Moved | Ordered | Bounded]:
        """What is not of a writer epoch's lines, and is not in another map of the partition."""
        for writer, source in self._parted.items():
            if left._parted.get(writer) != source:
                yield Parted(partition=partition, writer=writer, source=source)
        for writer, source in self._moved.items():
            if left._moved.get(writer) != source:
                yield Moved(partition=partition, writer=writer, source=source)
        yield from (one for writer, one in self._ordered.items() if left._ordered.get(writer) != one)
        if self._bounds not in (left._bounds, NOT_BOUNDED):
            yield Bounded(partition=partition, source=self._bounds.source, target=self._bounds.target)

    def removed_since(self, left: PartitionMap, partition: TopicPartition) -> Iterator[str]:
        """The keys of what another map of the partition has beside lines, and this one has not."""
        yield from (PartedKey(partition, writer).text for writer in left._parted.keys() - self._parted.keys())
        yield from (MovedKey(partition, writer).text for writer in left._moved.keys() - self._moved.keys())
        yield from (left._ordered[writer].key for writer in left._ordered.keys() - self._ordered.keys())
        if self._bounds == NOT_BOUNDED:
            yield from left.bounds_keys(partition)

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

    def unguarded(self, progress: Progress | None, ids: Sequence[int]) -> bool:
        """Whether what the newest writer sent last may be batches that brokers do not guard, see ``copy.retries``."""
        writers = self.writers(ids)
        pieces = self.pieces(writers[-1]) if writers else None
        if pieces is None:
            return False
        settled = pieces.last_settled()
        since = pieces.first.count if settled is None else settled.count
        if progress is not None and progress.writer == writers[-1] and progress.source != NO_OFFSET:
            since = max(since, pieces.count_of_last(progress.sequence, progress.source) or since)
        return pieces.unguarded(since)

    def _parted_behind(self, writer: Writer, ids: Sequence[int]) -> Iterator[int]:
        """Where newer epochs have found that the source's log parts from what ``writer`` knew."""
        order = {producer_id: number for number, producer_id in enumerate(ids)}
        here = (order.get(writer.producer_id, -1), writer.epoch)
        return (
            source
            for newer, source in self._all_parted.items()
            if (order.get(newer.producer_id, -1), newer.epoch) > here
        )

    def parted_at(self, writer: Writer) -> int:
        """From which source offset on epochs before that of ``writer`` hold no more, or `FAR`."""
        return self._all_parted.get(writer, FAR)

    @property
    def _all_parted(self) -> Mapping[Writer, int]:
        told = {writer: each.parted for writer, each in self._told.items() if each.parted != NO_OFFSET}
        return told | self._parted

    @property
    def _all_moved(self) -> Mapping[Writer, int]:
        told = {writer: each.moved for writer, each in self._told.items() if each.moved != NO_OFFSET}
        return told | self._moved

    def stood_at(self, writer: Writer) -> int | None:
        """Where the copy stood when an order had the epoch of ``writer`` begin elsewhere; None where none did."""
        ordered = self._ordered.get(writer)
        return None if ordered is None else ordered.stood

    def _ordered_out(self, ids: Sequence[int]) -> tuple[Span, ...]:
        """What orders left out, in order."""
        if not self._ordered:
            return ()
        order = {producer_id: number for number, producer_id in enumerate(ids)}
        begun = self._ordered.keys() | self._parted.keys()
        resets = []
        for writer in sorted(begun, key=lambda each: (order.get(each.producer_id, -1), each.producer_id, each.epoch)):
            one = self._ordered.get(writer)
            stood, source = (NO_OFFSET, NO_OFFSET) if one is None else (one.stood, one.source)
            resets.append(Reset(stood, source, self.parted_at(writer)))
        return ordered_out(resets)

    def going_back(self, ids: Sequence[int], progress: Progress | None = None) -> frozenset[Writer]:
        """The epochs that went back by an order, and have not copied again all that older ones had: these count on.

        Args:
            ids: as for `writers`.
            progress: the newest, with which the newest epoch ends where it goes on no more.
        """
        turns = self._turns(ids)
        if progress is not None:
            turns = self._ended_with(turns, progress)
        return frozenset(writer for turn in unfinished(turns) for writer in turn.writers)

    def idle_orders(self, partition: TopicPartition, ids: Sequence[int]) -> tuple[str, ...]:
        """The keys of `Moved` of epochs that are the newest and have sent nothing.

        They are to be removed when the partition begins anew for another reason than an order, or what begins there
        would pass for what was ordered.
        """
        writers, moves = idle(self._turns(ids)), self._all_moved
        return tuple(MovedKey(partition, writer).text for writer in writers if writer in moves)

    def bounds_keys(self, partition: TopicPartition) -> tuple[str, ...]:
        """The key of `Bounded`, to be removed when the partition is one of another topic."""
        return () if self._bounds == NOT_BOUNDED else (BoundedKey(partition).text,)

    def _turns(
        self, ids: Sequence[int], begins: Begins | None = None, progress: Progress | None = None
    ) -> tuple[Turn, ...]:
        """By where the copy was reset; ``begins`` is where it is to be next, behind the last record of ``progress``."""
        moves = self._all_moved
        if not moves:
            return ()
        turns = turns_of(
            self.writers(ids),
            self.pieces,
            moves,
            lambda writer: min(self._parted_behind(writer, ids), default=FAR),
            self._ended_before,
        )
        if not turns:
            return ()
        if progress is not None and begins is not None:
            turns = self._ended_with(turns, progress)
        before = partial(self._before, progress, begins)
        if begins is None:
            return with_lost_ends(turns, self.pieces, before)
        newest = Turn((), begins.position, begins.position, moved=False, holds=NO_OFFSET)
        *older, newest = with_lost_ends((*turns, newest), self.pieces, before)
        return (*up_to(older, begins.limit), newest)

    def _before(self, progress: Progress | None, begins: Begins | None, turn: Turn) -> Before | None:
        """The record that a turn came after; None where that is not on record."""
        if not turn.writers:
            return None if begins is None else begins.before
        writer = turn.writers[0]
        if progress is not None and progress.writer == writer and progress.sequence == NO_OFFSET:
            return Before(*progress.before)
        return self.pieces_of(writer).before

    def _ended_with(self, turns: tuple[Turn, ...], progress: Progress) -> tuple[Turn, ...]:
        """The same; the newest ends with its progress where no end of it is on record yet."""
        last = turns[-1] if turns else None
        if last is None or last.end < FAR or progress.writer not in last.writers or progress.sequence == NO_OFFSET:
            return turns
        end = max(last.first, progress.source + 1)
        return (*turns[:-1], last._replace(end=end, holds=min(last.holds, end), sure=progress.settled))

    def _has_ended(self, writer: Writer) -> bool:
        """Whether it is on record where an epoch that is over has ended."""
        return bool(self.pieces_of(writer).ends) or self._ended_before(writer) < FAR

    def _ended_before(self, writer: Writer) -> int:
        """Before which source offset an epoch has ended in order, where only its progress tells; or `FAR`."""
        progress, pieces = self._ended.get(writer), self.pieces(writer)
        if progress is None or pieces is None or pieces.ends or pieces.goes_behind(progress.source):
            return FAR
        return progress.source + 1

    @property
    def first(self) -> int | None:
        """The least source offset that a segment on record begins at."""
        return min((pieces.first.offset for pieces in self._pieces.values() if len(pieces)), default=None)

    @property
    def size(self) -> int:
        """Bytes of all holes."""
        return sum(pieces.sources.size + pieces.targets.size for pieces in self._pieces.values())

    def __len__(self) -> int:
        return sum(len(pieces) for pieces in self._pieces.values())

    def offsets(
        self,
        progress: Progress | None,
        ids: Sequence[int],
        points: Mapping[tuple[int, Writer], int] | None = None,
        *,
        parted: bool = True,
        begins: Begins | None = None,
    ) -> OffsetMap:
        """Everything in one line.

        Args:
            progress: the newest of the partition.
            ids: as for `writers`.
            points: as for `OffsetMap`.
            parted: whether what the source's log has other records for by now is left out.
            begins: where the next epoch is to begin anew, if one is.
        """
        parts, over, back = list[Part](), list[Part](), list[Back]()
        writers = self.writers(ids)
        closed = progress is not None and _newer(progress.writer, writers, ids)
        goes_on = progress.writer if progress is not None and closed else next(reversed(writers), None)
        going_on = begins or (_begun_anew(progress) if closed else None)
        passed = passed_over(self._turns(ids, going_on, progress)) if parted else {}
        position = NO_OFFSET if progress is None else progress.position
        if progress is not None and writers and not closed and progress.writer != writers[-1]:
            # The newest epoch has no progress yet: an older one's says nothing of what lies behind where it begins.
            position = min(position, self._pieces[writers[-1].producer_id, writers[-1].epoch].first.offset)
        source_cut = target_cut = FAR
        behind = _comes_after(progress, goes_on)
        if closed and progress is not None and progress.position != NO_OFFSET and begins is None:
            # Its writer has sent nothing yet: what is mirrored lies below.
            source_cut = min(progress.position, _behind(behind) if parted else FAR)
        for writer in reversed(writers):
            pieces = self._pieces[writer.producer_id, writer.epoch]
            if writer in passed:
                over += _parts(writer, pieces, FAR, FAR, newest=False, ended=self._has_ended(writer))
                begun = min(pieces.first.offset, self.began(writer).moved % FAR)
                back.append(Back(len(parts), begun, passed[writer]))
                continue
            if parted:
                source_cut = min([source_cut, *self._parted_behind(writer, ids)])
            newest = writer == writers[-1] and not closed
            last = progress if progress is not None and (progress.writer == writer or closed) else None
            last = self._ended.get(writer) if last is None and not newest else last
            stop = min(_end(pieces, last, newest=newest), _cut(pieces.sources, source_cut))
            ended = newest or last is not None or self._has_ended(writer)
            parts += reversed(_parts(writer, pieces, stop, target_cut, newest=newest, ended=ended))
            if pieces.anew and pieces.lacks_begin:
                back.append(Back(len(parts), 0, sure=False))
            if newest or pieces.supersedes:
                source_cut = min(source_cut, pieces.first.offset, _behind(pieces.before) if parted else FAR)
            closed = False
            if len(pieces.targets):
                target_cut = min(target_cut, pieces.targets.first.offset)
        end = NO_OFFSET if progress is None or not parted or not self._all_parted else progress.target
        losses = Losses(bounds=self._bounds, behind=behind, passed=over, back=back)
        told = losses.told(parts[::-1])
        lacking, out = losses.lacks_end(told), self._ordered_out(ids)
        return OffsetMap(told, position, points, end, goes_on, lacking=lacking, ordered_out=out)


def _comes_after(progress: Progress | None, goes_on: Writer | None) -> Before | None:
    """The record of an older epoch behind which the newest one goes on, where that has no record yet."""
    if progress is None or progress.writer != goes_on or progress.sequence != NO_OFFSET:
        return None
    before = Before(*progress.before)
    return before if NO_OFFSET < before.source < progress.position or not before.known else None


def _begun_anew(progress: Progress | None) -> Begins | None:
    """Where the newest epoch began anew, of which nothing else is on record."""
    if progress is None or not progress.anew or progress.sequence != NO_OFFSET:
        return None
    return Begins(progress.position, progress.position, Before(*progress.before))


def _behind(before: Before | None) -> int:
    """From which source offset on older epochs hold no more, by the last record of theirs that counts."""
    return before.source + 1 if before is not None and before.known else FAR


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
        newest: whether the epoch goes on. One that does not has an end on record, or, where it was ended in order, ends
            with the last record of its progress.
    """
    if not newest and pieces.ends:
        return FAR
    point = pieces.last_settled()
    settled = 0 if point is None else point.count + 1
    last = None
    if progress is not None and progress.source != NO_OFFSET:
        last = pieces.count_of_last(progress.sequence, progress.source)
    if last is not None:
        return max(last + 1, settled)
    return settled if newest else FAR


def _cut(line: Track, offset: int) -> int:
    """The first count that surely lies at or behind an offset."""
    if offset == FAR:
        return FAR
    piece = line.piece_at(offset)
    return -FAR if piece is None else min(piece.begin + offset - piece.offset, piece.end)


def _parts(writer: Writer, pieces: Pieces, stop: int, target_cut: int, *, newest: bool, ended: bool) -> list[Part]:
    """Counts of an epoch, as far as they hold, in order.

    Only of the newest epoch may places that are unknown still become known; what others wrote ahead never arrived.
    """
    targets, begin = pieces.targets, pieces.first.count
    parts = []
    if newest:
        unknown_until = min(stop, targets.first.count if len(targets) else FAR)
        parts.append(Part(pieces, begin, unknown_until, known=False, writer=writer, ended=ended))
    limit = min(stop, _cut(targets, target_cut)) if len(targets) else stop
    parts += [
        Part(pieces, max(known.first, begin), min(known.stop, limit), known=True, writer=writer, ended=ended)
        for known in pieces.known()
    ]
    return [part for part in parts if part.first < part.stop]


class OffsetMap:
    """A partition's map at one moment.

    Args:
        parts: in order.
        position: the next source offset to copy, or `NO_OFFSET` if unknown.
        points: target offsets of some source offsets, as they were when nothing was thinned there yet, each with the
            writer epoch that the record had. A record that was copied again under another epoch lies elsewhere.
        end: the target offset of the last record that was acknowledged, where that is not in ``parts``: the source has
            lost it; else `NO_OFFSET`.
        writer: who goes on with the copy, which need not have anything on record but that it does; None if nobody has.
        lacking: whether what was copied behind all parts is lost from the map.
        ordered_out: what orders left out, in order.
    """

    __slots__ = (
        "_end",
        "_first",
        "_known",
        "_lacking",
        "_ordered_out",
        "_parts",
        "_points",
        "_position",
        "_sources",
        "_targets",
        "writer",
    )

    def __init__(
        self,
        parts: Sequence[Part],
        position: int,
        points: Mapping[tuple[int, Writer], int] | None = None,
        end: int = NO_OFFSET,
        writer: Writer | None = None,
        *,
        lacking: bool = False,
        ordered_out: Sequence[Span] = (),
    ) -> None:
        self.writer = writer
        self._ordered_out = ordered_out
        self._lacking = lacking
        self._points = points or {}
        self._parts = parts
        self._known = [part for part in parts if part.known]
        self._sources = [source_of(part, part.first) for part in parts]
        self._targets = [target_of(part, part.first) for part in self._known]
        self._position = position
        self._end = end
        self._first: Stretch | None = None

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Stretch]:
        for part in self._parts:
            yield from _stretches(part, part.first)

    @property
    def position(self) -> int:
        """The next source offset to copy, or `NO_OFFSET` if unknown."""
        return self._position

    @property
    def producer_ids(self) -> frozenset[int]:
        """Of those who wrote the copies."""
        return frozenset(part.writer.producer_id for part in self._parts)

    @property
    def writers(self) -> frozenset[Writer]:
        """The epochs that hold."""
        return frozenset(part.writer for part in self._parts)

    def ends(self) -> dict[Writer, int]:
        """Before which count each epoch ends whose places on the target are known, as far as it holds."""
        return {part.writer: part.stop for part in self._known}

    @property
    def lacks_begin(self) -> bool:
        """Whether something that lies in both logs may have been copied before all parts, but is lost from the map."""
        return bool(self._parts) and (self._parts[0].lacking or self._parts[0].certain < self._sources[0])

    def first(self) -> Stretch | None:
        """The first stretch, if anything was mirrored; kept, since each translation asks for it."""
        if self._first is None:
            self._first = next(iter(self), None)
        return self._first

    def source_to_target(self, offset: int) -> int | None:
        """The target offset from which on everything lies that the source has from ``offset`` on.

        That of the record itself, where it was mirrored; in a hole that of the next one that was; behind the last one
        the offset after it. None where the map does not reach: below it, beyond the position, target not known yet.
        """
        place = bisect_right(self._sources, offset) - 1
        if place < 0:
            return None
        part = self._parts[place]
        count = _count(part.pieces.sources, offset)
        if count < part.stop:
            return self._told(part, max(count, part.first), offset) if part.known else None
        if place + 1 < len(self._parts):
            following = self._parts[place + 1]
            if following.lacking:
                return target_of(part, part.stop - 1) + 1 if part.known else None
            return target_of(following, following.first) if following.known else None
        return max(target_of(part, part.stop - 1), self._end) + 1 if part.known and offset <= self._position else None

    def _told(self, part: Part, count: int, offset: int) -> int:
        """The target offset of a count; where that was thinned, what is known of the source offset from before."""
        target = target_of(part, count)
        if not self._is_exact(part, count, offset) and self._is_kept(part, offset):
            return self._points[offset, part.writer]
        return target

    def going_on_at(self, position: int) -> OffsetMap:
        """The map as it is once the copy goes on at a source offset further on."""
        lacking, out = self._lacking, self._ordered_out
        return OffsetMap(self._parts, position, self._points, self._end, self.writer, lacking=lacking, ordered_out=out)

    def below(self, offset: int) -> OffsetMap:
        """The map as it would be if nothing from that source offset on had been mirrored."""
        cut = (part._replace(stop=min(part.stop, _cut(part.pieces.sources, offset))) for part in self._parts)
        parts = [part for part in cut if part.first < part.stop]
        last = len(parts) - 1
        whole = last < 0 or parts[last] == self._parts[last]
        lacking = whole and self._lacks_behind(self._parts, last)
        position, out = min(self._position, offset), [span for span in self._ordered_out if span.stop <= offset]
        return OffsetMap(parts, position, self._points, writer=self.writer, lacking=lacking, ordered_out=out)

    @property
    def last_source(self) -> int:
        """The source offset of the last mirrored record, where that is not exact one that is not beyond; or -1."""
        return source_of(self._parts[-1], self._parts[-1].stop - 1) if self._parts else NO_OFFSET

    def last_below(self, offset: int) -> Before | None:
        """The last mirrored record below a source offset; None where nothing was mirrored there.

        It is one that is not known where the map has lost what lies there, or was thinned.
        """
        left = self.below(offset)
        part = left._parts[-1] if left._parts else None
        if part is None:
            return UNKNOWN_BEFORE if left._lacking else None
        count, pieces = part.stop - 1, part.pieces
        there = pieces.targets.piece_of(count) if part.known else None
        source = source_of(part, count)
        exact = there is not None and (there.exact or count == there.begin) and pieces.is_exact(count)
        exact = exact and source < part.certain
        if there is None or not exact or (left._lacking and source < offset - 1):
            return UNKNOWN_BEFORE
        return Before(count % SEQUENCES, source, there.offset_of(count))

    def before_target(self, offset: int) -> OffsetMap:
        """The map as it would be if nothing had been put at that target offset or behind it."""
        first, end = self.first(), self.end()
        if first is None or end is None or end.target < offset:
            return self
        source = self.target_to_source(offset)
        return self.below(first.source if source is None else source)

    def writer_of(self, offset: int) -> Writer | None:
        """The epoch whose record tells where a source offset lies on the target; None where a later epoch's does."""
        place = bisect_right(self._sources, offset) - 1
        if place < 0:
            return None
        part = self._parts[place]
        return part.writer if _count(part.pieces.sources, offset) < part.stop else None

    def _is_kept(self, part: Part, offset: int) -> bool:
        """Whether a point is known of a source offset, of this epoch, and lies where thinned pieces allow."""
        here, point = part.pieces.sources.piece_at(offset), self._points.get((offset, part.writer))
        if point is None or here is None:
            return False
        least = target_of(part, max(part.first, here.count_at(offset)))
        return least <= point <= _target_at_most(part, min(here.end, part.stop - 1))

    def target_to_source(self, offset: int) -> int | None:
        """The source offset from which on everything lies that the flow has put at ``offset`` and behind it.

        Between mirrored records, where others wrote or a marker lies, that of the next one; behind the last one the
        position. None below the map, or where the position is unknown.
        """
        place = bisect_right(self._targets, offset) - 1
        if place < 0:
            return None
        part = self._known[place]
        count = max(_count(part.pieces.targets, offset), part.first)
        if count < part.stop:
            return min(source_of(part, count), part.certain)
        if self._lacks_behind(self._known, place):
            return min(source_of(part, part.stop - 1) + 1, part.certain)
        if place + 1 < len(self._known):
            return min(source_of(self._known[place + 1], self._known[place + 1].first), part.certain)
        return self._position if self._position != NO_OFFSET else None

    def has(self, first: int, last: int) -> bool:
        """Whether the map says that the flow put a record at one of these target offsets, both included."""
        place = bisect_right(self._targets, last) - 1
        if place < 0:
            return False
        part = self._known[place]
        count = max(_count(part.pieces.targets, first), part.first)
        return count < part.stop and target_of(part, count) <= last

    def first_without_copy(self, offset: int) -> int:
        """The first target offset from ``offset`` on at which the flow has put no record, as far as the map tells."""
        place = max(0, bisect_right(self._targets, offset) - 1)
        for part in self._known[place:]:
            piece = part.pieces.targets.piece_at(offset)
            while piece is not None and piece.exact:
                stop = min(piece.end, part.stop)
                if not part.first <= piece.begin + offset - piece.offset < stop:
                    break
                offset = piece.offset_of(stop)
                piece = part.pieces.targets.piece_at(offset)
        return offset

    def is_exact(self, source: int) -> bool:
        """Whether `source_to_target` of that source offset is; if not, what it gives lies before the right one."""
        place = bisect_right(self._sources, source) - 1
        if place < 0:
            return True
        part, count = self._parts[place], _count(self._parts[place].pieces.sources, source)
        if count >= part.stop:
            sure = all(source_of(one, one.first) < one.certain for one in self._parts[place + 1 : place + 2])
            sure = sure and source < part.certain
            return sure and not self._lacks_behind(self._parts, place) and _ends_exactly(part)
        exact = self._is_exact(part, count, source)
        return exact or (part.known and self._is_kept(part, source))

    def is_exact_back(self, target: int) -> bool:
        """Whether `target_to_source` of that target offset is; if not, what it gives lies before the right one."""
        place = bisect_right(self._targets, target) - 1
        if place < 0:
            return True
        part = self._known[place]
        count = max(_count(part.pieces.targets, target), part.first)
        here, there = part.pieces.sources.piece_of(count), part.pieces.targets.piece_at(target)
        if count >= part.stop:
            return not self._lacks_behind(self._known, place) and part.certain == FAR
        if here is None or there is None:
            return True
        return (
            source_of(part, count) < part.certain
            and (here.exact or count == here.begin)
            and (there.exact or target == there.offset)
        )

    def _lacks_behind(self, parts: Sequence[Part], place: int) -> bool:
        """Whether the map has lost what lies between a part and the one behind it, or the position."""
        return parts[place + 1].lacking if place + 1 < len(parts) else self._lacking

    def _is_exact(self, part: Part, count: int, source: int) -> bool:
        here, there = part.pieces.sources.piece_at(source), part.pieces.targets.piece_of(max(count, part.first))
        if here is None or count >= part.stop:
            return True
        return (
            max(source, source_of(part, max(count, part.first))) < part.certain
            and (here.exact or source == here.offset)
            and (there is None or there.exact or count == there.begin)
        )

    def mirrored(self, offset: int) -> bool:
        """Whether the record at that source offset is on the target, as far as the map tells."""
        place = bisect_right(self._sources, offset) - 1
        if place < 0:
            return False
        part = self._parts[place]
        piece = part.pieces.sources.piece_at(offset)
        if piece is None or (piece.exact and offset - piece.offset >= piece.end - piece.begin):
            return False
        return piece.count_at(offset) < part.stop

    def settled(self, after: int = NO_OFFSET) -> Iterator[Stretch]:
        """What lies behind the source offset ``after`` and has a known target offset, in order.

        Of a piece that was thinned, only its first record.
        """
        first = max(0, bisect_right(self._sources, after) - 1)
        for part in self._parts[first:]:
            if part.known:
                count = max(part.first, _count(part.pieces.sources, after + 1))
                yield from (stretch for stretch in _stretches(part, count) if stretch.source > after)

    def end(self) -> Stretch | None:
        """The last mirrored record whose target offset is known, as a stretch of one."""
        if not self._known:
            return None
        part = self._known[-1]
        return Stretch(source_of(part, part.stop - 1), target_of(part, part.stop - 1), 1)

    def ordered_out(self, committed: int) -> tuple[Span, ...]:
        """What orders left out from a source offset on, up to the next record that was mirrored."""
        found: list[Span] = []
        for span in self._ordered_out:
            first = max(span.first, committed)
            if first < span.stop:
                if self.count(committed, span.stop):
                    break
                found.append(Span(first, span.stop))
        return tuple(found)

    def ordered_out_before(self, start: int, until: int, *, at_the_end: bool = False) -> tuple[Span, ...]:
        """What orders left out from one source offset on to another.

        Args:
            start: the first offset that counts.
            until: the first that counts no more.
            at_the_end: whether only what lies behind the last record that was mirrored before that counts.
        """
        cut = (Span(max(span.first, start), min(span.stop, until)) for span in self._ordered_out)
        found = tuple(span for span in cut if span.first < span.stop)
        return tuple(span for span in found if not self.count(span.stop, until)) if at_the_end else found

    def count(self, start: int, stop: int) -> int:
        """How many records from source offset ``start`` to before ``stop`` were mirrored."""
        if stop <= start:
            return 0
        counted = 0
        for part in self._parts:
            first, last = (_count(part.pieces.sources, offset) for offset in (start, stop))
            counted += max(0, min(last, part.stop) - max(first, part.first))
        return counted


def _count(line: Track, offset: int) -> int:
    """The count of the record at an offset of a line, or of the next one."""
    count = line.count_at(offset)
    return line.first.count if count is None else count


def _ends_exactly(part: Part) -> bool:
    """Whether the target offset of the last record of a part is exact; one whose place is not known is not wrong."""
    count = part.stop - 1
    piece = part.pieces.targets.piece_of(count) if part.known else None
    return piece is None or piece.exact or count == piece.begin


def _target_at_most(part: Part, count: int) -> int:
    """Like `_target`, but where that is not exact, one that the record does not lie beyond."""
    piece = part.pieces.targets.piece_of(count)
    assert piece is not None  # as for `_target`
    return piece.offset_of(count) if piece.exact or count == piece.begin else piece.stop - (piece.end - count)


def _stretches(part: Part, count: int) -> Iterator[Stretch]:
    """From a count on; of a piece that is not exact its first record only."""
    while count < part.stop:
        here, there = part.pieces.sources.piece_of(count), part.pieces.targets.piece_of(count) if part.known else None
        assert here is not None  # as for `_source`
        stop = min(here.end, part.stop, FAR if there is None else there.end)
        target = NO_OFFSET if there is None else there.offset_of(count)
        exact = here.exact and (there is None or there.exact)
        first = count == here.begin and (there is None or there.exact or count == there.begin)
        if exact or first:
            yield Stretch(here.offset_of(count), target, stop - count if exact else 1)
        count = stop
