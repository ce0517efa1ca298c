"""The walk over the batches of a fetch answer.

Purpose: one pass that checks and tabulates every batch of a buffer, with no Python object per batch.

Invariants:
    - No byte outside the buffer is read, whatever its lengths say. A batch enters the table only when its length,
      checksum, counts and codec have been found sound; the walk ends at the first that is not.
    - ``FIRST`` and ``LAST`` ascend, and no record of the batch lies outside them. A compressed message of magic 0 or 1
      tells of its last record alone, so its ``FIRST`` is the offset after the batch before it, or 0.

References: org.apache.kafka.common.record.ByteBufferLogInputStream, DefaultRecordBatch.ensureValid,
LegacyRecord.ensureValid.
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.kernels.compiling import BYTES, inner, kernel
from sparkmirror.batches.kernels.crc import crc32c
from sparkmirror.batches.kernels.crc32 import crc32
from sparkmirror.batches.kernels.words import byte_at, int_at, long_at, short_at

START, SIZE, FIRST, LAST, COUNT, ATTRIBUTES, MAGIC = 0, 1, 2, 3, 4, 5, 6
PRODUCER, EPOCH, SEQUENCE, BASE_TIME, MAX_TIME, LEADER_EPOCH = 7, 8, 9, 10, 11, 12
COLUMNS = 13

SOUND, BAD_LENGTH, BAD_MAGIC, BAD_CRC, BAD_COUNT, BAD_CODEC, BAD_ORDER, CUT_SHORT = 0, 1, 2, 3, 4, 5, 6, 7
BAD_OLD_CRC = 8

_MAGIC, _LENGTH, _PREFIX = layout.MAGIC, layout.LENGTH, layout.PREFIX
_HEADER, _LEGACY = layout.HEADER, layout.LEGACY_MINIMUM
_CRC, _CRC_FROM = layout.CRC, layout.CRC_FROM
_CODEC, _LAST_CODEC = layout.CODEC_MASK, layout.LAST_CODEC
_ATTRIBUTES, _DELTA, _COUNT = layout.ATTRIBUTES, layout.LAST_OFFSET_DELTA, layout.COUNT
_BASE_TIME, _MAX_TIME = layout.BASE_TIMESTAMP, layout.MAX_TIMESTAMP
_PRODUCER, _EPOCH, _SEQUENCE = layout.PRODUCER_ID, layout.PRODUCER_EPOCH, layout.BASE_SEQUENCE
_LEADER_EPOCH, _LEGACY_ATTRIBUTES, _LEGACY_TIME = layout.LEADER_EPOCH, layout.LEGACY_ATTRIBUTES, layout.LEGACY_TIMESTAMP
_LEGACY_CRC, _LEGACY_CRC_FROM = layout.LEGACY_CRC, layout.LEGACY_CRC_FROM
_LEGACY_LAST_CODEC = layout.LEGACY_LAST_CODEC
_GREATEST = 2**63 - 2  # an offset that another follows; no sum here may wrap, compilers take it that none does


@inner
def _whole(data, at):
    """The size of the batch at ``at``; 0 when it is cut off, -1 when its length cannot be."""
    if at + _MAGIC + 1 > data.shape[0]:
        return 0
    length = int_at(data, at + _LENGTH)
    if length < _LEGACY:
        return -1
    if at + _PREFIX + length > data.shape[0]:
        return 0
    return _PREFIX + length


@inner
def _count(data):
    at, batches = 0, 0
    while at < data.shape[0]:
        size = _whole(data, at)
        if size <= 0:
            break
        batches += 1
        at += size
    return batches


@inner
def _read(data, at, size, table, n):
    """Checks a batch of magic 2 and fills its column of the table."""
    if size < _HEADER:
        return BAD_LENGTH
    if (int_at(data, at + _CRC) & 0xFFFFFFFF) != crc32c(data, at + _CRC_FROM, at + size):
        return BAD_CRC
    first, delta, count = long_at(data, at), int_at(data, at + _DELTA), int_at(data, at + _COUNT)
    if first < 0 or delta < 0 or first > _GREATEST - delta or not 0 <= count <= delta + 1:
        return BAD_COUNT
    if count == 0 and size > _HEADER:  # what compaction emptied is a header alone; dropped, this would be lost
        return BAD_COUNT
    attributes = short_at(data, at + _ATTRIBUTES)
    if (attributes & _CODEC) > _LAST_CODEC:
        return BAD_CODEC
    table[FIRST, n] = first
    table[LAST, n] = first + delta
    table[COUNT, n] = count
    table[ATTRIBUTES, n] = attributes & 0xFFFF
    table[PRODUCER, n] = long_at(data, at + _PRODUCER)
    table[EPOCH, n] = short_at(data, at + _EPOCH)
    table[SEQUENCE, n] = int_at(data, at + _SEQUENCE)
    table[BASE_TIME, n] = long_at(data, at + _BASE_TIME)
    table[MAX_TIME, n] = long_at(data, at + _MAX_TIME)
    table[LEADER_EPOCH, n] = int_at(data, at + _LEADER_EPOCH)
    return SOUND


@inner
def _read_legacy(data, at, size, magic, before, table, n):
    """Checks a message of magic 0 or 1 and fills its column; what a compressed one holds is not known unopened."""
    time = long_at(data, at + _LEGACY_TIME) if magic == 1 else np.int64(-1)
    if (int_at(data, at + _LEGACY_CRC) & 0xFFFFFFFF) != crc32(data, at + _LEGACY_CRC_FROM, at + size):
        return BAD_OLD_CRC
    offset, attributes = long_at(data, at), np.int64(byte_at(data, at + _LEGACY_ATTRIBUTES))
    codec = attributes & _CODEC
    if codec > _LEGACY_LAST_CODEC:
        return BAD_CODEC
    if offset > _GREATEST:
        return BAD_COUNT
    table[FIRST, n] = offset if codec == 0 else before + 1
    table[LAST, n] = offset
    table[COUNT, n] = 1 if codec == 0 else -1
    table[ATTRIBUTES, n] = attributes
    table[PRODUCER, n] = -1
    table[EPOCH, n] = -1
    table[SEQUENCE, n] = -1
    table[BASE_TIME, n] = time
    table[MAX_TIME, n] = time
    table[LEADER_EPOCH, n] = -1
    return SOUND


@kernel(BYTES)
def walk(data):
    """Tabulates the batches of a buffer.

    Args:
        data: batches one after the other; the last may be cut off.

    Returns:
        (table, batches, fault, end): an int64 table of ``COLUMNS`` rows; how many of its columns hold a sound batch;
        why the walk ended before the end of the buffer (``SOUND``: it did not, or the rest is a cut-off batch); where.
    """
    batches = _count(data)
    table = np.empty((COLUMNS, batches), np.int64)
    at, fault = 0, SOUND
    before = np.int64(-1)
    for n in range(batches):
        size = _whole(data, at)
        magic = np.int64(data[at + _MAGIC])
        if magic == 2:
            fault = _read(data, at, size, table, n)
        elif magic < 2:
            fault = _read_legacy(data, at, size, magic, before, table, n)
        else:
            fault = BAD_MAGIC
        if fault == SOUND and (table[FIRST, n] <= before or table[LAST, n] < table[FIRST, n]):
            fault = BAD_ORDER
        if fault != SOUND:
            return table, n, fault, at
        table[START, n] = at
        table[SIZE, n] = size
        table[MAGIC, n] = magic
        before = table[LAST, n]
        at += size
    if at < data.shape[0]:
        if _whole(data, at) < 0:
            fault = BAD_LENGTH
        elif batches == 0:
            fault = CUT_SHORT
    return table, batches, fault, at
