"""Messages of magic 0 and 1: what comes out is what a consumer of today reads in them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from sparkmirror.batches import Codec, TargetTopic, index, merge
from sparkmirror.batches.codecs import DEFAULT_LIMIT
from sparkmirror.batches.opening import open_batch
from sparkmirror.errors import BatchError, RecordTooLargeError
from tests.batches.building import Rec, Written, one, read
from tests.batches.old_messages import CODECS, PACKED, Old, message, old_logs, wrapper
from tests.batches.streams import lz4, xxh32
from tests.batches.test_merge import CREATE_TIME, STAMP, check, drain, offsets, run_of

NOW = 1_700_000_000_000
THREE = (Rec(0, NOW, b"a", b"1"), Rec(1, NOW + 5, None, None), Rec(2, NOW - 7, b"", b"x" * 300))


@settings(max_examples=300)
@given(
    st.lists(old_logs(), min_size=1, max_size=3),
    st.integers(0, 12),
    st.integers(62, 3000),
    st.sampled_from([None, *Codec]),
    st.booleans(),
)
def test_records_arrive_as_a_reader_of_the_source_sees_them(
    answers: list[list[Old]], into: int, batch_size: int, codec: Codec | None, broker_time: bool
) -> None:
    """Both magics and every codec, thinned or not, with a position anywhere, merged or split to any size."""
    target = TargetTopic(log_append_time=broker_time, max_message_bytes=5000, codec=codec)
    runs, expected = [], []
    for answer in answers:
        start = answer[0].base_offset + into
        runs.append(run_of(b"".join(o.encode() for o in answer), start))
        expected += [r for o in answer for r in o.seen() if r.offset >= start]
    made = drain(runs, target, batch_size)
    check(made, expected, target)
    if codec is not None:
        assert {read(m.batch).codec for m in made} <= {codec, Codec.NONE}


@given(old_logs())
def test_what_is_written_here_is_what_kafka_python_reads(log: list[Old]) -> None:
    """The writer of these tests is not our own, and neither is this reader, where it has the codec."""
    for messages in log:
        if messages.codec not in {Codec.NONE, Codec.GZIP} or messages.inner_magic not in {None, messages.magic}:
            continue
        data, found = messages.encode(), []
        while data:
            size = 12 + struct.unpack_from(">i", data, 8)[0]
            batch: Any = LegacyRecordBatch(data[:size], messages.magic)
            assert batch.validate_crc()
            for r in batch:
                assert r.validate_crc()
                found.append(Rec(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value))
            data = data[size:]
        assert found == messages.seen()


def test_kafka_python_s_own_compressed_message_is_read() -> None:
    """Its offset is 0 until a broker sets it."""
    builder = LegacyRecordBatchBuilder(1, 1, 1 << 20)
    for r in THREE:
        assert builder.append(r.offset, r.time, r.key, r.value) is not None
    data = struct.pack(">q", 42) + bytes(builder.build())[8:]
    (made,) = drain([run_of(data)], CREATE_TIME, 1 << 20)
    check([made], [Rec(40 + r.offset, r.time, r.key, r.value) for r in THREE], CREATE_TIME)
    assert read(made.batch).codec is Codec.GZIP


@pytest.mark.parametrize("magic", [0, 1])
def test_a_backlog_of_plain_messages_becomes_one_batch(magic: int) -> None:
    records = tuple(Rec(i, NOW + i, None, b"x" * 100) for i in range(2000))
    (made,) = drain([run_of(Old(records=records, magic=magic).encode())], CREATE_TIME, 1 << 20)
    check([made], Old(records=records, magic=magic).seen(), CREATE_TIME)
    assert made.runs.tolist() == [[0], [0]]


@pytest.mark.parametrize("codec", PACKED)
def test_compressed_messages_are_merged_and_keep_their_codec(codec: Codec) -> None:
    log = [Old(records=THREE, base_offset=3 * n, codec=codec) for n in range(50)]
    (made,) = drain([run_of(b"".join(o.encode() for o in log))], CREATE_TIME, 1 << 20)
    check([made], [r for o in log for r in o.seen()], CREATE_TIME)
    assert read(made.batch).codec is codec


@pytest.mark.parametrize("codec", CODECS)
def test_old_and_new_messages_are_merged_into_one_batch(codec: Codec) -> None:
    """A topic whose format was raised has all of them in one log."""
    log = [Old(records=THREE, magic=0, codec=codec), Old(records=THREE, magic=1, base_offset=3, codec=codec)]
    new = Written(records=THREE, base_offset=6, codec=codec)
    (made,) = drain([run_of(log[0].encode() + log[1].encode() + new.encode())], CREATE_TIME, 1 << 20)
    check([made], [*log[0].seen(), *log[1].seen(), *new.seen()], CREATE_TIME)


@pytest.mark.parametrize("magic", [0, 1])
def test_what_the_cleaner_left_of_a_compressed_message_keeps_its_offsets(magic: int) -> None:
    left = (Rec(2, NOW, b"c", b"3"), Rec(5, NOW, b"f", b"6"), Rec(6, NOW, b"g", b"7"))
    thinned = Old(records=left, magic=magic, base_offset=100, codec=Codec.GZIP)
    (made,) = drain([run_of(thinned.encode())], CREATE_TIME, 1 << 20)
    assert offsets(made) == [102, 105, 106]
    assert made.runs.tolist() == [[0, 1], [102, 105]]


def test_the_broker_s_time_is_that_of_all_records_in_a_compressed_message() -> None:
    stamped = Old(records=THREE, codec=Codec.GZIP, append_time=NOW + 99)
    (made,) = drain([run_of(stamped.encode())], CREATE_TIME, 1 << 20)
    assert [r.time for r in read(made.batch).records] == [NOW + 99] * 3


def test_magic_0_inside_of_magic_1_has_no_time_and_relative_offsets() -> None:
    """As Java's consumer reads it; brokers took such messages before they looked."""
    mixed = Old(records=THREE, base_offset=7, codec=Codec.GZIP, inner_magic=0, append_time=NOW)
    (made,) = drain([run_of(mixed.encode())], CREATE_TIME, 1 << 20)
    assert [(r.offset, r.time) for r in mixed.seen()] == [(7, -1), (8, -1), (9, -1)]
    check([made], mixed.seen(), CREATE_TIME)


