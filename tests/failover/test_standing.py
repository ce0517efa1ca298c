"""What a plan was made from, and whether operators have done anything since."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import load
from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.standing import has_changed, of_row, order_of, row_of, standing, told_of_change
from sparkmirror.failover.states import Kind, Step
from sparkmirror.failover.switching import flow_between, prepared
from sparkmirror.offsets.group_records import GroupLeft, GroupsSeen
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.state import JournalState
from tests.failover.halting import halted
from tests.failover.test_left_behind import both_ways, has, set_to, written
from tests.flow.running import Running, committed
from tests.invoking import sparkmirror


def operation(number: int) -> Operation:
    return Operation(
        token="t",
        number=number,
        id="switchover-1",
        kind=Kind.SWITCHOVER.value,
        step=Step.DONE.name,
        source="b",
        target="a",
        began_ms=1,
        time_ms=2,
        by="me",
    )


HOLD = HoldOrder(operation="switchover-1", reason="switchover to a", time_ms=3, by="me")


def record(*more: Operation | HoldOrder | GroupsSeen | GroupLeft) -> JournalState:
    state = JournalState()
    for one in more:
        state.take(one)
    return state


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        ((), (), False),
        ((), (operation(1),), True),
        ((operation(1),), (operation(1),), False),
        ((operation(1),), (operation(2),), True),
        ((operation(1), HOLD), (operation(1),), True),
    ],
)
def test_an_operation_that_has_gone_on_and_a_hold_that_is_another_one_are_seen(before, now, changed):
    kept = of_row(row_of(standing(record(*before))))
    assert has_changed(kept, record(*now)) is changed


@pytest.mark.parametrize(
    ("records", "order"),
    [
        ((), 0),
        ((operation(1),), 1),
        ((replace(operation(1), order_ms=9),), 9),
        ((replace(operation(1), order_ms=9), replace(HOLD, order_ms=11)), 11),
        ((operation(1), HOLD), 3),
        ((HOLD, GroupsSeen(time_ms=99, back_ms=12)), 12),
        ((HOLD, GroupLeft(group="g", topic="orders", offsets={}, time_ms=14)), 14),
    ],
)
def test_an_operation_comes_after_all_that_is_on_record_of_the_flow_and_was_seen_of_the_flow_back(records, order):
    assert order_of(record(*records)) == order


def test_what_could_not_be_read_is_not_told_as_changed():
    assert row_of(None) == []
    assert of_row([]) is None
    assert not has_changed(None, record(operation(1)))
    assert not has_changed(standing(record(operation(1))), None)


def test_who_has_done_what_is_told():
    said = told_of_change("b->a", record(operation(1), HOLD), "this plan was made")
    assert said == (
        "b->a: an operation has gone on since this plan was made, the newest is switchover-1 by me (done); the flow is "
        "stopped by switchover to a now"
    )


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_a_plan_is_outdated_by_an_operation_the_other_way_also_once_it_was_begun(cluster_a, cluster_b, topic, tmp_path):
    name = topic("opposite")
    file = both_ways(cluster_a, cluster_b, name, tmp_path)
    there, home = ("--from", name, "--to", "b"), ("--from", "b", "--to", name)
    told = ("--wait-for-idle", "1", "--yes", "--report", tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 10)
        has(cluster_b, name, 10)
        written(cluster_b, name, "away", 5)
        has(cluster_a, name, 15)
        group = f"{name}-g"
        set_to(cluster_a, group, name, 7)
        with prepared(flow_between(load([str(file)]), name, "b"), str(file)) as late:
            late.plan(Kind.SWITCHOVER, Options(idle_s=1))
            other = sparkmirror("switchover", file, *home, *told)
            assert "switchover-" in other.stdout, other.stdout + other.stderr
            with pytest.raises(SparkmirrorError, match="an operation has gone on since this plan was made") as caught:
                late.carry_out(Kind.SWITCHOVER, Options(idle_s=1), print, answers=True)
            assert str(caught.value).startswith(f"b->{name}: ")
            assert late.unfinished is None
        assert sparkmirror("release", file, "--flow", f"b->{name}", "--yes").returncode == 0
        command = halted(Step.MOVING, "switchover", file, *there, *told)
        other = sparkmirror("switchover", file, *home, *told, "--force")
        assert other.returncode in (0, 1), other.stdout + other.stderr
        command.kill()
        command.wait()
        before = committed(cluster_b, group, name)
        late_one = sparkmirror("switchover", file, *there, *told)
        assert late_one.returncode != 0
        assert "No group was moved: take this operation back with --abandon" in " ".join(late_one.stderr.split())
        assert committed(cluster_b, group, name) == before
        assert sparkmirror("switchover", file, *there, *told, "--abandon").returncode == 0
        mirror.stop_in_time()
