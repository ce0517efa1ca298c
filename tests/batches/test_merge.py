"""New batches made of old ones, read back by kafka-python."""

from __future__ import annotations

import itertools
import struct
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.batches import DEFAULT_LIMIT, Codec, Merged, Run, Stamp, TargetTopic, index, keep, merge, merge_all
from sparkmirror.batches.codecs import decompress
from sparkmirror.batches.index import Bytes
from sparkmirror.batches.layout import COUNT
from sparkmirror.errors import BatchError, RecordTooLargeError
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
    read,
    sealed,
)

CREATE_TIME = TargetTopic(log_append_time=False, max_message_bytes=1 << 20)
STAMP = Stamp(producer_id=77, epoch=5, sequence=2**31 - 4)


def run_of(data: bytes, start: int = 0) -> Run:
    found = index(data)
    assert found.error is None
    return Run(indexed=found, kept=keep(found, start_offset=start), first=0, stop=len(found))


def drain(runs: Sequence[Run], target: TargetTopic, batch_size: int, stamp: Stamp = STAMP) -> list[Merged]:
    """Merges until nothing waits, as the copy loop does."""
    made: list[Merged] = []
    while runs:
        merging = merge(runs, target, stamp, batch_size=batch_size)
        for merged in merging.batches:
            stamp = stamp.after(merged.count)
        made += merging.batches
        rest = list(runs[merging.run :])
        if rest:
            assert merging.run > 0 or merging.column > rest[0].first
            rest[0] = replace(rest[0], first=merging.column)
        runs = rest
    return made


def offsets(merged: Merged) -> list[int]:
    """The source offset of each record, from the runs."""
    found: list[int] = []
    starts = merged.runs.T.tolist()
    for (first, source), (following, _) in zip(starts, [*starts[1:], (merged.count, 0)], strict=True):
        found += range(source, source + following - first)
    return found


def check(made: Sequence[Merged], expected: Sequence[Rec], target: TargetTopic) -> None:
    """Each batch is as a broker wants it, and together they hold the expected records."""
    got: list[Rec] = []
    sequence = STAMP.sequence
    for merged in made:
        batch = read(merged.batch)
        assert len(merged.batch) <= target.max_message_bytes
        assert (batch.base_offset, batch.leader_epoch, batch.attributes & ~7) == (0, -1, 0)
        assert [r.offset for r in batch.records] == list(range(merged.count))
        assert batch.last_delta == merged.count - 1
        assert batch.producer == (77, 5, sequence)
        times = [r.time for r in batch.records]
        sources = offsets(merged)
        assert (sources[0], sources[-1]) == (merged.first_offset, merged.last_offset)
        assert all(b != a + 1 for a, b in itertools.pairwise(sources)) == (len(sources) == len(merged.runs[0]))
        assert merged.max_timestamp == batch.max_time
        assert batch.max_time == max(times)
        got += [replace(r, offset=source) for r, source in zip(batch.records, sources, strict=True)]
        sequence = (sequence + merged.count) % 2**31
    assert got == list(expected)


@settings(max_examples=400)
@given(
    st.lists(logs(bits=0xF8 & ~CONTROL), min_size=1, max_size=3),
    st.integers(0, 12),
    st.integers(62, 3000),
    st.sampled_from([None, *Codec]),
    st.booleans(),
)
def test_records_arrive_as_a_reader_of_the_source_sees_them(
    answers: list[list[Written]], into: int, batch_size: int, codec: Codec | None, broker_time: bool
) -> None:
    """Holes, compaction, both kinds of time, all codecs, several answers, a position inside a batch."""
    target = TargetTopic(log_append_time=broker_time, max_message_bytes=5000, codec=codec)
    runs, expected = [], []
    for batches in answers:
        start = batches[0].base_offset + into
        runs.append(run_of(log(batches), start))
        expected += [r for batch in batches for r in batch.seen() if r.offset >= start]
    made = drain(runs, target, batch_size)
    if broker_time:  # what passes whole keeps times that the target replaces anyway
        expected = [replace(r, time=0) for r in expected]
        assert [replace(r, time=0) for m in made for r in _sources(m)] == expected
    else:
        check(made, expected, target)
    if codec is not None:
        assert {read(m.batch).codec for m in made} <= {codec, Codec.NONE}


