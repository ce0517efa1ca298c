"""Records of small topics, opened within limits: with every codec, past what others wrote, and never past damage."""

from __future__ import annotations

import tracemalloc

import pytest
from kafka.record import default_records

from sparkmirror.batches import Codec
from sparkmirror.errors import BatchError
from sparkmirror.kafka import stored_records
from sparkmirror.kafka.stored_records import OPENED_BYTES, PASSED_BATCHES, StoredRecord, open_records
from tests.batches.building import Rec, Written, sealed


def batch(offset: int, *values: bytes, codec: Codec = Codec.NONE) -> bytes:
    """One with a record for each value."""
    records = tuple(Rec(n, 1, b"k%d" % (offset + n), value) for n, value in enumerate(values))
    return Written(records=records, base_offset=offset, codec=codec).encode()


def garbled(sound: bytes) -> bytes:
    """A batch with the right checksum whose compressed records are none."""
    return sealed(sound[:61] + b"\x07" * 40)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_is_read_without_the_codecs_of_kafka_python(codec: Codec, monkeypatch: pytest.MonkeyPatch):
    """An installation has no other than ours."""
    for name in ("has_gzip", "has_snappy", "has_lz4", "has_zstd"):
        monkeypatch.setattr(default_records.codecs, name, lambda: False)
    opened = open_records(batch(0, b"a" * 500, b"b", codec=codec), 0)
    assert opened.records == [StoredRecord(0, b"k0", b"a" * 500), StoredRecord(1, b"k1", b"b")]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_a_batch_that_opens_to_more_than_any_of_ours_is_passed_over(codec: Codec):
    bomb = batch(1, bytes(OPENED_BYTES + 1), codec=codec)
    answer = batch(0, b"a") + bomb + batch(2, b"c", codec=Codec.GZIP)
    assert len(bomb) < 70_000
    open_records(answer, 0)  # what is imported and loaded on the way is none of its memory
    tracemalloc.start()
    opened = open_records(answer, 0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [record.offset for record in opened.records] == [0, 2]
    assert (list(opened.unopened), opened.following) == ([1], 3)
    assert "it decompresses to more than" in opened.unopened[1]
    assert most < 3 * OPENED_BYTES


def test_batches_that_cannot_be_opened_are_passed_over_and_told_of():
    broken = [garbled(batch(at, b"x", codec=codec)) for at, codec in ((1, Codec.ZSTD), (2, Codec.LZ4), (4, Codec.GZIP))]
    answer = batch(0, b"a") + broken[0] + broken[1] + batch(3, b"d", codec=Codec.LZ4) + broken[2]
    opened = open_records(answer, 0)
    assert [record.offset for record in opened.records] == [0, 3]
    assert (sorted(opened.unopened), opened.following) == ([1, 2, 4], 5)


def test_damage_ends_the_reading_before_it():
    sound, damaged = batch(0, b"a"), bytearray(batch(1, b"b"))
    damaged[-3] ^= 1
    answer = bytes(sound + damaged + batch(2, b"c"))
    opened = open_records(answer, 0)
    assert ([record.offset for record in opened.records], opened.following) == ([0], 1)
    with pytest.raises(BatchError, match="offset 1: the batch is corrupt"):
        open_records(answer[len(sound) :], 1)


def test_much_in_one_answer_is_read_in_several_turns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stored_records, "TAKEN_BYTES", 5_000)
    monkeypatch.setattr(stored_records, "CHUNK_BYTES", 1_000)
    answer = b"".join(batch(10 * n, *[b"%d" % n * 200] * 10, codec=Codec.GZIP) for n in range(5))
    found, turns, at = [], 0, 0
    while at < 50:
        opened = open_records(answer, at)
        found += [record.offset for record in opened.records]
        turns, at = turns + 1, opened.following
    assert found == list(range(50))
    assert turns > 2


@pytest.mark.parametrize("sound", [(), (0,), (0, 40), (5, 16, 17, 33, 34, 59), tuple(range(0, 60, 2))])
def test_a_reading_passes_over_so_many_and_the_next_ones_go_on_behind_them(
    sound: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stored_records, "OPENED_BYTES", 10_000)
    answer = b"".join(batch(n, b"x" if n in sound else bytes(20_000), codec=Codec.GZIP) for n in range(60))
    at, found, passed = 0, [], []
    while at < 60:
        opened = open_records(answer, at)
        assert opened.following > at
        assert len(opened.unopened) <= PASSED_BATCHES
        found += [record.offset for record in opened.records]
        passed += sorted(opened.unopened)
        at = opened.following
    assert found == list(sound)
    assert passed == [n for n in range(60) if n not in sound]


def test_an_answer_without_a_whole_batch_moves_nothing():
    assert open_records(b"", 7).following == 7
    whole = batch(7, b"a")
    assert open_records(whole + whole[:30], 7).following == 8
