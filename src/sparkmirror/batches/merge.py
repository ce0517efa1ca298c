"""Batches that are opened: many small ones into one, and each that cannot pass through as it is into a new one.

Purpose: ``merge`` takes waiting batches of one partition, in order, and makes the next batch to send of as many as fit.
Trimming, closing the gaps of compaction, the broker's time, another codec and splitting what is too large: it is all
the same walk.

Invariants:
    - Records arrive in order, each once, with key, value, headers and the time that a reader of the source sees.
    - No batch is larger than the target topic allows.
    - Whole source batches are taken, or one of them becomes several; the caller's place is always between
      two source batches.
    - ``runs`` says where the source offsets of a new batch's records are not consecutive, for an exact offset map.

References: design section 3; org.apache.kafka.common.record.MemoryRecordsBuilder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparkmirror.batches import index_kernel as rows
from sparkmirror.batches import layout
from sparkmirror.batches import pour_kernel as kernels
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import DEFAULT_LIMIT, compress
from sparkmirror.batches.index import Bytes, Indexed, Longs
from sparkmirror.batches.opening import codec_of, damaged, legacy, records_of
from sparkmirror.batches.pass_through import rewrite
from sparkmirror.batches.select import Kept, TargetTopic, needs
from sparkmirror.errors import RecordTooLargeError

_SEQUENCES = 2**31
_ALL = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Batches of one fetch answer that wait, from column ``first`` up to ``stop``; dropped ones are passed over."""

    indexed: Indexed
    kept: Kept
    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the writer puts on the next batch: producer id, its epoch, and the sequence of the first record."""

    producer_id: int
    epoch: int
    sequence: int

    def after(self, records: int) -> Stamp:
        """The stamp for the batch that follows one of so many records; sequences wrap to 0 after 2**31 - 1."""
        sequence = (self.sequence + records) % _SEQUENCES
        return Stamp(producer_id=self.producer_id, epoch=self.epoch, sequence=sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """One new batch.

    Attributes:
        batch: ready to be sent; nothing else refers to its bytes.
        count: its records.
        first_offset: the source offset of the first record.
        last_offset: the source offset of the last record.
        max_timestamp: the newest record's time in ms.
        runs: two rows, the index of a record in this batch and its source offset, for the first record and for each
            whose source offset does not follow the one before.
    """

    batch: memoryview
    count: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    runs: Longs


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
        BatchError: a source batch is damaged or of old magic. Nothing of the call is to be sent then; batches before it
            can be merged without it.
        RecordTooLargeError: records of one batch that the topic's limit does not allow; the same holds.
    """
    vessel = _Vessel(runs, min(batch_size, target.max_message_bytes), decompression_limit)
    for i, run in enumerate(runs):
        column, full = vessel.pour(run)
        if not full:
            continue
        if vessel.records:
            return Merging(batches=(vessel.finish(target, stamp),), run=i, column=column)
        alone = _alone(run, column, target, stamp, decompression_limit, left_out)
        return Merging(batches=alone, run=i, column=column + 1)
    batches = (vessel.finish(target, stamp),) if vessel.records else ()
    return Merging(batches=batches, run=len(runs), column=0)


def _alone(
    run: Run, column: int, target: TargetTopic, stamp: Stamp, decompression_limit: int, left_out: frozenset[int]
) -> tuple[Merged, ...]:
    """One batch that has no place beside others: as it is where that is allowed, else written anew."""
    if needs(run.indexed, run.kept, target)[column]:
        return _Single(run, column, target, decompression_limit, left_out).parts(stamp)
    start, size, first, last, count = run.indexed.table[: rows.COUNT + 1, column].tolist()
    own = bytearray(run.indexed.data[start : start + size])
    batch = rewrite(own, 0, size, producer_id=stamp.producer_id, epoch=stamp.epoch, sequence=stamp.sequence)
    newest = int(run.indexed.table[rows.MAX_TIME, column])
    consecutive = np.array([[0], [first]], np.int64)
    return (
        Merged(batch=batch, count=count, first_offset=first, last_offset=last, max_timestamp=newest, runs=consecutive),
    )


def _state() -> Longs:
    state = np.zeros(kernels.STATE, np.int64)
    state[kernels.AT] = layout.HEADER
    return state


def _larger(runs: Longs) -> Longs:
    wider = np.empty((2, 2 * runs.shape[1]), np.int64)
    wider[:, : runs.shape[1]] = runs
    return wider


def _seal(out: Bytes, state: Longs, runs: Longs, codec: Codec, stamp: Stamp, limit: int) -> Merged | None:
    """Compresses what was poured and writes the header; None when it is above the limit either way."""
    size = int(state[kernels.AT])
    if codec is not Codec.NONE:
        packed = compress(codec, out[layout.HEADER : size])
        if layout.HEADER + len(packed) <= limit:
            size = layout.HEADER + len(packed)
            out = np.empty(size, np.uint8)
            out[layout.HEADER :] = np.frombuffer(packed, np.uint8)
        else:
            codec = Codec.NONE  # data that grows when compressed travels as it is
    if size > limit:
        return None
    kernels.seal(out, size, state, int(codec), stamp.producer_id, stamp.epoch, stamp.sequence)
    return Merged(
        batch=memoryview(out)[:size],
        count=int(state[kernels.RECORDS]),
        first_offset=int(state[kernels.FIRST_OFFSET]),
        last_offset=int(state[kernels.LAST_OFFSET]),
        max_timestamp=int(state[kernels.NEWEST]),
        runs=runs[:, : int(state[kernels.RUNS])].copy(),
    )


