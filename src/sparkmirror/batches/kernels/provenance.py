"""A header for each record that says which clusters it has come through: the loop over all batches of an answer.

Purpose: batches without compression become batches whose records name their way, without those that have been on the
target.

Invariants:
    - Key, value, times, offsets, attributes and all other headers are copied as bytes; the header is the last one, or
      grows where it stands.
    - Each new batch is whole: header, counts and checksum are right. One without a record left has count and size 0.
    - Nothing is read beyond a batch's records or written beyond ``out``.

References: org.apache.kafka.common.record.DefaultRecord (readFrom, writeTo).
"""

from __future__ import annotations

from sparkmirror.batches import layout
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels.compiling import BYTES, FLAGS, TABLE, WRITABLE, inner, kernel
from sparkmirror.batches.kernels.crc import crc32c
from sparkmirror.batches.kernels.pour import parse
from sparkmirror.batches.kernels.select import KEPT
from sparkmirror.batches.kernels.varint import read, size_of, write
from sparkmirror.batches.kernels.words import byte_at, copy, put_byte, put_int, put_long, put_short

OVERHEAD = 25
"""The most bytes by which a record grows beside the header's name and value: five numbers."""

_SEPARATOR = 0x2C
_START, _SIZE, _FIRST, _LAST, _COUNT = rows.START, rows.SIZE, rows.FIRST, rows.LAST, rows.COUNT
_ATTRIBUTES, _BASE_TIME, _MAX_TIME, _LEADER_EPOCH = rows.ATTRIBUTES, rows.BASE_TIME, rows.MAX_TIME, rows.LEADER_EPOCH
_PRODUCER, _EPOCH, _SEQUENCE = rows.PRODUCER, rows.EPOCH, rows.SEQUENCE
_HEADER, _PREFIX, _CODEC, _CRC_FROM = layout.HEADER, layout.PREFIX, layout.CODEC_MASK, layout.CRC_FROM
_H = layout.LENGTH, layout.LEADER_EPOCH, layout.MAGIC, layout.CRC, layout.ATTRIBUTES, layout.LAST_OFFSET_DELTA
_T = layout.BASE_TIMESTAMP, layout.MAX_TIMESTAMP, layout.PRODUCER_ID, layout.PRODUCER_EPOCH, layout.BASE_SEQUENCE
_COUNT_AT = layout.COUNT


@inner
def _skip(data, at, stop):
    """The position after a byte string and its length; -1 when it does not end before ``stop``."""
    size, after = read(data, at, stop)
    if after < 0 or size > stop - after:
        return -1
    return after + max(size, 0)


@inner
def _is(data, at, size, text):
    if size != text.shape[0]:
        return False
    same = 0
    while same < size and byte_at(data, at + same) == byte_at(text, same):
        same += 1
    return same == size


@inner
def _names(data, at, size, text):
    """Whether a list parted by commas has ``text`` among its parts."""
    begin = at
    for i in range(at, at + size + 1):
        if i == at + size or byte_at(data, i) == _SEPARATOR:
            if _is(data, begin, i - begin, text):
                return True
            begin = i + 1
    return False


@inner
def _look(data, rest, end, name, target):
    """Looks at a record's headers.

    Returns:
        (at, after, length_at, value_at, value_end, is_back): where the number of headers lies and what follows it;
        where the last header of that name has its value's length and its value, -1 without one; whether one of them
        names the target. ``at`` is -1 when the headers do not fill the record exactly.
    """
    length_at, value_at, value_end, is_back = -1, -1, -1, False
    at = _skip(data, rest, end)
    if at >= 0:
        at = _skip(data, at, end)
    count, after = read(data, at, end) if at >= 0 else (0, -1)
    if after < 0 or count < 0:
        return -1, after, length_at, value_at, value_end, is_back
    place = after
    for _ in range(count):
        size, begin = read(data, place, end)
        if begin < 0 or size < 0 or size > end - begin:
            return -1, after, length_at, value_at, value_end, is_back
        value_size, value = read(data, begin + size, end)
        if value < 0 or value_size > end - value:
            return -1, after, length_at, value_at, value_end, is_back
        place = value + max(value_size, 0)
        if _is(data, begin, size, name):
            length_at, value_at, value_end = begin + size, value, place
            is_back = is_back or _names(data, value, place - value, target)
    if place != end:
        at = -1
    return at, after, length_at, value_at, value_end, is_back


@inner
def _grow(data, body, end, found, own, out, at):
    """Writes a record whose header gets one cluster more: the position after it, -1 when it does not fit."""
    _, _, length_at, value_at, value_end, _ = found
    old = value_end - value_at
    size = old + own.shape[0] + (1 if old else 0)
    length = (length_at - body) + size_of(size) + size + (end - value_end)
    if at + size_of(length) + length > out.shape[0]:
        return -1
    at = write(out, at, length)
    copy(out, at, data, body, length_at - body)
    at = write(out, at + length_at - body, size)
    copy(out, at, data, value_at, old)
    at += old
    if old:
        put_byte(out, at, _SEPARATOR)
        at += 1
    copy(out, at, own, 0, own.shape[0])
    at += own.shape[0]
    copy(out, at, data, value_end, end - value_end)
    return at + end - value_end


