"""Kafka's variable-length integers, for kernels.

Purpose: zigzag varints and varlongs as records have them.

Invariants: reading never passes ``stop`` and never takes more than ten bytes; writing needs ``MOST`` bytes of room. A
varint (32 bits) is read as a varlong: what a record says is compared with where it ends, so a value that 32 bits cannot
hold is refused there.

References: org.apache.kafka.common.utils.ByteUtils (readVarint, writeVarlong, sizeOfVarint).
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches.kernels.compiling import inner
from sparkmirror.batches.kernels.words import byte_at, put_byte

MOST = 10
"""Bytes that the longest varlong takes."""


@inner
def read(data, at, stop):
    """Reads the number at ``at``.

    Returns:
        (value, next position); the position is -1 when the number does not end before ``stop`` or is longer than
        ``MOST`` bytes.
    """
    if at < stop:
        only = np.int64(byte_at(data, at))
        if only < 0x80:  # most are this short
            return (only >> 1) ^ -(only & 1), at + 1
    word, bits = np.uint64(0), np.uint64(0)
    while at < stop and bits < np.uint64(70):
        byte = np.uint64(byte_at(data, at))
        word |= (byte & np.uint64(0x7F)) << bits
        at += 1
        if byte < np.uint64(0x80):
            return np.int64(word >> np.uint64(1)) ^ -np.int64(word & np.uint64(1)), at
        bits += np.uint64(7)
    return np.int64(0), -1


@inner
def write(data, at, value):
    """Writes a number at ``at`` and returns the position after it."""
    word = np.uint64(value << 1) ^ np.uint64(value >> 63)
    while word >= np.uint64(0x80):
        put_byte(data, at, word | np.uint64(0x80))
        word >>= np.uint64(7)
        at += 1
    put_byte(data, at, word)
    return at + 1


@inner
def size_of(value):
    """The bytes that ``write`` takes for a number."""
    word = np.uint64(value << 1) ^ np.uint64(value >> 63)
    size = 1
    while word >= np.uint64(0x80):
        word >>= np.uint64(7)
        size += 1
    return size
