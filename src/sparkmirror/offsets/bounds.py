"""Which records of offset map and leader epochs nobody needs any more, so that they end with the source's log: pure.

Invariants:
    * Every source offset from the log's start on translates as before; the record that holds the start stays.
    * What a takeover may need stays, wherever the log starts: of the newest `EPOCHS` writer epochs with segments, the
      segments of the last record that is known to be acknowledged, and all behind it.
    * What an order has copied once more stays on the map of older epochs too, until all of it is there again.
    * Within an epoch the oldest go first, so what is left has no gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import SegmentsKey, TargetsKey
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.track import FAR

EPOCHS = 3
"""A target that loses its tail may fall back by an epoch; by as many as this within the source's retention, hardly."""


def bound(state: JournalState, log_starts: Mapping[TopicPartition, int], ids: Sequence[int]) -> tuple[str, ...]:
    """The keys of records that can go.

    Args:
        state: of the internal topic.
        log_starts: of the source's partitions; those that are not in it keep everything.
        ids: the flow's producer ids in the order in which they were registered.
    """
    return tuple(
        key
        for partition, log_start in log_starts.items()
        for key in (
            *(_outlived(state, partition, log_start, ids) if partition in state.maps else ()),
            *_ended_before(state, partition, log_start),
        )
    )


def _ended_before(state: JournalState, partition: TopicPartition, log_start: int) -> Iterator[str]:
    """The keys of the source's leader epochs that end at or below the log's start: nobody goes back there."""
    known = sorted(state.source_epochs.get(partition, {}).values(), key=lambda one: one.epoch)
    for one, following in pairwise(known):
        if following.offset <= log_start:
            yield one.key


def _outlived(state: JournalState, partition: TopicPartition, log_start: int, ids: Sequence[int]) -> list[str]:
    keys: list[str] = []
    known, cut = state.maps[partition], FAR
    back = known.going_back(ids)
    progress = {one.writer: one for one in (state.last(partition), state.progress.get(partition)) if one is not None}
    for age, writer in enumerate(reversed(known.writers(ids))):
        pieces = known.pieces(writer)
        if pieces is None:
            continue
        first = _first_needed(pieces, log_start, cut)
        if age < EPOCHS:
            first = min(first, last_acknowledged(pieces, progress.get(writer), cut, newest=age == 0))
        keys += _below(partition, writer, pieces, first)
        if (age == 0 or pieces.supersedes) and writer not in back:
            cut = min(cut, pieces.first.offset)
    return keys


def _first_needed(pieces: Pieces, log_start: int, cut: int) -> int:
    """The first count of a record from ``log_start`` on, or beyond all where it lies where a newer epoch began."""
    if log_start >= cut or pieces.first.offset >= cut:
        return FAR
    piece = pieces.sources.piece_at(log_start)
    return pieces.first.count if piece is None else piece.begin


def last_acknowledged(pieces: Pieces, progress: Progress | None, cut: int, *, newest: bool) -> int:
    """The count of an epoch's last record that is surely acknowledged, or one before it.

    Args:
        pieces: of the epoch.
        progress: of the epoch, or None. Then an end on record tells; an epoch that is over and has none was ended in
            order.
        cut: the source offset from which on a newer epoch holds.
        newest: whether the epoch is.
    """
    beyond = pieces.sources.piece_at(cut - 1)
    if beyond is None:
        return pieces.first.count
    last = None
    if progress is not None:
        last = pieces.first.count if progress.source == NO_OFFSET else pieces.count_at(progress.source)
    elif pieces.ends or newest:
        point = pieces.last_settled()
        last = None if point is None else point.count
    elif len(pieces.targets):
        last = pieces.sources.last.count
    return pieces.first.count if last is None else min(last, beyond.begin)


def _below(partition: TopicPartition, writer: Writer, pieces: Pieces, count: int) -> Iterator[str]:
    """The keys of records whose pieces all end at or before a count; of an end there is nothing to end any more."""
    blocks = pieces.sources.blocks()
    stay = next((begin for begin, _ in reversed(blocks) if begin <= count), FAR) if count < FAR else FAR
    for begin, block in pieces.sources.stored():
        if begin < stay:
            yield SegmentsKey(partition, writer, block.sequence).text
    points = pieces.targets.blocks()
    needed = next((begin for begin, _ in reversed(points) if begin <= stay), -FAR) if stay < FAR else FAR
    for begin, block in pieces.targets.stored():
        if begin < needed:
            yield TargetsKey(partition, writer, block.sequence).text
    if stay == FAR:
        yield from (TargetsKey(partition, writer, sequence).text for sequence in pieces.end_sequences)
