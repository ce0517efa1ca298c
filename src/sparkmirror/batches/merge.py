"""Many batches into one.

Purpose: ``merge`` takes waiting batches of one partition, in order, and makes the next batch to send of as many as fit.
Trimming, closing the gaps of compaction, the broker's time and another codec are the same walk over their records, so
batches that have to be opened are merged too (``merge_all``). What has no place beside others is for ``reencode``.

Invariants:
    - Records arrive in order, each once, with key, value, headers and the time that a reader of the source sees.
    - No batch is larger than the target topic allows.
    - Whole source batches are taken, or one of them becomes several; the caller's place is always between
      two source batches.
    - A batch that has no ``Need`` is no error, whatever is in it: where it cannot be opened, or has no place beside
      others, it goes as it is, as if none had waited with it. It is opened no further than there is room for it.
    - Another one that cannot be copied is an error only when nothing lies before it: what does goes first.
    - ``runs`` says where the source offsets of a new batch's records are not consecutive, for an exact offset map.

References: design section 3; org.apache.kafka.common.record.MemoryRecordsBuilder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import DEFAULT_LIMIT
from sparkmirror.batches.index import Indexed, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels import pour as kernels
from sparkmirror.batches.opening import Opened, Opener, codec_of, damaged, is_plain_message, open_messages
from sparkmirror.batches.pass_through import rewrite
from sparkmirror.batches.reencode import reencode
from sparkmirror.batches.sealing import Merged, Stamp, new_state, seal
from sparkmirror.batches.select import Kept, TargetTopic, need
from sparkmirror.errors import BatchError

_ALL = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Batches of one fetch answer that wait, from column ``first`` up to ``stop``; dropped ones are passed over."""

    indexed: Indexed
    kept: Kept
    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """What ``merge`` made, and how far it came.

    Attributes:
        batches: usually one, and exactly one if the first batch had no ``Need``; several when a single source batch had
            to be split; none when nothing was left of what was taken.
        run: the first run that is not used up, or the number of runs.
        column: the first column of that run that was not taken.
    """

    batches: tuple[Merged, ...]
    run: int
    column: int


def merge(
    runs: Sequence[Run],
    target: TargetTopic,
    stamp: Stamp,
    *,
    batch_size: int = 1024 * 1024,
    decompression_limit: int = DEFAULT_LIMIT,
    left_out: frozenset[int] = frozenset(),
) -> Merging:
    """Makes the next batch of waiting batches, or of the first alone where it needs to be split.

    Args:
        runs: what waits for one partition, oldest first; not empty.
        target: what the target topic asks for.
        stamp: of the first new batch; further ones follow from it.
        batch_size: merging stops at this many bytes, before compression; never above the topic's limit. A batch that is
            larger by itself is not split because of it.
        decompression_limit: the most bytes that one source batch may decompress to.
        left_out: source offsets of records that are too large and have been seen to elsewhere.

    Returns:
        The new batches and the place after the last source batch in them.

    Raises:
        BatchError: the first source batch of which a record is left has a ``Need``, and is damaged.
        RecordTooLargeError: it has records that the topic's limit does not allow.
    """
    return _next(runs, target, stamp, batch_size, Opener(decompression_limit), left_out)


def merge_all(
    run: Run,
    target: TargetTopic,
    stamp: Stamp,
    *,
    batch_size: int = 1024 * 1024,
    decompression_limit: int = DEFAULT_LIMIT,
    left_out: frozenset[int] = frozenset(),
) -> Iterator[Merging]:
    """Writes all batches of a run anew, merged.

    Args:
        run: the batches.
        target: as for ``merge``.
        stamp: as for ``merge``.
        batch_size: as for ``merge``.
        decompression_limit: as for ``merge``.
        left_out: as for ``merge``.

    Yields:
        What ``merge`` would make, step by step; ``column`` says how far it came in the run.

    Raises:
        BatchError: as ``merge`` does; what was given before stands.
    """
    opener = Opener(decompression_limit)
    while run.first < run.stop:
        merging = _next([run], target, stamp, batch_size, opener, left_out)
        column = merging.column if merging.run == 0 else run.stop
        yield replace(merging, run=0, column=column)
        stamp = stamp.after(sum(made.count for made in merging.batches))
        run = replace(run, first=column)


def _next(
    runs: Sequence[Run],
    target: TargetTopic,
    stamp: Stamp,
    batch_size: int,
    opener: Opener,
    left_out: frozenset[int],
) -> Merging:
    vessel = _Vessel(runs, target, min(batch_size, target.room), opener)
    for i, run in enumerate(runs):
        column, is_full = vessel.pour(run)
        if not is_full:
            continue
        if vessel.records:
            return Merging(batches=(vessel.finish(stamp),), run=i, column=column)
        if not need(run.indexed, run.kept, target, column):
            return Merging(batches=(_passed(run, column, stamp),), run=i, column=column + 1)
        if vessel.error is not None:
            raise vessel.error
        return Merging(batches=_alone(run, column, target, stamp, opener, left_out), run=i, column=column + 1)
    batches = (vessel.finish(stamp),) if vessel.records else ()
    return Merging(batches=batches, run=len(runs), column=0)


