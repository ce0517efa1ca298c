"""The new header of a batch whose records stay as they are.

Purpose: rewrite a header, and its checksum from the old one, in a time that does not depend on the batch's size.

Invariants: only bytes 0 to 60 are written. The checksum must have been right before: it is carried over, not counted
anew (see ``crc``), so a batch damaged in between is refused by the target.

References: org.apache.kafka.common.record.DefaultRecordBatch (attributes, checksum).
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches import layout
from sparkmirror.batches.kernels.compiling import LONG, WRITABLE, inner, kernel
from sparkmirror.batches.kernels.crc import append, shift
from sparkmirror.batches.kernels.words import int_at, put_int, put_long, put_short, short_at

_BASE_OFFSET, _LEADER_EPOCH, _CRC, _CRC_FROM = layout.BASE_OFFSET, layout.LEADER_EPOCH, layout.CRC, layout.CRC_FROM
_ATTRIBUTES, _CODEC, _HEADER = layout.ATTRIBUTES, layout.CODEC_MASK, layout.HEADER
_PRODUCER, _EPOCH, _SEQUENCE = layout.PRODUCER_ID, layout.PRODUCER_EPOCH, layout.BASE_SEQUENCE


@inner
def _header_state(data, start):
    return append(np.uint32(0xFFFFFFFF), data, start + _CRC_FROM, start + _HEADER)


@kernel(WRITABLE, LONG, LONG, LONG, LONG, LONG)
def restamp(data, start, size, producer_id, epoch, sequence):
    """Makes the batch of ``size`` bytes at ``start`` one that the given writer sends next; see ``pass_through``.

    Returns:
        False, with nothing written, when the batch does not lie inside the array.
    """
    if start < 0 or size < _HEADER or start + size > data.shape[0]:
        return False
    before = _header_state(data, start)
    put_long(data, start + _BASE_OFFSET, 0)
    put_int(data, start + _LEADER_EPOCH, -1)
    put_short(data, start + _ATTRIBUTES, short_at(data, start + _ATTRIBUTES) & _CODEC)
    put_long(data, start + _PRODUCER, producer_id)
    put_short(data, start + _EPOCH, epoch)
    put_int(data, start + _SEQUENCE, sequence)
    change = shift(before ^ _header_state(data, start), size - _HEADER)
    put_int(data, start + _CRC, np.int64(change) ^ int_at(data, start + _CRC))
    return True
