"""A batch written anew for a topic with its own codec and limit: what fits, and what is told of records that do not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec, Run, Stamp, TargetTopic, index, keep, merge
from sparkmirror.errors import RecordTooLargeError
from tests.batches.building import Rec, Written, log, pack, read

STAMP = Stamp(producer_id=7, epoch=2, sequence=100)
NOISE = random.Random(1).randbytes(40_000)


def run_of(*written: Written) -> Run:
    indexed = index(log(written))
    return Run(indexed=indexed, kept=keep(indexed, start_offset=0), first=0, stop=len(indexed))


def noise(*sizes: int, codec: Codec = Codec.NONE, base_offset: int = 0) -> Written:
    """A batch with a record for each size, which nothing makes smaller."""
    recs = tuple(Rec(at, 1_000 + at, b"%d" % at, NOISE[at:][:size]) for at, size in enumerate(sizes))
    return Written(records=recs, codec=codec, base_offset=base_offset)


def topic(limit: int, codec: Codec | None = None, *, enforced: bool = False, level: int | None = None) -> TargetTopic:
    levels = {} if codec is None or level is None else {codec: level}
    return TargetTopic(log_append_time=False, max_message_bytes=limit, codec=codec, enforced=enforced, levels=levels)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_all_records_of_a_batch_that_are_too_large_are_told_of_at_once(codec: Codec) -> None:
    run = run_of(noise(10, 3_000, 10, 2_500, 900, 4_000, codec=codec, base_offset=40))
    with pytest.raises(RecordTooLargeError) as caught:
        merge([run], topic(2_000), STAMP)
    assert (caught.value.offset, caught.value.offsets) == (41, (41, 43, 45))
    alone = len(noise(3_000).encode())
    assert f"max.message.bytes, 2000: by itself it takes a batch of {alone} bytes; 2 more" in str(caught.value)
    with pytest.raises(RecordTooLargeError) as caught:
        merge([run], topic(2_000), STAMP, left_out=frozenset({41, 45}))
    assert caught.value.offsets == (43,)
    made = merge([run], topic(2_000), STAMP, left_out=frozenset({41, 43, 45})).batches
    assert [record.key for one in made for record in read(one.batch).records] == [b"0", b"2", b"4"]
    assert [place for one in made for place in one.runs[1].tolist()] == [40, 42, 44]


@given(
    st.sampled_from([codec for codec in Codec if codec is not Codec.NONE]), st.lists(st.integers(0, 1_500), min_size=1)
)
def test_what_goes_to_a_topic_with_a_codec_of_its_own_fits_when_its_brokers_have_compressed_it(
    codec: Codec, sizes: list[int]
) -> None:
    """Brokers leave alone what has the topic's codec, and compress the rest before they look at its size."""
    run, target, at = run_of(noise(*sizes)), topic(2_000, codec, enforced=True), 0
    while run.first < run.stop:
        merging = merge([run], target, STAMP)
        for made in merging.batches:
            batch = bytes(made.batch)
            there = read(batch)
            size = len(batch) if there.codec is codec else 61 + len(pack(codec, batch[61:]))
            assert size <= 2_000
            at += made.count
        run = Run(indexed=run.indexed, kept=run.kept, first=run.stop, stop=run.stop)
    assert at == len(sizes)


def test_a_record_that_fits_only_uncompressed_is_too_large_for_a_topic_that_compresses() -> None:
    run, limit = run_of(noise(1_925)), len(noise(1_925).encode())
    assert len(merge([run], topic(limit, Codec.GZIP), STAMP).batches) == 1
    with pytest.raises(RecordTooLargeError):
        merge([run], topic(limit, Codec.GZIP, enforced=True), STAMP)


def test_a_codec_tries_as_hard_as_it_is_told() -> None:
    chance = random.Random(3)
    words = [chance.randbytes(chance.randrange(3, 9)).hex().encode() for _ in range(400)]
    run = run_of(Written(records=(Rec(0, 1, None, b" ".join(chance.choices(words, k=6_000))),)))

    def size(codec: Codec, level: int | None = None) -> int:
        (made,) = merge([run], topic(1 << 20, codec, level=level), STAMP).batches
        return len(made.batch)

    assert size(Codec.GZIP, 9) < size(Codec.GZIP, 1)
    assert size(Codec.ZSTD, 19) < size(Codec.ZSTD, 1) < size(Codec.ZSTD, -131_072)
    assert size(Codec.LZ4, 17) < size(Codec.LZ4, 1)
