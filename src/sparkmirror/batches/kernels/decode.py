"""Records to columns: the loops of ``decode``.

Purpose: ``measure`` walks records, checks them and adds up what they take; ``fill`` walks the same records again and
writes them into arrays of exactly that size.

Invariants:
    - What ``measure`` has passed is sound: each record ends where its length says, its fields where the record does,
      and offsets ascend within the batch's span. ``fill`` is only called for such records.
    - A walk can be left after any record and taken up there (``PLACE``), so that columns end where they are full and
      not where a batch does.

References: org.apache.kafka.common.record.DefaultRecord (readFrom, readHeaders); the Arrow columnar format (validity
bitmaps, variable-size binary and list layout).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from sparkmirror.batches import layout
from sparkmirror.batches.index import Bytes, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels.compiling import BYTES, FLAGS, LONG, LONGS, TABLE, WRITABLE, inner, kernel
from sparkmirror.batches.kernels.deltas import time_of
from sparkmirror.batches.kernels.pour import parse
from sparkmirror.batches.kernels.select import KEPT
from sparkmirror.batches.kernels.varint import read
from sparkmirror.batches.kernels.words import copy

ROWS, READ, KEYS, VALUES, HEADERS, HEADER_KEYS, HEADER_VALUES = 0, 1, 2, 3, 4, 5, 6
NULL_KEYS, NULL_VALUES, NULL_HEADER_KEYS, NULL_HEADER_VALUES = 7, 8, 9, 10
TOTALS = 11
"""Size of the totals: records; their bytes as they lie in the batch; bytes of keys and of values; headers; bytes of
their keys and of their values; how many keys, values, header keys and header values are null."""

COLUMN, RECORD, NEXT, BEFORE = 0, 1, 2, 3
PLACE = 4
"""Size of a place: batch; record in it; where that record begins; the offset delta of the one before it, or -1."""

DONE, FULL, DAMAGED = 0, 1, 2

NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1

LARGEST = 2**31 - 1
"""The most bytes of a record, and of all records that share one array with 32-bit offsets."""

_FIRST, _LAST, _COUNT, _ATTRIBUTES, _MAGIC = rows.FIRST, rows.LAST, rows.COUNT, rows.ATTRIBUTES, rows.MAGIC
_BASE_TIME, _MAX_TIME, _LOG_APPEND = rows.BASE_TIME, rows.MAX_TIME, layout.LOG_APPEND_TIME


class Blobs(NamedTuple):
    """A column of byte strings as Arrow has it.

    Attributes:
        data: all strings, one after the other.
        ends: int32, a leading 0 and where each string ends in ``data``.
        there: bits, lowest first: whether the string is not null. All 0 to begin with.
    """

    data: Bytes
    ends: np.ndarray
    there: Bytes


class Columns(NamedTuple):
    """The arrays that ``fill`` writes.

    Attributes:
        offset: int64 per record.
        timestamp: int64 per record.
        timestamp_type: int8 per record.
        key: the records' keys.
        value: the records' values.
        header_ends: int32, a leading 0 and where each record's headers end among all headers.
        header_key: the headers' keys; null where the value is all headers of a record.
        header_value: the headers' values.
    """

    offset: Longs
    timestamp: Longs
    timestamp_type: np.ndarray
    key: Blobs
    value: Blobs
    header_ends: np.ndarray
    header_key: Blobs
    header_value: Blobs


_ENDS = types.Array(types.int32, 1, "C")
_BLOBS = types.NamedTuple((WRITABLE, _ENDS, WRITABLE), Blobs)
_COLUMNS = types.NamedTuple(
    (LONGS, LONGS, types.Array(types.int8, 1, "C"), _BLOBS, _BLOBS, _ENDS, _BLOBS, _BLOBS), Columns
)


@inner
def _field(data, at, stop):
    """Reads a length and steps over as many bytes.

    Returns:
        (begin, length, after): the length is -1 for null; ``after`` is -1 when the bytes do not end before ``stop``.
    """
    length, begin = read(data, at, stop)
    if begin < 0 or length > stop - begin:
        return begin, length, -1
    if length < 0:
        return begin, np.int64(-1), begin
    return begin, length, begin + length


@inner
def headers_in(data, at, stop):
    """What the headers are that begin at ``at``.

    Returns:
        (count, keys, values, nulls): bytes of their keys and of their values, and how many values are null; the count
        is -1 when they do not end at ``stop``.
    """
    keys, values, nulls = np.int64(0), np.int64(0), np.int64(0)
    count, at = read(data, at, stop)
    if at < 0 or count < 0:
        return np.int64(-1), keys, values, nulls
    for _ in range(count):
        _, key, at = _field(data, at, stop)
        if at < 0 or key < 0:
            return np.int64(-1), keys, values, nulls
        _, value, at = _field(data, at, stop)
        if at < 0:
            return np.int64(-1), keys, values, nulls
        keys += key
        values += max(value, 0)
        nulls += value < 0
    return count if at == stop else np.int64(-1), keys, values, nulls


@inner
def _weigh_headers(data, at, stop, most, totals):
    """Adds a record's headers to the totals, of more than ``most`` one without a key; False when they are damaged."""
    count, keys, values, nulls = headers_in(data, at, stop)
    if count < 0:
        return False
    if count > most:
        totals[HEADERS] += 1
        totals[HEADER_VALUES] += stop - at
        totals[NULL_HEADER_KEYS] += 1
        return True
    totals[HEADERS] += count
    totals[HEADER_KEYS] += keys
    totals[HEADER_VALUES] += values
    totals[NULL_HEADER_VALUES] += nulls
    return True


