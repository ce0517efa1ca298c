"""How long a driver goes on with what its internal topic has lost, how often, and what it tells of that."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from sparkmirror.errors import FencedError, LinkError, SparkmirrorError
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.restoring import PART_SECONDS, PAUSE, WAIT_SECONDS, Restoring, last_records
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import FLOW, Happened, Progress, Stopped
from sparkmirror.offsets.segments import Segments
from sparkmirror.offsets.state import JournalState

PLACE, WRITER = TopicPartition("orders", 0), Writer(producer_id=7, epoch=1)
SENT = Segments(partition=PLACE, writer=WRITER, sequence=0, source=0)
ACKNOWLEDGED = Progress(
    partition=PLACE, writer=WRITER, generation=1, position=5, next_sequence=5, sequence=4, source=4, target=4
)


class Topic:
    """An internal topic that has lost what a lane has sent and the target has not acknowledged."""

    place = "cluster b, t-0"

    def __init__(self, parts: int = 1) -> None:
        self.state, self.parts, self.lacks = JournalState(), parts, True
        self.state.take(SENT)
        self.asked: list[float] = []
        self.written: list[object] = []
        self.failure: SparkmirrorError | None = None
        self.followed = False

    def left(self, seconds: float) -> JournalState | None:
        self.asked.append(seconds)
        self.parts -= 1
        return JournalState() if self.parts <= 0 else None

    def write(self, records: Sequence[object], keys: Sequence[str]) -> None:
        if self.failure is not None:
            raise self.failure
        self.written += [*records, *keys]

    def follow(self) -> None:
        self.followed = True

    def restored(self) -> None:
        self.lacks = False


STOPPED = Stopped(generation=1, time_ms=0)


def opened_with(topic: Topic) -> Opened:
    return cast("Opened", SimpleNamespace(store=topic, writers=SimpleNamespace(ids=(7,)), stopped=lambda: STOPPED))


def restoring(topic: Topic) -> Restoring:
    return Restoring(opened_with(topic))


def rounds(driver: Restoring, since: int, until: int) -> list[str]:
    """One each second; what is told in them."""
    return [event.text for second in range(since, until) for event in driver.go_on(float(second))]


def test_the_topic_is_read_in_parts_and_what_is_not_acknowledged_is_waited_for_from_when_that_is_done():
    topic = Topic(parts=40)
    driver = restoring(topic)
    assert rounds(driver, 0, 39 + int(WAIT_SECONDS)) == []
    assert topic.asked == [PART_SECONDS] * 42  # and then after 5 and 15 seconds
    (told,) = rounds(driver, 39 + int(WAIT_SECONDS), 200)
    assert "not acknowledged yet" in told
    assert (topic.lacks, topic.written) == (True, [])


def test_what_is_waited_for_is_put_there_however_long_that_has_taken_and_that_is_told():
    topic = Topic()
    driver = restoring(topic)
    assert len(rounds(driver, 0, 3_600)) == 1
    topic.state.take(ACKNOWLEDGED)
    (told,) = rounds(driver, 3_600, 3_600 + int(PAUSE.most) + 1)
    assert "has again what its driver had read" in told
    assert (topic.lacks, topic.written) == (False, [SENT])


def test_what_fails_is_told_once_and_tried_again_after_longer_pauses_up_to_a_minute():
    topic = Topic()
    topic.failure = LinkError(cluster="b", address="", reason="no answer")
    driver = restoring(topic)
    (told,) = rounds(driver, 0, 600)
    assert "no answer" in told
    assert "See that the driver can read and write the topic" in told
    assert len(topic.asked) == 5 + (600 - 75) // 60
    topic.failure = None
    topic.state.take(ACKNOWLEDGED)
    assert len(rounds(driver, 600, 661)) == 1
    assert not topic.lacks
    topic.lacks, topic.failure = True, LinkError(cluster="b", address="", reason="no answer")
    assert len(rounds(driver, 661, 662)) == 1, "a second loss is told too"


def test_nothing_is_waited_for_at_the_end_where_nobody_else_writes():
    topic = Topic()
    assert restoring(topic).end(over=True) == ()
    assert (topic.lacks, topic.written) == (False, [SENT])


def test_what_a_lane_may_still_write_is_not_there_again_at_the_end_which_says_so():
    topic = Topic()
    (event,) = restoring(topic).end(over=False)
    assert "no clean end" in event.text
    assert (topic.lacks, topic.written) == (True, [])


def test_an_end_at_which_it_fails_leaves_the_loss_and_says_so():
    topic = Topic()
    topic.failure = LinkError(cluster="b", address="", reason="no answer")
    (event,) = restoring(topic).end(over=True)
    assert "no answer" in event.text
    assert "no clean end" in event.text
    assert topic.lacks


def test_a_run_that_copies_nothing_ends_cleanly_with_what_its_topic_had_lost_there_again():
    topic = Topic()
    assert last_records(opened_with(topic)) == [STOPPED]
    assert (topic.followed, topic.lacks, topic.written) == (True, False, [SENT])


def test_a_run_that_copies_nothing_has_no_clean_end_where_its_topic_still_lacks_something():
    topic = Topic()
    topic.failure = LinkError(cluster="b", address="", reason="no answer")
    (told,) = last_records(opened_with(topic))
    assert isinstance(told, Happened)
    assert (told.partition, topic.lacks) == (FLOW, True)
    assert "no clean end" in told.event.text


@pytest.mark.parametrize("lost", [True, False])
def test_a_run_that_copies_nothing_has_no_clean_end_while_others_may_still_write(lost: bool):
    topic = Topic()
    topic.lacks = lost
    assert [type(one) for one in last_records(opened_with(topic), over=False)] == ([Happened] if lost else [])
    assert (topic.followed, topic.lacks, topic.written) == (True, lost, [])


def test_a_run_that_has_lost_the_flow_is_told_by_nobody_but_the_refusal():
    topic = Topic()
    topic.failure = FencedError(code=90, name="PRODUCER_FENCED", cluster="b")
    topic.state.take(ACKNOWLEDGED)
    with pytest.raises(FencedError):
        restoring(topic).go_on(1.0)
    with pytest.raises(FencedError):
        restoring(topic).end(over=True)


def test_a_topic_that_lacks_nothing_is_left_alone():
    topic = Topic()
    topic.lacks = False
    driver = restoring(topic)
    assert driver.go_on(1.0) == ()
    assert driver.end(over=True) == ()
    assert topic.asked == []