def _sources(merged: Merged) -> list[Rec]:
    return [replace(r, offset=o) for r, o in zip(read(merged.batch).records, offsets(merged), strict=True)]


def test_many_small_batches_become_one() -> None:
    data = b"".join(one(i) for i in range(500))
    merging = merge([run_of(data)], CREATE_TIME, STAMP)
    assert (len(merging.batches), merging.run) == (1, 1)
    assert merging.batches[0].runs.tolist() == [[0], [0]]
    check(merging.batches, [Rec(i, 1_700_000_000_000 + i, None, b"x" * 100) for i in range(500)], CREATE_TIME)


def test_merging_stops_below_the_batch_size_and_goes_on_there() -> None:
    data = b"".join(one(i) for i in range(500))
    made = drain([run_of(data)], CREATE_TIME, 10_000)
    assert all(9_700 < len(m.batch) <= 10_000 for m in made[:-1])
    assert sum(m.count for m in made) == 500


@pytest.mark.parametrize("limit", range(320, 345))
def test_the_limit_is_met_to_the_byte(limit: int) -> None:
    target = TargetTopic(log_append_time=False, max_message_bytes=limit)
    records = [Rec(i, 1_700_000_000_000 + i, None, b"x" * 100) for i in range(9)]
    made = drain([run_of(b"".join(one(i) for i in range(9)))], target, 1 << 20)
    check(made, records, target)
    assert max(len(m.batch) for m in made) > limit - 120


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_above_the_limit_is_split(codec: Codec) -> None:
    noise = b"".join(struct.pack(">Q", i * 0x9E3779B97F4A7C15 % 2**64) for i in range(5000))
    records = tuple(Rec(i, 1000 - i, b"k%d" % i, noise[i * 400 : i * 400 + 400]) for i in range(100))
    written = Written(records=records, base_offset=10**10, codec=codec)
    target = TargetTopic(log_append_time=False, max_message_bytes=9000)
    assert len(written.encode()) > 30_000
    made = drain([run_of(written.encode())], target, 1 << 20)
    check(made, written.seen(), target)
    assert 4 < len(made) < 12


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_above_the_limit_is_named(codec: Codec) -> None:
    noise = b"".join(struct.pack(">Q", i * 0x9E3779B97F4A7C15 % 2**64) for i in range(1000))
    written = Written(records=(Rec(0, 1, b"k", b""), Rec(1, 1, b"k", noise)), base_offset=500, codec=codec)
    target = TargetTopic(log_append_time=False, max_message_bytes=4000)
    with pytest.raises(
        RecordTooLargeError, match=r"offset 501: .* max.message.bytes, 4000: .* a batch of 8071 "
    ) as caught:
        merge([run_of(written.encode())], target, STAMP)
    assert (caught.value.offset, caught.value.offsets) == (501, (501,))


@pytest.mark.parametrize("codec", list(Codec))
def test_records_above_the_limit_are_named_together_and_can_be_left_out(codec: Codec) -> None:
    noise = b"".join(struct.pack(">Q", i * 0x9E3779B97F4A7C15 % 2**64) for i in range(1000))
    sizes = [5, 8000, 2000, 2000, 7000, 9, 6000]
    records = tuple(Rec(i, 1, b"%d" % i, noise[:size]) for i, size in enumerate(sizes))
    run = run_of(Written(records=records, base_offset=500, codec=codec).encode())
    target = TargetTopic(log_append_time=False, max_message_bytes=4000)
    with pytest.raises(RecordTooLargeError, match="2 more of its source batch") as caught:
        merge([run], target, STAMP)
    assert caught.value.offsets == (501, 504, 506)
    with pytest.raises(RecordTooLargeError) as caught:
        merge([run], target, STAMP, left_out=frozenset({501, 506}))
    assert caught.value.offsets == (504,)
    made = merge([run], target, STAMP, left_out=frozenset({501, 504, 506})).batches
    check(made, [replace(records[i], offset=500 + i) for i in (0, 2, 3, 5)], target)