@inner
def _weigh(data, at, stop, most, totals):
    """Adds a record, whose key begins at ``at``, to the totals; False when it is damaged."""
    _, key, at = _field(data, at, stop)
    if at < 0:
        return False
    _, value, at = _field(data, at, stop)
    if at < 0 or not _weigh_headers(data, at, stop, most, totals):
        return False
    totals[ROWS] += 1
    totals[KEYS] += max(key, 0)
    totals[NULL_KEYS] += key < 0
    totals[VALUES] += max(value, 0)
    totals[NULL_VALUES] += value < 0
    return True


@inner
def _leave(place, record, at, before):
    place[RECORD] = record
    place[NEXT] = at
    place[BEFORE] = before


@inner
def _measure(data, stop, table, n, place, low, high, limit, most, totals):
    """Adds the records of batch ``n`` from ``place`` on to the totals: DONE, FULL or DAMAGED."""
    count, span, first = table[_COUNT, n], table[_LAST, n] - table[_FIRST, n], table[_FIRST, n]
    at, before = place[NEXT], place[BEFORE]
    for i in range(place[RECORD], count):
        _, _, delta, rest, end = parse(data, at, stop)
        size = end - at
        if end < 0 or delta <= before or delta > span or size > LARGEST:
            return DAMAGED
        if low <= first + delta <= high:
            if totals[READ] > 0 and totals[READ] + size > limit:
                _leave(place, i, at, before)
                return FULL
            if not _weigh(data, rest, end, most, totals):
                return DAMAGED
            totals[READ] += size
        before, at = delta, end
    return DONE if at == stop else DAMAGED


@kernel(BYTES, TABLE, TABLE, FLAGS, LONGS, LONG, LONG, LONG, LONG, LONG, LONGS)
def measure(data, spans, table, reasons, place, stop, low, high, limit, most, totals):
    """Adds up what the records of some batches take as columns, until there are enough.

    Args:
        data: holds the records, uncompressed.
        spans: two rows, where in ``data`` the records of each batch begin and end.
        table: as ``kernels.index.walk`` gives it.
        reasons: as ``kernels.select.drop`` has them; dropped batches are passed over.
        place: see ``PLACE``, where to begin; at the return, where the walk was left.
        stop: the column after the last batch.
        low: records with source offsets below it are left out.
        high: so are records with source offsets above it.
        limit: the most bytes of records, unless the first alone is larger; at most ``LARGEST``.
        most: of a record with more headers there is one without a key, whose value is all of them as they lie there.
        totals: see ``TOTALS``; added to.

    Returns:
        DONE; FULL, with the record at ``place`` not counted; DAMAGED, with the batch in ``place``.
    """
    for n in range(place[COLUMN], stop):
        place[COLUMN] = n
        if reasons[n] != KEPT:
            continue
        if place[RECORD] == 0:
            _leave(place, 0, spans[0, n], -1)
        why = _measure(data, spans[1, n], table, n, place, low, high, limit, most, totals)
        if why != DONE:
            return why
        place[RECORD] = 0
    place[COLUMN] = stop
    return DONE


