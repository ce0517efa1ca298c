"""Which faults happen side by side; nothing is broken here."""

from __future__ import annotations

import threading
import time

import pytest

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.conductor import conduct
from sparkmirror.lab.chaos.deeds import Diary, Tell
from sparkmirror.lab.chaos.schedule import Fault, Kind, Resource, Side

PATIENCE_SECONDS = 20.0


def fault(number: int, kind: Kind, side: Side = Side.B) -> Fault:
    return Fault(number=number, at_s=0.0, kind=kind, side=side, pick=0.5, lasts_s=0.0, amount=0.0, ways=1)


def test_a_fault_that_touches_two_things_is_made_beside_none_that_touches_either() -> None:
    held: set[Resource] = set()
    broken: list[Fault] = []

    def do(one: Fault, tell: Tell) -> None:
        if held.intersection(one.resources):
            broken.append(one)
        held.update(one.resources)
        time.sleep(0.01)
        held.difference_update(one.resources)

    kinds = (Kind.TORN_IDLE, Kind.KILL_DRIVER, Kind.KILL_BROKER, Kind.HEALED_STOP)
    faults = [fault(number, kinds[number % 4]) for number in range(1, 41)]
    diary = Diary(lambda _: None)
    conduct(faults, dict.fromkeys(kinds, do), diary)
    assert not broken
    assert sorted(deed.fault.number for deed in diary.deeds) == list(range(1, 41))


def test_faults_that_touch_different_things_happen_side_by_side() -> None:
    both = threading.Barrier(2)

    def do(one: Fault, tell: Tell) -> None:
        both.wait(PATIENCE_SECONDS)

    faults = [fault(1, Kind.HEALED_STOP), fault(2, Kind.KILL_BROKER)]
    conduct(faults, {each.kind: do for each in faults}, Diary(lambda _: None))
    assert not both.broken


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        pytest.param(LabError("it cannot be"), "it cannot be", id="with words"),
        pytest.param(TimeoutError(), "TimeoutError", id="without words"),
    ],
)
def test_a_fault_that_could_not_be_made_is_told_and_the_next_one_is_made(problem: Exception, told: str) -> None:
    def do(one: Fault, tell: Tell) -> None:
        if one.number == 1:
            raise problem

    diary = Diary(lambda _: None)
    conduct([fault(1, Kind.TORN_IDLE), fault(2, Kind.KILL_BROKER)], {Kind.TORN_IDLE: do, Kind.KILL_BROKER: do}, diary)
    assert [deed.problem for deed in diary.deeds] == [told, ""]


@pytest.mark.parametrize(
    ("since", "alone"),
    [
        pytest.param(11.0, True, id="the other one was undone before"),
        pytest.param(9.0, False, id="the other one was being made still"),
    ],
)
def test_a_fault_is_alone_if_no_other_was_made_since(since: float, alone: bool) -> None:
    diary = Diary(lambda _: None)
    other, _ = diary.open(fault(1, Kind.CUT)), diary.open(fault(2, Kind.HEALED_STOP))
    other.ended = 10.0
    assert diary.alone(since) is alone
