"""Where the source offsets of a fetch answer's records are not consecutive.

Purpose: the offset map's entries are written ahead of the batches. So the holes have to be known when the answer comes, before it is
cut into batches to send: control records, dropped batches, and records that compaction took, down to the single record.

Invariants: the records counted here are exactly those that passing through and ``merge`` send, in the same order.
Compacted batches are opened for it; the others are decided from their headers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkmirror.batches import index_kernel as rows
from sparkmirror.batches import pour_kernel as kernels
from sparkmirror.batches.codecs import DEFAULT_LIMIT
from sparkmirror.batches.index import Indexed, Longs
from sparkmirror.batches.opening import damaged, records_of
from sparkmirror.batches.select import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The straight pieces of an answer's kept records.

    Attributes:
        records: how many records will be sent of it.
        runs: two rows, index of a record among those and its source offset, for the first and for each record whose source
            offset does not follow the one before. Without holes it is one column.
        next_offset: the position behind the answer: the offset after its last batch, kept or dropped.
    """

    records: int
    runs: Longs
    next_offset: int


def segments(indexed: Indexed, kept: Kept, *, decompression_limit: int = DEFAULT_LIMIT) -> Segments:
    """Finds the straight pieces of source offsets in the kept batches of an answer.

    Args:
        indexed: the answer.
        kept: what ``keep`` decided for it.
        decompression_limit: the most bytes that one compacted batch may decompress to.

    Raises:
        BatchError: a batch that had to be opened is damaged or of old magic.
    """
    table, state = indexed.table, np.zeros(kernels.STATE, np.int64)
    noted = np.empty((2, 16), np.int64)
    column, stop, skip = 0, len(indexed), kept.start_offset
    while column < stop:
        column, why = kernels.note_batches(table, kept.reasons, column, stop, skip, state, noted)
        if why == kernels.COMPRESSED:
            noted = _open(indexed, column, skip, decompression_limit, state, noted)
            column += 1
        elif why == kernels.MORE_RUNS:
            noted = _wider(noted, noted.shape[1])
    following = max(skip, int(table[rows.LAST, -1]) + 1) if stop else skip
    records, pieces = int(state[kernels.RECORDS]), int(state[kernels.RUNS])
    return Segments(records=records, runs=noted[:, :pieces].copy(), next_offset=following)


def _open(indexed: Indexed, column: int, skip: int, limit: int, state: Longs, noted: Longs) -> Longs:
    payload, at = records_of(indexed, column, limit)
    least = int(indexed.table[rows.COUNT, column])
    noted = _wider(noted, min(least, len(payload)))
    if kernels.note_records(payload, at, indexed.table, column, skip, state, noted) != kernels.DONE:
        raise damaged(indexed, column)
    return noted


def _wider(noted: Longs, by: int) -> Longs:
    wider = np.empty((2, noted.shape[1] + by), np.int64)
    wider[:, : noted.shape[1]] = noted
    return wider
