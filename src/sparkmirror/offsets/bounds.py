"""Which records of offset map and leader epochs nobody needs any more, so that they end with both logs: pure.

A group that the source's retention has passed goes on on the target as long as that has what it has not read. So the
map goes back to what the source has left, and to what the copy has left, whichever lies lower.

Invariants:
    * Every source offset from the log's start on translates as before, and so does every record that the copy still
      has; the records that hold the two starts stay.
    * Where it is not known what the copy has left, the map keeps everything.
    * What a takeover may need stays, wherever the logs start: of the newest `EPOCHS` writer epochs with segments, the
      segments of the last record that is known to be acknowledged, and all behind it.
    * A former leader of the target may bring back what newer epochs have superseded. So of the newest `RETURNING`
      epochs that stays too, from the source log's start on; and where one stays, the last record of each newer one.
    * What an order has copied once more stays on the map of older epochs too, until all of it is there again.
    * Within an epoch the oldest go first, so what is left has no gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import SegmentsKey, TargetsKey
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.track import FAR

EPOCHS = 3
"""A target that loses its tail may fall back by an epoch; by as many as this within the source's retention, hardly."""

RETURNING = 32
"""After so many newer ones an epoch may come back. Each costs a record or two, and holes that the source still has."""


class Starts(NamedTuple):
    """Where the logs of a partition and of its copy start.

    Attributes:
        source: offset.
        copy: offset on the target; None where that is not known.
    """

    source: int
    copy: int | None


class _Cuts(NamedTuple):
    """The offsets from which on newer writer epochs hold, on the source and on the target."""

    source: int = FAR
    target: int = FAR


def bound(state: JournalState, starts: Mapping[TopicPartition, Starts], ids: Sequence[int]) -> tuple[str, ...]:
    """The keys of records that can go.

    Args:
        state: of the internal topic.
        starts: by partition of the source; those that are not in it keep everything.
        ids: the flow's producer ids in the order in which they were registered.
    """
    return tuple(
        key
        for partition, (log_start, copy_start) in starts.items()
        for key in (
            *(() if copy_start is None else _outlived(state, partition, log_start, copy_start, ids)),
            *_ended_before(state, partition, log_start),
        )
    )


def _ended_before(state: JournalState, partition: TopicPartition, log_start: int) -> Iterator[str]:
    """The keys of the source's leader epochs that end at or below the log's start: nobody goes back there."""
    known = sorted(state.source_epochs.get(partition, {}).values(), key=lambda one: one.epoch)
    for one, following in pairwise(known):
        if following.offset <= log_start:
            yield one.key


def _outlived(
    state: JournalState, partition: TopicPartition, log_start: int, copy_start: int, ids: Sequence[int]
) -> list[str]:
    keys: list[str] = []
    needed: list[tuple[Writer, Pieces, int]] = []
    cuts = _Cuts()
    if partition not in state.maps:
        return keys
    known = state.maps[partition]
    back = known.going_back(ids, state.last(partition))
    progress = {one.writer: one for one in (state.last(partition), state.progress.get(partition)) if one is not None}
    for age, writer in enumerate(reversed(known.writers(ids))):
        pieces = known.pieces(writer)
        if pieces is None:
            continue
        first = min(_first_on_source(pieces, log_start, cuts), _first_on_target(pieces, copy_start, cuts))
        if age < EPOCHS:
            first = min(first, last_acknowledged(pieces, progress.get(writer), cuts.source, newest=age == 0))
        if age < RETURNING and pieces.sources.last.offset >= cuts.source:
            first = min(first, _first_on_source(pieces, log_start, _Cuts()))
        needed.append((writer, pieces, first))
        if writer not in back:
            cuts = _cut_by(pieces, cuts, newest=age == 0)
    for writer, pieces, first in _without_gaps(needed):
        keys += _below(partition, writer, pieces, first)
    return keys


def _without_gaps(needed: list[tuple[Writer, Pieces, int]]) -> Iterator[tuple[Writer, Pieces, int]]:
    """The same, oldest first: of an epoch that came after one that stays, the last record stays."""
    stays = False
    for age, (writer, pieces, first) in reversed(list(enumerate(needed))):
        kept = min(first, pieces.sources.last.count) if stays and age < RETURNING else first
        stays = stays or kept < FAR
        yield writer, pieces, kept


def _cut_by(pieces: Pieces, cuts: _Cuts, *, newest: bool) -> _Cuts:
    """Where what is older than an epoch ends."""
    source = min(cuts.source, pieces.first.offset) if newest or pieces.supersedes else cuts.source
    return _Cuts(source, min(cuts.target, pieces.targets.first.offset) if len(pieces.targets) else cuts.target)


def _first_on_source(pieces: Pieces, log_start: int, cuts: _Cuts) -> int:
    """The first count of a record from ``log_start`` on, or beyond all where it lies where a newer epoch began."""
    if log_start >= cuts.source or pieces.first.offset >= cuts.source:
        return FAR
    piece = pieces.sources.piece_at(log_start)
    return pieces.first.count if piece is None else piece.begin


def _first_on_target(pieces: Pieces, copy_start: int, cuts: _Cuts) -> int:
    """The first count of a record that the copy still has from ``copy_start`` on, or beyond all where it has none.

    None of what the source's line has from where a newer epoch began: the copy lost it, or it is of another log.
    """
    if not len(pieces.targets) or copy_start >= cuts.target or pieces.first.offset >= cuts.source:
        return FAR
    piece = pieces.targets.piece_at(copy_start)
    first = pieces.targets.first.count if piece is None else piece.count_at(copy_start)
    cut = pieces.sources.piece_at(cuts.source)
    assert cut is not None  # the line begins before that
    beyond = cut.count_at(cuts.source) if cut.exact else cut.end
    return FAR if first >= beyond else max(first, pieces.first.count)


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
