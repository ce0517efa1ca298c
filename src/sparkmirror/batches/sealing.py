"""A new batch while it is written, and its end: compressed, with a header, ready to be sent.

Purpose: what merging and re-encoding have in common.

Invariants: a new batch has base offset 0 and dense offsets, the writer's stamp and none of the source's attribute bits
but the codec. It is never larger than its limit. Data that compression makes larger than that travels as it is.

References: org.apache.kafka.common.record.MemoryRecordsBuilder, DefaultRecordBatch.writeHeader.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import compress
from sparkmirror.batches.index import Bytes, Longs
from sparkmirror.batches.kernels import pour as kernels

_SEQUENCES = 2**31


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


def new_state() -> Longs:
    """The state (see ``kernels.pour``) of a batch that nothing has been poured into."""
    state = np.zeros(kernels.STATE, np.int64)
    state[kernels.AT] = layout.HEADER
    return state


def seal(
    out: Bytes,
    state: Longs,
    runs: Longs,
    codec: Codec,
    stamp: Stamp,
    limit: int,
    *,
    plain_limit: int | None = None,
    level: int | None = None,
) -> Merged | None:
    """Compresses what was poured and writes the header.

    Args:
        out: holds the records behind the room for a header; the batch keeps it, unless that would waste most of it.
        state: of the pouring; at least one record.
        runs: of the pouring.
        codec: to compress with.
        stamp: of the batch.
        limit: the most bytes that it may have.
        plain_limit: the same for one that is not compressed, where it differs.
        level: as for ``compress``.

    Returns:
        The batch; None when it is above the limit, compressed or not.
    """
    size = int(state[kernels.AT])
    if codec is not Codec.NONE:
        packed = compress(codec, out[layout.HEADER : size], level)
        if layout.HEADER + len(packed) <= limit:
            size = layout.HEADER + len(packed)
            out = np.empty(size, np.uint8)
            out[layout.HEADER :] = np.frombuffer(packed, np.uint8)
        else:
            codec = Codec.NONE
    if size > (limit if plain_limit is None or codec is not Codec.NONE else plain_limit):
        return None
    if 2 * size < len(out):
        out = out[:size].copy()  # it may wait for a while, and what it holds is counted by its size
    kernels.seal(out, size, state, int(codec), stamp.producer_id, stamp.epoch, stamp.sequence)
    return Merged(
        batch=memoryview(out)[:size],
        count=int(state[kernels.RECORDS]),
        first_offset=int(state[kernels.FIRST_OFFSET]),
        last_offset=int(state[kernels.LAST_OFFSET]),
        max_timestamp=int(state[kernels.NEWEST]),
        runs=runs[:, : int(state[kernels.RUNS])].copy(),
    )
