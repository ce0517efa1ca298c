"""The index against a plain-Python walk, and against what corruption can do."""

from __future__ import annotations

import struct
from typing import Any

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from sparkmirror.batches import Indexed, index
from tests.batches.building import Rec, Written, log, logs, one, sealed

FIELDS = ">qiibIhiqqqhii"


def walk(data: bytes) -> list[tuple[int, ...]]:
    """The oracle: one tuple per whole batch of magic 2."""
    found: list[tuple[int, ...]] = []
    at = 0
    while at + 61 <= len(data):
        first, length, leader, magic, crc, bits, delta, base, newest, pid, epoch, sequence, count = struct.unpack_from(
            FIELDS, data, at
        )
        size = 12 + length
        if at + size > len(data):
            break
        assert magic == 2
        assert crc == crc32c.crc32c(data[at + 21 : at + size])
        found.append((at, size, first, first + delta, count, bits, magic, pid, epoch, sequence, base, newest, leader))
        at += size
    return found


def columns(indexed: Indexed) -> list[tuple[int, ...]]:
    i = indexed
    place = (i.start, i.size, i.base_offset, i.last_offset, i.count, i.attributes, i.magic)
    writer = (i.producer_id, i.epoch, i.base_sequence, i.base_timestamp, i.max_timestamp, i.leader_epoch)
    return list(zip(*(a.tolist() for a in (*place, *writer)), strict=True))


@given(logs(bits=0xF8), st.integers(0, 60), st.sampled_from([bytes, bytearray, memoryview]))
def test_finds_what_a_plain_walk_finds(batches: list[Written], cut: int, kind: Any) -> None:
    whole = log(batches)
    data = whole[: len(whole) - cut] if len(batches) > 1 else whole
    found = index(kind(data))
    assert columns(found) == walk(data)
    assert found.error is None
    assert found.incomplete == (len(batches) > 1 and cut > 0)


def test_an_empty_answer_has_no_batches_and_no_error() -> None:
    found = index(b"")
    assert (len(found), found.error, found.incomplete) == (0, None, False)


def test_an_empty_batch_is_found() -> None:
    found = index(Written(records=(), base_offset=5, last_delta=3).encode())
    assert (found.count[0], found.base_offset[0], found.last_offset[0]) == (0, 5, 8)


@given(st.integers(8, 168), st.integers(0, 7))
def test_any_flipped_bit_that_matters_is_found(at: int, bit: int) -> None:
    """Base offset and leader epoch lie outside the checksum; the length and magic show in other ways."""
    if 12 <= at < 16:
        return
    good, bad = one(0), bytearray(one(1))
    bad[at] ^= 1 << bit
    found = index(good + bytes(bad) + one(2))
    assert found.base_offset.tolist() == [0]
    assert found.incomplete or (found.error is not None and found.error.offset == 1)


def patched(at: int, form: str, value: int) -> bytes:
    data = bytearray(one(7))
    struct.pack_into(form, data, at, value)
    return sealed(bytes(data))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (patched(57, ">i", 2), "contradict"),
        (patched(57, ">i", -1), "contradict"),
        (patched(23, ">i", -2), "contradict"),
        (patched(0, ">q", -5), "contradict"),
        (patched(0, ">q", 2**63 - 1)[:23] + b"\x7f\xff\xff\xff" + one(7)[27:], "CRC32C"),
        (patched(21, ">h", 5), "codec"),
        (patched(21, ">h", 7), "codec"),
        (patched(16, ">b", 3), "magic"),
        (patched(16, ">b", -1), "CRC32C|magic|length"),
        (patched(17, ">h", 0)[:17] + b"\0\0\0\0" + one(7)[21:], "CRC32C"),
        (one(7)[:8] + struct.pack(">i", 3) + one(7)[12:], "length"),
        (one(7)[:8] + struct.pack(">i", -1) + one(7)[12:], "length"),
        (one(7)[:8] + struct.pack(">i", 40) + one(7)[12:52], "length"),
        (one(7)[:8] + struct.pack(">i", 2**31 - 1) + one(7)[12:], "longer"),
        (one(7)[:30], "longer"),
        (one(7)[:3], "longer"),
    ],
)
def test_a_corrupt_batch_is_named_with_its_offset(bad: bytes, says: str) -> None:
    error = index(bad).error
    assert error is not None
    assert any(word in str(error) for word in says.split("|")), error


def test_offsets_that_go_back_are_an_error() -> None:
    found = index(one(5) + one(6) + one(6))
    assert len(found) == 2
    assert "not above" in str(found.error)


def test_what_lies_before_a_corrupt_batch_is_there() -> None:
    bad = bytearray(one(2))
    bad[100] ^= 1
    found = index(one(0) + one(1) + bytes(bad) + one(3))
    assert found.base_offset.tolist() == [0, 1]
    assert found.error is not None
    assert found.error.offset == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_magic_are_recognised(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for offset in range(3):
        assert builder.append(offset, 1000 + offset, b"k", b"v") is not None
    found = index(bytes(builder.build()) + Written(records=(Rec(0, 5),), base_offset=3).encode())
    assert found.error is None
    assert found.magic.tolist() == [magic] * 3 + [2]
    assert found.base_offset.tolist() == [0, 1, 2, 3]


@given(st.binary(max_size=300))
def test_random_bytes_never_do_harm(data: bytes) -> None:
    found = index(data)
    assert found.end <= len(data)
