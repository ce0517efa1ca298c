"""Duties come round at their intervals, fail alone, and are on record."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from sparkmirror.duties.duty import Action, Change, Result, Sides, Sign, each
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.schedule import MOST_RETRY_SECONDS, RETRY_SECONDS, Schedule, _pause
from sparkmirror.flow.sides import connected
from sparkmirror.flow.status import told
from sparkmirror.kafka.ownership import Moment, this_moment
from sparkmirror.kafka.store import SURE_SECONDS
from sparkmirror.model import Alias, FlowName
from tests.flow.running import until


@dataclass(frozen=True)
class Deed:
    name: str
    fails: str = ""

    @property
    def change(self) -> Change | None:
        return Change(cluster=Alias("B"), sign=Sign.ADD, what=self.name) if self.name else None


@dataclass
class Rehearsed:
    """A duty whose rounds are written down beforehand; the last one is repeated."""

    name: str
    interval_s: float | None
    rounds: list[list[Deed] | Exception]
    at: list[float] = field(default_factory=list)

    def look(self) -> Sequence[Deed]:
        self.at.append(time.monotonic())
        now = self.rounds[min(len(self.at), len(self.rounds)) - 1]
        if isinstance(now, Exception):
            raise now
        return now

    def apply(self, actions: Sequence[Deed]) -> Sequence[Result]:
        def do(deed: Deed) -> None:
            if deed.fails:
                raise SparkmirrorError(deed.fails)

        return each(actions, do)


@pytest.fixture
def flow(lab_flow, topic):
    name = topic("S")
    return replace(
        lab_flow,
        name=FlowName(source=Alias(name), target=Alias("B")),
        source=replace(lab_flow.source, alias=Alias(name)),
    )


@pytest.fixture
def started(flow):
    with connected(flow, role="test") as sides:
        ensure_internal_topics(flow, sides.target)
        yield sides


def recorded(sides: Sides):
    assert sides.store is not None
    sides.store.follow()
    return {duty.name: duty for duty in told(sides.flow, sides.store.state, now_ms=0).duties}


def scheduled(flow, duties, notes):
    return Schedule(flow, lambda _: duties, name="test", note=notes.append)


@pytest.mark.parametrize(
    ("interval_s", "failures", "pause"),
    [
        (600.0, 0, 600.0),
        (600.0, 1, RETRY_SECONDS),
        (600.0, 2, 2 * RETRY_SECONDS),
        (600.0, 10_000, MOST_RETRY_SECONDS),
        (1.0, 0, 1.0),
        (1.0, 7, 1.0),
    ],
)
def test_a_round_that_failed_is_tried_again_sooner_but_never_more_often_than_its_interval(interval_s, failures, pause):
    assert _pause(interval_s, failures) == pause


@pytest.mark.kafka
def test_each_duty_comes_round_at_its_interval_and_one_that_fails_stops_no_other(flow, started):
    often = Rehearsed("often", 0.2, [[]])
    rarely = Rehearsed("rarely", 600.0, [[Deed("one"), Deed("two", fails="no right to")]])
    broken = Rehearsed("broken", 0.2, [SparkmirrorError("cannot be asked"), ValueError("defect"), []])
    notes: list[str] = []
    schedule = scheduled(flow, [often, rarely, broken], notes)
    schedule.start()
    until(lambda: len(often.at) >= 8 and len(broken.at) >= 5, "rounds")
    schedule.stop()
    assert schedule.join(30)
    assert len(rarely.at) == 1
    pauses = [after - before for before, after in zip(often.at, often.at[1:], strict=False)]
    assert min(pauses) >= 0.2
    assert notes == [
        "rarely: no right to",
        "broken: cannot be asked",
        "broken: ValueError: defect",
        "broken: works again",
    ]
    on_record = recorded(started)
    assert (on_record["rarely"].changed, on_record["rarely"].problems) == (1, ("no right to",))
    assert (on_record["broken"].changed, on_record["broken"].problems) == (0, ())
    assert on_record["rarely"].interval_s == 600.0


@pytest.mark.kafka
def test_whoever_hears_of_what_a_duty_did_can_have_another_one_look_before_its_time(flow, started):
    heard: list[Action] = []
    looks = Rehearsed("looks", 600.0, [[]])
    second = scheduled(flow, [looks], [])

    def hear(deed: Action) -> None:
        heard.append(deed)
        second.hurry()

    changes = Rehearsed("changes", 600.0, [[Deed("one"), Deed("two", fails="no right to"), Deed("")]])
    first = Schedule(flow, lambda _: [changes], name="test", note=lambda _: None, heed=hear)
    second.start()
    until(lambda: looks.at, "the first look")
    first.start()
    until(lambda: len(looks.at) == 2, "the second look")
    assert looks.at[1] > changes.at[0]
    for schedule in (first, second):
        schedule.stop()
        assert schedule.join(30)
    assert heard == [Deed("one"), Deed("")]
    assert (len(looks.at), len(changes.at)) == (2, 1)


@pytest.mark.kafka
def test_a_frequent_duty_goes_on_record_only_when_there_is_news(flow, started):
    quiet = Rehearsed("quiet", 0.05, [[Deed("")]])
    scheduled(flow, [quiet], []).once()
    first = recorded(started)["quiet"]
    schedule = scheduled(flow, [quiet], [])
    schedule.start()
    until(lambda: len(quiet.at) >= 20, "rounds")
    schedule.stop()
    assert schedule.join(30)
    assert started.store is not None
    started.store.follow()
    assert recorded(started)["quiet"].time_ms >= first.time_ms
    assert started.store._cursor.offset <= 3, "two schedules, one record each"


@pytest.mark.kafka
def test_a_round_of_each_can_be_had_at_once_and_says_what_went_wrong(flow, started):
    duties = [Rehearsed("one", 5.0, [[Deed("a", fails="no")]]), Rehearsed("two", 5.0, [SparkmirrorError("away")])]
    assert scheduled(flow, duties, []).once() == ("one: no", "two: away")


@pytest.mark.kafka
def test_of_many_problems_the_first_are_on_record_and_how_many_more_there_are(flow, started):
    deeds = [Deed("", fails=f"topic-{number:02}") for number in range(25)]
    scheduled(flow, [Rehearsed("one", 5.0, [deeds])], []).once()
    started.store.follow()
    problems = recorded(started)["one"].problems
    assert problems[0] == "topic-00"
    assert problems[19:] == ("topic-19", "and 5 more like these")


def test_a_schedule_without_duties_ends_by_itself(flow):
    schedule = scheduled(flow, [], [])
    before = threading.active_count()
    schedule.start()
    assert schedule.join(10)
    assert threading.active_count() <= before


@pytest.mark.kafka
def test_what_was_decided_before_another_driver_took_the_flow_is_not_applied(flow, started):
    """The driver stood still between look and apply: a machine that was paused, say."""
    first, name = started.store, f"driver of {flow.name}"
    first.own(name)
    assert first._ownership is not None
    stood_still_s = 0.0

    def clock() -> Moment:
        now = this_moment()
        return Moment(now.boot, now.wall + stood_still_s)

    first._ownership.clock = clock
    applied: list[str] = []

    class Pausing(Rehearsed):
        def apply(self, actions: Sequence[Deed]) -> Sequence[Result]:
            applied.extend(deed.name for deed in actions)
            return super().apply(actions)

    duty = Pausing("moves groups", 5.0, [[Deed("committed")]])
    schedule = Schedule(flow, lambda _: [duty], name="test", note=lambda _: None, prove=first.prove)
    assert schedule.once() == ()
    with connected(flow, role="second") as sides:
        assert sides.store is not None
        sides.store.own(name)
    stood_still_s = SURE_SECONDS + 1
    (trouble,) = schedule.once()
    assert "another driver" in trouble
    assert applied == ["committed"]
    assert first.lost
