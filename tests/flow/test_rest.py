"""When a partition that stands still is tried again."""

from __future__ import annotations

import pytest

from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.rest import FORGIVEN_SECONDS, LONGEST_SECONDS, PLANNED_AGAIN, Resting
from sparkmirror.model import TopicPartition, Writer

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def pauses(count: int, between: float = 0.0) -> list[float]:
    """Seconds from each failure to the next try."""
    resting, now, told = Resting(), 0.0, []
    for _ in range(count):
        resting.rest(ONE, "no", now)
        began = now
        while not resting.take_due(now):
            now += 0.5
        told.append(now - began)
        now += between
    return told


def test_the_pause_doubles_up_to_a_minute():
    assert pauses(9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_the_pause_stays_where_each_try_comes_nearer():
    resting, now = Resting(), 0.0
    for _ in range(20):
        resting.rest(ONE, "its log is read", now, at_least=2.0, nearer=True)
        assert resting.take_due(now + 1.5) == ()
        now += 2.0
        assert resting.take_due(now) == (ONE,)
    assert resting.failures(ONE) == 0
    resting.rest(ONE, "no", now)
    assert resting.take_due(now + 1.0) == (ONE,), "that is its first failure"


def test_a_partition_that_did_well_for_long_begins_with_a_second():
    assert pauses(3, between=FORGIVEN_SECONDS) == [1, 1, 1]


def test_a_partition_that_never_recovers_is_tried_once_a_minute_for_ever():
    resting = Resting()
    for minute in range(3_000):
        resting.rest(ONE, "no", minute * LONGEST_SECONDS)
    last = 2_999 * LONGEST_SECONDS
    assert resting.take_due(last + LONGEST_SECONDS - 1) == ()
    assert resting.take_due(last + LONGEST_SECONDS) == (ONE,)


def test_what_is_due_no_longer_rests():
    resting = Resting()
    resting.rest(OTHER, "b", 0.0)
    resting.rest(ONE, "a", 0.0)
    assert ONE in resting
    assert (len(resting), resting.errors()) == (2, {ONE: "a", OTHER: "b"})
    assert resting.take_due(5.0) == (ONE, OTHER)
    assert (len(resting), resting.errors()) == (0, {})
    assert resting.take_due(5.0) == ()


def test_a_partition_with_an_order_is_tried_at_once_but_never_before_what_it_must_wait_for():
    resting = Resting()
    for second in range(6):
        resting.rest(ONE, "no", float(second))
    resting.rest(OTHER, "its lane may live", 5.0, at_least=9.0)
    resting.wake([ONE, OTHER, TopicPartition("t", 2)], 7.0)
    assert resting.take_due(7.0) == (ONE,)
    assert resting.take_due(13.9) == ()
    assert resting.take_due(14.0) == (OTHER,)


@pytest.mark.parametrize("now", [0.0, 0.9])
def test_nothing_is_due_before_its_time(now: float):
    resting = Resting()
    resting.rest(ONE, "a", 0.0)
    assert resting.take_due(now) == ()


def test_the_newest_error_is_told():
    resting = Resting()
    resting.rest(ONE, "first", 0.0)
    resting.rest(ONE, "second", 0.1)
    assert resting.errors() == {ONE: "second"}


def test_the_pause_is_never_shorter_than_asked_for():
    resting = Resting()
    resting.rest(ONE, "no", 0.0, at_least=9)
    assert (resting.take_due(8.9), resting.take_due(9.0)) == ((), (ONE,))


def test_a_settled_stop_is_kept_until_the_next_failure():
    resting, where = Resting(), Resumed(position=5, writer=Writer(producer_id=1, epoch=2), sequence=7)
    resting.rest(ONE, "no", 0.0, settled=where)
    assert resting.take_due(1.0) == (ONE,)
    assert resting.settled(ONE) == where
    resting.rest(ONE, "killed", 2.0)
    assert resting.settled(ONE) is None
    assert (resting.failures(ONE), resting.failures(OTHER)) == (2, 0)


def test_what_only_waits_to_be_planned_again_does_not_stand_still():
    resting = Resting()
    assert resting.rest(ONE, "its topic was changed", 0, changed=True)
    resting.rest(OTHER, "no", 0)
    assert resting.errors() == {ONE: "its topic was changed", OTHER: "no"}
    assert resting.standing() == {OTHER: "no"}
    resting.rest(ONE, "no", 1)
    assert set(resting.standing()) == {ONE, OTHER}


def test_a_topic_that_is_changed_again_and_again_is_an_error():
    resting = Resting()
    passing = [resting.rest(ONE, "its topic was changed", now, changed=True) for now in range(PLANNED_AGAIN + 2)]
    assert passing == [True] * PLANNED_AGAIN + [False] * 2
    assert resting.rest(ONE, "its topic was changed", 2 * FORGIVEN_SECONDS, changed=True)
