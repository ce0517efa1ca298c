"""A batch's records as bytes, whatever it is compressed with and however old it is.

Purpose: the one place where batches are opened, and where what is wrong with one becomes a BatchError with its offset.

Invariants: what comes out is records of magic 2 without compression, beside a table column that tells of them. Of a
batch of magic 2 that is the column of the index; messages of magic 0 and 1 get one of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparkmirror.batches import layout, legacy
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import CodecError, LimitError, decompress
from sparkmirror.batches.index import Bytes, Indexed, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels import legacy as kernels
from sparkmirror.batches.select import Kept
from sparkmirror.errors import BatchError


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Records of magic 2, not compressed.

    Attributes:
        records: ends with them.
        at: where they begin.
        table: tells of them as ``index`` does: first and last offset, count, times.
        column: which of its columns.
    """

    records: Bytes
    at: int
    table: Longs
    column: int

    @property
    def count(self) -> int:
        """How many records their header tells of."""
        return int(self.table[rows.COUNT, self.column])


class Opener:
    """Opens batches, and remembers the last one: what did not fit into one new batch is asked for again for the next.

    Args:
        limit: the most bytes that one batch may decompress to.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._last: tuple[Indexed, int, Opened] | None = None

    def open(self, indexed: Indexed, column: int) -> Opened:
        """Opens one batch.

        Raises:
            BatchError: it cannot be decompressed, or is an old message that contradicts itself.
        """
        opened = self._known(indexed, column)
        if opened is None:
            opened = open_batch(indexed, column, self._limit)
            self._last = (indexed, column, opened)
        return opened

    def open_within(self, indexed: Indexed, column: int, room: int) -> Opened | None:
        """Opens one compressed batch of magic 2, of which no more than ``room`` bytes are wanted.

        Returns:
            Its records; None when they have more bytes than that, which are not decompressed, or than the limit.

        Raises:
            BatchError: it cannot be decompressed.
        """
        opened = self._known(indexed, column)
        if opened is None:
            try:
                opened = _decompressed(indexed, column, min(room, self._limit))
            except LimitError:
                return None
            except CodecError as error:
                raise _closed(indexed, column, error) from error
            self._last = (indexed, column, opened)
        return opened if len(opened.records) <= room else None

    def _known(self, indexed: Indexed, column: int) -> Opened | None:
        if self._last is None or self._last[0] is not indexed or self._last[1] != column:
            return None
        return self._last[2]


def open_batch(indexed: Indexed, column: int, limit: int) -> Opened:
    """Opens one batch.

    Args:
        indexed: where the batch is.
        column: which of its batches.
        limit: the most bytes that it may decompress to.

    Returns:
        Its records; those of an uncompressed batch of magic 2 are not copied.

    Raises:
        BatchError: its compressed data is damaged or exceeds the limit, or an old message contradicts itself.
    """
    if is_plain_message(indexed, column):
        return _as_records(*legacy.plain(indexed, column, column + 1))
    if indexed.table[rows.MAGIC, column] < 2:
        return _as_records(*legacy.wrapped(indexed, column, limit))
    if codec_of(indexed, column) is Codec.NONE:
        start, size = int(indexed.table[rows.START, column]), int(indexed.table[rows.SIZE, column])
        return Opened(
            records=indexed.data[: start + size], at=start + layout.HEADER, table=indexed.table, column=column
        )
    try:
        return _decompressed(indexed, column, limit)
    except CodecError as error:
        raise _closed(indexed, column, error) from error


def _decompressed(indexed: Indexed, column: int, limit: int) -> Opened:
    """A compressed batch of magic 2.

    Raises:
        CodecError: it cannot be decompressed, or not within the limit.
    """
    start, size = int(indexed.table[rows.START, column]), int(indexed.table[rows.SIZE, column])
    payload = indexed.data[start + layout.HEADER : start + size]
    records = decompress(codec_of(indexed, column), payload, limit)
    return Opened(records=records, at=0, table=indexed.table, column=column)


def _closed(indexed: Indexed, column: int, error: CodecError) -> BatchError:
    offset = int(indexed.table[rows.FIRST, column])
    return BatchError(offset=offset, reason=f"the batch cannot be opened: {error}")


def open_messages(indexed: Indexed, kept: Kept, first: int, stop: int, most: int) -> Opened:
    """Opens plain messages of magic 0 or 1 that stand side by side, each of them a batch of the source.

    Args:
        indexed: where they are.
        kept: what ``keep`` decided for it.
        first: the column of the first, which is one.
        stop: the column to end at.
        most: how many bytes they may have together; one is opened in any case.

    Returns:
        Their records, up to the first that cannot be read; record ``i`` is the batch of column ``first + i``.

    Raises:
        BatchError: the first contradicts its length.
    """
    last = int(kernels.together(indexed.table, kept.reasons, first, stop, most))
    try:
        return _as_records(*legacy.plain(indexed, first, last))
    except BatchError as error:
        sound = int(np.searchsorted(indexed.base_offset[first:last], error.offset))
        if not sound:
            raise
        return _as_records(*legacy.plain(indexed, first, first + sound))


def _as_records(records: Bytes, table: Longs) -> Opened:
    return Opened(records=records, at=0, table=table, column=0)


def is_plain_message(indexed: Indexed, column: int) -> bool:
    """Whether it is a message of magic 0 or 1 that is not compressed."""
    return bool(indexed.table[rows.MAGIC, column] < 2) and codec_of(indexed, column) is Codec.NONE


def codec_of(indexed: Indexed, column: int) -> Codec:
    """What a batch is compressed with."""
    return Codec(int(indexed.table[rows.ATTRIBUTES, column]) & layout.CODEC_MASK)


def damaged(table: Longs, column: int) -> BatchError:
    """The error for records that contradict their header or each other."""
    return BatchError(offset=int(table[rows.FIRST, column]), reason="the batch's records do not fit its header")