@inner
def _add(data, body, end, found, name, ways, begin, size, out, at):
    """Writes a record with one header more: the position after it, -1 when it does not fit."""
    count_at, after, _, _, _, _ = found
    count, _ = read(data, count_at, end)
    named = name.shape[0]
    length = (count_at - body) + size_of(count + 1) + (end - after) + size_of(named) + named + size_of(size) + size
    if at + size_of(length) + length > out.shape[0]:
        return -1
    at = write(out, at, length)
    copy(out, at, data, body, count_at - body)
    at = write(out, at + count_at - body, count + 1)
    copy(out, at, data, after, end - after)
    at = write(out, at + end - after, named)
    copy(out, at, name, 0, named)
    at = write(out, at + named, size)
    copy(out, at, ways, begin, size)
    return at + size


@inner
def _head(out, start, at, table, n, count):
    """Writes the header of the batch whose records lie behind it."""
    length, leader_epoch, magic, crc, attributes, last_delta = _H
    base_time, max_time, producer, producer_epoch, base_sequence = _T
    size = at - start
    put_long(out, start, table[_FIRST, n])
    put_int(out, start + length, size - _PREFIX)
    put_int(out, start + leader_epoch, table[_LEADER_EPOCH, n])
    put_byte(out, start + magic, 2)
    put_short(out, start + attributes, table[_ATTRIBUTES, n] & ~_CODEC)
    put_int(out, start + last_delta, table[_LAST, n] - table[_FIRST, n])
    put_long(out, start + base_time, table[_BASE_TIME, n])
    put_long(out, start + max_time, table[_MAX_TIME, n])
    put_long(out, start + producer, table[_PRODUCER, n])
    put_short(out, start + producer_epoch, table[_EPOCH, n])
    put_int(out, start + base_sequence, table[_SEQUENCE, n])
    put_int(out, start + _COUNT_AT, count)
    put_int(out, start + crc, crc32c(out, start + _CRC_FROM, at))


@inner
def _batch(data, table, n, name, own, target, ways, begin, size, out, start):
    """Writes one batch at ``start``: (records in it, position after it).

    Records are -1 when it is damaged or does not fit.
    """
    place, stop, count = table[_START, n] + _HEADER, table[_START, n] + table[_SIZE, n], 0
    at = start + _HEADER
    if at > out.shape[0]:
        return -1, start
    for _ in range(table[_COUNT, n]):
        body, _, _, rest, end = parse(data, place, stop)
        if end < 0:
            return -1, start
        found = _look(data, rest, end, name, target)
        if found[0] < 0:
            return -1, start
        place = end
        if found[5]:
            continue
        if found[2] >= 0:
            at = _grow(data, body, end, found, own, out, at)
        else:
            at = _add(data, body, end, found, name, ways, begin, size, out, at)
        if at < 0:
            return -1, start
        count += 1
    if place != stop:
        return -1, start
    if count == 0:
        return 0, start
    _head(out, start, at, table, n, count)
    return count, at


@kernel(BYTES, TABLE, FLAGS, BYTES, BYTES, BYTES, BYTES, TABLE, WRITABLE, TABLE)
def mark(data, table, reasons, name, own, target, ways, spans, out, marked):
    """Writes every kept batch again, with the header in each record.

    Args:
        data: the batches; those that are kept are of magic 2 and not compressed.
        table: as ``kernels.index.walk`` gives it.
        reasons: as ``kernels.select.drop`` has them; dropped batches get no bytes.
        name: of the header.
        own: what is added to the value of one that is there.
        target: records whose value names this are left out.
        ways: holds the values of new headers.
        spans: two rows, where each batch's value begins and ends in ``ways``.
        out: where the new batches are written.
        marked: a copy of the table; start, size, count and attributes are changed in place.

    Returns:
        (n, size): the first batch that could not be written, or the number of batches; bytes written.
    """
    at = 0
    for n in range(table.shape[1]):
        marked[_START, n], marked[_SIZE, n] = at, 0
        if reasons[n] != KEPT:
            continue
        begin = spans[0, n]
        count, after = _batch(data, table, n, name, own, target, ways, begin, spans[1, n] - begin, out, at)
        if count < 0:
            return n, at
        marked[_COUNT, n], marked[_SIZE, n] = count, after - at
        marked[_ATTRIBUTES, n] = table[_ATTRIBUTES, n] & ~_CODEC
        at = after
    return table.shape[1], at