def test_a_batch_that_passes_is_not_split_for_the_batch_size() -> None:
    """Small when compressed, large when opened: it goes as it is."""
    written = Written(records=tuple(Rec(i, 5, None, bytes(5000)) for i in range(100)), codec=Codec.ZSTD)
    data = written.encode() + one(100)
    assert len(written.encode()) < 2000
    merging = merge([run_of(data)], CREATE_TIME, STAMP, batch_size=10_000)
    assert (len(merging.batches), merging.run, merging.column) == (1, 0, 1)
    assert len(merging.batches[0].batch) == len(written.encode())
    check(merging.batches, written.seen(), CREATE_TIME)


def test_dropped_batches_are_passed_over_and_leave_a_hole() -> None:
    batches = [Written(records=(Rec(0, 9),), base_offset=i, bits=CONTROL if i in {2, 3} else 0) for i in range(6)]
    (merged,) = merge([run_of(log(batches))], CREATE_TIME, STAMP).batches
    assert merged.runs.tolist() == [[0, 2], [0, 4]]


def test_times_under_the_delete_horizon_stay() -> None:
    records = (Rec(0, 1_600_000_000_000, b"a", None), Rec(2, 1_700_000_000_000, b"b", b"x"))
    tomb = Written(records=records, base_offset=7, bits=DELETE_HORIZON | TRANSACTIONAL, base_time=1_800_000_000_000)
    check(merge([run_of(tomb.encode())], CREATE_TIME, STAMP).batches, tomb.seen(), CREATE_TIME)
    assert [r.time for r in tomb.seen()] == [1_600_000_000_000, 1_700_000_000_000]


def test_the_broker_s_time_becomes_the_record_s_own() -> None:
    records = (Rec(0, 5), Rec(1, 6))
    stamped = Written(records=records, bits=LOG_APPEND_TIME, max_time=1_700_000_000_000)
    plain = Written(records=records, base_offset=2)
    (merged,) = merge([run_of(log([stamped, plain]))], CREATE_TIME, STAMP).batches
    assert [r.time for r in read(merged.batch).records] == [1_700_000_000_000, 1_700_000_000_000, 5, 6]


@pytest.mark.parametrize(("first", "second"), [(2**63 - 1, -(2**63)), (-(2**63), 2**63 - 1), (0, 2**62), (2**62, -1)])
def test_times_as_far_apart_as_can_be_stay(first: int, second: int) -> None:
    """Deltas wrap around as Java's do; kafka-python's do not, so the sum is taken here."""
    data = one(0)[:27] + struct.pack(">qq", first, first) + one(0)[43:]
    other = one(1)[:27] + struct.pack(">qq", second, second) + one(1)[43:]
    (merged,) = merge([run_of(sealed(data) + sealed(other))], CREATE_TIME, STAMP).batches
    got = read(merged.batch)
    wrapped = [(r.time + 2**63) % 2**64 - 2**63 for r in got.records]
    assert wrapped == [first, second]
    assert got.max_time == max(first, second)


def test_nothing_is_left_of_a_batch_whose_last_records_compaction_took() -> None:
    thin = Written(records=(Rec(0, 1), Rec(1, 1)), last_delta=9)
    merging = merge([run_of(thin.encode(), 5)], CREATE_TIME, STAMP)
    assert (merging.batches, merging.run) == ((), 1)


def test_every_offset_alone_is_a_run_of_its_own() -> None:
    sparse = Written(records=tuple(Rec(3 * i, 1) for i in range(200)))
    (merged,) = merge([run_of(sparse.encode())], CREATE_TIME, STAMP).batches
    assert merged.runs.tolist() == [list(range(200)), [3 * i for i in range(200)]]