@pytest.mark.parametrize("header_sum", [None, 0x00, 0x5A, xxh32(b"\x04\x22\x4d\x18\x60\x40") >> 8 & 255])
@pytest.mark.parametrize("flags", [0x20, 0x28, 0x2C])
def test_magic_0_may_have_lz4_frames_with_any_header_checksum(header_sum: int | None, flags: int) -> None:
    inner = Old(records=THREE, magic=0).inner()
    data = message(0, 2, -1, None, lz4(inner, flags, header_sum=header_sum), int(Codec.LZ4))
    (made,) = drain([run_of(data)], CREATE_TIME, 1 << 20)
    check([made], Old(records=THREE, magic=0).seen(), CREATE_TIME)


def test_magic_1_may_not() -> None:
    inner = Old(records=THREE).inner()
    data = message(1, 2, NOW, None, lz4(inner, header_sum=0x5A), int(Codec.LZ4))
    with pytest.raises(BatchError, match="offset 2: the compressed message cannot be opened: its lz4 data is damaged"):
        drain([run_of(data)], CREATE_TIME, 1 << 20)


@pytest.mark.parametrize("frame", [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x68\x40\0\0", b"abcd\x60\x40\0" * 9])
def test_an_lz4_frame_that_is_none_is_an_error(frame: bytes) -> None:
    with pytest.raises(BatchError, match="offset 4: the compressed message"):
        drain([run_of(message(0, 4, -1, None, frame, int(Codec.LZ4)))], CREATE_TIME, 1 << 20)


@pytest.mark.parametrize("codec", PACKED)
def test_a_compressed_message_above_the_limit_is_split(codec: Codec) -> None:
    noise = b"".join(struct.pack(">Q", i * 0x9E3779B97F4A7C15 % 2**64) for i in range(5000))
    records = tuple(Rec(i, 1000 - i, b"k%d" % i, noise[i * 400 : i * 400 + 400]) for i in range(100))
    packed = Old(records=records, base_offset=10**10, codec=codec)
    target = TargetTopic(log_append_time=False, max_message_bytes=9000)
    made = drain([run_of(packed.encode(), 10**10 + 3)], target, 1 << 20)
    check(made, packed.seen()[3:], target)
    assert 4 < len(made) < 12


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_above_the_limit_is_named_by_its_own_offset(codec: Codec) -> None:
    noise = b"".join(struct.pack(">Q", i * 0x9E3779B97F4A7C15 % 2**64) for i in range(1000))
    packed = Old(records=(Rec(0, 1), Rec(1, 1, None, noise), Rec(2, 1)), base_offset=500, codec=codec)
    target = TargetTopic(log_append_time=False, max_message_bytes=4000)
    with pytest.raises(RecordTooLargeError) as caught:
        drain([run_of(packed.encode())], target, 1 << 20)
    assert caught.value.offset == 501


def test_fields_below_0_are_null_and_what_lies_behind_the_value_is_passed_over() -> None:
    """As in Java; no writer is known that does this, but it can be read."""
    body = bytes([1, 0]) + struct.pack(">q", 9) + struct.pack(">i", -2) + struct.pack(">i", 1) + b"v" + b"behind"
    data = struct.pack(">qiI", 3, 4 + len(body), zlib.crc32(body)) + body
    (made,) = drain([run_of(data)], CREATE_TIME, 1 << 20)
    check([made], [Rec(3, 9, None, b"v")], CREATE_TIME)


def sealed(data: bytes) -> bytes:
    """The message with the length and checksum that its bytes have."""
    return data[:8] + struct.pack(">iI", len(data) - 12, zlib.crc32(data[16:])) + data[16:]


def damaged_inner(at: int, value: int, *, fits: bool = True) -> bytes:
    """A compressed message whose second message has another byte somewhere, with a checksum that fits or not."""
    parts = [message(1, n, NOW, b"key", b"value") for n in range(3)]
    bad = bytearray(parts[1])
    bad[at] = value
    parts[1] = bytes(bad[:12] + struct.pack(">I", zlib.crc32(bad[16:])) + bad[16:]) if fits else bytes(bad)
    return wrapper(1, 42, b"".join(parts), Codec.GZIP)


INNER = Old(records=THREE).inner()


@pytest.mark.parametrize(
    ("bad", "offset", "says"),
    [
        (damaged_inner(40, 0, fits=False), 41, "do not match its CRC32"),
        (damaged_inner(16, 2), 41, "unknown magic"),
        (damaged_inner(16, 0xFF), 41, "unknown magic"),
        (damaged_inner(17, 1), 41, "compressed itself"),
        (damaged_inner(17, 7), 41, "compressed itself"),
        (damaged_inner(29, 9), 41, "do not fit its length"),
        (damaged_inner(26, 0x7F), 41, "do not fit its length"),
        (damaged_inner(36, 6), 41, "do not fit its length"),
        (damaged_inner(16, 0), 41, "do not fit its length"),
        (damaged_inner(7, 0), 40, "not above"),
        (damaged_inner(7, 9), 42, "not above"),
        (damaged_inner(11, 13), 42, "cut short"),
        (damaged_inner(8, 0xFF), 42, "cut short"),
        (wrapper(1, 42, INNER[:-1], Codec.GZIP), 42, "cut short"),
        (wrapper(1, 42, INNER + b"\0", Codec.GZIP), 42, "cut short"),
        (wrapper(0, 42, INNER + bytes(25), Codec.GZIP), 42, "cut short"),
        (wrapper(1, 42, b"", Codec.GZIP), 42, "holds no messages"),
        (wrapper(1, 1, INNER, Codec.GZIP), 1, "does not fit that of its last one"),
        (wrapper(0, 1, INNER, Codec.GZIP), 1, "does not fit that of its last one"),
        (wrapper(1, 42, message(1, -1, 5, None, b"v"), Codec.GZIP), 42, "does not fit that of its last one"),
        (message(1, 42, 5, None, None, 1), 42, "has no value"),
        (message(1, 42, 5, None, b"not gzip", 1), 42, "its gzip data is damaged"),
        (sealed(message(1, 42, 5, None, b"abc", 1)[:-1]), 42, "do not fit its length"),
        (sealed(message(1, 42, 5, b"key", b"value")[:-1]), 42, "do not fit its length"),
        (sealed(message(0, 42, 5, b"key", b"value")[:26]), 42, "do not fit its length"),
        (sealed(message(1, 42, 5, None, b"")[:26]), 42, "do not fit its length"),
        (sealed(message(1, 42, 5, None, b"")[:31]), 42, "do not fit its length"),
    ],
)
def test_what_contradicts_itself_is_an_error_with_its_offset(bad: bytes, offset: int, says: str) -> None:
    run = run_of(bad)
    with pytest.raises(BatchError, match=says) as caught:
        drain([run], CREATE_TIME, 1 << 20)
    assert caught.value.offset == offset


def test_a_compressed_message_that_reaches_into_what_lies_before_it_is_an_error() -> None:
    before = one(41)
    packed = Old(records=THREE, base_offset=40, codec=Codec.GZIP)
    with pytest.raises(BatchError, match=r"offset 40: .* not above"):
        drain([run_of(before + packed.encode())], CREATE_TIME, 1 << 20)


def test_a_bomb_is_an_error_at_its_offset() -> None:
    bomb = Old(records=(Rec(0, 1, None, bytes(1 << 20)),), base_offset=3, codec=Codec.GZIP)
    with pytest.raises(BatchError, match=r"offset 3: .* more than 100000 bytes"):
        open_batch(index(bomb.encode()), 0, 100_000)


def test_a_single_old_message_is_opened_too() -> None:
    opened = open_batch(index(message(0, 5, -1, b"k", b"v")), 0, DEFAULT_LIMIT)
    assert opened.count == 1
    assert opened.records.tobytes() == b"\x10\0\0\0\x02k\x02v\0"


def test_what_lies_before_a_plain_message_that_contradicts_itself_goes_first() -> None:
    sound = [message(1, n, NOW, b"key", b"value") for n in (0, 3, 4)]
    run = run_of(b"".join(sound) + sealed(message(1, 7, NOW, b"key", b"value")[:-1]) + message(1, 9, NOW, None, b"v"))
    merging = merge([run], CREATE_TIME, STAMP)
    check(merging.batches, [Rec(n, NOW, b"key", b"value") for n in (0, 3, 4)], CREATE_TIME)
    assert (merging.run, merging.column) == (0, 3)
    with pytest.raises(BatchError, match="offset 7: the message's key and value do not fit its length"):
        merge([replace(run, first=3)], CREATE_TIME, STAMP)
