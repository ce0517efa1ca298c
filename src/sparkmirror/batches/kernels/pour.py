"""Records poured from batches into one new batch: the loops of merging, trimming, splitting and re-encoding.

Purpose: one walk over the records of one or thousands of batches that writes them again with dense offsets, times
relative to the new batch's first record, and everything else as it was.

Invariants:
    - A record's key, value, headers and attributes are copied as bytes; its absolute time is what a reader of the
      source sees: base timestamp field plus delta (also under the delete-horizon bit, where that field holds the
      horizon), or the batch's max timestamp where the broker set the time.
    - Nothing is read beyond a batch's records or written beyond ``room``. Lengths that lie, numbers that do not end,
      counts and offsets that do not fit the header are found before a record is written.
    - A batch goes in whole or not at all, unless the caller asks for a part of one (``part``).

References: org.apache.kafka.common.record.DefaultRecord (format, readFrom), DefaultRecordBatch.
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels.compiling import BYTES, FLAGS, LONG, LONGS, TABLE, WRITABLE, inner, kernel
from sparkmirror.batches.kernels.crc import crc32c
from sparkmirror.batches.kernels.deltas import delta_of, time_of
from sparkmirror.batches.kernels.select import KEPT
from sparkmirror.batches.kernels.varint import read, size_of, write
from sparkmirror.batches.kernels.words import byte_at, copy, put_byte, put_int, put_long, put_short

AT, RECORDS, BASE, NEWEST, FIRST_OFFSET, LAST_OFFSET, RUNS = 0, 1, 2, 3, 4, 5, 6
STATE = 7
"""Size of a state: write position; records written; base timestamp; greatest timestamp; source offset of the first and
of the last record written; runs noted."""

GROWTH = 17
"""The most bytes by which a record grows: its length, time delta and offset delta from one byte each to 5, 10 and 5."""
LEAST = 7
"""The bytes of the smallest record there is."""

DONE, FULL, MORE_RUNS, CLOSED, DAMAGED = 0, 1, 2, 3, 4

_START, _SIZE, _FIRST, _LAST, _COUNT = rows.START, rows.SIZE, rows.FIRST, rows.LAST, rows.COUNT
_ATTRIBUTES, _MAGIC, _BASE_TIME, _MAX_TIME = rows.ATTRIBUTES, rows.MAGIC, rows.BASE_TIME, rows.MAX_TIME
_HEADER, _CODEC, _LOG_APPEND = layout.HEADER, layout.CODEC_MASK, layout.LOG_APPEND_TIME
_H = layout.LENGTH, layout.LEADER_EPOCH, layout.MAGIC, layout.CRC, layout.ATTRIBUTES, layout.LAST_OFFSET_DELTA
_T = layout.BASE_TIMESTAMP, layout.MAX_TIMESTAMP, layout.PRODUCER_ID, layout.PRODUCER_EPOCH, layout.BASE_SEQUENCE
_ALL = 2**62
_COUNT_AT, _CRC_FROM, _PREFIX = layout.COUNT, layout.CRC_FROM, layout.PREFIX


@inner
def parse(data, at, stop):
    """Reads the parts of a record that are rewritten.

    Returns:
        (attributes position, time delta, offset delta, rest, end): the record's attributes byte, its two deltas, where
        its key begins and where it ends; ``end`` is -1 for a record that does not fit its own length or the batch.
    """
    length, body = read(data, at, stop)
    if body < 0 or length < 1 or length > stop - body:
        return body, np.int64(0), np.int64(0), body, -1
    end = body + length
    time, after = read(data, body + 1, end)
    if after < 0:
        return body, time, np.int64(0), body, -1
    delta, rest = read(data, after, end)
    if rest < 0 or end - rest < 3:  # key length, value length, header count
        return body, time, delta, body, -1
    return body, time, delta, rest, end


@inner
def _note(offset, state, runs):
    """Notes that the next record's source offset does not follow the one before."""
    runs[0, state[RUNS]] = state[RECORDS]
    runs[1, state[RUNS]] = offset
    state[RUNS] += 1
    if state[RECORDS] == 0:
        state[FIRST_OFFSET] = offset


@inner
def _put(data, body, rest, end, time, out, room, state):
    """Writes one record; False when it does not fit."""
    if state[RECORDS] == 0:
        state[BASE] = time
        state[NEWEST] = time
    since = delta_of(time, state[BASE])
    tail = end - rest
    length = 1 + size_of(since) + size_of(state[RECORDS]) + tail
    at = state[AT]
    if at + size_of(length) + length > room:
        return False
    at = write(out, at, length)
    put_byte(out, at, byte_at(data, body))
    at = write(out, at + 1, since)
    at = write(out, at, state[RECORDS])
    copy(out, at, data, rest, tail)
    state[AT] = at + tail
    state[NEWEST] = max(state[NEWEST], time)
    return True


