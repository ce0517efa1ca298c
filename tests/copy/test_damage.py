"""What corrupt answers do to a lane: the batch is named, not written; those before it are; other partitions go on."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec
from tests.batches.building import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Written, log, read, sealed
from tests.copy.making import LARGE, Bench, batch

HEADER = 61
LENGTH, MAGIC, CRC, ATTRIBUTES, DELTA, COUNT = 8, 16, 17, 21, 23, 57
BEFORE = [b"%d" % number for number in range(10, 16)]

Spoiler = Callable[[bytes], bytes]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(2)
    yield made
    made.close()


def with_field(at: int, form: str, value: int) -> Spoiler:
    """Another value in a header field; everything else, the checksum too, stays."""

    def spoil(good: bytes) -> bytes:
        data = bytearray(good)
        struct.pack_into(form, data, at, value)
        return bytes(data)

    return spoil


def honest(spoil: Spoiler) -> Spoiler:
    """The same, with the length and checksum of what came out."""
    return lambda good: sealed(spoil(good))


def with_body(change: Spoiler) -> Spoiler:
    """Other bytes behind the header."""
    return lambda good: sealed(good[:HEADER] + change(good[HEADER:]))


def zeroed(body: bytes) -> bytes:
    return bytes(len(body))


def keys(payloads: list[memoryview]) -> list[bytes | None]:
    return [record.key for payload in payloads for record in read(payload).records]


def around(spoilt: bytes) -> bytes:
    """An answer with a damaged batch at offset 16, between sound ones."""
    return log([batch(10, 3), batch(13, 3)]) + spoilt + batch(19, 3).encode()


HEADERS = {
    "a wrong checksum": with_field(CRC, ">I", 1),
    "a flipped bit in a record": lambda good: good[:-1] + bytes([good[-1] ^ 1]),
    "a length below the least": with_field(LENGTH, ">i", 5),
    "a negative length": with_field(LENGTH, ">i", -7),
    "a length within the header": with_field(LENGTH, ">i", 40),
    "a length that ends within the records": with_field(LENGTH, ">i", 60),
    "a magic that does not exist": with_field(MAGIC, ">b", 3),
    "a negative magic": with_field(MAGIC, ">b", -1),
    "a codec that does not exist": honest(with_field(ATTRIBUTES, ">h", 5)),
    "another codec that does not exist": honest(with_field(ATTRIBUTES, ">h", 7)),
    "a negative count": honest(with_field(COUNT, ">i", -3)),
    "a count above its offsets": honest(with_field(COUNT, ">i", 4)),
    "a count of none": honest(with_field(COUNT, ">i", 0)),
    "offsets that go backwards": honest(with_field(DELTA, ">i", -2)),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_batch_with_a_damaged_header_stops_its_partition_only(bench: Bench, kind: str):
    bench.bring(0, around(HEADERS[kind](batch(16, 3).encode())))
    bench.bring(1, log([batch(10, 3), batch(13, 1)]))
    bench.send()
    assert bench[0].error.startswith("orders-0 at offset 16: "), bench[0].error
    assert bench[0].position == 16
    assert keys(bench.target.written(0)) == BEFORE
    bench.bring(1, batch(14, 2).encode())
    bench.send()
    assert (bench[1].error, bench[1].position, len(keys(bench.target.written(1)))) == ("", 16, 6)


@pytest.mark.parametrize("kind", HEADERS)
def test_a_damaged_batch_that_begins_an_answer_is_told_even_behind_a_hole(bench: Bench, kind: str):
    """Compaction left nothing from 10 to 15: where the fetch asked, there is no batch to compare with."""
    bench.bring(0, HEADERS[kind](batch(16, 3).encode()) + batch(19, 3).encode())
    bench.send()
    assert bench[0].error.startswith("orders-0 at offset 16: "), bench[0].error
    assert (bench[0].position, bench.target.requests) == (10, [])


def test_a_batch_that_tells_no_offset_is_named_with_the_one_that_was_asked_for(bench: Bench):
    bench.bring(0, with_field(0, ">q", -5)(batch(10, 3).encode()))
    assert bench[0].error.startswith("orders-0 at offset 10: "), bench[0].error


@pytest.mark.parametrize("length", [1_000, 1 << 20, 2**31 - 1])
def test_a_batch_longer_than_its_answer_waits_for_the_next_one_and_stops_there(bench: Bench, length: int):
    """A broker gives the first batch of an answer whole: one that is cut off again has a length that lies."""
    spoilt = with_field(LENGTH, ">i", length)(batch(16, 3).encode())
    bench.bring(0, around(spoilt))
    bench.send()
    assert (bench[0].error, bench[0].position) == ("", 16)
    bench.bring(0, spoilt + batch(19, 3).encode())
    assert bench[0].error.startswith("orders-0 at offset 16: the batch is longer than the answer")
    assert keys(bench.target.written(0)) == BEFORE


@pytest.mark.parametrize("cut", [1, 11, 16, 60, 61, 90])
def test_an_answer_that_is_cut_off_is_fetched_again_from_there(bench: Bench, cut: int):
    whole = batch(16, 3).encode()
    bench.bring(0, log([batch(10, 3), batch(13, 3)]) + whole[:cut])
    bench.send()
    assert (bench[0].error, bench[0].fetch_offset, bench[0].position) == ("", 16, 16)
    bench.bring(0, whole)
    bench.send()
    assert bench[0].position == 19
    assert keys(bench.target.written(0)) == [*BEFORE, b"16", b"17", b"18"]


RECORDS: dict[str, tuple[Codec, Spoiler]] = {
    "fewer records than it holds": (Codec.NONE, honest(with_field(COUNT, ">i", 2))),
    "more offsets, and records for some": (Codec.NONE, with_body(lambda body: body[: len(body) // 2])),
    "a varint that never ends": (Codec.NONE, with_body(lambda body: b"\xff" * 12 + body[12:])),
    "a time that never ends": (Codec.NONE, with_body(lambda body: body[:2] + b"\xff" * 12 + body[14:])),
    "a record that is longer than the batch": (Codec.NONE, with_body(lambda body: b"\xfe\xff\xff\xff\x0f" + body[5:])),
    "a record of a negative length": (Codec.NONE, with_body(lambda body: b"\x05" + body[1:])),
    "bytes behind the last record": (Codec.NONE, with_body(lambda body: body + b"more")),
    "no records at all": (Codec.NONE, with_body(lambda _: b"")),
    "gzip data with another checksum": (Codec.GZIP, with_body(lambda body: body[:-8] + bytes(4) + body[-4:])),
} | {
    f"{codec.name.lower()} data that {what}": (codec, with_body(change))
    for codec in Codec
    if codec
    for what, change in (
        ("is nothing but zeros", zeroed),
        ("is cut off", lambda body: body[: len(body) // 2]),
        ("is missing", lambda _: b""),
    )
}


def broker_timed(kind: str) -> bytes:
    """A damaged batch from 16 on that has to be opened: the target keeps the records' times, and the source did not."""
    codec, spoil = RECORDS[kind]
    return spoil(batch(16, 3, codec=codec, bits=LOG_APPEND_TIME, max_time=5).encode())