def test_mixed_codecs_go_with_the_first_compressed_one() -> None:
    batches = [one(0), one(1, codec=Codec.ZSTD), one(2, codec=Codec.LZ4)]
    (merged,) = merge([run_of(b"".join(batches))], CREATE_TIME, STAMP).batches
    assert read(merged.batch).codec is Codec.ZSTD


def test_a_large_record_goes_through() -> None:
    batch = Written(records=(Rec(0, 1, b"k" * (17 << 20), b"v" * (17 << 20)), Rec(2, 2)))
    target = TargetTopic(log_append_time=False, max_message_bytes=40 << 20)
    check(merge([run_of(batch.encode())], target, STAMP).batches, batch.seen(), target)


def damage(at: int, value: int) -> bytes:
    """A batch of three records, one of whose bytes (counted from the first record) is another."""
    data = bytearray(Written(records=tuple(Rec(i, i, b"k", b"v") for i in range(3)), base_offset=40).encode())
    data[61 + at] = value
    return sealed(bytes(data))


CONTRADICTIONS = (
    damage(0, 2),  # a length too short for the fields
    damage(0, 200),  # a length that does not end in time
    damage(0, 126),  # beyond the batch
    damage(0, 1),  # below 0
    damage(0, 18),  # a record more than its fields
    damage(2, 255),  # a time delta without an end
    damage(3, 6),  # an offset above the last
    damage(3, 1),  # below the first
    damage(12, 0),  # not ascending
    sealed(one(40) + b"x"),  # something behind the last record
    sealed(one(40)[:-1]),
    sealed(one(40)[:61]),
    sealed(one(40)[:21] + b"\0\1" + one(40)[23:]),  # not gzip at all
    sealed(one(40)[:23] + b"\0\0\0\1" + one(40)[27:57] + b"\0\0\0\2" + one(40)[61:]),  # one record, not two
    sealed(one(40)[:23] + b"\x7f\xff\xff\xfe" + one(40)[27:57] + b"\x7f\xff\xff\xff" + one(40)[61:]),
)


def with_broker_time(batch: bytes) -> bytes:
    """The batch as if the broker had set its records' time, so that it has to be written anew."""
    return sealed(batch[:22] + bytes([batch[22] | LOG_APPEND_TIME]) + batch[23:])


@pytest.mark.parametrize("bad", CONTRADICTIONS)
def test_records_that_contradict_their_header_are_an_error_where_they_have_to_be_changed(bad: bytes) -> None:
    data = index(one(39) + with_broker_time(bad))
    assert data.error is None
    run = Run(indexed=data, kept=keep(data, start_offset=0), first=0, stop=2)
    merging = merge([run], CREATE_TIME, STAMP)
    assert ([made.count for made in merging.batches], merging.run, merging.column) == ([1], 0, 1)
    with pytest.raises(BatchError, match="offset 40") as caught:
        merge([replace(run, first=1)], CREATE_TIME, STAMP)
    assert caught.value.offset == 40


@pytest.mark.parametrize("bad", CONTRADICTIONS)
def test_records_that_contradict_their_header_go_as_they_are_where_nothing_has_to_be_changed(bad: bytes) -> None:
    """As they would if nothing waited beside them: whether a batch waits alone is a matter of time."""
    last = 2**40
    data = one(39) + bad + one(last)
    made = drain([run_of(data)], CREATE_TIME, 1 << 20)
    head = run_of(bad).indexed
    assert [(m.count, m.first_offset, m.last_offset) for m in made] == [
        (1, 39, 39),
        (int(head.count[0]), 40, int(head.last_offset[0])),
        (1, last, last),
    ]
    assert bytes(made[1].batch[COUNT:]) == bad[COUNT:]
    assert made[1].runs.tolist() == [[0], [40]]
    again = index(made[1].batch)
    assert again.error is None
    assert (again.producer_id.tolist(), again.base_sequence.tolist()) == ([77], [STAMP.after(1).sequence])
    steps = list(merge_all(run_of(data), CREATE_TIME, STAMP))
    assert [bytes(m.batch) for step in steps for m in step.batches] == [bytes(m.batch) for m in made]


