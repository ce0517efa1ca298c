"""Batches written and read by others: kafka-python's record code, pyarrow's codecs, the crc32c library.

What brokers and compaction do to a batch afterwards (offsets, holes, the broker's time, the delete horizon) is patched
into the header
by hand, as the format's description has it.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import crc32c
import numba
import pyarrow as pa
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from sparkmirror.batches import Codec

XERIAL = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64


Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Lets Python call what is written for kernels."""
    made: Function = numba.njit(function)
    return made


@dataclass(frozen=True, slots=True)
class Rec:
    """A record as a reader sees it; ``offset`` is relative to its batch where it is to be written."""

    offset: int
    time: int
    key: bytes | None = None
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How a batch lies in a log."""

    records: tuple[Rec, ...]
    base_offset: int = 0
    last_delta: int | None = None
    codec: Codec = Codec.NONE
    raw_snappy: bool = False
    bits: int = 0
    base_time: int | None = None
    max_time: int | None = None
    producer: tuple[int, int, int] = (-1, -1, -1)
    leader_epoch: int = 3

    @property
    def last_offset(self) -> int:
        last = self.records[-1].offset if self.records else 0
        return self.base_offset + (last if self.last_delta is None else self.last_delta)

    def seen(self) -> list[Rec]:
        """The records as a reader of the log gets them."""
        newest = self.max_time if self.max_time is not None else max((r.time for r in self.records), default=-1)
        fixed = newest if self.bits & LOG_APPEND_TIME else None
        return [
            replace(r, offset=self.base_offset + r.offset, time=r.time if fixed is None else fixed)
            for r in self.records
        ]

    def encode(self) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, False, *self.producer, 1 << 40)
        if self.base_time is not None:
            builder._first_timestamp = builder._max_timestamp = self.base_time
        for r in self.records:
            builder.append(r.offset, r.time, r.key, r.value, list(r.headers))
        if not self.records:
            builder._first_timestamp = builder._max_timestamp = -1
        data = bytearray(builder.build())
        payload = pack(self.codec, bytes(data[61:]), raw=self.raw_snappy)
        newest = self.max_time if self.max_time is not None else max((r.time for r in self.records), default=-1)
        struct.pack_into(">q", data, 0, self.base_offset)
        struct.pack_into(">i", data, 12, self.leader_epoch)
        struct.pack_into(">h", data, 21, int(self.codec) | self.bits)
        struct.pack_into(">i", data, 23, self.last_offset - self.base_offset)
        struct.pack_into(">q", data, 35, newest)
        return sealed(bytes(data[:61]) + payload)


def sealed(batch: bytes) -> bytes:
    """The batch with the length and checksum that its bytes have."""
    data = bytearray(batch)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return bytes(data)


def pack(codec: Codec, payload: bytes, *, raw: bool = False) -> bytes:
    """Compresses with pyarrow; Snappy in xerial blocks unless ``raw``."""
    if codec is Codec.NONE:
        return payload
    if codec is not Codec.SNAPPY:
        return bytes(pa.compress(payload, codec.name.lower(), asbytes=True))
    if raw:
        return bytes(pa.compress(payload, "snappy", asbytes=True))
    out = XERIAL
    for at in range(0, len(payload), 1000):
        block = pa.compress(payload[at : at + 1000], "snappy", asbytes=True)
        out += struct.pack(">i", len(block)) + block
    return out


def _unsnap(block: bytes) -> bytes:
    size = shift = 0
    for byte in block:
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return bytes(pa.decompress(block, size, "snappy", asbytes=True))


def unpack(codec: Codec, payload: bytes) -> bytes:
    """Decompresses with pyarrow."""
    if codec is Codec.NONE:
        return payload
    if codec is not Codec.SNAPPY:
        return bytes(pa.CompressedInputStream(io.BytesIO(payload), codec.name.lower()).read())
    if not payload.startswith(XERIAL):
        return _unsnap(payload)
    out, at = b"", len(XERIAL)
    while at < len(payload):
        (size,) = struct.unpack_from(">i", payload, at)
        out += _unsnap(payload[at + 4 : at + 4 + size])
        at += 4 + size
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What kafka-python reads in a batch."""

    base_offset: int
    leader_epoch: int
    attributes: int
    last_delta: int
    base_time: int
    max_time: int
    producer: tuple[int, int, int]
    records: list[Rec]

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & 7)


def read(batch: bytes | memoryview) -> Read:
    """Reads one batch, checksum and all."""
    data = bytes(batch)
    head: Any = DefaultRecordBatch(data)
    assert head.validate_crc()
    assert len(data) == 12 + struct.unpack_from(">i", data, 8)[0]
    plain = bytearray(data[:61] + unpack(Codec(head.attributes & 7), data[61:]))
    plain[22] &= ~7
    body: Any = DefaultRecordBatch(sealed(bytes(plain)))
    records = [Rec(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in body]
    (count,) = struct.unpack_from(">i", data, 57)
    assert count == len(records)
    return Read(
        base_offset=head.base_offset,
        leader_epoch=struct.unpack_from(">i", data, 12)[0],
        attributes=head.attributes,
        last_delta=head.last_offset_delta,
        base_time=head.first_timestamp,
        max_time=head.max_timestamp,
        producer=(head.producer_id, head.producer_epoch, head.base_sequence),
        records=records,
    )


def one(offset: int, size: int = 100, **more: Any) -> bytes:
    """A batch of one record."""
    rec = Rec(0, 1_700_000_000_000 + offset, None, b"x" * size)
    return Written(records=(rec,), base_offset=offset, **more).encode()


def log(batches: Sequence[Written]) -> bytes:
    """The batches one after the other."""
    return b"".join(batch.encode() for batch in batches)


_bytes = st.none() | st.binary(max_size=12) | st.binary(min_size=60, max_size=140)
_headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=4)), max_size=3).map(tuple)
_times = st.integers(-1, 5) | st.integers(1_700_000_000_000, 1_700_000_200_000) | st.integers(-1, 2**62)


@st.composite
def written(draw: st.DrawFn, *, base_offset: int = 0, bits: int = LOG_APPEND_TIME | DELETE_HORIZON) -> Written:
    """A batch that may be compacted, compressed, stamped by the broker, and marked with any of ``bits``."""
    deltas = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=6)))
    if draw(st.booleans()):
        deltas = list(range(len(deltas)))
    records = tuple(Rec(d, draw(_times), draw(_bytes), draw(_bytes), draw(_headers)) for d in deltas)
    set_bits = draw(st.integers(0, 255)) & bits
    return Written(
        records=records,
        base_offset=base_offset,
        last_delta=draw(st.sampled_from([None, deltas[-1] + draw(st.integers(0, 3))])),
        codec=draw(st.sampled_from(Codec)),
        raw_snappy=draw(st.booleans()),
        bits=set_bits,
        base_time=draw(st.integers(0, 2**41)) if set_bits & DELETE_HORIZON else None,
        max_time=draw(st.integers(0, 2**41)) if set_bits & LOG_APPEND_TIME else None,
        producer=draw(st.sampled_from([(-1, -1, -1), (7, 0, 12), (8, 3, 2**31 - 1), (2**40, 32766, 0)])),
    )


@st.composite
def logs(draw: st.DrawFn, /, **more: Any) -> list[Written]:
    """Some batches with ascending offsets, with and without holes between them."""
    batches: list[Written] = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 8))):
        batches.append(draw(written(base_offset=offset, **more)))
        offset = batches[-1].last_offset + 1 + draw(st.sampled_from([0, 0, 0, 1, 7]))
    return batches