@pytest.mark.parametrize("kind", RECORDS)
def test_a_batch_with_damaged_records_that_has_to_be_opened_stops_its_partition_only(bench: Bench, kind: str):
    bench.bring(0, around(broker_timed(kind)))
    bench.bring(1, log([batch(10, 3), batch(13, 3)]))
    for _ in range(4):
        bench.send()
    assert bench[0].error.startswith("orders-0 at offset 16: "), bench[0].error
    assert bench[0].position == 16
    assert keys(bench.target.written(0)) == BEFORE
    assert (bench[1].error, bench[1].position) == ("", 16)
    assert bench[0].held == 0, "its memory is given back"


FITTING = [kind for kind in RECORDS if kind != "fewer records than it holds"]
"""Those whose header tells of as many records as offsets; others are opened to close their holes."""


@pytest.mark.parametrize("kind", FITTING)
def test_a_batch_with_damaged_records_that_nothing_asks_to_open_goes_as_it_is(bench: Bench, kind: str):
    """The target's brokers look at it, as those of the source did; what they take is what the source's readers get."""
    codec, spoil = RECORDS[kind]
    spoilt = spoil(batch(16, 3, codec=codec).encode())
    bench.bring(0, around(spoilt))
    for _ in range(4):
        bench.send()
    assert (bench[0].error, bench[0].position, bench[0].held) == ("", 22, 0)
    before, sent, behind = bench.target.written(0)
    assert (keys([before]), keys([behind])) == (BEFORE, [b"19", b"20", b"21"])
    assert bytes(sent[COUNT:]) == spoilt[COUNT:]
    assert (bench[0].sequence, bench[0].last.source, bench[0].last.target) == (22, 21, 11)