def _passed(run: Run, column: int, stamp: Stamp) -> Merged:
    """One batch as it is."""
    start, size, first, last, count = run.indexed.table[: rows.COUNT + 1, column].tolist()
    own = bytearray(run.indexed.data[start : start + size])
    return Merged(
        batch=rewrite(own, 0, size, producer_id=stamp.producer_id, epoch=stamp.epoch, sequence=stamp.sequence),
        count=count,
        first_offset=first,
        last_offset=last,
        max_timestamp=int(run.indexed.table[rows.MAX_TIME, column]),
        runs=np.array([[0], [first]], np.int64),
    )


def _alone(
    run: Run, column: int, target: TargetTopic, stamp: Stamp, opener: Opener, left_out: frozenset[int]
) -> tuple[Merged, ...]:
    """One batch that has no place beside others, written anew."""
    return reencode(
        opener.open(run.indexed, column),
        codec_of(run.indexed, column) if target.codec is None else target.codec,
        target,
        stamp,
        skip_before=run.kept.start_offset,
        left_out=left_out,
    )


def _larger(runs: Longs) -> Longs:
    wider = np.empty((2, 2 * runs.shape[1]), np.int64)
    wider[:, : runs.shape[1]] = runs
    return wider


class _Vessel:
    """A new batch that many source batches are poured into.

    Attributes:
        error: what is wrong with the first batch that did not go in, or None.
    """

    def __init__(self, runs: Sequence[Run], target: TargetTopic, room: int, opener: Opener) -> None:
        self.error: BatchError | None = None
        self._target, self._room, self._opener = target, room, opener
        needed = layout.HEADER
        for run in runs:
            needed += kernels.measure(run.indexed.table, run.kept.reasons, run.first, run.stop)[0]
            if needed >= room:
                break
        self._out = np.empty(min(room, needed), np.uint8)
        self._state, self._runs = new_state(), np.empty((2, 16), np.int64)
        self._codec = Codec.NONE

    @property
    def records(self) -> int:
        return int(self._state[kernels.RECORDS])

    def pour(self, run: Run) -> tuple[int, bool]:
        """Pours what fits of a run: (first column that did not go in, whether nothing more goes in)."""
        column = run.first
        while column < run.stop:
            column, why = self._pour_some(run, column)
            if why == kernels.MORE_RUNS:
                self._runs = _larger(self._runs)
            elif why != kernels.DONE:
                if why == kernels.DAMAGED and self.error is None:
                    self.error = damaged(run.indexed.table, column)
                return column, True
        return run.stop, False

    def _pour_some(self, run: Run, column: int) -> tuple[int, int]:
        """Pours batches up to one that is closed, or opens that: (first column that did not go in, why)."""
        indexed, kept = run.indexed, run.kept
        source = indexed.data, indexed.table, kept.reasons
        out, state, runs = self._out, self._state, self._runs
        column, why = kernels.pour_batches(*source, column, run.stop, kept.start_offset, out, len(out), state, runs)
        if why != kernels.CLOSED:
            return int(column), int(why)
        try:
            if is_plain_message(indexed, column):
                return self._pour_messages(run, column)
            return self._pour_closed(run, column)
        except BatchError as error:
            self.error = error
            return int(column), kernels.DAMAGED

    def _pour_messages(self, run: Run, column: int) -> tuple[int, int]:
        """Pours plain messages of old magic; as each is a batch of its own, some of them may go in."""
        space = len(self._out) - int(self._state[kernels.AT])
        opened = open_messages(run.indexed, run.kept, column, run.stop, space)
        record, why = self._pour_opened(opened, run.kept.start_offset)
        return column + record, why

    def _pour_closed(self, run: Run, column: int) -> tuple[int, int]:
        """Pours a compressed batch, if all of it fits."""
        opened = self._open(run, column)
        if opened is None:
            return column, kernels.FULL
        if len(self._out) < self._room:
            wider, used = np.empty(self._room, np.uint8), int(self._state[kernels.AT])
            wider[:used] = self._out[:used]
            self._out = wider
        saved = self._state.copy()
        _, why = self._pour_opened(opened, run.kept.start_offset)
        if why != kernels.DONE:
            self._state = saved
            return column, why
        if self._codec is Codec.NONE:
            self._codec = codec_of(run.indexed, column)
        return column + 1, why

    def _open(self, run: Run, column: int) -> Opened | None:
        """Opens a compressed batch; None for one that may go as it is, and is larger than what is left of the room."""
        if need(run.indexed, run.kept, self._target, column):
            return self._opener.open(run.indexed, column)
        return self._opener.open_within(run.indexed, column, self._room - int(self._state[kernels.AT]))

    def _pour_opened(self, opened: Opened, skip_before: int) -> tuple[int, int]:
        """Pours records up to the first that does not fit: (its number, why)."""
        source = opened.records, opened.at, opened.table, opened.column
        out, state, runs = self._out, self._state, self._runs
        why, record = kernels.pour_records(*source, skip_before, 0, _ALL, out, len(out), state, runs)
        return int(record), int(why)

    def finish(self, stamp: Stamp) -> Merged:
        """The new batch, ready to be sent."""
        target = self._target
        codec = self._codec if target.codec is None else target.codec
        made = self._out, self._state, self._runs
        limit, level = target.max_message_bytes, target.levels.get(codec)
        merged = seal(*made, codec, stamp, limit, plain_limit=target.room, level=level)
        if merged is None:
            raise AssertionError("what was poured fits uncompressed")
        return merged
