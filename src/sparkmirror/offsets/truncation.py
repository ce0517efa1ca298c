"""Whether a target's log still has what older writer epochs had acknowledged, when a newer epoch has begun in it. Pure.

A broker that does not know a writer epoch takes its first batch whatever the log has lost: sequence numbers tell of one
epoch only. So a log that was truncated while a partition was idle, and then took the first batch of the next epoch,
looks sound by its newest epoch. It is sound if the last record that an older epoch had acknowledged still lies where it
was acknowledged: truncation takes the end of a log, so everything before that record is there too.

Invariant: a record counts as missing where something else lies at its target offset, or the log ends before it. Offsets
without a batch were removed by the log cleaner, as far as leader epochs do not say that the log was cut off below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.model import NO_OFFSET, Writer
from sparkmirror.offsets.lineage import Lineage
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import SEQUENCES
from sparkmirror.offsets.tail import Tail, TailBatch
from sparkmirror.offsets.track import FAR, Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A record on both sides: its writer, its sequence number, its source and target offsets."""

    writer: Writer
    sequence: int
    source: int
    target: int


def last_acknowledged(
    known: PartitionMap, progress: Progress | None, older: Sequence[Writer], below: int
) -> Copied | None:
    """The last record of the older epochs that is known to be acknowledged.

    Args:
        known: the map of the partition.
        progress: the newest on record, which knows the last record of the epoch before while its own has none.
        older: the epochs, oldest first.
        below: the source offset at which the next epoch began.
    """
    for writer in reversed(older):
        pieces = known.pieces(writer)
        up_to = None if pieces is None else _last_below(pieces, below)
        settled = None if pieces is None or up_to is None else pieces.last_settled(up_to)
        if pieces is None or up_to is None or settled is None:
            continue
        count = min(up_to, _last_count(pieces, settled, writer, progress))
        source, target = pieces.source_of(count), pieces.targets.offset_of(count)
        if source is None or target is None or not pieces.is_exact(count):
            continue
        return Copied(writer=writer, sequence=count % SEQUENCES, source=source, target=target)
    return None


def _last_below(pieces: Pieces, below: int) -> int | None:
    """The count of an epoch's last record with a lower source offset, as far as its segments tell."""
    piece = pieces.sources.piece_at(below - 1)
    return None if piece is None else min(piece.begin + below - 1 - piece.offset, piece.end - 1)


def _last_count(pieces: Pieces, settled: Point, writer: Writer, progress: Progress | None) -> int:
    """The count of an epoch's last acknowledged record.

    Args:
        pieces: of the epoch.
        settled: a record that is acknowledged, the last one that the line of the target tells.
        writer: of the epoch.
        progress: the newest on record.
    """
    ended = next((known.stop for known in pieces.known() if known.first <= settled.count < known.stop), FAR)
    if ended < FAR:  # a takeover ends an epoch so, with its last record
        return ended - 1
    of_another = progress is not None and progress.sequence != NO_OFFSET and progress.writer != writer
    if progress is None or progress.source == NO_OFFSET or of_another:
        return settled.count
    last = pieces.count_of_last(progress.sequence, progress.source)
    return settled.count if last is None else max(settled.count, last)


def is_missing(had: Copied, tail: Tail, *, cleaned: bool) -> bool:
    """Whether the log has something else where that record was, or ends before it.

    Args:
        had: a record at or behind ``tail.since``.
        tail: the end of the log.
        cleaned: whether the log cleaner may have removed it, where nothing lies there.
    """
    if had.target >= tail.high_watermark:
        return True
    for batch in tail.batches:
        if batch.base_offset <= had.target <= batch.last_offset:
            writer = Writer(producer_id=batch.producer_id, epoch=batch.epoch)
            sequence = (batch.sequence + had.target - batch.base_offset) % SEQUENCES
            return batch.control or (writer, sequence) != (had.writer, had.sequence)
    return not cleaned


def last_record(known: PartitionMap, batches: Sequence[TailBatch], older: Sequence[Writer]) -> Copied | None:
    """The last record of the older epochs among ``batches``, which are in the order of the log."""
    for batch in reversed(batches):
        writer = Writer(producer_id=batch.producer_id, epoch=batch.epoch)
        pieces = known.pieces(writer) if writer in older and not batch.control and batch.sequence >= 0 else None
        if pieces is None:
            continue
        count = pieces.count_of(batch.sequence) + batch.last_offset - batch.base_offset
        source = pieces.source_of(count)
        if source is not None:
            return Copied(writer=writer, sequence=count % SEQUENCES, source=source, target=batch.last_offset)
    return None


