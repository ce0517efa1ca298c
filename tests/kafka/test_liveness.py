"""What is known of when a sign of life was written, from readings of the topic alone."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.kafka.liveness import SILENT_SECONDS, Heard, is_alive
from sparkmirror.offsets.records import Life

FIRST, NEXT = (Life(generation=1, time_ms=time_ms, state="running", lanes=1) for time_ms in (5, 9))


def heard(*readings: tuple[float, Life | None]) -> Heard:
    """After readings that take a tenth of a second each."""
    found = Heard()
    for began, sign in readings:
        found = found.read(sign, began, began + 0.1)
    return found


def test_a_sign_that_was_there_at_the_first_reading_shows_no_driver_that_lives_whatever_time_it_bears():
    assert not heard((100, FIRST)).is_within(SILENT_SECONDS, 100)
    assert not heard((100, FIRST), (103, FIRST)).is_within(SILENT_SECONDS, 103)


def test_a_sign_that_came_since_the_reading_before_is_no_older_than_that():
    one = heard((100, FIRST), (102, FIRST), (103, NEXT))
    assert (one.since, one.until) == (102, 103.1)
    assert one.is_within(SILENT_SECONDS, 112)
    assert not one.is_within(SILENT_SECONDS, 112.1)
    assert not heard((100, FIRST), (200, NEXT)).is_within(SILENT_SECONDS, 200), "it may have died 99 s ago"


@pytest.mark.parametrize(("looked", "silent"), [(110, False), (110.1, True)])
def test_a_driver_is_silent_where_nothing_has_come_for_as_long_as_that_was_looked_for(looked: float, silent: bool):
    assert heard((100, FIRST), (looked, FIRST)).is_silent() == silent
    assert not heard((100, FIRST), (looked, NEXT)).is_silent()


def test_a_driver_has_so_long_until_it_counts_as_silent():
    one = heard((100, FIRST), (102, FIRST))
    assert one.seconds_left(4, 102) == pytest.approx(2.1)
    assert one.seconds_left(4, 110) == 0


def test_a_driver_that_is_silent_is_waited_for_no_longer_than_it_takes_to_be_so(monkeypatch):
    store: Any = SimpleNamespace(heard=Heard(), state=SimpleNamespace(life=FIRST), time=100.0)
    store.now = lambda: store.time

    def follow() -> None:
        store.heard = store.heard.read(FIRST, store.time, store.time + 0.1)
        store.time += 0.1

    def sleep(seconds: float) -> None:
        store.time += max(seconds, 1e-6)

    store.follow = follow
    monkeypatch.setattr(time, "sleep", sleep)
    assert not is_alive(store, 4.3)
    assert 104.4 <= store.time < 104.7, "the last reading begins when that is so"


def test_one_that_has_lost_the_end_of_its_log_is_read_as_if_for_the_first_time():
    assert not Heard().read(FIRST, 104, 104.1).is_within(SILENT_SECONDS, 104)
    assert Heard().read(None, 104, 104.1).read(None, 120, 120.1).is_silent()
