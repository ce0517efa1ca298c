"""A lane's intake of damaged answers: what leaves is sound, what cannot leave is an error that has its offset."""

from __future__ import annotations

import random
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.batches import Codec
from tests.batches import oracle
from tests.batches.building import CONTROL, TRANSACTIONAL, Rec, Written, pack
from tests.batches.fuzzing.case import Case, Setting
from tests.batches.fuzzing.damage import damaged
from tests.batches.fuzzing.lane import Lane
from tests.batches.fuzzing.seeds import seeds
from tests.batches.fuzzing.trial import kind
from tests.batches.kinds import NOW, encode, message

SEEDS = seeds()


def intake(case: Case) -> tuple[Lane, list[str]]:
    """Leads a case through a lane, which looks at every batch that leaves; and what was told."""
    told: list[str] = []
    lane = Lane(case, case.setting.target())
    lane.run(lambda *words: told.append(" ".join(map(str, words))), kind)
    return lane, told


@settings(max_examples=400)
@given(st.sampled_from(SEEDS), st.integers(0, 2**32))
def test_nothing_but_a_batch_error_comes_of_a_damaged_answer(answer: bytes, seed: int) -> None:
    rng = random.Random(seed)
    intake(Case(data=damaged(answer, SEEDS, rng), setting=Setting.drawn(rng)))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [1, 40_000])
@pytest.mark.parametrize("batch_size", [200, 1 << 20])
def test_what_lies_before_a_damaged_batch_leaves_and_nothing_from_it(codec: Codec, batch_size: int, size: int) -> None:
    def batch(offset: int) -> bytes:
        records = tuple(Rec(i, NOW + i, b"%d" % (offset + i), b"v" * size) for i in range(3))
        return encode(Written(records=records, base_offset=offset, codec=codec))

    whole = batch(10)
    bad = oracle.sealed(whole[:57] + b"\0\0\0\2" + whole[61:])  # a record more than its header tells of
    before, behind = batch(0) + batch(3), batch(13)
    lane, told = intake(Case(data=before + bad + behind, setting=Setting(batch_size=batch_size)))
    assert lane.sent[0].source == 0
    assert lane.sent[-1].last_source == 5
    assert any("do not fit its header" in fact for fact in told)


def test_a_count_that_lies_takes_no_memory() -> None:
    """The offset map of a new batch has room for the holes between as many records as fit."""
    plain = 64 << 20
    head = oracle.HEADER.pack(0, 0, 0, 2, 0, int(Codec.ZSTD), 2**31 - 1, 0, 0, -1, -1, -1, 2**31 - 1)
    bomb = oracle.sealed(head + pack(Codec.ZSTD, bytes(plain)))
    tracemalloc.start()
    _, told = intake(Case(data=bomb, setting=Setting(start=5, decompression_limit=plain, limit=1000)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert any("do not fit its header" in fact for fact in told)
    assert peak < 6 * plain


def test_an_end_marker_that_ends_with_the_length_of_its_key_is_an_error() -> None:
    """The greatest length there is, at the very end of the answer: the sum of place and length wraps around."""
    for length in (4, 2**62, 2**63 - 60, 2**63 - 1):
        payload = oracle.varint(30) + b"\0" + oracle.varint(0) + oracle.varint(0) + oracle.varint(length)
        head = oracle.HEADER.pack(0, 0, 0, 2, 0, CONTROL | TRANSACTIONAL, 0, 0, 0, 7, 0, -1, 1)
        _, told = intake(Case(data=oracle.sealed(head + payload), setting=Setting(aborted=((7, 0),))))
        assert told[-1] == "obstacle: BatchError: the end marker of an aborted transaction cannot be read"


def test_the_greatest_offset_is_no_batch_s() -> None:
    """The position after it could not be told."""
    for record in (Rec(0, NOW), Rec(2**31 - 1, NOW)):
        batch = Written(records=(record,), base_offset=2**63 - 1 - record.offset)
        _, told = intake(Case(data=encode(batch)))
        assert told == ["arrival segments 0"]
        sound = Written(records=(record,), base_offset=2**63 - 2 - record.offset)
        lane, _ = intake(Case(data=encode(sound)))
        assert lane.partition.position == 2**63 - 1


def test_old_messages_before_a_damaged_one_leave() -> None:
    bad = message(0, 2, NOW, b"k", b"v")
    body = bad[16:18] + b"\0\0\0\x63" + bad[22:]  # a key of 99 bytes
    bad = bad[:12] + struct.pack(">I", zlib.crc32(body)) + body
    answer = message(0, 0, NOW, b"k", b"v") + message(1, 1, NOW, b"k", b"v") + bad + message(1, 3, NOW, b"k", b"v")
    lane, told = intake(Case(data=answer))
    assert [(batch.source, batch.last_source) for batch in lane.sent] == [(0, 1)]
    assert told[-1] == "obstacle: BatchError: the message's key and value do not fit its length"
