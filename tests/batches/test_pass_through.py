"""Headers rewritten in place, read back by kafka-python."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import index, rewrite
from sparkmirror.errors import BatchError
from tests.batches.building import DELETE_HORIZON, TRANSACTIONAL, Rec, Written, one, read, sealed, written


@given(
    written(base_offset=10**12, bits=DELETE_HORIZON | TRANSACTIONAL | 128),
    st.integers(0, 2**63 - 1),
    st.integers(0, 32767),
    st.integers(0, 2**31 - 1),
    st.integers(0, 50),
)
def test_only_the_header_changes(batch: Written, producer: int, epoch: int, sequence: int, before: int) -> None:
    source = batch.encode()
    buffer = bytearray(bytes(before) + source + b"after")
    sent = rewrite(buffer, before, len(source), producer_id=producer, epoch=epoch, sequence=sequence)
    assert bytes(buffer[:before]) == bytes(before)
    assert buffer[-5:] == b"after"
    assert bytes(sent[61:]) == source[61:]
    got = read(sent)
    assert (got.base_offset, got.leader_epoch, got.attributes) == (0, -1, int(batch.codec))
    assert got.producer == (producer, epoch, sequence)
    assert [(r.time, r.key, r.value, r.headers) for r in got.records] == [
        (r.time, r.key, r.value, r.headers) for r in batch.seen()
    ]
    assert index(bytes(sent)).error is None


@pytest.mark.parametrize("size", [100, 5000, 12_300, 70_000, 1_100_000, 20_000_000])
def test_the_checksum_is_right_at_every_size(size: int) -> None:
    buffer = bytearray(one(99, size))
    sent = rewrite(buffer, 0, len(buffer), producer_id=1, epoch=2, sequence=3)
    assert bytes(sent) == sealed(bytes(sent))


def test_damage_after_the_check_is_not_covered_up() -> None:
    buffer = bytearray(one(99, 5000))
    buffer[4000] ^= 1
    sent = rewrite(buffer, 0, len(buffer), producer_id=1, epoch=2, sequence=3)
    assert bytes(sent) != sealed(bytes(sent))


def test_the_delete_horizon_bit_goes_and_the_times_stay() -> None:
    horizon = 1_700_000_500_000
    records = (Rec(0, 1_700_000_000_000), Rec(1, 1_600_000_000_000), Rec(2, 1_700_000_900_000))
    batch = Written(records=records, bits=DELETE_HORIZON, base_time=horizon)
    assert struct.unpack_from(">q", batch.encode(), 27)[0] == horizon
    buffer = bytearray(batch.encode())
    got = read(rewrite(buffer, 0, len(buffer), producer_id=1, epoch=0, sequence=0))
    assert got.attributes == 0
    assert got.base_time == horizon
    assert [r.time for r in got.records] == [r.time for r in records]


@pytest.mark.parametrize(("start", "size"), [(-1, 100), (0, 60), (0, 1000), (100, 100), (2**62, 100)])
def test_a_place_outside_the_buffer_is_refused(start: int, size: int) -> None:
    with pytest.raises(BatchError, match="no batch"):
        rewrite(bytearray(150), start, size, producer_id=1, epoch=0, sequence=0)


def test_a_buffer_that_cannot_be_written_is_refused() -> None:
    data = one(1)
    with pytest.raises(ValueError, match="bytearray"):
        rewrite(memoryview(data), 0, len(data), producer_id=1, epoch=0, sequence=0)
