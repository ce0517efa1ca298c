"""Batches to columns: the records of a fetch answer as an Arrow table.

Purpose: what backup, comparison and transformation read; ``columns`` says what is in it.

Invariants:
    - A record's row is what a reader of the log sees: its offset in the log, the broker's time where the broker set it,
      base timestamp field plus delta otherwise (also under the delete-horizon bit, where that field holds the horizon).
    - Control records are none. Dropped batches give no rows.
    - There is no Python object per record. Each array is measured, then filled, then handed to Arrow as it is.
    - At any time there are, beside the table, at most the opened batches of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from sparkmirror.batches import columns
from sparkmirror.batches.codecs import DEFAULT_LIMIT
from sparkmirror.batches.decode_parts import Part, parts_of
from sparkmirror.batches.index import Indexed, Longs
from sparkmirror.batches.kernels import decode as kernels
from sparkmirror.batches.kernels.decode import Blobs, Columns
from sparkmirror.batches.opening import damaged
from sparkmirror.batches.select import Kept, keep

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES: Final = 64 * 1024 * 1024
"""A chunk of the table has records of at most so many bytes, unless told otherwise."""

_END: Final = 2**63 - 1


def decode(
    indexed: Indexed,
    kept: Kept | None = None,
    *,
    until: int | None = None,
    decompression_limit: int = DEFAULT_LIMIT,
    chunk_bytes: int = CHUNK_BYTES,
) -> pa.Table:
    """Makes a table of the records of a fetch answer.

    Args:
        indexed: the answer. A fault behind its sound batches is not raised here: see ``Indexed.error``.
        kept: what ``keep`` decided for it: dropped batches, and records below its position, are left out. Without it
            all records are taken.
        until: records with this offset or a greater one are left out.
        decompression_limit: the most bytes that one batch may decompress to.
        chunk_bytes: a chunk of the table ends where its records, as they lie in their batches uncompressed, would be
            more than this many bytes; a larger record is a chunk of its own. No more than 2**31 - 1, what Arrow's
            32-bit offsets reach.

    Returns:
        One row per record, in log order, with the columns of ``columns.column_schema``.

    Raises:
        BatchError: a batch is damaged.
        ValueError: ``chunk_bytes`` is not positive, or too large.
    """
    import pyarrow as pa

    chunks = decode_by_chunk(
        indexed, kept, until=until, decompression_limit=decompression_limit, chunk_bytes=chunk_bytes
    )
    return pa.Table.from_batches(chunks, schema=columns.column_schema())


def decode_by_chunk(
    indexed: Indexed,
    kept: Kept | None = None,
    *,
    until: int | None = None,
    decompression_limit: int = DEFAULT_LIMIT,
    chunk_bytes: int = CHUNK_BYTES,
    most_headers: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Does as `decode`, but gives each chunk when it is asked for: what is not asked for is not opened.

    Args:
        indexed: as for `decode`, and so are the others.
        kept: see ``indexed``.
        until: see ``indexed``.
        decompression_limit: see ``indexed``.
        chunk_bytes: see ``indexed``.
        most_headers: of a record with more headers they are packed, see ``columns``; None: none are.

    Raises:
        BatchError: a batch of the next chunk is damaged; the chunks before it are sound.
        ValueError: ``chunk_bytes`` is not positive, or too large.
    """
    if not 0 < chunk_bytes <= kernels.LARGEST:
        raise ValueError(f"chunk_bytes is {chunk_bytes}; it has to be between 1 and {kernels.LARGEST}")
    decoder = _Decoder(
        indexed=indexed,
        kept=keep(indexed, start_offset=0) if kept is None else kept,
        high=_END if until is None else until - 1,
        decompression_limit=decompression_limit,
        chunk_bytes=chunk_bytes,
        most_headers=most_headers,
    )
    return decoder.chunks()


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Records that become one chunk: what they take, and the walks over them (part, place, row after the last)."""

    totals: Longs = field(default_factory=lambda: np.zeros(kernels.TOTALS, np.int64))
    walks: list[tuple[Part, Longs, int]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return int(self.totals[kernels.ROWS])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decoder:
    """One call of ``decode``; records above ``high`` are left out."""

    indexed: Indexed
    kept: Kept
    high: int
    decompression_limit: int
    chunk_bytes: int
    most_headers: int | None

    @property
    def _most(self) -> int:
        return kernels.LARGEST if self.most_headers is None else self.most_headers

    def chunks(self) -> Iterator[pa.RecordBatch]:
        """The rows, in pieces."""
        chunk = _Chunk()
        for part in parts_of(self.indexed, self.kept, self.high, self.decompression_limit):
            place = np.zeros(kernels.PLACE, np.int64)
            place[kernels.COLUMN] = part.first
            while not self._measured(part, place, chunk):
                yield self._filled(chunk)
                chunk = _Chunk()
        if chunk.rows:
            yield self._filled(chunk)

    def _measured(self, part: Part, place: Longs, chunk: _Chunk) -> bool:
        """Adds records to a chunk; whether all of the part were."""
        begin, low, limit = place.copy(), self.kept.start_offset, self.chunk_bytes
        source = part.data, part.spans, part.table, part.reasons
        why = kernels.measure(*source, place, part.stop, low, self.high, limit, self._most, chunk.totals)
        if why == kernels.DAMAGED:
            raise damaged(part.table, int(place[kernels.COLUMN]))
        chunk.walks.append((part, begin, chunk.rows))
        return bool(why == kernels.DONE)

    def _filled(self, chunk: _Chunk) -> pa.RecordBatch:
        made, row, low = _arrays(chunk.totals), 0, self.kept.start_offset
        for part, place, until in chunk.walks:
            source = part.data, part.spans, part.table, part.reasons
            kernels.fill(*source, place, low, self.high, self._most, row, until, made)
            row = until
        schema = columns.column_schema(packed=self.most_headers is not None)
        return _arrow(made, chunk.totals.tolist(), schema)


def _arrays(totals: Longs) -> Columns:
    """Arrays for as much as was measured."""
    count, headers = int(totals[kernels.ROWS]), int(totals[kernels.HEADERS])
    return Columns(
        offset=np.empty(count, np.int64),
        timestamp=np.empty(count, np.int64),
        timestamp_type=np.empty(count, np.int8),
        key=_blobs(count, totals[kernels.KEYS]),
        value=_blobs(count, totals[kernels.VALUES]),
        header_ends=_ends(count),
        header_key=_blobs(headers, totals[kernels.HEADER_KEYS]),
        header_value=_blobs(headers, totals[kernels.HEADER_VALUES]),
    )


def _ends(count: int) -> npt.NDArray[np.int32]:
    ends = np.empty(count + 1, np.int32)
    ends[0] = 0
    return ends


def _blobs(count: int, size: int) -> Blobs:
    return Blobs(data=np.empty(size, np.uint8), ends=_ends(count), there=np.zeros((count + 7) // 8, np.uint8))


def _arrow(made: Columns, totals: list[int], schema: pa.Schema) -> pa.RecordBatch:
    """The same memory as Arrow arrays."""
    import pyarrow as pa

    count, headers = totals[kernels.ROWS], totals[kernels.HEADERS]

    def numbers(name: str, array: npt.NDArray[np.integer]) -> pa.Array:
        return pa.Array.from_buffers(schema.field(name).type, count, [None, pa.py_buffer(array)], 0)

    def binary(blobs: Blobs, nulls: int) -> pa.Array:
        there = pa.py_buffer(blobs.there) if nulls else None
        buffers = [there, pa.py_buffer(blobs.ends), pa.py_buffer(blobs.data)]
        return pa.Array.from_buffers(pa.binary(), len(blobs.ends) - 1, buffers, nulls)

    lists = schema.field(columns.HEADERS).type
    pairs = [
        binary(made.header_key, totals[kernels.NULL_HEADER_KEYS]),
        binary(made.header_value, totals[kernels.NULL_HEADER_VALUES]),
    ]
    structs = pa.Array.from_buffers(lists.value_type, headers, [None], 0, children=pairs)
    arrays = [
        numbers(columns.OFFSET, made.offset),
        numbers(columns.TIMESTAMP, made.timestamp),
        numbers(columns.TIMESTAMP_TYPE, made.timestamp_type),
        binary(made.key, totals[kernels.NULL_KEYS]),
        binary(made.value, totals[kernels.NULL_VALUES]),
        pa.Array.from_buffers(lists, count, [None, pa.py_buffer(made.header_ends)], 0, children=[structs]),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