class _Vessel:
    """A new batch that many source batches are poured into."""

    def __init__(self, runs: Sequence[Run], room: int, decompression_limit: int) -> None:
        self._room, self._limit = room, decompression_limit
        needed = layout.HEADER
        for run in runs:
            needed += kernels.measure(run.indexed.table, run.kept.reasons, run.first, run.stop)[0]
            if needed >= room:
                break
        self._out = np.empty(min(room, needed), np.uint8)
        self._state, self._runs = _state(), np.empty((2, 16), np.int64)
        self._codec = Codec.NONE

    @property
    def records(self) -> int:
        return int(self._state[kernels.RECORDS])

    def pour(self, run: Run) -> tuple[int, bool]:
        """Pours what fits of a run: (first column that did not go in, whether it is full)."""
        indexed, kept, column = run.indexed, run.kept, run.first
        while True:
            out, state, runs = self._out, self._state, self._runs
            source = indexed.data, indexed.table, kept.reasons
            column, why = kernels.pour_batches(*source, column, run.stop, kept.start_offset, out, len(out), state, runs)
            if why == kernels.COMPRESSED:
                why = self._pour_compressed(run, column)
                column += why == kernels.DONE
            elif why == kernels.DONE:
                return column, False
            if why == kernels.FULL:
                return column, True
            self._go_on(run, column, why)

    def _go_on(self, run: Run, column: int, why: int) -> None:
        if why == kernels.MORE_RUNS:
            self._runs = _larger(self._runs)
        elif why == kernels.DAMAGED:
            raise damaged(run.indexed, column)
        elif why == kernels.LEGACY:
            raise legacy(run.indexed, column)

    def _pour_compressed(self, run: Run, column: int) -> int:
        if len(self._out) < self._room:
            wider, used = np.empty(self._room, np.uint8), int(self._state[kernels.AT])
            wider[:used] = self._out[:used]
            self._out = wider
        payload, at = records_of(run.indexed, column, self._limit)
        saved, out, table, skip = self._state.copy(), self._out, run.indexed.table, run.kept.start_offset
        why, _ = kernels.pour_records(payload, at, table, column, skip, 0, _ALL, out, len(out), self._state, self._runs)
        if why != kernels.DONE:
            self._state = saved
        elif self._codec is Codec.NONE:
            self._codec = codec_of(run.indexed, column)
        return int(why)

    def finish(self, target: TargetTopic, stamp: Stamp) -> Merged:
        codec = self._codec if target.codec is None else target.codec
        merged = _seal(self._out, self._state, self._runs, codec, stamp, target.max_message_bytes)
        if merged is None:
            raise AssertionError("what was poured fits uncompressed")
        return merged


class _Single:
    """One source batch that does not fit where many were to go: encoded alone, in as many parts as it takes."""

    def __init__(
        self, run: Run, column: int, target: TargetTopic, decompression_limit: int, left_out: frozenset[int]
    ) -> None:
        self._left_out, self._too_large = left_out, dict[int, int]()
        self._run, self._column, self._limit = run, column, target.max_message_bytes
        self._codec = codec_of(run.indexed, column) if target.codec is None else target.codec
        self._payload, self._at = records_of(run.indexed, column, decompression_limit)
        self._count = int(run.indexed.table[rows.COUNT, column])
        plain = len(self._payload) - self._at
        # A count that lies may not make us allocate for it.
        self._whole = layout.HEADER + plain + kernels.GROWTH * min(self._count, plain // kernels.LEAST + 1)
        self._room = self._whole if self._codec is not Codec.NONE else min(self._whole, self._limit)

    def parts(self, stamp: Stamp) -> tuple[Merged, ...]:
        """All its records, in order, in batches below the limit."""
        done: list[Merged] = []
        part, most = 0, self._count
        while part < self._count:
            out = np.empty(self._room, np.uint8)  # for each part, since an uncompressed one stays in it
            state, runs, reached = self._pour(out, part, most)
            records = int(state[kernels.RECORDS])
            merged = _seal(out, state, runs, self._codec, stamp, self._limit) if records else None
            if merged is not None:
                done.append(merged)
                stamp = stamp.after(records)
            elif records > 1:
                most = records // 2
                continue
            elif records or reached < self._count:
                self._pass_over(reached - records)
                reached += not records
            part = reached
        if self._too_large:
            raise self._refusal()
        return tuple(done)

    def _pour(self, out: Bytes, part: int, most: int) -> tuple[Longs, Longs, int]:
        table, skip = self._run.indexed.table, self._run.kept.start_offset
        state, runs = _state(), np.empty((2, min(most, len(out))), np.int64)
        why, reached = kernels.pour_records(
            self._payload, self._at, table, self._column, skip, part, most, out, len(out), state, runs
        )
        if why == kernels.DAMAGED:
            raise damaged(self._run.indexed, self._column)
        return state, runs, int(reached)

    def _pass_over(self, record: int) -> None:
        """Notes a record that does not fit, unless the caller knows of it."""
        state, _, _ = self._pour(np.empty(self._whole, np.uint8), record, 1)
        offset = int(state[kernels.FIRST_OFFSET])
        if offset not in self._left_out:
            self._too_large[offset] = int(state[kernels.AT])

    def _refusal(self) -> RecordTooLargeError:
        offsets, size = tuple(self._too_large), next(iter(self._too_large.values()))
        more = f"; {len(offsets) - 1} more of its source batch are too large" if len(offsets) > 1 else ""
        return RecordTooLargeError(
            offset=offsets[0],
            offsets=offsets,
            reason=f"the record is larger than the target topic's max.message.bytes, {self._limit}: "
            f"by itself it takes a batch of {size} bytes{more}",
            remedy="raise max.message.bytes on the target topic",
        )
