"""Groups that others use on the cluster that they are moved to, between the decision and the commit."""

from __future__ import annotations

import itertools
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.config import load
from sparkmirror.failover import procedure
from sparkmirror.failover.failback import Failback
from sparkmirror.failover.moves import MOVED_OR_NOT
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.states import Kind, Step
from sparkmirror.failover.switching import flows_back, prepared, prepared_back
from sparkmirror.kafka.groups import commit_offsets
from tests.failover.dying import BETWEEN
from tests.failover.halting import COMMITTING, halted
from tests.failover.test_interrupted_switching import DONE, Switchover
from tests.failover.test_left_behind import both_ways, has, set_to, written
from tests.failover.test_switching import begun, died
from tests.flow.running import Running, client_of, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import mirrored
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def newest(directory: Path, kind: str) -> dict[str, Any]:
    paths = (path for path in directory.glob(f"{kind}-*.json") if "interrupted" not in path.name)
    return dict(json.loads(max(paths, key=lambda path: path.stat().st_mtime).read_text()))


def test_what_others_commit_on_the_target_right_before_groups_are_moved_stays(
    cluster_a, cluster_b, topic, tmp_path, monkeypatch
):
    """For one group they do so each time."""
    over = Switchover(cluster_a, cluster_b, topic("between"), tmp_path)
    busy, offsets = f"{over.name}-busy", itertools.count(10)
    commit(cluster_a, busy, over.name, {0: 90})

    def late(*args: Any, **named: Any) -> Any:
        if (number := next(offsets)) == 10:
            commit(cluster_b, over.on, over.copy, {0: 50})
            commit(cluster_b, over.back, over.copy, {0: 10})
        commit(cluster_b, busy, over.copy, {0: number})
        return commit_offsets(*args, **named)

    monkeypatch.setattr(procedure, commit_offsets.__name__, late)
    (flow,) = load([str(over.file)]).flows
    with Running(over.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, over.copy)) == DONE, "copied")
        with prepared(flow, str(over.file)) as desk:
            report = desk.carry_out(Kind.SWITCHOVER, Options(idle_s=1), print, answers=True)
        assert f"group {busy} is in use on the target: what others commit for it there stays" in report.troubles
        groups = {over.on: 50, over.back: 30, busy: 9 + procedure.LOOKS_AGAIN + 1}
        assert {group: committed(cluster_b, group, over.copy) for group in groups} == {
            group: {0: offset} for group, offset in groups.items()
        }
        mirror.stop_in_time()


@pytest.mark.long
def test_a_group_that_may_have_been_moved_by_a_killed_command_is_never_called_exact(
    cluster_a, cluster_b, topic, tmp_path
):
    """Its consumers commit, and nobody knows whether the killed command had committed before."""
    over = Switchover(cluster_a, cluster_b, topic("perhaps"), tmp_path)
    with Running(over.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, over.copy)) == DONE, "copied")
        command = over.halted(COMMITTING)
        command.kill()
        command.wait()
        commit(cluster_b, over.on, over.copy, {0: 50})
        code, said = over.again()
        assert code == 1, said
        assert {group: committed(cluster_b, group, over.copy) for group in (over.on, over.back)} == {
            over.on: {0: 50},
            over.back: {0: 30},
        }
        (trouble,) = over.report["troubles"]
        assert f"group {over.on} at {over.name}-0 (others have committed there" in trouble
        exact = {each["group"]: each["partitions"][0]["exact"] for each in over.report["groups"]}
        assert exact == {over.on: False, over.back: True}
        mirror.stop_in_time()


