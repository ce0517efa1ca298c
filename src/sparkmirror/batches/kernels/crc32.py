"""CRC32 inside kernels: the checksum of magic 0 and 1.

Purpose: the checksum that zlib has, at the speed of table look-ups: sixteen of them per sixteen bytes. Processors have
no instruction for this polynomial as they have for that of CRC32C, and old logs are read once.

Invariants: ``crc32`` equals ``zlib.crc32``.

References: org.apache.kafka.common.utils.Crc32; Kounavis and Berry, "A Systematic Approach to Building High Performance
Software-based CRC Generators".
"""

from __future__ import annotations

import numpy as np

from sparkmirror.batches.kernels.compiling import inner
from sparkmirror.batches.kernels.crc import tables
from sparkmirror.batches.kernels.words import byte_at, load64

POLYNOMIAL = 0xEDB88320
TABLES = tables(POLYNOMIAL, 16)

_LOW = np.uint64(0xFF)


@inner
def _first_half(word):
    """What eight bytes with eight more behind them make of a state that is in them already."""
    return (
        TABLES[15, word & _LOW]
        ^ TABLES[14, (word >> np.uint64(8)) & _LOW]
        ^ TABLES[13, (word >> np.uint64(16)) & _LOW]
        ^ TABLES[12, (word >> np.uint64(24)) & _LOW]
        ^ TABLES[11, (word >> np.uint64(32)) & _LOW]
        ^ TABLES[10, (word >> np.uint64(40)) & _LOW]
        ^ TABLES[9, (word >> np.uint64(48)) & _LOW]
        ^ TABLES[8, word >> np.uint64(56)]
    )


@inner
def _second_half(word):
    """The same for eight bytes with none behind them."""
    return (
        TABLES[7, word & _LOW]
        ^ TABLES[6, (word >> np.uint64(8)) & _LOW]
        ^ TABLES[5, (word >> np.uint64(16)) & _LOW]
        ^ TABLES[4, (word >> np.uint64(24)) & _LOW]
        ^ TABLES[3, (word >> np.uint64(32)) & _LOW]
        ^ TABLES[2, (word >> np.uint64(40)) & _LOW]
        ^ TABLES[1, (word >> np.uint64(48)) & _LOW]
        ^ TABLES[0, word >> np.uint64(56)]
    )


@inner
def crc32(data, start, stop):
    """The CRC32 of the bytes from ``start`` to ``stop``, as a number from 0 to 2**32 - 1."""
    state, at = np.uint32(0xFFFFFFFF), start
    while at + 16 <= stop:
        state = _first_half(load64(data, at) ^ np.uint64(state)) ^ _second_half(load64(data, at + 8))
        at += 16
    if at + 8 <= stop:
        state = _second_half(load64(data, at) ^ np.uint64(state))
        at += 8
    while at < stop:
        state = (state >> np.uint32(8)) ^ TABLES[0, (state ^ np.uint32(byte_at(data, at))) & np.uint32(0xFF)]
        at += 1
    return np.int64(state ^ np.uint32(0xFFFFFFFF))