def bomb_of(size: int, codec: Codec, offset: int = 3) -> bytes:
    """A batch whose header tells of one record, and that opens to zeros."""
    data = one(offset)
    return sealed(data[:22] + bytes([codec]) + data[23:61] + pack(codec, bytes(size), raw=True))


def test_a_bomb_is_an_error_at_its_offset_where_it_has_to_be_opened() -> None:
    bomb = with_broker_time(bomb_of(1 << 20, Codec.ZSTD))
    with pytest.raises(BatchError, match=r"offset 3: .* more than 100000 bytes"):
        merge([run_of(bomb)], CREATE_TIME, STAMP, decompression_limit=100_000)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_bomb_is_opened_no_further_than_there_is_room_for_it(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb, room, opened = bomb_of(16 << 20, codec), 100_000, []

    def counting(codec: Codec, payload: Bytes, limit: int = DEFAULT_LIMIT) -> Bytes:
        opened.append(limit)
        return decompress(codec, payload, limit)

    monkeypatch.setattr("sparkmirror.batches.opening.decompress", counting)
    data = one(2) + bomb + one(4)
    tracemalloc.start()
    made = drain([run_of(data)], CREATE_TIME, room)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(m.first_offset, m.count) for m in made] == [(2, 1), (3, 1), (4, 1)]
    assert bytes(made[1].batch[COUNT:]) == bomb[COUNT:]
    assert len(opened) == 2, "behind what lies before it, and first"
    assert max(opened) <= room
    assert peak < 8 * room + 3 * len(data)


def test_what_compression_makes_larger_than_allowed_travels_as_it_is() -> None:
    noise = b"".join(struct.pack(">Q", i * 0x9E3779B97F4A7C15 % 2**64) for i in range(12))
    target = TargetTopic(log_append_time=False, max_message_bytes=61 + 105, codec=Codec.GZIP)
    (merged,) = merge([run_of(Written(records=(Rec(0, 1, None, noise),)).encode())], target, STAMP).batches
    assert read(merged.batch).codec is Codec.NONE


@settings(max_examples=200)
@given(logs(bits=LOG_APPEND_TIME | DELETE_HORIZON), st.integers(0, 12), st.integers(62, 3000))
def test_all_of_a_run_is_written_anew_step_by_step(batches: list[Written], into: int, batch_size: int) -> None:
    start = batches[0].base_offset + into
    made: list[Merged] = []
    column, stamp = 0, STAMP
    for step in merge_all(run_of(log(batches), start), CREATE_TIME, STAMP, batch_size=batch_size):
        rest = replace(run_of(log(batches), start), first=column)
        alone = merge([rest], CREATE_TIME, stamp, batch_size=batch_size)
        assert [bytes(m.batch) for m in step.batches] == [bytes(m.batch) for m in alone.batches]
        assert step.column > column
        column, stamp = step.column, stamp.after(sum(m.count for m in step.batches))
        made += step.batches
    assert column == len(batches)
    check(made, [r for b in batches for r in b.seen() if r.offset >= start], CREATE_TIME)


def test_what_was_written_before_a_damaged_batch_is_given() -> None:
    bad = with_broker_time(damage(2, 255))
    made = merge_all(run_of(one(38) + one(39) + bad + one(43)), CREATE_TIME, STAMP)
    first = next(made)
    assert ([m.count for m in first.batches], first.column) == ([2], 2)
    with pytest.raises(BatchError, match="offset 40"):
        next(made)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_fills_a_small_part_of_its_memory_gives_the_rest_back(codec: Codec) -> None:
    """It may wait for a while, counted by its own size."""
    thin = Written(records=(Rec(0, 1), Rec(2, 1)), codec=codec)
    (merged,) = merge([run_of(thin.encode())], CREATE_TIME, STAMP).batches
    assert isinstance(merged.batch.obj, np.ndarray)
    owner = merged.batch.obj if merged.batch.obj.base is None else merged.batch.obj.base
    assert owner.nbytes < 3 * len(merged.batch)