def test_a_consumer_that_commits_between_two_requests_for_its_group_is_not_taken_for_moved(
    cluster_a, cluster_b, topic, tmp_path
):
    """A group with many offsets needs several: here one for each, and the command dies behind the first."""
    name = topic("several")
    group, copy = f"{name}-g", f"{name}.{name}"
    settings = {"tasks.max": "1", "groups": f"{name}-.*"}
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, {f"{name}->b": name}, settings)
    create_topic(cluster_a, name, 3)
    words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path), "--wait-for-idle", "1")
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 0})
        for number in range(15):
            producer.produce(name, b"", partition=number % 3)
        assert producer.flush(60) == 0
        commit(cluster_a, group, name, dict.fromkeys(range(3), 3))
        until(lambda: ends(cluster_b, copy) == dict.fromkeys(range(3), 5), "copied")
        commit(cluster_b, group, copy, {2: 1})
        died(begun(file, "switchover", *words, dies_in=BETWEEN))
        assert committed(cluster_b, group, copy) == {0: 3, 2: 1}
        commit(cluster_b, group, copy, {1: 5})
        done = sparkmirror("switchover", file, *words)
        assert done.returncode == 1, done.stdout + done.stderr
        assert committed(cluster_b, group, copy) == {0: 3, 1: 5, 2: 3}
        report = newest(tmp_path, "switchover")
        (trouble,) = report["troubles"]
        assert f"{group} at {name}-1 ({MOVED_OR_NOT}; it stays at offset 5)" in trouble
        (moved,) = report["groups"]
        assert [each["exact"] for each in moved["partitions"]] == [True, False, True]
        mirror.stop_in_time()


@pytest.mark.long
def test_a_group_that_got_members_right_before_it_was_moved_stays_where_it_is_in_a_failback(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("apart")
    group, file = f"{name}-g", both_ways(cluster_a, cluster_b, name, tmp_path)
    file.write_text(file.read_text() + "\nsync.group.offsets.enabled=false\n")
    told = ("--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 20)
        has(cluster_b, name, 20)
        commit(cluster_a, group, name, {0: 10})
        command = halted(COMMITTING, "switchover", file, "--from", name, "--to", "b", *told)
        with client_of(cluster_b, group) as member:
            member.subscribe([name])
            until(lambda: member.poll(0.1) is not None or bool(member.assignment()), "it is a member")
            command.send_signal(signal.SIGCONT)
            assert command.wait(timeout=240) == 1
        assert any("members" in each for each in newest(tmp_path, "switchover")["troubles"])
        set_to(cluster_b, group, name, 20)
        ended = sparkmirror("failback", file, "--to", name, *told)
        assert ended.returncode == 1, ended.stdout + ended.stderr
        (trouble,) = newest(tmp_path, "failback")["troubles"]
        assert f"group {group} at {name}-0: a group of that name stands there and was not moved" in trouble
        assert committed(cluster_a, group, name) == {0: 10}
        mirror.stop_in_time()


@pytest.mark.long
def test_a_group_that_commits_where_it_was_when_a_failback_has_looked_at_it_is_told_with_what_it_has(
    cluster_a, cluster_b, topic, tmp_path, monkeypatch
):
    """Its consumers are no members, so nobody sees them."""
    name = topic("still")
    group, file = f"{name}-g", both_ways(cluster_a, cluster_b, name, tmp_path)
    file.write_text(file.read_text() + "\nsync.group.offsets.enabled=false\n")
    told = ("--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
    do = Failback.do

    def goes_on(self: Failback, step: Step, operation: Any) -> None:
        do(self, step, operation)
        if step is Step.RELEASING:
            commit(cluster_b, group, name, {0: 15})

    monkeypatch.setattr(Failback, Failback.do.__name__, goes_on)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 20)
        has(cluster_b, name, 20)
        commit(cluster_a, group, name, {0: 10})
        ended = sparkmirror("switchover", file, "--from", name, "--to", "b", *told)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        with prepared_back(*flows_back(load([str(file)]), name, None), str(file)) as desk:
            report = desk.carry_out(Kind.FAILBACK, Options(idle_s=1), print, answers=True)
        (trouble,) = report.troubles
        assert f"group {group} at {name}-0: its offset on b leads to 15 by now, and on {name} it has 10" in trouble
        assert [(each.offset, each.exact) for move in report.moves for each in move.places] == [(10, False)]
        assert committed(cluster_a, group, name) == {0: 10}
        mirror.stop_in_time()
