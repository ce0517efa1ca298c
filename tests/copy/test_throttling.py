"""Quotas: what is told of them, and how large requests are while they hold us back."""

from __future__ import annotations

import pytest

from sparkmirror.copy.throttling import LEAST_BYTES, Throttling, request_bytes, tell
from sparkmirror.events import Kind
from tests.copy.making import partition

MOST = 8 << 20


def test_a_broker_that_holds_back_for_most_of_a_minute_is_told_of_once():
    subject = Throttling("B", "writing")
    for second in range(0, 58, 2):
        subject.note(1, 1_100, 100.0 + second)
        subject.note(2, 200, 100.0 + second)
    assert [(node, round(seconds)) for node, seconds in subject.long(160.0)] == [(1, 32)]
    assert not list(subject.long(160.5))
    assert not list(subject.long(300.0)), "it has let go"
    subject.note(1, 40_000, 300.0)
    assert not list(subject.long(310.0)), "what is still to come does not count"
    assert list(subject.long(341.0)), "again"


def test_pauses_that_overlap_count_once():
    subject = Throttling("B", "writing")
    for _ in range(5):
        subject.note(1, 10_000, 100.0)
    assert not list(subject.long(115.0))


def test_the_event_goes_with_a_partition_of_the_broker_that_is_not_stopped():
    first, second, third = (partition() for _ in range(3))
    first.target_leader, second.target_leader, third.target_leader = 2, 1, 1
    second.stop("no disk")
    source, target = Throttling("A", "reading"), Throttling("B", "writing")
    target.note(1, 50_000, 0.0)
    tell([first, second, third], source, target, 50.0)
    assert not first.tally.events
    assert [event.kind for event in second.tally.events] == [Kind.STOPPED]
    (event,) = third.tally.events
    assert event.kind is Kind.THROTTLED
    assert event.text.startswith("broker 1 of B held writing back for 50 of the last 60 s, because of a quota")


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