def test_a_damaged_batch_stops_its_partition_when_what_lies_before_it_is_acknowledged(bench: Bench):
    """Until then it has not stopped: whoever goes on would copy again what is on its way."""
    bench.target.slow = True
    spoilt = broker_timed("a varint that never ends")
    bench.bring(0, batch(10, 3, size=LARGE).encode() + batch(13, 3).encode() + spoilt + batch(19, 3).encode())
    bench.send()
    bench.bring(0, batch(22, 3).encode())  # was on its way when the damaged one was opened
    bench.send()
    assert (bench[0].error, bench[0].position) == ("", 10)
    bench.target.answer()
    assert bench[0].error.startswith("orders-0 at offset 16: "), bench[0].error
    assert (bench[0].position, bench[0].held, keys(bench.target.written(0))) == (16, 0, BEFORE)


def test_a_decompression_bomb_that_has_to_be_opened_is_not_let_off(bench: Bench):
    bomb = batch(16, 3, size=1 << 20, codec=Codec.ZSTD, bits=LOG_APPEND_TIME, max_time=5).encode()
    assert len(bomb) < 2_000
    bench[0].rules = replace(bench[0].rules, decompression_limit=1 << 20)
    bench.bring(0, around(bomb))
    for _ in range(2):
        bench.send()
    assert bench[0].error.startswith("orders-0 at offset 16: the batch cannot be opened: it decompresses to more than")
    assert keys(bench.target.written(0)) == BEFORE


def test_an_unreadable_end_of_an_aborted_transaction_stops_its_partition_behind_what_is_sound(bench: Bench):
    marker = Written(records=batch(19, 1).records, base_offset=19, bits=CONTROL | TRANSACTIONAL, producer=(900, 1, -1))
    doomed = batch(16, 3, bits=TRANSACTIONAL, producer=(900, 1, 0))
    records = log([batch(10, 3), batch(13, 3), doomed]) + with_body(zeroed)(marker.encode()) + batch(20, 2).encode()
    bench.bring(0, records, aborted=((900, 16),))
    bench.send()
    assert bench[0].error.startswith("orders-0 at offset 19: the end marker of an aborted transaction"), bench[0].error
    assert keys(bench.target.written(0)) == BEFORE


def test_a_broker_that_finds_damage_itself_stops_the_partition_behind_what_waits(bench: Bench):
    bench.bring(0, log([batch(10, 3), batch(13, 3)]))
    bench.bring(0, b"", code=2)
    assert bench[0].error == ""
    bench.send()
    assert "orders-0 at offset 16: CORRUPT_MESSAGE" in bench[0].error
    assert (bench[0].position, keys(bench.target.written(0))) == (16, BEFORE)


@given(st.data())
def test_whatever_is_changed_in_a_batch_the_lane_goes_on(data: st.DataObject):
    """A worker carries the partitions of others. Some damage shows to the target's broker only; what goes by itself is
    written whatever comes behind it.
    """
    codec, size = data.draw(st.sampled_from(Codec)), data.draw(st.sampled_from([20, LARGE]))
    bits = data.draw(st.sampled_from([0, LOG_APPEND_TIME, TRANSACTIONAL]))
    spoilt = bytearray(batch(16, 3, codec=codec, bits=bits).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(8, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    whole = sealed(bytes(spoilt)) if data.draw(st.booleans()) else bytes(spoilt)
    bench = Bench(2)
    try:
        bench.bring(0, log([batch(10, 3, size=size), batch(13, 3, size=size)]) + whole + batch(19, 3).encode())
        bench.bring(1, log([batch(10, 3), batch(13, 3)]))
        for _ in range(4):
            bench.send()
        assert bench[0].position >= 16
        assert keys(bench.target.written(1)) == BEFORE
        if size == LARGE:
            assert keys(bench.target.written(0)[:2]) == BEFORE
    finally:
        bench.close()
