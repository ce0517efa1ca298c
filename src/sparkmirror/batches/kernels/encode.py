"""Columns to records: the loop of ``encode``.

Purpose: rows of Arrow arrays become the records of a new batch, until it is full.

Invariants:
    - A record is measured before it is written, and is in the batch whole or not at all.
    - Where strings and headers begin and end is checked for every row, so that arrays which contradict themselves are
      refused and nothing beside them is read.

References: org.apache.kafka.common.record.DefaultRecord (writeTo, sizeInBytes); the Arrow columnar format.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from sparkmirror.batches.index import Bytes, Longs
from sparkmirror.batches.kernels.compiling import BYTES, LONG, LONGS, WRITABLE, inner, kernel
from sparkmirror.batches.kernels.decode import headers_in
from sparkmirror.batches.kernels.deltas import delta_of
from sparkmirror.batches.kernels.pour import AT, BASE, NEWEST, RECORDS
from sparkmirror.batches.kernels.varint import size_of, write
from sparkmirror.batches.kernels.words import copy, put_byte

DONE, FULL, CONTRADICTORY = 0, 1, 2

RECORD_OVERHEAD = 36
"""The most bytes of a record beside its strings and headers: length, attributes, time and offset deltas, key and value
length, number of headers."""
HEADER_OVERHEAD = 10
"""The most bytes of a header beside its strings: their lengths."""

_NULL, _BAD = -1, -2


class Strings(NamedTuple):
    """A column of byte strings as Arrow has it.

    Attributes:
        data: the strings.
        ends: int64, where the first string begins in ``data``, and where each ends.
        there: a byte per string, 0 for null; empty when none is null.
    """

    data: Bytes
    ends: Longs
    there: Bytes


class Rows(NamedTuple):
    """Arrays of one length, a row for each record.

    Attributes:
        timestamp: int64 in ms.
        key: the keys.
        value: the values.
        header_ends: int64, where the first row's headers begin among all headers, and where each row's end.
        header_there: a byte per row, 0 where its headers are null and count as none; empty when there is no such row.
        header_key: the headers' keys; a row with one that is null has no other, and its value is all headers of the
            record as they are to lie there.
        header_value: the headers' values.
    """

    timestamp: Longs
    key: Strings
    value: Strings
    header_ends: Longs
    header_there: Bytes
    header_key: Strings
    header_value: Strings


_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_STRINGS = types.NamedTuple((BYTES, _LONGS, BYTES), Strings)
_ROWS = types.NamedTuple((_LONGS, _STRINGS, _STRINGS, _LONGS, BYTES, _STRINGS, _STRINGS), Rows)


@inner
def _length(strings, i):
    """The length of string ``i``, -1 for null, -2 when it does not lie in the data."""
    begin, end = strings.ends[i], strings.ends[i + 1]
    if begin < 0 or end < begin or end > strings.data.shape[0]:
        return _BAD
    if strings.there.shape[0] > 0 and strings.there[i] == 0:
        return _NULL
    return end - begin


@inner
def _size(strings, i):
    """The bytes that string ``i`` takes with its length, or -2."""
    length = _length(strings, i)
    return _BAD if length == _BAD else size_of(length) + max(length, 0)


@inner
def _headers(rows, row):
    """The headers of a row: (first, count); the count is -2 when they do not lie among the headers."""
    first, after = rows.header_ends[row], rows.header_ends[row + 1]
    if first < 0 or after < first or after >= rows.header_key.ends.shape[0]:
        return first, np.int64(_BAD)
    if rows.header_there.shape[0] > 0 and rows.header_there[row] == 0:
        return first, np.int64(0)
    return first, after - first


@inner
def _packed(rows, first, count):
    """Whether these headers are one that holds all headers of its record."""
    return count == 1 and _length(rows.header_key, first) == _NULL


@inner
def _strings_size(rows, row):
    """The bytes of a record from its key on, or -2."""
    key, value = _size(rows.key, row), _size(rows.value, row)
    first, count = _headers(rows, row)
    if min(key, value, count) < 0:
        return np.int64(_BAD)
    if _packed(rows, first, count):
        content = _length(rows.header_value, first)
        begin = rows.header_value.ends[first]
        sound = content >= 0 and headers_in(rows.header_value.data, begin, begin + content)[0] >= 0
        return key + value + content if sound else np.int64(_BAD)
    size = size_of(count) + key + value
    for i in range(first, first + count):
        name, content = _size(rows.header_key, i), _size(rows.header_value, i)
        if min(name, content) < 0 or _length(rows.header_key, i) < 0:
            return np.int64(_BAD)
        size += name + content
    return size


@inner
def _put(out, at, strings, i):
    """Writes string ``i`` with its length; the position after it."""
    length = _length(strings, i)
    at = write(out, at, length)
    if length <= 0:
        return at
    copy(out, at, strings.data, strings.ends[i], length)
    return at + length


@inner
def _put_record(out, at, length, since, delta, rows, row):
    """Writes a record; the position after it."""
    at = write(out, at, length)
    put_byte(out, at, 0)
    at = write(out, at + 1, since)
    at = write(out, at, delta)
    at = _put(out, at, rows.key, row)
    at = _put(out, at, rows.value, row)
    first, count = _headers(rows, row)
    if _packed(rows, first, count):
        length = _length(rows.header_value, first)
        copy(out, at, rows.header_value.data, rows.header_value.ends[first], length)
        return at + length
    at = write(out, at, count)
    for i in range(first, first + count):
        at = _put(out, at, rows.header_key, i)
        at = _put(out, at, rows.header_value, i)
    return at


@kernel(_ROWS, LONG, LONG, WRITABLE, LONGS)
def pack(rows, row, stop, out, state):
    """Writes rows as records of a new batch until it is full.

    Args:
        rows: arrays that are long enough for ``stop`` rows.
        row: the first row to write.
        stop: the row after the last.
        out: the new batch; it is full where this array ends.
        state: see ``kernels.pour.STATE``, of which this uses AT, RECORDS, BASE and NEWEST; changed in place.

    Returns:
        (row, why, size): the first row that is not in; DONE, FULL or CONTRADICTORY; when FULL, the bytes that it takes.
    """
    for i in range(row, stop):
        strings, time = _strings_size(rows, i), rows.timestamp[i]
        if strings < 0:
            return i, CONTRADICTORY, np.int64(0)
        delta = state[RECORDS]
        since = delta_of(time, state[BASE]) if delta > 0 else np.int64(0)
        length = 1 + size_of(since) + size_of(delta) + strings
        size = size_of(length) + length
        if size > out.shape[0] - state[AT]:
            return i, FULL, size
        if delta == 0:
            state[BASE] = time
            state[NEWEST] = time
        state[AT] = _put_record(out, state[AT], length, since, delta, rows, i)
        state[NEWEST] = max(state[NEWEST], time)
        state[RECORDS] += 1
    return stop, DONE, np.int64(0)
