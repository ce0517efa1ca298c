"""Lanes as rows of shifts, with shifts that are told when to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.config import Endpoint, FlowConfig
from sparkmirror.config.settings import ClientSettings
from sparkmirror.copy.orders import NO_ORDERS
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow.facts import Facts
from sparkmirror.flow.lanes import Lanes
from sparkmirror.flow.shift import Receipts
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer

PLAN = PartitionPlan(
    source=TopicPartition("t", 0), target_topic="a.t", topic_id="", position=0, writer=Writer(producer_id=1, epoch=0)
)


class Shifts:
    """Runs shifts that last until they are told to end."""

    def __init__(self) -> None:
        self.plans: list[ShiftPlan] = []
        self._ends: dict[str, threading.Event] = {}
        self._receipts: dict[str, Receipts] = {}

    def run(self, plan: ShiftPlan) -> Receipts:
        self.plans.append(plan)
        assert self._ends.setdefault(plan.shift, threading.Event()).wait(60)
        if plan.shift not in self._receipts:
            raise SparkmirrorError("killed")
        return self._receipts[plan.shift]

    def end(self, shift: str, outcome: Outcome = Outcome.HANDED_ON, position: int = 0) -> None:
        self._receipts[shift] = (
            Receipt(source=PLAN.source, outcome=outcome, position=position, sequence=position, writer=PLAN.writer),
        )
        self._ends.setdefault(shift, threading.Event()).set()

    def die(self, shift: str) -> None:
        self._ends.setdefault(shift, threading.Event()).set()

    def end_all(self) -> None:
        for plan in self.plans:
            self.end(plan.shift)


def flow(shift_max_ms: int) -> FlowConfig:
    def endpoint(alias: str) -> Endpoint:
        client = ClientSettings(bootstrap_servers=("localhost:1",))
        return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)

    name = FlowName(source=Alias("a"), target=Alias("b"))
    return FlowConfig(name=name, source=endpoint("a"), target=endpoint("b"), shift_max_ms=shift_max_ms)


@pytest.fixture
def shifts() -> Iterator[Shifts]:
    running = Shifts()
    yield running
    running.end_all()


@pytest.fixture
def lanes(shifts: Shifts) -> Iterator[Lanes]:
    written: list[Any] = []
    opened: Any = SimpleNamespace(
        generation=1,
        driver=PLAN.writer,
        source_id="A",
        target_id="B",
        facts=Facts({}),
        tells_writers=False,
        control=SimpleNamespace(append=written.append),
        writers=SimpleNamespace(carried=lambda _: ()),
        signs=SimpleNamespace(expect=lambda *_: None),
    )
    with ThreadPoolExecutor(8) as pool:
        yield Lanes(
            flow(200),
            opened,
            run="run",
            once=False,
            pool=pool,
            run_shift=shifts.run,
            opening=0,
            control_end=lambda: 0,
            orders=lambda: NO_ORDERS,
        )
        shifts.end_all()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def succeeded(lanes: Lanes, shifts: Shifts, count: int) -> bool:
    lanes.succeed()
    return len(shifts.plans) == count


def succeed_once(lanes: Lanes, shifts: Shifts, number: int) -> None:
    """Lets shift ``number`` start beside the one before it, and that one end."""
    before = f"lane-0.{number - 1}"
    until(lambda: succeeded(lanes, shifts, number + 1))
    assert shifts.plans[number].predecessors == {before}
    shifts.end(before)
    until(lambda: [ended.shift.plan.shift for ended in lanes.ended()] == [before])
    (lane,) = lanes
    assert (lane.current.plan.shift, lane.successor) == (f"lane-0.{number}", None)


def test_every_shift_of_a_lane_gets_a_successor_that_takes_over_from_it(lanes: Lanes, shifts: Shifts) -> None:
    lanes.start([PLAN])
    for number in range(1, 5):
        succeed_once(lanes, shifts, number)


def test_every_shift_goes_by_what_the_target_asks_when_it_is_submitted(lanes: Lanes, shifts: Shifts) -> None:
    facts: Facts = lanes._opened.facts
    small = replace(PLAN.facts, max_message_bytes=500)
    lanes.start([PLAN])
    facts.take({PLAN.target_topic: small}, 1.0)
    facts.guarded_ms = 77
    assert [plan.facts for plan in lanes.plans] == [PLAN.facts]
    succeed_once(lanes, shifts, 1)
    assert [plan.facts for plan in lanes.plans] == [small]
    assert [(shift.guarded_ms, shift.partitions[0].facts) for shift in shifts.plans[1:]] == [(77, small)]
    (lane,) = lanes
    facts.take({PLAN.target_topic: PLAN.facts}, 2.0)
    lanes.go_on(lane, list(lanes.plans))
    until(lambda: len(shifts.plans) == 3)
    assert shifts.plans[2].partitions[0].facts == PLAN.facts


def test_a_successor_that_gave_up_is_replaced(lanes: Lanes, shifts: Shifts) -> None:
    lanes.start([PLAN])
    until(lambda: succeeded(lanes, shifts, 2))
    shifts.end("lane-0.1", Outcome.NOT_STARTED)
    until(lambda: not list(lanes.ended()) and next(iter(lanes)).successor is None)
    until(lambda: succeeded(lanes, shifts, 3))
    assert shifts.plans[2].predecessors == {"lane-0.0"}


def test_what_a_successor_copied_counts_when_its_end_is_told_before_that_of_its_predecessor(
    lanes: Lanes, shifts: Shifts
) -> None:
    lanes.start([PLAN])
    until(lambda: succeeded(lanes, shifts, 2))
    (lane,) = lanes
    shifts.end("lane-0.1", position=7)
    until(lambda: lane.successor is not None and lane.successor.job.done())
    assert not list(lanes.ended())
    shifts.end("lane-0.0", position=3)
    seen: list[tuple[str, int]] = []

    def collect() -> bool:
        seen.extend((ended.shift.plan.shift, ended.receipts[0].position) for ended in lanes.ended())
        return len(seen) == 2

    until(collect)
    assert seen == [("lane-0.0", 3), ("lane-0.1", 7)]


def test_a_successor_that_died_is_not_forgotten_since_it_may_have_begun(lanes: Lanes, shifts: Shifts) -> None:
    lanes.start([PLAN])
    until(lambda: succeeded(lanes, shifts, 2))
    (lane,) = lanes
    shifts.die("lane-0.1")
    until(lambda: lane.successor is not None and lane.successor.job.done())
    assert not list(lanes.ended())
    shifts.end("lane-0.0")
    until(lambda: [ended.error for ended in lanes.ended()] == [""])
    until(lambda: [ended.error for ended in lanes.ended()] == ["killed"])
