"""Batches that no client of note writes, that Kafka's brokers take nevertheless, and that Java's consumer reads.

Each is written as a producer sends it, with base offset 0 and two records; one of them has one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from sparkmirror.batches import Codec
from tests.batches import oracle
from tests.batches.building import XERIAL, Rec, pack
from tests.batches.streams import CONTENT_SIZE, CONTENT_SUM, INDEPENDENT, halves, lz4

TIME: Final = 1_700_000_000_000
BEHIND: Final = b"what lies behind the records"
SKIPPED: Final = struct.pack("<II", 0x184D2A50, 4) + b"skip"
_RECORDS: Final = (Rec(0, TIME, b"k", b"first" * 20), Rec(1, TIME, b"k", b"second" * 20))


class Odd(NamedTuple):
    """One of them.

    Attributes:
        batch: its bytes.
        records: what is in it, where that can be put beside the records of others; else None, and it goes as it is.
    """

    batch: bytes
    records: tuple[Rec, ...] | None = _RECORDS


def _encoded(deltas: tuple[int, ...] = (0, 1), attributes: int = 0) -> bytes:
    pairs = zip(deltas, _RECORDS, strict=False)
    return b"".join(oracle.Record(0, 0, attributes, oracle.tail(r.key, r.value, ())).encode(d, 0) for d, r in pairs)


def _batch(payload: bytes, *, attributes: int = 0, count: int = 2, time: int = TIME) -> bytes:
    head = oracle.HEADER.pack(0, 0, -1, 2, 0, attributes, count - 1, time, time, -1, -1, -1, count)
    return oracle.sealed(head + payload)


def _gzip(data: bytes) -> bytes:
    return zlib.compress(data, wbits=31)


def _closed(codec: Codec, payload: bytes) -> Odd:
    return Odd(_batch(payload, attributes=int(codec)))


_TWO = _encoded()

ODD: Final[Mapping[str, Odd]] = {
    "bytes behind a gzip member": _closed(Codec.GZIP, _gzip(_TWO) + BEHIND),
    "zeros behind a gzip member": _closed(Codec.GZIP, _gzip(_TWO) + bytes(20)),
    "two gzip members": _closed(Codec.GZIP, halves(_gzip)(_TWO)),
    "bytes behind two gzip members": _closed(Codec.GZIP, halves(_gzip)(_TWO) + BEHIND),
    "bytes behind an lz4 frame": _closed(Codec.LZ4, lz4(_TWO) + BEHIND),
    "an lz4 frame whose content has another checksum": _closed(
        Codec.LZ4, lz4(_TWO, INDEPENDENT | CONTENT_SUM)[:-4] + b"sums"
    ),
    "an lz4 frame that tells its size": _closed(Codec.LZ4, lz4(_TWO, INDEPENDENT | CONTENT_SIZE)),
    "a zstd frame before one to be skipped": _closed(Codec.ZSTD, pack(Codec.ZSTD, _TWO) + SKIPPED),
    "snappy without a frame": _closed(Codec.SNAPPY, pack(Codec.SNAPPY, _TWO, raw=True)),
    "three bytes behind a snappy block": _closed(Codec.SNAPPY, pack(Codec.SNAPPY, _TWO) + XERIAL[:3]),
    "offset deltas that repeat": Odd(_batch(_encoded((5, 5))), None),
    "offset deltas that descend": Odd(_batch(_encoded((1, 0))), None),
    "offset deltas far apart": Odd(_batch(_encoded((0, 99))), None),
    "record attributes": Odd(_batch(_encoded((0,), 0x7F), count=1), _RECORDS[:1]),
    "a time before all times": Odd(_batch(_TWO, time=-1), tuple(Rec(r.offset, -1, r.key, r.value) for r in _RECORDS)),
    "attributes without a meaning": Odd(_batch(_TWO, attributes=0x7F00)),
}
"""By what is odd about them."""
