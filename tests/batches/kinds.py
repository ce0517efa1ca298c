"""Batches of every kind that a log may hold, encoded in plain Python; what ``building.Written`` cannot say is here.

Times and deltas may wrap around 64 bits, offset deltas reach 2**31 - 1, the stream may be of any form, and there are
messages of magic 0 and 1, alone and packed into others as compressed ones are.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hypothesis import strategies as st

from sparkmirror.batches import Codec
from tests.batches import oracle
from tests.batches.building import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, Rec, Written
from tests.batches.streams import STREAMS, lz4_of_old_clients

ABORT, COMMIT = 0, 1
NOW: Final = 1_700_000_000_000
LAST_DELTA: Final = 2**31 - 1
OLD_CODECS: Final = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


def encode(batch: Written, stream: str = "") -> bytes:
    """A batch of magic 2.

    Args:
        batch: what it holds.
        stream: a name in ``STREAMS``; the first of the codec by default.
    """
    packers = STREAMS[batch.codec]
    base = batch.base_time if batch.base_time is not None else batch.records[0].time if batch.records else -1
    newest = batch.max_time if batch.max_time is not None else max((r.time for r in batch.records), default=-1)
    payload = b"".join(
        oracle.Record(0, r.time, 0, oracle.tail(r.key, r.value, r.headers)).encode(r.offset, base)
        for r in batch.records
    )
    head = oracle.HEADER.pack(
        batch.base_offset,
        0,
        batch.leader_epoch,
        2,
        0,
        int(batch.codec) | batch.bits,
        batch.last_offset - batch.base_offset,
        base,
        newest,
        *batch.producer,
        len(batch.records),
    )
    if not batch.records:  # what compaction leaves is a header alone
        return oracle.sealed(head)
    return oracle.sealed(head + packers[stream or next(iter(packers))](payload))


def marker(offset: int, producer: int, kind: int) -> Written:
    """The end of a transaction, as a coordinator writes it."""
    record = Rec(0, NOW, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return Written(records=(record,), base_offset=offset, bits=CONTROL | TRANSACTIONAL, producer=(producer, 0, -1))


# ------------------------------------------------------------------------------------------------- magic 0 and 1


def message(magic: int, offset: int, time: int, key: bytes | None, value: bytes | None, bits: int = 0) -> bytes:
    """One message of an old format, with its checksum."""

    def field(content: bytes | None) -> bytes:
        return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content

    stamp = struct.pack(">q", time) if magic else b""
    body = bytes([magic, bits]) + stamp + field(key) + field(value)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def wrapper(magic: int, codec: Codec, records: Sequence[Rec], *, base_offset: int, time: int | None = None) -> bytes:
    """A compressed message: others lie in its value, with relative offsets from magic 1 on.

    Args:
        magic: 0 or 1.
        codec: gzip, Snappy or LZ4; with magic 0 LZ4 has the descriptor checksum of old clients.
        records: what the inner messages hold, with offsets relative to the first.
        base_offset: of the first.
        time: of all of them, set by the broker; by default each has its own.
    """
    shift = 0 if magic else base_offset
    inner = b"".join(message(magic, shift + r.offset, r.time, r.key, r.value) for r in records)
    old_lz4 = magic == 0 and codec is Codec.LZ4
    value = lz4_of_old_clients(inner) if old_lz4 else next(iter(STREAMS[codec].values()))(inner)
    newest = max(r.time for r in records) if time is None else time
    bits = int(codec) | (LOG_APPEND_TIME if time is not None else 0)
    return message(magic, base_offset + records[-1].offset, newest, None, value, bits)


# ------------------------------------------------------------------------------------------------- strategies


_bytes = st.none() | st.binary(max_size=12) | st.binary(min_size=60, max_size=140)
_names = st.sampled_from(["", "h", "h", "ä", "a longer name"])
_headers = st.lists(st.tuples(_names, st.none() | st.binary(max_size=4)), max_size=4).map(tuple)
_times = st.sampled_from([-1, 0, NOW, 2**62, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)
_sequences = st.sampled_from([-1, 0, 12, 2**31 - 2, 2**31 - 1])


@st.composite
def every_kind(draw: st.DrawFn, *, base_offset: int = 0) -> tuple[Written, str]:
    """A batch of any kind and the form of its stream."""
    size = draw(st.sampled_from([0, 1, 1, 2, 5]))
    dense = tuple(range(size))
    thin = st.sets(st.integers(0, 9) | st.sampled_from([2**16, LAST_DELTA - 1, LAST_DELTA]), max_size=size)
    deltas = dense if draw(st.booleans()) else tuple(sorted(draw(thin)))
    last = deltas[-1] if deltas else 0
    records = tuple(Rec(d, draw(_times), draw(_bytes), draw(_bytes), draw(_headers)) for d in deltas)
    bits = draw(
        st.sampled_from([0, 0, LOG_APPEND_TIME, TRANSACTIONAL, DELETE_HORIZON, LOG_APPEND_TIME | DELETE_HORIZON])
    )
    codec = draw(st.sampled_from(Codec))
    batch = Written(
        records=records,
        base_offset=base_offset,
        last_delta=draw(st.sampled_from([None, min(last + 2, LAST_DELTA), LAST_DELTA])),
        codec=codec,
        bits=bits,
        base_time=draw(_times) if bits & DELETE_HORIZON else None,
        max_time=draw(_times) if bits & LOG_APPEND_TIME else None,
        producer=(draw(st.sampled_from([-1, 7, 2**63 - 1])), draw(st.sampled_from([-1, 0, 32767])), draw(_sequences)),
    )
    if not records and batch.last_delta is None:
        batch = replace(batch, last_delta=0)
    return batch, draw(st.sampled_from(list(STREAMS[codec])))


@st.composite
def logs_of_every_kind(draw: st.DrawFn) -> list[tuple[Written, str]]:
    """Neighbours in a log, of any kind, with and without holes between them; its last offset is below 2**63 - 1."""
    found: list[tuple[Written, str]] = []
    offset = draw(st.sampled_from([0, 40, 2**40, 2**63 - 2**36]))
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 4)) == 0:
            found.append((marker(offset, 7, draw(st.sampled_from([ABORT, COMMIT]))), ""))
        else:
            found.append(draw(every_kind(base_offset=offset)))
        offset = found[-1][0].last_offset + 1 + draw(st.sampled_from([0, 0, 1, 7]))
    return found
