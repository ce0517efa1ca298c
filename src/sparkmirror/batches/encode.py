"""Columns to batches: the rows of an Arrow table as batches that can be produced.

Purpose: the way back from ``decode``, for what was transformed or comes out of a backup.

Invariants:
    - Rows become records in their order, each once, as they are: key, value, headers and time.
    - No batch is larger than the target topic allows.
    - There is no Python object per record. Strings are copied once, from Arrow's memory into the batch.

References: design section 3; org.apache.kafka.common.record.MemoryRecordsBuilder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from sparkmirror.batches import columns, layout
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.encode_rows import check_names, rows_of
from sparkmirror.batches.index import Longs
from sparkmirror.batches.kernels import encode as kernels
from sparkmirror.batches.kernels import pour as pouring
from sparkmirror.batches.kernels.encode import Rows
from sparkmirror.batches.sealing import Stamp, new_state, seal
from sparkmirror.errors import RecordTooLargeError
from sparkmirror.model import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

NO_WRITER: Final = Stamp(producer_id=-1, epoch=-1, sequence=-1)
"""The stamp of batches that are produced without idempotence."""

_LARGEST: Final = 2**31 - 1
_NO_ROOM: Final = np.empty(0, np.uint8)
_NO_RUNS: Final = np.empty((2, 0), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """One new batch.

    Attributes:
        batch: ready to be sent; nothing else refers to its bytes.
        count: its records.
        first_row: the row of the table that its first record was made of.
        max_timestamp: the newest record's time in ms.
    """

    batch: memoryview
    count: int
    first_row: int
    max_timestamp: int


def encode(
    table: pa.Table | pa.RecordBatch,
    *,
    codec: Codec = Codec.NONE,
    batch_size: int = 1024 * 1024,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    stamp: Stamp = NO_WRITER,
) -> tuple[Encoded, ...]:
    """Makes batches of the rows of a table, with base offset 0 and dense offset deltas each.

    Args:
        table: ``timestamp`` and ``value``, and where there are any ``key`` and ``headers``; see ``columns``.
            Timestamps may be any integers, or Arrow's if they are whole milliseconds; null is -1, no timestamp.
            Byte strings may be of any kind that Arrow has, text too, also as dictionaries; headers a list or a map.
            Null headers are none. ``offset`` only serves to name a record that is too large. ``timestamp_type`` says
            nothing here: the topic that the batches are sent to decides which time counts.
        codec: what the batches are compressed with. What grows by it travels as it is.
        batch_size: a batch ends at this many bytes, before compression; a larger record goes by itself.
        max_message_bytes: the target topic's limit for a whole batch, compressed.
        stamp: of the first batch; further ones follow from it.

    Returns:
        The batches, in the order of the rows; none for a table without rows.

    Raises:
        RecordTooLargeError: no batch within the limit can hold a record; its ``offset`` is that of the row in the
            table, or the number of the row if the table has none. Nothing of the call is to be sent then.
        ValueError: a column is missing, unknown, of another type, or contradicts itself.
    """
    import pyarrow as pa

    if min(batch_size, max_message_bytes) <= layout.HEADER:
        raise ValueError(f"batches have to be larger than {layout.HEADER} bytes, the size of a header")
    check_names(table.schema.names)
    parts = [table] if isinstance(table, pa.RecordBatch) else table.to_batches()
    encoder = _Encoder(table, codec, min(batch_size, max_message_bytes), max_message_bytes, stamp)
    return encoder.encode([rows_of(part) for part in parts])


def _at_most(rows: Rows) -> int:
    """The most bytes that these rows take as records."""
    count, headers = len(rows.timestamp), _extent(rows.header_ends)
    strings = sum(_extent(each.ends) for each in (rows.key, rows.value, rows.header_key, rows.header_value))
    return count * kernels.RECORD_OVERHEAD + headers * kernels.HEADER_OVERHEAD + strings


def _extent(ends: Longs) -> int:
    return max(0, int(ends[-1]) - int(ends[0]))


class _Encoder:
    """Fills batch after batch, each of ``room`` bytes unless one large record asks for more."""

    def __init__(self, table: pa.Table | pa.RecordBatch, codec: Codec, room: int, limit: int, stamp: Stamp) -> None:
        self._table, self._codec, self._room, self._limit, self._stamp = table, codec, room, limit, stamp
        self._done: list[Encoded] = []
        self._left = self._first_row = 0
        self._out, self._state = _NO_ROOM, new_state()

    def encode(self, arrays: list[Rows]) -> tuple[Encoded, ...]:
        """All rows, in batches."""
        self._left = sum(map(_at_most, arrays))
        for rows in arrays:
            self._take(rows)
        if self._records:
            self._close()
        return tuple(self._done)

    @property
    def _records(self) -> int:
        return int(self._state[pouring.RECORDS])

    def _take(self, rows: Rows) -> None:
        row, stop = 0, len(rows.timestamp)
        while row < stop:
            row, why, size = kernels.pack(rows, row, stop, self._out, self._state)
            if why == kernels.CONTRADICTORY:
                raise ValueError("the table is no sound Arrow data: its offsets lead out of its arrays")
            if why == kernels.FULL and self._records:
                self._close()
            elif why == kernels.FULL:
                self._begin(layout.HEADER + int(size))

    def _begin(self, least: int) -> None:
        """Begins a batch that can hold a first record which makes it ``least`` bytes."""
        if least > (self._limit if self._codec is Codec.NONE else _LARGEST):
            raise self._too_large()
        room = max(least, min(self._room, layout.HEADER + self._left))
        self._out = np.empty(room, np.uint8)

    def _close(self) -> None:
        self._left -= int(self._state[pouring.AT]) - layout.HEADER
        made = seal(self._out, self._state, _NO_RUNS, self._codec, self._stamp, self._limit)
        if made is None:
            raise self._too_large()
        self._done.append(
            Encoded(batch=made.batch, count=made.count, first_row=self._first_row, max_timestamp=made.max_timestamp)
        )
        self._first_row += made.count
        if self._stamp.producer_id >= 0:
            self._stamp = self._stamp.after(made.count)
        self._out, self._state = _NO_ROOM, new_state()

    def _too_large(self) -> RecordTooLargeError:
        named = columns.OFFSET in self._table.schema.names
        offset = self._table.column(columns.OFFSET)[self._first_row].as_py() if named else None
        return RecordTooLargeError(
            offset=offset if isinstance(offset, int) else self._first_row,
            reason=f"the record is larger than the target topic's max.message.bytes, {self._limit}",
            remedy="raise max.message.bytes on the target topic",
        )
