"""Quotas: what a lane tells of them, and how large its requests are while they hold it back."""

from __future__ import annotations

import pytest

from sparkmirror.copy.throttling import LEAST_BYTES, Told, request_bytes, tell
from sparkmirror.events import Kind
from sparkmirror.kafka.throttling import Throttling
from tests.copy.making import partition

MOST = 8 << 20


def test_the_event_goes_with_a_partition_of_the_broker_that_is_not_stopped():
    first, second, third = (partition() for _ in range(3))
    first.target_leader, second.target_leader, third.target_leader = 2, 1, 1
    second.stop("no disk")
    source, target, told = Throttling("A"), Throttling("B"), Told()
    target.note(1, 50_000, "ProduceResponse", 0.0)
    for second_later in (50.0, 51.0):
        tell([first, second, third], source, target, told, second_later)
    assert not first.tally.events
    assert [event.kind for event in second.tally.events] == [Kind.STOPPED]
    (event,) = third.tally.events
    assert event.kind is Kind.THROTTLED
    assert event.text.startswith("broker 1 of B held writing back for 50 of the last 60 s, because of a quota")


def test_a_broker_that_has_no_partition_now_is_told_of_with_another_one_that_is_not_stopped():
    """Leaders are not known while the questions for them are held back."""
    first, second = partition(), partition()
    first.stop("no disk")
    source, target, told = Throttling("A"), Throttling("B"), Told()
    source.note(7, 50_000, "MetadataResponse", 0.0)
    tell([first], source, target, told, 50.0)
    assert [event.kind for event in first.tally.events] == [Kind.STOPPED]
    tell([first, second], source, target, told, 51.0)
    (event,) = second.tally.events
    assert event.text.startswith("broker 7 of A held other requests back for 50 of the last 60 s")


@pytest.mark.parametrize(
    ("now", "throttle_ms", "following"),
    [
        (MOST, 0, MOST),
        (MOST, 500, MOST),  # a short pause is as it should be: the quota is used up
        (MOST, 5_000, MOST // 2),
        (LEAST_BYTES, 60_000, LEAST_BYTES),
        (1_000_000, 0, 1_250_000),
        (MOST - 1, 0, MOST),
    ],
)
def test_requests_get_smaller_while_pauses_are_long_and_grow_again(now: int, throttle_ms: int, following: int):
    assert request_bytes(now, throttle_ms, MOST) == following


def test_a_limit_below_the_least_size_holds():
    assert request_bytes(1_000, 5_000, 1_000) == 1_000