def has_record(known: PartitionMap, batches: Sequence[TailBatch], writers: Sequence[Writer], source: int) -> bool:
    """Whether the record of a source offset is in one of these batches, by an epoch that is on record."""
    for batch in batches:
        writer = Writer(producer_id=batch.producer_id, epoch=batch.epoch)
        pieces = known.pieces(writer) if writer in writers and not batch.control and batch.sequence >= 0 else None
        count = None if pieces is None else pieces.count_at(source)
        if pieces is None or count is None or pieces.source_of(count) != source:
            continue
        first = pieces.count_of(batch.sequence, count)
        if first <= count <= first + batch.last_offset - batch.base_offset:
            return True
    return False


def missing_from(known: PartitionMap, lineage: Lineage, before: Sequence[TailBatch], batch: TailBatch) -> int | None:
    """From which source offset on records are missing between some batches and a later one of the flow; None: none are.

    Args:
        known: the map of the partition.
        lineage: its writers.
        before: batches in the order of the log, of which one is of the flow.
        batch: of the flow, behind them in the log.
    """
    writer, writers = Writer(producer_id=batch.producer_id, epoch=batch.epoch), lineage.on_record()
    record, pieces = last_record(known, before, writers), known.pieces(writer)
    assert record is not None
    if writer == record.writer:
        return None if (record.sequence + 1) % SEQUENCES == batch.sequence else record.source + 1
    first = None if pieces is None else pieces.source_of(pieces.count_of(batch.sequence))
    if first is None or record.writer not in writers:
        return None
    since, begun = record.source + 1, [_behind(known, record)]
    for later in writers[writers.index(record.writer) + 1 : writers.index(writer) + 1]:
        opening = NO_OFFSET if (own := known.pieces(later)) is None else own.first.offset
        if opening != NO_OFFSET and lineage.began_anew((later,)):  # what had been copied below that counts
            record = _last_below_source(known, before, writers, opening)
            since, begun = (opening, []) if record is None else (record.source + 1, [_behind(known, record)])
        begun.append(opening)
    missing = [offset for offset in begun if since <= offset < first]
    return min(missing, default=None)


def _last_below_source(
    known: PartitionMap, batches: Sequence[TailBatch], writers: Sequence[Writer], below: int
) -> Copied | None:
    """The last record of the flow among ``batches`` that has a lower source offset."""
    for end in range(len(batches), 0, -1):
        record = last_record(known, batches[end - 1 : end], writers)
        pieces = None if record is None else known.pieces(record.writer)
        if record is None or pieces is None:
            continue
        if record.source < below:
            return record
        last, batch = _last_below(pieces, below), batches[end - 1]
        begin = pieces.count_of(batch.sequence)
        source = None if last is None or last < begin else pieces.source_of(last)
        if source is not None and last is not None:
            return Copied(
                writer=record.writer,
                sequence=last % SEQUENCES,
                source=source,
                target=batch.base_offset + last - begin,
            )
    return None


def _behind(known: PartitionMap, record: Copied) -> int:
    """The source offset of the record behind it in its epoch, or -1 where the epoch has ended with it."""
    pieces = known.pieces(record.writer)
    if pieces is None:
        return NO_OFFSET
    count = pieces.count_of(record.sequence)
    ended = any(part.stop == count + 1 for part in pieces.known())
    following = None if ended else pieces.source_of(count + 1)
    return NO_OFFSET if following is None else following


def mirrored_from(known: PartitionMap, older: Sequence[Writer], target: int) -> int | None:
    """The least source offset that older epochs had put at ``target`` or behind it; None if there is none."""
    found: list[int] = []
    for writer in older:
        pieces = known.pieces(writer)
        for part in () if pieces is None else pieces.known():
            assert pieces is not None
            # Segments of what the source no longer has may be gone, where target offsets of it are still on record.
            count = max(part.first, pieces.first.count, pieces.targets.count_at(target) or part.first)
            source = pieces.source_of(count) if count < part.stop else None
            if source is not None:
                found.append(source)
                break
    return min(found, default=None)
