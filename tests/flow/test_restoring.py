"""How long a driver goes on with what its internal topic has lost, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from sparkmirror.flow.opening import Opened
from sparkmirror.flow.restoring import AGAIN_SECONDS, PART_SECONDS, WAIT_SECONDS, Restoring
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.segments import Segments
from sparkmirror.offsets.state import JournalState

SENT = Segments(partition=TopicPartition("orders", 0), writer=Writer(producer_id=7, epoch=1), sequence=0, source=0)


class Topic:
    """An internal topic that has lost what a lane has sent and the target has not acknowledged."""

    def __init__(self, parts: int) -> None:
        self.state, self.parts, self.lacks = JournalState(), parts, True
        self.state.take(SENT)
        self.asked: list[float] = []
        self.written: list[object] = []

    def left(self, seconds: float) -> JournalState | None:
        self.asked.append(seconds)
        self.parts -= 1
        return JournalState() if self.parts <= 0 else None

    def write(self, records: Sequence[object], keys: Sequence[str]) -> None:
        self.written += [*records, *keys]

    def restored(self) -> None:
        self.lacks = False


def restoring(topic: Topic) -> Restoring:
    return Restoring(cast("Opened", SimpleNamespace(store=topic, writers=SimpleNamespace(ids=(7,)))))


def test_the_topic_is_read_in_parts_and_waited_for_from_when_that_is_done():
    topic = Topic(parts=40)
    driver = restoring(topic)
    seconds = 0
    while topic.lacks:
        seconds += 1
        driver.go_on(float(seconds))
    assert seconds == 40 + WAIT_SECONDS
    assert topic.asked == [PART_SECONDS] * (40 + int(WAIT_SECONDS / AGAIN_SECONDS))
    assert topic.written == []


def test_nothing_is_waited_for_at_the_end():
    topic = Topic(parts=1)
    restoring(topic).end()
    assert not topic.lacks


def test_a_topic_that_lacks_nothing_is_left_alone():
    topic = Topic(parts=1)
    topic.lacks = False
    driver = restoring(topic)
    driver.go_on(1.0)
    driver.end()
    assert topic.asked == []
