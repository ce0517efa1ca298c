"""The index against a plain-Python walk, and against what corruption can do."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec, Indexed, index
from tests.batches.building import Rec, Written, log, logs, one, sealed
from tests.batches.old_messages import Old, message

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
        (patched(57, ">i", 0), "contradict"),
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


def test_old_messages_tell_what_their_headers_know() -> None:
    """A compressed one knows its last record; that it begins where the one before it ends is the least it may do."""
    two = (Rec(1, 7), Rec(3, 9))
    log = [
        Old(records=two, codec=Codec.GZIP),
        Old(records=two, magic=0, base_offset=4),
        Old(records=two, base_offset=10, codec=Codec.LZ4),
        Old(records=two, base_offset=20, append_time=77),
    ]
    found = index(b"".join(o.encode() for o in log) + one(30))
    assert found.error is None
    assert found.magic.tolist() == [1, 0, 0, 1, 1, 1, 2]
    assert found.base_offset.tolist() == [0, 5, 7, 8, 21, 23, 30]
    assert found.last_offset.tolist() == [3, 5, 7, 13, 21, 23, 30]
    assert found.count.tolist() == [-1, 1, 1, -1, 1, 1, 1]
    assert found.max_timestamp.tolist()[:6] == [9, -1, -1, 9, 77, 77]
    assert found.producer_id.tolist()[:6] == found.leader_epoch.tolist()[:6] == [-1] * 6


@pytest.mark.parametrize("magic", [0, 1])
@given(at=st.integers(8, 37), bit=st.integers(0, 7))
def test_any_flipped_bit_of_an_old_message_is_found(magic: int, at: int, bit: int) -> None:
    """All but its offset lies inside the checksum; the length shows in other ways."""
    good, bad = message(magic, 0, 9, b"key", b"value-value"), bytearray(message(magic, 1, 9, b"key", b"value-value"))
    bad[at] ^= 1 << bit
    found = index(good + bytes(bad) + message(magic, 2, 9, b"key", b"value-value"))
    assert found.base_offset.tolist() == [0]
    assert found.incomplete or (found.error is not None and found.error.offset == 1)


def old_patched(at: int, value: int) -> bytes:
    data = bytearray(message(1, 7, 9, None, b"value"))
    data[at] = value
    struct.pack_into(">I", data, 12, zlib.crc32(bytes(data[16:])))
    return bytes(data)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (old_patched(17, 4), "codec"),
        (old_patched(17, 7), "codec"),
        (old_patched(16, 3), "magic"),
        (old_patched(0, 0xFF), "not above"),
        (message(1, 7, 9, None, b"v")[:12] + bytes(5), "longer"),
        (struct.pack(">qiIbb", 7, 13, 0, 1, 0) + bytes(7), "length"),
        (message(1, 7, 9, None, b"v")[:12] + bytes(4) + message(1, 7, 9, None, b"v")[16:], "CRC32"),
    ],
)
def test_a_corrupt_old_message_is_named_with_its_offset(bad: bytes, says: str) -> None:
    error = index(bad).error
    assert error is not None
    assert any(word in str(error) for word in says.split("|")), error


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_old_messages_whose_offsets_go_back_are_an_error(codec: Codec) -> None:
    log = [Old(records=(Rec(0, 1),), base_offset=n, codec=codec).encode() for n in (5, 6, 6)]
    found = index(b"".join(log))
    assert found.last_offset.tolist() == [5, 6]
    assert "not above" in str(found.error)


@given(st.binary(max_size=300))
def test_random_bytes_never_do_harm(data: bytes) -> None:
    found = index(data)
    assert found.end <= len(data)
