"""Sound answers of every kind: what the fuzz starts from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from sparkmirror.batches import Codec
from tests.batches.building import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, Rec, Written
from tests.batches.kinds import ABORT, COMMIT, LAST_DELTA, NOW, OLD_CODECS, encode, marker, message, wrapper
from tests.batches.streams import STREAMS

_BITS: Final = (
    0,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    DELETE_HORIZON,
    LOG_APPEND_TIME | TRANSACTIONAL,
    TRANSACTIONAL | DELETE_HORIZON,
    0x80,
)
_HEADERS: Final = (("h", b"1"), ("h", None), ("", b""), ("ä", b"2"))


def seeds() -> tuple[bytes, ...]:
    """The answers, always the same ones."""
    return tuple(answer for make in (_plain, _streams, _edges, transactions, _old, _large) for answer in make())


def _plain() -> Iterator[bytes]:
    """A few batches with every codec and attribute, with and without holes."""
    rng = random.Random(1)
    for codec in Codec:
        for bits in _BITS:
            answer, offset = b"", 0
            for size in (1, 4, 2, 1):
                deltas = accumulate(rng.choice([1, 1, 2]) for _ in range(size))
                records = tuple(
                    Rec(delta - 1, NOW + i, b"k%d" % i, b"v" * i, _HEADERS[: i % 3]) for i, delta in enumerate(deltas)
                )
                batch = Written(records=records, base_offset=offset, codec=codec, bits=bits, producer=(7, 0, offset))
                answer += encode(batch)
                offset = batch.last_offset + 1 + rng.randint(0, 2)
            yield answer


def _streams() -> Iterator[bytes]:
    """Every form of a compressed stream."""
    records = tuple(Rec(i, NOW + i, b"key", b"value %d" % (i // 2) * 9) for i in range(9))
    for codec, forms in STREAMS.items():
        for form in forms:
            yield encode(Written(records=records, codec=codec), form)


def _edges() -> Iterator[bytes]:
    """Records and headers at the ends of what the format can say."""
    edges = [
        Written(records=(), last_delta=0),
        Written(records=(), last_delta=LAST_DELTA, producer=(7, 1, 5)),
        Written(records=(Rec(0, -1, None, None),)),
        Written(records=(Rec(0, -1, b"", b"", _HEADERS),), producer=(7, 0, 2**31 - 1)),
        Written(records=(Rec(0, NOW), Rec(LAST_DELTA, NOW - 9)), producer=(8, 3, 0)),
        Written(records=(Rec(3, NOW), Rec(4, NOW)), last_delta=9),
        Written(records=(Rec(0, -(2**63)), Rec(1, 2**63 - 1), Rec(2, 0))),
        Written(records=(Rec(0, 2**63 - 1), Rec(1, -1)), base_time=-(2**63), bits=DELETE_HORIZON),
        Written(records=(Rec(0, 5),), max_time=2**63 - 1, bits=LOG_APPEND_TIME),
        Written(records=tuple(Rec(2 * i, NOW, None, b"") for i in range(20))),
        Written(records=tuple(Rec(i, NOW + 1000 * i, b"%d" % i) for i in range(70))),
    ]
    following = Written(records=(Rec(0, NOW, b"k"), Rec(1, NOW)), base_offset=2**32)
    for batch in edges:
        yield encode(batch) + encode(following)
    yield encode(Written(records=(Rec(0, NOW),), base_offset=2**63 - 2))
    yield b""


def transactions() -> Iterator[bytes]:
    """Committed, aborted and interleaved ones, and end markers."""
    for kinds in ((ABORT, COMMIT), (COMMIT, ABORT), (ABORT, ABORT)):
        answer = b""
        for offset, producer in enumerate((7, 8, 7, 9)):
            records = (Rec(0, NOW, b"k"),)
            bits = TRANSACTIONAL if producer != 9 else 0
            answer += encode(Written(records=records, base_offset=offset, bits=bits, producer=(producer, 0, 0)))
        yield answer + encode(marker(4, 7, kinds[0])) + encode(marker(5, 8, kinds[1])) + encode(marker(6, 9, COMMIT))
    for size in (0, 3, 4, 8):
        yield encode(Written(records=(Rec(0, NOW, bytes(size), b""),), bits=CONTROL, producer=(7, 0, -1)))
    control = Written(records=(), last_delta=0, bits=CONTROL | TRANSACTIONAL, producer=(7, 0, -1))
    yield encode(control) + encode(Written(records=(Rec(0, NOW),), base_offset=1, bits=TRANSACTIONAL))


def _old() -> Iterator[bytes]:
    """Messages of magic 0 and 1, alone and packed, before batches of magic 2."""
    records = (Rec(0, NOW, b"k", b"value" * 5), Rec(1, NOW - 5, None, None), Rec(3, NOW + 9, b"", b""))
    following = encode(Written(records=(Rec(0, NOW),), base_offset=9))
    for magic in (0, 1):
        alone = b"".join(message(magic, 2 * r.offset, r.time, r.key, r.value) for r in records)
        yield alone
        yield alone + following
        yield message(magic, 0, NOW, b"k", b"v", LOG_APPEND_TIME) + following
        for codec in OLD_CODECS[1:]:
            yield wrapper(magic, codec, records, base_offset=0) + wrapper(magic, codec, records[:1], base_offset=5)
            yield wrapper(magic, codec, records, base_offset=3, time=NOW + 77) + following


def _large() -> Iterator[bytes]:
    """What takes the checksum's three streams, and several blocks of the codecs."""
    noise = random.Random(2).randbytes(9000)
    for codec in Codec:
        records = (Rec(0, NOW, b"k", b"abcd" * 4000), Rec(1, NOW, None, noise), Rec(2, NOW, None, bytes(40_000)))
        yield encode(Written(records=records, codec=codec)) + encode(Written(records=records[:1], base_offset=7))
