"""Messages of magic 0 and 1 written as records of magic 2: the loops.

Purpose: one walk over a message set, which is what lies in a compressed message as well as plain messages side by side
in a log.

Invariants:
    - Nothing is read beyond ``stop``, whatever the lengths say. A message is written only when its length, its magic,
      its checksum and the sizes of its key and value have been found sound.
    - Offsets ascend and times are relative to the first message's. Keys and values are copied as they are.
    - A null key or value stays null. As in Java any size below 0 means null; bytes behind the value are passed over.

References: org.apache.kafka.common.record.LegacyRecord, AbstractLegacyRecordBatch.DeepRecordsIterator (offsets and
times of what is in a compressed message), Utils.sizeDelimited.
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels.compiling import BYTES, FLAGS, LONG, TABLE, inner, kernel
from sparkmirror.batches.kernels.crc32 import crc32
from sparkmirror.batches.kernels.deltas import delta_of
from sparkmirror.batches.kernels.select import KEPT
from sparkmirror.batches.kernels.varint import size_of, write
from sparkmirror.batches.kernels.words import byte_at, copy, int_at, long_at, put_byte

COUNT, FIRST, LAST, BASE_TIME, NEWEST, SIZE = 0, 1, 2, 3, 4, 5
FACTS = 6
"""What is told of a message set: messages; source offset of the first and the last; time of the first; greatest time;
bytes written."""

DONE, CUT_SHORT, BAD_CRC, BAD_MAGIC, NESTED, BAD_FIELDS, BAD_ORDER = 0, 1, 2, 3, 4, 5, 6

GROWTH = 11
"""The most bytes by which a message grows as a record: a message of magic 0 has 26 bytes beside its key and value, a
record at most 37 (length 5, attributes 1, time 10, offset 10, two sizes 5 each, header count 1)."""

_PREFIX, _LENGTH, _LEAST = layout.PREFIX, layout.LENGTH, layout.LEGACY_MINIMUM
_CRC, _CRC_FROM, _MAGIC = layout.LEGACY_CRC, layout.LEGACY_CRC_FROM, layout.MAGIC
_ATTRIBUTES, _TIMESTAMP, _CODEC = layout.LEGACY_ATTRIBUTES, layout.LEGACY_TIMESTAMP, layout.CODEC_MASK
_FIELDS_0, _FIELDS_1 = layout.LEGACY_FIELDS_0, layout.LEGACY_FIELDS_1


@inner
def _size(data, at, stop):
    """The bytes of the message at ``at``, or -1 when it does not end before ``stop`` or cannot be one."""
    if stop - at < _PREFIX + _LEAST:
        return np.int64(-1)
    length = int_at(data, at + _LENGTH)
    if length < _LEAST or length > stop - at - _PREFIX:
        return np.int64(-1)
    return _PREFIX + length


@inner
def _fields(data, at, end):
    """Where the key and the value of a message lie.

    Returns:
        (key, size, value, size): positions and sizes, a size is -1 for null; the first position is -1 when they do not
        lie before ``end``.
    """
    key = at + 4 + (_FIELDS_1 if byte_at(data, at + _MAGIC) == 1 else _FIELDS_0)
    if end - key < 4:
        return np.int64(-1), np.int64(0), key, np.int64(0)
    key_size = max(int_at(data, key - 4), np.int64(-1))
    value = key + max(key_size, np.int64(0)) + 4
    if value > end:
        return np.int64(-1), np.int64(0), value, np.int64(0)
    value_size = max(int_at(data, value - 4), np.int64(-1))
    if value_size > end - value:
        return np.int64(-1), np.int64(0), value, np.int64(0)
    return key, key_size, value, value_size


@inner
def _fault(data, at, end, is_checked):
    """What is wrong with a message that lies where it should."""
    if is_checked and (int_at(data, at + _CRC) & 0xFFFFFFFF) != crc32(data, at + _CRC_FROM, end):
        return BAD_CRC
    if byte_at(data, at + _MAGIC) > 1:
        return BAD_MAGIC
    if byte_at(data, at + _ATTRIBUTES) & _CODEC:
        return NESTED
    return DONE


@inner
def _put_bytes(out, place, data, begin, size):
    """Writes a key or a value with its size before it, and returns the position after it."""
    place = write(out, place, size)
    if size > 0:
        copy(out, place, data, begin, size)
        place += size
    return place


@inner
def _put(out, place, data, fields, since, delta):
    """Writes a record and returns the position after it."""
    key, key_size, value, value_size = fields
    sizes = size_of(since) + size_of(delta) + size_of(key_size) + size_of(value_size)
    place = write(out, place, 2 + sizes + max(key_size, np.int64(0)) + max(value_size, np.int64(0)))
    put_byte(out, place, 0)  # attributes: none are defined
    place = write(out, place + 1, since)
    place = write(out, place, delta)
    place = _put_bytes(out, place, data, key, key_size)
    place = _put_bytes(out, place, data, value, value_size)
    put_byte(out, place, 0)  # headers: none
    return place + 1


@inner
def _note(facts, offset, time):
    """Counts a message."""
    if facts[COUNT] == 0:
        facts[FIRST] = offset
        facts[BASE_TIME] = time
        facts[NEWEST] = time
    facts[COUNT] += 1
    facts[LAST] = offset
    facts[NEWEST] = max(facts[NEWEST], time)


@kernel(BYTES, LONG, LONG)
def survey(data, at, stop):
    """Goes over the messages from ``at`` to ``stop`` by their lengths alone.

    Returns:
        (messages, last): how many there are, and the offset field of the last; (-1, 0) when a length cannot be.
    """
    messages, last = 0, np.int64(0)
    while at < stop:
        size = _size(data, at, stop)
        if size < 0:
            return -1, np.int64(0)
        last = long_at(data, at)
        messages += 1
        at += size
    return messages, last


@kernel(BYTES, LONG, LONG)
def value_of(data, at, stop):
    """Where the value of the message from ``at`` to ``stop`` lies: (position, size).

    The size is -1 for null, the position -1 when the fields do not lie inside the message.
    """
    if _size(data, at, stop) < 0:
        return np.int64(-1), np.int64(0)
    key, _, value, size = _fields(data, at, stop)
    return (value if key >= 0 else np.int64(-1)), size


@kernel(BYTES, LONG, LONG, LONG, LONG, LONG, LONG)
def convert(data, at, stop, base, is_checked, is_stamped, stamp):
    """Writes the messages from ``at`` to ``stop`` as records of magic 2.

    Args:
        data: holds them, none of them compressed.
        at: where the first begins.
        stop: where the last ends.
        base: the source offset of each is this plus its offset field.
        is_checked: 1 to check their checksums, 0 where that has been done.
        is_stamped: 1 when those of magic 1 have the time ``stamp``, whatever they say themselves.
        stamp: in ms.

    Returns:
        (why, offset, out, facts): DONE or what is wrong, and with which source offset; an array that begins with the
        records; see ``FACTS``.
    """
    out = np.empty(stop - at + GROWTH * ((stop - at) // (_PREFIX + _LEAST) + 1), np.uint8)
    facts, place, before = np.zeros(FACTS, np.int64), np.int64(0), np.int64(-1)
    while at < stop:
        size = _size(data, at, stop)
        if size < 0:
            return CUT_SHORT, before + 1, out, facts
        end, offset = at + size, np.int64(np.uint64(base) + np.uint64(long_at(data, at)))  # may wrap, see ``deltas``
        why = _fault(data, at, end, is_checked)
        if why == DONE and offset <= before:
            why = BAD_ORDER
        if why != DONE:
            return why, offset, out, facts
        fields = _fields(data, at, end)
        if fields[0] < 0:
            return BAD_FIELDS, offset, out, facts
        time = np.int64(-1)
        if byte_at(data, at + _MAGIC) == 1:
            time = stamp if is_stamped else long_at(data, at + _TIMESTAMP)
        _note(facts, offset, time)
        place = _put(out, place, data, fields, delta_of(time, facts[BASE_TIME]), offset - facts[FIRST])
        before, at = offset, end
    facts[SIZE] = place
    return DONE, before, out, facts


@kernel(TABLE, FLAGS, LONG, LONG, LONG)
def together(table, reasons, first, stop, most):
    """The column after the plain messages of magic 0 and 1 that stand side by side from column ``first`` on.

    Args:
        table: as ``kernels.index.walk`` gives it.
        reasons: as ``kernels.select.drop`` gives them; a dropped one ends them.
        first: the first, which is one.
        stop: the column to end at.
        most: how many bytes they may have, unless the first alone has more.
    """
    n, begin = first + 1, table[rows.START, first]
    while n < stop and reasons[n] == KEPT and table[rows.MAGIC, n] < 2 and table[rows.ATTRIBUTES, n] & _CODEC == 0:
        if table[rows.START, n] + table[rows.SIZE, n] - begin > most:
            break
        n += 1
    return n
