"""What a settled flow leaves on record last, and what is told where its internal topic still lacks something."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.config import FlowConfig
from sparkmirror.errors import LinkError
from sparkmirror.flow import settling
from sparkmirror.flow.settling import settle, write_last
from sparkmirror.flow.takeover import Resumption, Waiting
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.records import FLOW, Happened, Stopped
from sparkmirror.offsets.state import JournalState
from tests.failover.test_look import flow_of
from tests.flow.test_restoring import ACKNOWLEDGED, PLACE, STOPPED, Topic, opened_with


class Unread(Topic):
    """An internal topic that has lost something, and of which nobody can read what is left."""

    def left(self, seconds: float) -> JournalState | None:
        raise LinkError(cluster="b", address="", reason=f"no answer in {seconds} s")

    def write(self, records: Sequence[object], keys: Sequence[str] = ()) -> None:
        self.written += [*records, *keys]


class NothingResumed:
    """Of which partitions nothing is taken over."""

    def __init__(self, waiting: Mapping[TopicPartition, Waiting]) -> None:
        self._found = Resumption(resumed={}, waiting=waiting)

    def hand_out(self, partitions: Collection[TopicPartition]) -> None:
        assert not partitions

    def resume(self, *_: object) -> Resumption:
        return self._found


def test_a_topic_that_still_lacks_something_has_no_clean_end_and_is_told_of():
    topic = Unread()
    (text,) = write_last(opened_with(topic), over=True, whole=True)
    assert "no answer" in text
    assert "the next start reads the target's logs, and source offsets of which it finds entries missing" in text
    (written,) = topic.written
    assert isinstance(written, Happened)
    assert (written.partition, written.event.text) == (FLOW, text)


@pytest.mark.parametrize(("whole", "exact_after"), [(True, 0), (False, 3)])
def test_nothing_is_told_of_a_topic_that_lacks_nothing(whole: bool, exact_after: int):
    topic, stopped = Unread(), Stopped(generation=4, time_ms=0, exact_after=3)
    topic.lacks = False
    opened: Any = SimpleNamespace(store=topic, writers=SimpleNamespace(ids=(7,)), stopped=lambda: stopped)
    assert write_last(opened, over=True, whole=whole) == ()
    (written,) = topic.written
    assert isinstance(written, Stopped)
    assert written.exact_after == exact_after


@pytest.mark.parametrize(("waits", "lacks"), [(False, True), (True, True), (True, False), (False, False)])
def test_settling_tells_what_the_topic_still_lacks_whether_all_is_settled_or_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, waits: bool, lacks: bool
):
    topic, told = Unread(), list[str]()
    topic.lacks = lacks
    topic.state.take(ACKNOWLEDGED)
    waiting = {PLACE: Waiting("its leader does not answer")} if waits else {}
    monkeypatch.setattr(settling, "open_without_source", lambda *_, **__: opened_with(topic))
    monkeypatch.setattr(settling, "_that_answer", lambda _config, _target, known, _awaited: dict(known))
    monkeypatch.setattr(settling, "read", _all)
    monkeypatch.setattr(settling, "Takeover", lambda *_: None)
    monkeypatch.setattr(settling, "Resuming", lambda *_: NothingResumed(waiting))
    target: Any = None
    found = settle(flow_of(tmp_path), target, "mm2.properties", 0.0, tell=told.append)
    assert found == {place: each.reason for place, each in waiting.items()}
    assert len(told) == lacks
    assert (STOPPED.generation in [getattr(one, "generation", None) for one in topic.written]) is not (waits or lacks)


def _all(_config: FlowConfig, names: Collection[str], *_: object) -> Collection[str]:
    return names
