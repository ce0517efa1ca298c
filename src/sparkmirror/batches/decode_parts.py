"""The records of a fetch answer as few arrays that kernels can walk, for ``decode``.

Purpose: uncompressed batches are taken as they lie in the answer, thousands at once; compressed ones are opened, and
small ones put side by side, since each array costs two calls of a kernel; messages of magic 0 and 1 are converted.

Invariants: every kept batch is in exactly one part, in log order. A part is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from sparkmirror.batches import layout, legacy
from sparkmirror.batches.index import Bytes, Indexed, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels.select import KEPT
from sparkmirror.batches.opening import open_batch
from sparkmirror.batches.select import Kept

_SHELF: Final = 1024 * 1024

_PLAIN, _CLOSED, _OLD_CLOSED, _OLD_PLAIN = 0, 1, 2, 3


class Part(NamedTuple):
    """Some batches whose records, in the form of magic 2, lie in one array.

    Attributes:
        data: the array.
        spans: two rows, where in it the records of each batch begin and end.
        table: as ``kernels.index.walk`` gives it; of converted messages the magic and who set the time are their own.
        reasons: as ``kernels.select.drop`` has them; dropped batches are passed over.
        first: the first batch's column.
        stop: the column after the last one.
    """

    data: Bytes
    spans: Longs
    table: Longs
    reasons: npt.NDArray[np.uint8]
    first: int
    stop: int


def parts_of(indexed: Indexed, kept: Kept, high: int, limit: int) -> Iterator[Part]:
    """All kept batches of an answer.

    Args:
        indexed: the answer.
        kept: what ``keep`` decided for it.
        high: batches that begin above this source offset are left out.
        limit: the most bytes that one batch may decompress to.

    Raises:
        BatchError: a batch cannot be opened.
    """
    kept_columns = np.flatnonzero(kept.mask & (indexed.base_offset <= high))
    spans = np.stack((indexed.start + layout.HEADER, indexed.start + indexed.size))
    for kind, columns in _alike(indexed, kept_columns):
        if kind == _PLAIN:
            yield Part(indexed.data, spans, indexed.table, kept.reasons, columns[0], columns[-1] + 1)
        elif kind == _CLOSED:
            yield from _opened(indexed, kept, columns, spans, limit)
        elif kind == _OLD_CLOSED:
            for column in columns:
                opened = open_batch(indexed, column, limit)
                yield _converted(indexed, column, opened.records, opened.table)
        else:
            yield _converted(indexed, columns[0], *legacy.plain(indexed, columns[0], columns[-1] + 1))


def _alike(indexed: Indexed, columns: Longs) -> Iterator[tuple[int, list[int]]]:
    """Neighbours among the kept batches that are treated alike."""
    closed, magic = indexed.attributes & layout.CODEC_MASK != 0, indexed.magic
    broker_time = indexed.attributes & layout.LOG_APPEND_TIME != 0
    old = np.where(closed, _OLD_CLOSED, _OLD_PLAIN + 2 * magic + broker_time)
    kinds = np.where(magic == 2, closed, old)[columns]
    apart = (np.diff(columns) > 1) & (kinds[1:] >= _OLD_PLAIN)  # what lies between them would be converted too
    edges = np.flatnonzero((np.diff(kinds) != 0) | apart) + 1
    for first, stop in pairwise([0, *edges.tolist(), len(columns)]):
        if first < stop:
            yield int(kinds[first]), columns[first:stop].tolist()


def _opened(indexed: Indexed, kept: Kept, columns: list[int], spans: Longs, limit: int) -> Iterator[Part]:
    """Compressed batches."""

    def part(data: Bytes, first: int, stop: int) -> Part:
        return Part(data, spans, indexed.table, kept.reasons, first, stop)

    shelf, used, first = np.empty(_SHELF, np.uint8), 0, columns[0]
    for n in columns:
        payload = open_batch(indexed, n, limit).records
        size = len(payload)
        if used + size > _SHELF:
            if first < n:
                yield part(shelf[:used], first, n)
            shelf, used, first = np.empty(_SHELF, np.uint8), 0, n
        if size > _SHELF:
            spans[:, n] = 0, size
            yield part(payload, n, n + 1)
            first = n + 1
            continue
        shelf[used : used + size] = payload
        spans[:, n] = used, used + size
        used += size
    if first <= columns[-1]:
        yield part(shelf[:used], first, columns[-1] + 1)


def _converted(indexed: Indexed, column: int, records: Bytes, table: Longs) -> Part:
    """Messages of magic 0 or 1 that ``legacy`` has made records of."""
    table[rows.MAGIC, 0] = indexed.magic[column]
    table[rows.ATTRIBUTES, 0] = indexed.attributes[column] & layout.LOG_APPEND_TIME
    spans = np.array([[0], [len(records)]], np.int64)
    return Part(records, spans, table, np.full(1, KEPT, np.uint8), 0, 1)
