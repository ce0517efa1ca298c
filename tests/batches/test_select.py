"""What is dropped and what must be opened, against Java's consumer written out in plain Python."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import (
    NO_PRODUCERS,
    Codec,
    Need,
    Reason,
    TargetTopic,
    index,
    keep,
    needs,
    producers,
    unknown_producers,
)
from sparkmirror.errors import BatchError
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
)

ABORT, COMMIT = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)
TARGET = TargetTopic(log_append_time=False, max_message_bytes=1 << 20)


def data_batch(offset: int, producer: int, *, transactional: bool = True, count: int = 1) -> Written:
    records = tuple(Rec(i, 1000 + i) for i in range(count))
    bits = TRANSACTIONAL if transactional else 0
    return Written(records=records, base_offset=offset, bits=bits, producer=(producer, 0, 0))


def marker(offset: int, producer: int, key: bytes) -> Written:
    records = (Rec(0, 1000, key, struct.pack(">hi", 0, 0)),)
    return Written(records=records, base_offset=offset, bits=CONTROL | TRANSACTIONAL, producer=(producer, 0, -1))


def java_reads(batches: Sequence[Written], aborted: Sequence[tuple[int, int]], start: int) -> list[int]:
    """CompletedFetch.nextFetchedRecord under read_committed: the offsets of the records that it returns."""
    queue = sorted(aborted, key=lambda entry: entry[1])
    producer_ids: set[int] = set()
    got = []
    for batch in batches:
        producer = batch.producer[0]
        if producer >= 0:
            while queue and queue[0][1] <= batch.last_offset:
                producer_ids.add(queue.pop(0)[0])
            if batch.bits & CONTROL and batch.records and batch.records[0].key == ABORT:
                producer_ids.discard(producer)
            elif batch.bits & TRANSACTIONAL and producer in producer_ids:
                continue
        if not batch.bits & CONTROL:
            got += [batch.base_offset + r.offset for r in batch.records if batch.base_offset + r.offset >= start]
    return got


@st.composite
def transactions(draw: st.DrawFn) -> tuple[list[Written], list[tuple[int, int]]]:
    """A log of several producers whose transactions interleave, and the aborted ones as a broker lists them."""
    batches: list[Written] = []
    aborted: list[tuple[int, int]] = []
    offset = draw(st.integers(0, 1000))
    began: dict[int, int] = {}
    for _ in range(draw(st.integers(1, 25))):
        producer = draw(st.integers(1, 4))
        action = draw(st.sampled_from(["data", "data", "plain", "abort", "commit"]))
        if action == "data":
            began.setdefault(producer, offset)
            batches.append(data_batch(offset, producer, count=draw(st.integers(1, 3))))
        elif action == "plain":
            batches.append(data_batch(offset, draw(st.sampled_from([-1, 9])), transactional=False))
        else:
            first = began.pop(producer, None)
            if action == "abort" and first is not None:
                aborted.append((producer, first))
            batches.append(marker(offset, producer, ABORT if action == "abort" else COMMIT))
        offset = batches[-1].last_offset + 1 + draw(st.sampled_from([0, 0, 2]))
    aborted += [(producer, first) for producer, first in began.items() if draw(st.booleans())]
    return batches, draw(st.permutations(aborted))


@given(transactions(), st.integers(0, 20), st.integers(0, 20))
def test_keeps_what_java_s_consumer_returns(
    made: tuple[list[Written], list[tuple[int, int]]], skipped: int, into: int
) -> None:
    """Also for an answer that begins in the middle of transactions, since the broker lists those too."""
    batches, aborted = made
    batches = batches[min(skipped, len(batches) - 1) :]
    start = batches[0].base_offset + into
    kept = keep(index(log(batches)), start_offset=start, aborted=aborted)
    got = [
        batch.base_offset + r.offset
        for batch, stays in zip(batches, kept.mask.tolist(), strict=True)
        for r in batch.records
        if stays and batch.base_offset + r.offset >= start
    ]
    assert got == java_reads(batches, aborted, start)


def test_each_batch_gets_the_reason_for_which_it_is_dropped() -> None:
    batches = [
        data_batch(0, 1),
        data_batch(1, 2),
        data_batch(2, 3, transactional=False),
        Written(records=(), base_offset=3, last_delta=1, producer=(4, 0, 0)),
        marker(5, 1, ABORT),
        data_batch(6, 1),
        data_batch(7, 5),
    ]
    found = index(log(batches))
    kept = keep(found, start_offset=1, aborted=[(1, 0), (2, 1)], dropped_producers=producers({3, 77}))
    assert [Reason(r) for r in kept.reasons] == [
        Reason.BEFORE,
        Reason.ABORTED,
        Reason.LOOP,
        Reason.EMPTY,
        Reason.CONTROL,
        Reason.KEPT,
        Reason.KEPT,
    ]
    assert kept.mask.tolist() == [False] * 5 + [True] * 2


def test_read_uncommitted_keeps_aborted_data_and_drops_markers() -> None:
    found = index(log([data_batch(0, 1), marker(1, 1, ABORT)]))
    assert keep(found, start_offset=0).mask.tolist() == [True, False]


@pytest.mark.parametrize("key", [b"", b"\0\0", b"\xff\xff\0\0", None])
def test_an_end_marker_that_cannot_be_read_is_an_error_where_it_matters(key: bytes | None) -> None:
    bad = Written(records=(Rec(0, 5, key),), base_offset=4, bits=CONTROL | TRANSACTIONAL, producer=(1, 0, -1))
    found = index(log([data_batch(0, 1), bad]))
    assert keep(found, start_offset=0).mask.tolist() == [True, False]
    with pytest.raises(BatchError, match="offset 4: the end marker"):
        keep(found, start_offset=0, aborted=[(1, 0)])


@given(logs(bits=0xF8), st.integers(0, 30), st.booleans(), st.sampled_from([None, *Codec]), st.integers(80, 400))
def test_needs_say_what_keeps_a_batch_from_passing(
    batches: list[Written], into: int, broker_time: bool, codec: Codec | None, limit: int
) -> None:
    start = batches[0].base_offset + into
    found = index(log(batches))
    kept = keep(found, start_offset=start)
    target = TargetTopic(log_append_time=broker_time, max_message_bytes=limit, codec=codec)
    for batch, stays, code in zip(batches, kept.mask, needs(found, kept, target), strict=True):
        expected = Need.PASS
        if stays:
            span = batch.last_offset - batch.base_offset + 1
            expected |= Need.TRIM if batch.base_offset < start else Need.PASS
            expected |= Need.THIN if len(batch.records) != span else Need.PASS
            expected |= Need.LOG_APPEND_TIME if batch.bits & LOG_APPEND_TIME and not broker_time else Need.PASS
            expected |= Need.RECOMPRESS if codec not in {None, batch.codec} else Need.PASS
            expected |= Need.TOO_LARGE if len(batch.encode()) > limit else Need.PASS
        assert Need(int(code)) == expected


def test_the_delete_horizon_alone_does_not_keep_a_batch_from_passing() -> None:
    found = index(Written(records=(Rec(0, 5),), bits=DELETE_HORIZON, base_time=9).encode())
    assert needs(found, keep(found, start_offset=0), TARGET).tolist() == [Need.PASS]


@given(st.lists(st.integers(-1, 60), max_size=80), st.sets(st.integers(0, 60)))
def test_unknown_producers_are_found_once(ids: list[int], known: set[int]) -> None:
    found = index(b"".join(one(i, 1, producer=(producer, 0, 0)) for i, producer in enumerate(ids)))
    unknown = unknown_producers(found, producers(known)).tolist()
    assert sorted(unknown) == sorted(set(ids) - known - {-1})


def test_no_producer_is_known_at_first() -> None:
    assert unknown_producers(index(one(0, producer=(4, 0, 0))), NO_PRODUCERS).tolist() == [4]
