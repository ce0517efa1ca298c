"""Batches written by kafka-python, or byte by byte, as tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.batches import Codec, TimestampType, column_schema, decode, index, keep
from sparkmirror.errors import BatchError
from tests.batches import oracle
from tests.batches.building import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Rec,
    Written,
    log,
    logs,
    one,
    pack,
    sealed,
)
from tests.batches.kinds import encode as encoded
from tests.batches.kinds import logs_of_every_kind, message, wrapper

NOW = 1_700_000_000_000
MIB = 1 << 20


def row(rec: Rec, kind: int = TimestampType.CREATE_TIME) -> dict[str, Any]:
    headers = [{"key": name.encode(), "value": content} for name, content in rec.headers]
    times = {"offset": rec.offset, "timestamp": rec.time, "timestamp_type": kind}
    return {**times, "key": rec.key, "value": rec.value, "headers": headers}


def rows(batches: Sequence[Written]) -> list[dict[str, Any]]:
    """What a reader of the log gets."""
    return [
        row(rec, int(bool(batch.bits & LOG_APPEND_TIME)))
        for batch in batches
        if not batch.bits & CONTROL
        for rec in batch.seen()
    ]


def read(data: bytes, **more: Any) -> list[dict[str, Any]]:
    """All rows, from arrays that Arrow itself finds sound."""
    found = index(data)
    assert found.error is None
    table = decode(found, **more)
    table.validate(full=True)
    assert table.schema == column_schema()
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


@settings(max_examples=200)
@given(logs(bits=0xF8), st.integers(0, 12), st.none() | st.integers(0, 40), st.integers(1, 400))
def test_rows_are_what_a_reader_of_the_log_sees(
    batches: list[Written], into: int, length: int | None, chunk_bytes: int
) -> None:
    """All codecs, holes, compaction, both kinds of time, the delete horizon, control batches, several chunks."""
    start = batches[0].base_offset + into
    until = None if length is None else start + length
    answer = index(log(batches))
    table = decode(answer, keep(answer, start_offset=start), until=until, chunk_bytes=chunk_bytes)
    table.validate(full=True)
    expected = [row for row in rows(batches) if start <= row["offset"] and (until is None or row["offset"] < until)]
    assert table.to_pylist() == expected
    assert read(log(batches)) == rows(batches)


@settings(max_examples=200)
@given(logs_of_every_kind())
def test_no_kind_of_batch_is_lost_or_refused(batches: list[tuple[Written, str]]) -> None:
    """Times and deltas that wrap around 64 bits, offsets at the end of what there is, every form of a stream."""
    data = b"".join(encoded(batch, form) for batch, form in batches)
    found = index(data)  # which does not take everything
    table = decode(found)
    table.validate(full=True)
    assert table.to_pylist() == rows([batch for batch, _ in batches[: len(found)]])


def test_an_empty_answer_is_a_table_without_rows() -> None:
    assert read(b"") == []
    assert read(Written(records=(), last_delta=3).encode()) == []
    assert read(Written(records=(Rec(0, 1, b"\0\0\0\1"),), bits=CONTROL | TRANSACTIONAL).encode()) == []


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_any_size_stand_side_by_side(codec: Codec) -> None:
    """Opened ones share an array if they are small, and those above its size do not disturb their neighbours."""
    sizes = [10, 10, MIB, 3 * MIB, 10, MIB - 300, 400, 10, 2 * MIB, 2 * MIB]
    batches = [
        Written(records=(Rec(0, NOW + n, b"%d" % n, bytes(size)), Rec(2, NOW)), base_offset=5 * n, codec=codec)
        for n, size in enumerate(sizes)
    ]
    assert read(log(batches)) == rows(batches)
    assert read(log(batches), chunk_bytes=2 * MIB) == rows(batches)


def test_codecs_and_control_batches_may_alternate() -> None:
    codecs = [Codec.NONE, Codec.ZSTD, Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
    batches = [
        Written(records=(Rec(0, n, b"k", b"v%d" % n),), base_offset=n, codec=codecs[n % 7], bits=CONTROL * (n % 5 == 3))
        for n in range(70)
    ]
    assert read(log(batches)) == rows(batches)


def test_a_chunk_ends_before_it_is_too_large_unless_one_record_is() -> None:
    sizes = [100, 100, 100, 900, 100, 500, 500, 100]
    records = tuple(Rec(i, NOW, None, bytes(size)) for i, size in enumerate(sizes))
    table = decode(index(Written(records=records, codec=Codec.GZIP).encode()), chunk_bytes=600)
    assert [chunk.num_rows for chunk in table.to_batches()] == [3, 1, 1, 1, 1, 1]
    table = decode(index(Written(records=records).encode()), chunk_bytes=650)
    assert [chunk.num_rows for chunk in table.to_batches()] == [3, 1, 2, 2]
    assert [len(value) for value in table["value"].to_pylist()] == sizes


@pytest.mark.parametrize("wrong", [0, -1, 2**31])
def test_a_chunk_holds_what_arrow_s_offsets_reach(wrong: int) -> None:
    with pytest.raises(ValueError, match="chunk_bytes"):
        decode(index(one(0)), chunk_bytes=wrong)


def test_columns_without_nulls_have_no_bitmap_and_the_others_do() -> None:
    table = decode(index(Written(records=tuple(Rec(i, 1, None, b"v") for i in range(20))).encode()))
    assert (table["key"].null_count, table["value"].null_count) == (20, 0)
    key, value = table["key"].chunk(0), table["value"].chunk(0)
    assert key.buffers()[0] is not None
    assert value.buffers()[0] is None


def test_times_may_be_anything_that_64_bits_hold() -> None:
    times = (-1, 0, NOW, 2**63 - 1, -(2**63), -2)
    batch = Written(records=tuple(Rec(i, time) for i, time in enumerate(times)))
    table = decode(index(encoded(batch)))
    assert table["timestamp"].to_pylist() == list(times)
    moments = decode(index(one(0)))["timestamp"].cast(pa.timestamp("ms", "UTC"))
    assert moments[0].as_py().timestamp() * 1000 == NOW


def test_header_keys_that_are_not_text_stay_as_they_are() -> None:
    record = Rec(0, NOW, None, b"", (("NAME", b"1"), ("NAME", None), ("", b"")))
    data = Written(records=(record,)).encode().replace(b"NAME", b"\xff\xfe\0\x80")
    (found,) = read(sealed(data))
    assert found["headers"] == [
        {"key": b"\xff\xfe\0\x80", "value": b"1"},
        {"key": b"\xff\xfe\0\x80", "value": None},
        {"key": b"", "value": b""},
    ]


def test_a_large_key_and_value_come_whole() -> None:
    batch = Written(records=(Rec(0, 1, b"k" * (17 * MIB), b"v" * (17 * MIB)), Rec(1, 2)))
    assert read(batch.encode()) == rows([batch])


@pytest.mark.parametrize(("magic", "kind"), [(0, TimestampType.NONE), (1, TimestampType.CREATE_TIME)])
def test_old_messages_are_rows_too(magic: int, kind: TimestampType) -> None:
    plain = [message(magic, n, NOW + n, b"k", None if n == 2 else b"v%d" % n) for n in range(4)]
    inner = [Rec(i, NOW + i, None, b"inner %d" % i) for i in range(3)]
    data = b"".join(plain) + wrapper(magic, Codec.GZIP, inner, base_offset=10) + one(20)
    expected = [Rec(n, NOW + n, b"k", None if n == 2 else b"v%d" % n) for n in range(4)]
    expected += [replace(rec, offset=10 + rec.offset) for rec in inner]
    if magic == 0:
        expected = [replace(rec, time=-1) for rec in expected]
    last = row(Rec(20, NOW + 20, None, b"x" * 100))
    assert read(data) == [row(rec, kind) for rec in expected] + [last]
    answer = index(data)
    table = decode(answer, keep(answer, start_offset=2), until=12)
    assert table["offset"].to_pylist() == [2, 3, 10, 11]


def test_the_broker_s_time_of_old_messages_is_each_one_s_own() -> None:
    plain = [message(1, n, NOW + n, None, b"v", LOG_APPEND_TIME * (n != 1)) for n in range(4)]
    data = b"".join(plain) + wrapper(1, Codec.GZIP, [Rec(0, 5), Rec(1, 6)], base_offset=4, time=NOW)
    found = [(row["timestamp"], row["timestamp_type"]) for row in read(data)]
    own = [(NOW, 1), (NOW + 1, 0), (NOW + 2, 1), (NOW + 3, 1)]
    assert found == [*own, (NOW, 1), (NOW, 1)]


def record(tail: bytes, *, offset: int = 0, length: int | None = None) -> bytes:
    body = b"\0\0" + oracle.varint(offset) + tail
    return oracle.varint(len(body) if length is None else length) + body


def batch_of(payload: bytes, count: int = 1, codec: Codec = Codec.NONE) -> bytes:
    head = oracle.HEADER.pack(40, 0, 3, 2, 0, int(codec), count - 1, NOW, NOW, -1, -1, -1, count)
    return sealed(head + pack(codec, payload))


NULL = oracle.varint(-1)
EVER = b"\xff" * 10


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(
    "payload",
    [
        record(oracle.varint(9) + NULL + b"\0"),  # a key beyond the record
        record(EVER + NULL + b"\0"),  # a key length without an end
        record(NULL + oracle.varint(2**62) + b"\0"),  # a value beyond everything
        record(NULL + NULL + oracle.varint(-1)),  # fewer than no headers
        record(NULL + NULL + oracle.varint(1)),  # a header that is not there
        record(NULL + NULL + oracle.varint(2**62)),
        record(NULL + NULL + oracle.varint(1) + NULL + NULL),  # a header without a key
        record(NULL + NULL + oracle.varint(1) + oracle.varint(1) + b"k" + oracle.varint(5)),
        record(NULL + NULL + oracle.varint(1) + oracle.varint(1) + b"k"),
        record(NULL + NULL + b"\0" + b"more"),  # something behind the headers
        record(NULL + oracle.varint(1)),  # the record ends before its value
        record(NULL + NULL + b"\0", length=60),
        record(NULL + NULL + b"\0", offset=1),  # beyond the batch's last offset
        record(NULL + NULL + b"\0") + b"\0",  # something behind the last record
        b"",
    ],
)
def test_damaged_records_are_an_error_at_their_batch(payload: bytes, codec: Codec) -> None:
    found = index(one(39) + batch_of(payload, codec=codec))
    assert found.error is None
    with pytest.raises(BatchError, match="offset 40") as caught:
        decode(found)
    assert caught.value.offset == 40
    assert decode(found, until=40)["offset"].to_pylist() == [39]


@pytest.mark.parametrize("size", [-1, -2, -(2**31), -(2**62)])
def test_any_length_below_zero_is_null(size: int) -> None:
    """As Java reads it."""
    less = oracle.varint(size)
    (found,) = read(batch_of(record(less + less + oracle.varint(1) + oracle.varint(1) + b"h" + less)))
    assert (found["key"], found["value"], found["headers"]) == (None, None, [{"key": b"h", "value": None}])


def test_a_count_that_lies_allocates_nothing() -> None:
    with pytest.raises(BatchError, match="offset 40"):
        decode(index(batch_of(record(NULL + NULL + b"\0"), count=2**31 - 1)))


def test_a_bomb_is_an_error_at_its_offset() -> None:
    data = one(3)
    bomb = sealed(data[:21] + struct.pack(">h", Codec.ZSTD) + data[23:61] + pack(Codec.ZSTD, bytes(MIB)))
    with pytest.raises(BatchError, match=r"offset 3: .* more than 100000 bytes"):
        decode(index(bomb), decompression_limit=100_000)


@pytest.mark.parametrize("bits", [0, DELETE_HORIZON])
def test_a_bytearray_is_read_where_it_is(bits: int) -> None:
    batch = Written(records=(Rec(0, NOW, b"k", b"v"),), bits=bits, base_time=NOW + 9 if bits else None)
    data = bytearray(batch.encode())
    table = decode(index(data))
    data[:] = bytes(len(data))
    assert table.to_pylist() == rows([batch])