@inner
def _pour(data, at, stop, table, n, skip_before, part, most, out, room, state, runs):
    """Pours the records ``part`` and following of batch ``n``, which lie from ``at`` to ``stop``.

    Returns:
        (why, record): DONE, FULL with the first record that did not go in, MORE_RUNS, or DAMAGED.
    """
    count, span, first = table[_COUNT, n], table[_LAST, n] - table[_FIRST, n], table[_FIRST, n]
    fixed = table[_ATTRIBUTES, n] & _LOG_APPEND != 0
    before = np.int64(-1)
    for i in range(count):
        body, since, delta, rest, end = parse(data, at, stop)
        if end < 0 or delta <= before or delta > span:
            return DAMAGED, i
        before, at = delta, end
        if i < part or first + delta < skip_before:
            continue
        if state[RECORDS] == most:
            return FULL, i
        offset = first + delta
        is_new_run = state[RECORDS] == 0 or offset != state[LAST_OFFSET] + 1
        if is_new_run and state[RUNS] == runs.shape[1]:
            return MORE_RUNS, i
        time = table[_MAX_TIME, n] if fixed else time_of(table[_BASE_TIME, n], since)
        if not _put(data, body, rest, end, time, out, room, state):
            return FULL, i
        if is_new_run:
            _note(offset, state, runs)
        state[LAST_OFFSET] = offset
        state[RECORDS] += 1
    return (DONE if at == stop else DAMAGED), count


@inner
def _copy_state(target, source):
    for i in range(STATE):
        target[i] = source[i]


@kernel(BYTES, TABLE, FLAGS, LONG, LONG, LONG, WRITABLE, LONG, LONGS, TABLE)
def pour_batches(data, table, reasons, first, stop, skip_before, out, room, state, runs):
    """Pours whole batches until the room is full, or one has to be opened first (CLOSED: compressed, or of old magic).

    Args:
        data: the buffer.
        table: as ``kernels.index.walk`` gives it.
        reasons: as ``kernels.select.drop`` has them; dropped batches are passed over.
        first: the first column to pour.
        stop: the column after the last one.
        skip_before: records with source offsets below it are left out.
        out: where the new batch is written; its records begin at the header's size.
        room: the end of what may be written in ``out``.
        state: see ``STATE``; changed in place.
        runs: two rows, record index and source offset of each run; changed in place.

    Returns:
        (n, why): the first batch that did not go in, and the reason; (stop, DONE) when all did.
    """
    saved = np.empty(STATE, np.int64)
    for n in range(first, stop):
        if reasons[n] != KEPT:
            continue
        if table[_MAGIC, n] < 2 or table[_ATTRIBUTES, n] & _CODEC:
            return n, CLOSED
        _copy_state(saved, state)
        start = table[_START, n]
        begin, end = start + _HEADER, start + table[_SIZE, n]
        why, _ = _pour(data, begin, end, table, n, skip_before, 0, _ALL, out, room, state, runs)
        if why != DONE:
            _copy_state(state, saved)
            return n, why
    return stop, DONE


@kernel(BYTES, LONG, TABLE, LONG, LONG, LONG, LONG, WRITABLE, LONG, LONGS, TABLE)
def pour_records(payload, at, table, n, skip_before, part, most, out, room, state, runs):
    """Pours one batch's records, or as many of them from record ``part`` on as there is room for.

    Args:
        payload: ends with the batch's records, uncompressed.
        at: where they begin.
        table: as ``kernels.index.walk`` gives it.
        n: the batch's column in it.
        skip_before: records with source offsets below it are left out.
        part: the first record to pour, counted from 0 in the source batch.
        most: the most records to pour.
        out: as for ``pour_batches``.
        room: as for ``pour_batches``.
        state: see ``STATE``; changed in place.
        runs: as for ``pour_batches``.

    Returns:
        (why, record): see ``_pour``. When FULL, the records before are in.
    """
    return _pour(payload, at, payload.shape[0], table, n, skip_before, part, most, out, room, state, runs)


@kernel(TABLE, FLAGS, LONG, LONG)
def measure(table, reasons, first, stop):
    """The most bytes that the kept batches of some columns take when poured uncompressed: (bytes, records).

    Compressed ones count as they are; the caller grows the room for them. So do old messages: none takes more, but for
    what is allowed here for each record.
    """
    size, records = np.int64(0), np.int64(0)
    for n in range(first, stop):
        if reasons[n] == KEPT:
            is_old = table[_MAGIC, n] < 2
            size += table[_SIZE, n] - (0 if is_old else _HEADER)
            records += 1 if is_old else table[_COUNT, n]
    return size + records * GROWTH, records


@kernel(WRITABLE, LONG, LONGS, LONG, LONG, LONG, LONG)
def seal(out, size, state, codec, producer_id, epoch, sequence):
    """Writes the header of the batch whose records lie behind it in ``out``, ``size`` bytes in all.

    Returns:
        False, with nothing written, when the array is smaller than that or there is no record.
    """
    if size < _HEADER or size > out.shape[0] or state[RECORDS] < 1:
        return False
    length, leader_epoch, magic, crc, attributes, last_delta = _H
    base_time, max_time, producer, producer_epoch, base_sequence = _T
    put_long(out, 0, 0)
    put_int(out, length, size - _PREFIX)
    put_int(out, leader_epoch, -1)
    out[magic] = 2
    put_short(out, attributes, codec)
    put_int(out, last_delta, state[RECORDS] - 1)
    put_long(out, base_time, state[BASE])
    put_long(out, max_time, state[NEWEST])
    put_long(out, producer, producer_id)
    put_short(out, producer_epoch, epoch)
    put_int(out, base_sequence, sequence)
    put_int(out, _COUNT_AT, state[RECORDS])
    put_int(out, crc, crc32c(out, _CRC_FROM, size))
    return True