@inner
def _put(blobs, i, data, begin, length):
    """Writes string ``i`` of a column."""
    end = np.int64(blobs.ends[i])
    if length >= 0:
        copy(blobs.data, end, data, begin, length)
        blobs.there[i >> 3] |= np.uint8(1 << (i & 7))
        end += length
    blobs.ends[i + 1] = end


@inner
def _put_record(data, at, stop, most, columns, row):
    """Writes the fields of a record whose key begins at ``at``."""
    begin, length, at = _field(data, at, stop)
    _put(columns.key, row, data, begin, length)
    begin, length, at = _field(data, at, stop)
    _put(columns.value, row, data, begin, length)
    headers, header = at, np.int64(columns.header_ends[row])
    count, at = read(data, at, stop)
    if count > most:
        _put(columns.header_key, header, data, headers, np.int64(-1))
        _put(columns.header_value, header, data, headers, stop - headers)
        columns.header_ends[row + 1] = header + 1
        return
    for i in range(header, header + count):
        begin, length, at = _field(data, at, stop)
        _put(columns.header_key, i, data, begin, length)
        begin, length, at = _field(data, at, stop)
        _put(columns.header_value, i, data, begin, length)
    columns.header_ends[row + 1] = header + count


@inner
def _timestamp_type(attributes, magic):
    if magic == 0:
        return NO_TIMESTAMP_TYPE
    return LOG_APPEND_TIME if attributes & _LOG_APPEND else CREATE_TIME


@inner
def _fill(data, stop, table, n, place, low, high, most, row, until, columns):
    """Writes the records of batch ``n`` from ``place`` on as rows ``row`` up to ``until``; the row after the last."""
    first, base, newest = table[_FIRST, n], table[_BASE_TIME, n], table[_MAX_TIME, n]
    kind = _timestamp_type(table[_ATTRIBUTES, n], table[_MAGIC, n])
    fixed = kind == LOG_APPEND_TIME and table[_MAGIC, n] == 2  # converted messages have it in their records
    at = place[NEXT]
    for _ in range(place[RECORD], table[_COUNT, n]):
        if row == until:
            break
        _, since, delta, rest, end = parse(data, at, stop)
        offset = first + delta
        if low <= offset <= high:
            columns.offset[row] = offset
            columns.timestamp[row] = newest if fixed else time_of(base, since)
            columns.timestamp_type[row] = kind
            _put_record(data, rest, end, most, columns, row)
            row += 1
        at = end
    return row


@kernel(BYTES, TABLE, TABLE, FLAGS, LONGS, LONG, LONG, LONG, LONG, LONG, _COLUMNS)
def fill(data, spans, table, reasons, place, low, high, most, row, until, columns):
    """Writes records that ``measure`` has counted.

    Args:
        data: as for ``measure``, and so are ``spans``, ``table``, ``reasons``, ``low``, ``high`` and ``most``.
        spans: see ``data``.
        table: see ``data``.
        reasons: see ``data``.
        place: where ``measure`` began with these records; changed.
        low: see ``data``.
        high: see ``data``.
        most: see ``data``.
        row: the row of the first of them.
        until: the row after the last.
        columns: arrays that hold as much as ``measure`` has counted.
    """
    n = place[COLUMN]
    while row < until and n < table.shape[1]:
        if reasons[n] == KEPT:
            if place[RECORD] == 0:
                _leave(place, 0, spans[0, n], -1)
            row = _fill(data, spans[1, n], table, n, place, low, high, most, row, until, columns)
            place[RECORD] = 0
        n += 1
