"""What a run tells in its log."""

from __future__ import annotations

import logging

import pytest

from sparkmirror.flow.event_log import AGAIN_SECONDS, NEWEST, REMEMBERED, EventLog


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events(clock: Clock, caplog: pytest.LogCaptureFixture) -> EventLog:
    caplog.set_level(logging.WARNING, "sparkmirror")
    return EventLog("a->b", clock)


def test_of_much_at_once_all_is_logged_and_the_newest_is_shown(events, caplog):
    texts = [f"orders-{number} stands still" for number in range(200)]
    for text in texts:
        events.note(text)
    assert caplog.messages == texts
    assert events.newest == tuple(texts[-NEWEST:])
    assert {record.flow for record in caplog.records} == {"a->b"}


def test_what_fails_every_second_is_one_line_each_ten_minutes(events, clock, caplog):
    for clock.now_s in range(int(2 * AGAIN_SECONDS)):
        for text in ("b: no answer", "orders-1 stands still"):
            events.note(text)
    assert caplog.messages == ["b: no answer", "orders-1 stands still"] * 2


def test_what_was_withdrawn_is_new_when_it_comes_again(events, caplog):
    for _ in range(2):
        events.note("a: no answer")
        events.withdraw("a: no answer")
    assert caplog.messages == ["a: no answer"] * 2
    assert events.newest == ()


def test_what_is_told_is_logged_each_time_and_shown_once(events, caplog):
    for text in ("groups: no answer", "groups: works again") * 2:
        events.tell(text)
    assert len(caplog.messages) == 4
    assert events.newest == ("groups: no answer", "groups: works again")


def test_the_memory_does_not_grow(events, caplog):
    for number in range(REMEMBERED + 1):
        events.note(f"orders-{number} stands still")
    events.note("orders-1 stands still")
    assert len(caplog.messages) == REMEMBERED + 1
    events.note("orders-0 stands still")
    assert len(caplog.messages) == REMEMBERED + 2
