"""What is worth merging: tables of round trips, batch sizes and what follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy.arrivals import SMALL_BYTES, SMALL_COMPRESSED_BYTES
from sparkmirror.copy.distance import FULL, IN_FLIGHT_PER_PARTITION, MOST_ROOM, NEAR, is_far, room, small
from tests.copy.making import place

MIB = 1 << 20


@pytest.mark.parametrize("round_trip", [0.0, 0.0002, 0.001, 0.005, 0.0199])
@pytest.mark.parametrize("limited", [0, 1, 100])
def test_nothing_changes_for_a_near_target(round_trip: float, limited: int):
    found = small(round_trip, limited, MIB)
    assert (found.plain, found.compressed) == (SMALL_BYTES, SMALL_COMPRESSED_BYTES)
    assert (found.plain, found.compressed) == (place().small, place().small_compressed)
    assert not is_far(round_trip)


@pytest.mark.parametrize(
    ("round_trip", "limited", "batch_bytes", "plain", "compressed"),
    [
        # One partition far away: whatever has room beside another batch.
        (0.100, 1, MIB, MIB // 2, MIB // 2),
        (0.300, 1, MIB, MIB // 2, MIB // 2),
        (0.100, 0, MIB, MIB // 2, MIB // 2),
        # In the next country: 64 KiB in flight five times every 20 ms are 16 MB/s, which opening them beats.
        (0.020, 1, MIB, MIB // 2, 180_000),
        # Many share the lane: what five in flight of each bring is more than could be opened.
        (0.100, 10, MIB, MIB // 2, 90_000),
        (0.100, 100, MIB, 60_000, 9_000),
        (0.100, 10_000, MIB, SMALL_BYTES, SMALL_COMPRESSED_BYTES),
        # The user asked for small batches, or the topic takes no larger ones.
        (0.100, 1, 100_000, 50_000, 50_000),
        (0.100, 1, 16_384, SMALL_BYTES, SMALL_COMPRESSED_BYTES),
    ],
)
def test_the_farther_the_target_the_more_is_worth_merging(
    round_trip: float, limited: int, batch_bytes: int, plain: int, compressed: int
):
    found = small(round_trip, limited, batch_bytes)
    assert (found.plain, found.compressed) == (plain, compressed)


@pytest.mark.parametrize("limited", [1, 8, 64])
def test_never_less_is_merged_than_for_a_near_target_and_never_more_for_a_nearer_one(limited: int):
    before = NEAR
    for milliseconds in range(0, 500, 5):
        found = small(milliseconds / 1000, limited, MIB)
        assert found.plain >= before.plain
        assert found.compressed >= before.compressed
        before = found


@pytest.mark.parametrize(
    ("poured", "sealed", "wanted"),
    [
        (MIB, MIB, MIB),  # nothing was gained
        (MIB, MIB // 2, int(2 * FULL * MIB)),
        (MIB, MIB // 4, int(4 * FULL * MIB)),
        (3 * MIB, MIB, int(3 * FULL * MIB)),
        (4 * MIB, 2 * MIB, int(2 * FULL * MIB)),  # it had come out too large
        (MIB, 2_000, MOST_ROOM * MIB),  # zeros
    ],
)
def test_the_next_batch_is_poured_so_that_it_comes_out_nearly_full(poured: int, sealed: int, wanted: int):
    assert room(MIB, poured, sealed) == wanted


def test_as_many_are_in_flight_as_a_broker_remembers():
    assert IN_FLIGHT_PER_PARTITION == 5


@given(st.integers(1, 2 * MIB), st.integers(1, 16 * MIB), st.integers(1, 16 * MIB))
def test_a_guess_that_was_too_large_is_followed_by_a_smaller_one(limit: int, poured: int, sealed: int):
    """So that making a batch anew comes to an end."""
    if poured > limit < sealed:
        assert limit <= room(limit, poured, sealed) < poured
