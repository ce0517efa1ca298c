"""Who moves groups by what was true once: processes that stood still, commands given again, another source by now."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import start
from tests.failover.clients import next_records
from tests.failover.dying import COMMITTED
from tests.failover.halting import SETTLING, halted
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_switching import begun, died
from tests.flow.logs import read
from tests.flow.running import Running, admin_of, commit, committed, create_topic, ends, until
from tests.flow.test_events import delete_topic
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS_SECONDS = 5.0
"""What a process that goes on has to do what it was about to do."""


def on_record(home: Home, group: str) -> None:
    until(lambda: group in sparkmirror("status", home.file, "--groups").stdout, "the group is on record")


@pytest.mark.long
def test_a_consumer_that_went_on_stays_where_it_is_when_a_failback_died_before_the_commit_was_on_record(
    cluster_a, cluster_b, topic, tmp_path
):
    """Nothing tells it from one that had gone on before the commit, and so had not read what it is behind now."""
    home = Home(cluster_a, cluster_b, topic("tried"), tmp_path, kept=False)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 30))
    commit(cluster_a, group, name, {0: 10})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, home.copy)) == 30, "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        commit(cluster_b, group, home.copy, {0: 20})
        died(begun(home.file, "failback", *home.back, dies_in=COMMITTED))
        assert committed(cluster_a, group, name) == {0: 20}
        commit(cluster_a, group, name, {0: 27})
        report = home.go_back(code=1)
        assert committed(cluster_a, group, name) == {0: 27}
        (trouble,) = report["troubles"]
        assert f"group {group} at" in trouble
        assert "whether the group had been moved by then is not known; it stays at offset 27" in trouble
        assert home.group(report, group)["exact"] is False
        mirror.stop_in_time()


@pytest.mark.long
def test_a_group_that_was_never_committed_is_moved_when_the_command_goes_on(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("untried"), tmp_path, kept=False)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 30))
    commit(cluster_a, group, name, {0: 10})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, home.copy)) == 30, "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        commit(cluster_b, group, home.copy, {0: 20})
        died(begun(home.file, "failback", *home.back, dies_in=COMMITTED))
        commit(cluster_a, group, name, {0: 10})  # as if the broker had never taken it
        home.go_back()
        assert committed(cluster_a, group, name) == {0: 20}
        mirror.stop_in_time()


def test_a_second_failover_goes_by_where_the_failback_has_put_the_groups(cluster_b, topic, tmp_path):
    with start("home") as cluster:
        home = Home(cluster, cluster_b, topic("again"), tmp_path, kept=False)
        (broker,), name, group = cluster.brokers, home.name, f"{home.name}-g"
        write(cluster, name, marked("old", 40))
        commit(cluster, group, name, {0: 30})
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: len(mirrored(cluster_b, home.copy)) == 40, "copied")
            on_record(home, group)
            home.leave("failover", "--force")
            assert committed(cluster_b, group, home.copy) == {0: 30}
            commit(cluster_b, group, home.copy, {0: 12})
            command = halted(Step.RELEASING, "failback", home.file, *home.back)
            assert committed(cluster, group, name) == {0: 12}
            command.send_signal(signal.SIGCONT)
            assert command.wait(timeout=240) == 0
            broker.kill()  # before the flow has looked at groups again, or right after that
            home.leave("failover", "--force")
            assert committed(cluster_b, group, home.copy) == {0: 12}
            commit(cluster_b, group, home.copy, {0: 5})
            home.leave("failover", "--force", code=1)  # nobody knows what came after the one before
            assert committed(cluster_b, group, home.copy) == {0: 5}, "the group is its owner's since it was moved"
            mirror.kill()


def test_a_switchover_is_refused_where_the_source_topic_is_another_one_by_now(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("other"), tmp_path, kept=False)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 40))
    commit(cluster_a, group, name, {0: 40})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, home.copy)) == 40, "copied")
        words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path), "--wait-for-idle", "1")
        command = halted(Step.MOVING, "switchover", home.file, *words)
        delete_topic(cluster_a, name)
        create_topic(cluster_a, name)
        write(cluster_a, name, marked("new", 10))
        commit(cluster_a, group, name, {0: 4})
        command.send_signal(signal.SIGCONT)
        assert command.wait(timeout=240) == 1
        again = sparkmirror("switchover", home.file, *words)
        assert again.returncode == 1
        assert "was deleted and created again" in again.stderr
        back = sparkmirror("switchover", home.file, *words, "--abandon")
        assert back.returncode == 0, back.stderr
        until(lambda: mirrored(cluster_b, home.copy)[-1:] == marked("new", 10)[-1:], "it copies what is there now")
        mirror.stop_in_time()


@pytest.mark.parametrize("lost", ["topic", "tail"])
def test_a_failover_tells_where_the_source_is_another_one_by_now(cluster_b, topic, tmp_path, lost):
    """The mirror is dead, and cannot have seen it."""
    with start("home") as cluster:
        home = Home(cluster, cluster_b, topic("dead"), tmp_path, kept=False)
        (broker,), name, group = cluster.brokers, home.name, f"{home.name}-g"
        for value in marked("old", 40):
            write(cluster, name, [value])
        commit(cluster, group, name, {0: 20})
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: len(mirrored(cluster_b, home.copy)) == 40, "copied")
            on_record(home, group)
            mirror.stop_in_time()
        if lost == "topic":
            delete_topic(cluster, name)
            create_topic(cluster, name)
            write(cluster, name, marked("new", 10))
            commit(cluster, group, name, {0: 4})
        else:
            broker.kill()
            cut_log(broker, name, 35)
            broker.start()
            until(lambda: ends(cluster, name) == {0: 35}, "records are really lost")
            write(cluster, name, marked("new", 10))
            commit(cluster, group, name, {0: 38})
        words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path), "--force")
        over = sparkmirror("failover", home.file, *words)
        assert over.returncode == 1, over.stdout + over.stderr
        report = json.loads(next(tmp_path.glob("failover-*.json")).read_text())
        (told,) = [line for line in report["troubles"] if line.startswith(("topic", name))]
        if lost == "topic":
            assert "was deleted and created again" in told
            assert committed(cluster_b, group, home.copy) == {}
        else:
            assert "has lost what lay from offset 35 on" in told
            assert next_records(cluster_b, group, home.copy, read(cluster_b, home.copy)) == {0: b"old-35"}


def test_a_group_that_its_owner_has_deleted_on_the_source_meanwhile_is_not_brought_to_the_target(
    cluster_a, cluster_b, topic, tmp_path
):
    """Its readers are to begin by auto.offset.reset; those of a group that has offsets of another topic likewise."""
    home = Home(cluster_a, cluster_b, topic("deleted"), tmp_path, kept=False)
    name, kept, gone, partly = home.name, *(f"{home.name}-{each}" for each in ("kept", "gone", "partly"))
    write(cluster_a, name, marked("old", 10))
    for group in (kept, gone, partly):
        commit(cluster_a, group, name, {0: 5})
    other = topic("other")
    create_topic(cluster_a, other, 1)
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        for group in (kept, gone, partly):
            on_record(home, group)
        words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path), "--wait-for-idle", "1")
        command = halted(Step.MOVING, "switchover", home.file, *words)
        for deleted in admin_of(cluster_a).delete_consumer_groups([gone, partly]).values():
            deleted.result(30)
        commit(cluster_a, partly, other, {0: 0})
        command.send_signal(signal.SIGCONT)
        code = command.wait(timeout=240)
        assert committed(cluster_b, kept, home.copy) == {0: 5}
        assert committed(cluster_b, gone, home.copy) == {}
        assert committed(cluster_b, partly, home.copy) == {}
        assert code == 0
        report = json.loads(next(tmp_path.glob("switchover-*.json")).read_text())
        assert gone not in {one["group"] for one in report["groups"]}
        mirror.stop_in_time()


@pytest.mark.long
def test_an_operator_that_stood_still_orders_nothing_any_more(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("stale"), tmp_path, kept=False)
    name = home.name
    write(cluster_a, name, marked("old", 10))
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        write(cluster_a, name, marked("home", 10))
        stale = halted(Step.RELEASING, "failback", home.file, *home.back)
        died(begun(home.file, "failback", *home.back, dies_in=Step.RELEASING))  # displaces it, and dies in its turn
        home.go_back()
        write(cluster_a, name, marked("then", 20))
        until(lambda: mirrored(cluster_b, home.copy) == [*marked("old", 10), *marked("then", 20)], "it goes on")
        home.leave("failover", "--force")
        stale.send_signal(signal.SIGCONT)
        assert stale.wait(timeout=240) == 1
        time.sleep(ROUNDS_SECONDS)
        assert "is held since" in sparkmirror("status", home.file).stdout
        assert mirrored(cluster_b, home.copy) == [*marked("old", 10), *marked("then", 20)]
        mirror.stop_in_time()


@pytest.mark.long
def test_an_operator_that_stood_still_takes_a_released_flow_from_nobody(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("lives"), tmp_path, kept=False)
    name = home.name
    write(cluster_a, name, marked("old", 10))
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        mirror.kill()
    words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path), "--force")
    stale = halted(SETTLING, "failover", home.file, *words)
    home.leave("failover", "--force")  # displaces it
    released = sparkmirror("release", home.file, "--flow", f"{name}->b", "--yes")
    assert released.returncode == 0, released.stdout + released.stderr
    with Running(home.file, log=tmp_path / "second.log") as mirror:
        write(cluster_a, name, marked("then", 10))
        until(lambda: mirrored(cluster_b, home.copy) == [*marked("old", 10), *marked("then", 10)], "it copies")
        stale.send_signal(signal.SIGCONT)
        assert stale.wait(timeout=240) == 1
        time.sleep(ROUNDS_SECONDS)
        write(cluster_a, name, marked("more", 10))
        until(lambda: mirrored(cluster_b, home.copy)[-1] == marked("more", 10)[-1], "it goes on")
        mirror.stop_in_time()


@pytest.mark.long
def test_a_driver_that_stood_still_while_the_groups_were_moved_commits_nothing_any_more(
    cluster_a, cluster_b, topic, tmp_path
):
    home = Home(cluster_a, cluster_b, topic("frozen"), tmp_path, kept=False)
    name, group, flag = home.name, f"{home.name}-g", tmp_path / "flag"
    with home.file.open("a") as file:
        file.write("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")
    write(cluster_a, name, marked("old", 40))
    commit(cluster_a, group, name, {0: 10})
    line = [sys.executable, "-m", "tests.failover.freezing", str(flag), "run", str(home.file)]
    with (tmp_path / "mirror.log").open("w") as log:
        driver = subprocess.Popen(line, stdout=log, stderr=log)
        try:
            until(lambda: committed(cluster_b, group, home.copy) == {0: 10}, "the group is synced")
            flag.touch()
            commit(cluster_a, group, name, {0: 30})
            until(lambda: not flag.exists(), "the driver stands still")
            commit(cluster_a, group, name, {0: 20})
            home.leave("failover", "--force")
            assert committed(cluster_b, group, home.copy) == {0: 20}
            driver.send_signal(signal.SIGCONT)
            time.sleep(ROUNDS_SECONDS)
            assert committed(cluster_b, group, home.copy) == {0: 20}
        finally:
            driver.send_signal(signal.SIGCONT)
            driver.terminate()
            driver.wait(timeout=240)


@pytest.mark.parametrize("used", [35, pytest.param(20, marks=pytest.mark.long)])
def test_what_a_consumer_commits_on_the_target_after_the_look_at_groups_stays(
    cluster_a, cluster_b, topic, tmp_path, used
):
    """Also where it is what the flow was about to commit: it is the consumer's all the same."""
    home = Home(cluster_a, cluster_b, topic("used"), tmp_path, kept=False)
    name, group, flag = home.name, f"{home.name}-g", tmp_path / "flag"
    with home.file.open("a") as file:
        file.write("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")
    write(cluster_a, name, marked("old", 40))
    commit(cluster_a, group, name, {0: 10})
    line = [sys.executable, "-m", "tests.failover.freezing", str(flag), "run", str(home.file)]
    with (tmp_path / "mirror.log").open("w") as log:
        driver = subprocess.Popen(line, stdout=log, stderr=log)
        try:
            until(lambda: committed(cluster_b, group, home.copy) == {0: 10}, "the group is synced")
            flag.touch()
            commit(cluster_a, group, name, {0: 20})
            until(lambda: not flag.exists(), "the driver stands still, about to commit 20")
            commit(cluster_b, group, home.copy, {0: used})
            driver.send_signal(signal.SIGCONT)
            time.sleep(ROUNDS_SECONDS)
            commit(cluster_a, group, name, {0: 5})
            deadline, seen = time.monotonic() + ROUNDS_SECONDS, set()
            while time.monotonic() < deadline:
                seen |= set(committed(cluster_b, group, home.copy).values())
            assert seen == {used}
        finally:
            driver.send_signal(signal.SIGCONT)
            driver.terminate()
            driver.wait(timeout=240)


@pytest.mark.long
def test_a_flow_back_that_decided_before_a_failback_placed_the_groups_commits_nothing_after_it(
    cluster_a, cluster_b, topic, tmp_path
):
    home = Home(cluster_a, cluster_b, topic("placed"), tmp_path, kept=False)
    name, group, flag = home.name, f"{home.name}-g", tmp_path / "flag"
    with home.file.open("a") as file:
        file.write(
            "sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 4\n"
        )  # one round makes good the one before
        file.write("refresh.groups.interval.seconds = 1\n")
    write(cluster_a, name, marked("old", 10))
    line = [sys.executable, "-m", "tests.failover.freezing", str(flag), "run", str(home.file)]
    with (tmp_path / "mirror.log").open("w") as log:
        driver = subprocess.Popen(line, stdout=log, stderr=log)
        try:
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            home.leave("switchover", "--wait-for-idle", "1")
            write(cluster_b, name, marked("away", 10))
            commit(cluster_b, group, name, {0: 3})
            back = f"b.{name}"
            until(lambda: committed(cluster_a, group, back) == {0: 3}, "the group is synced")
            flag.touch()
            commit(cluster_b, group, name, {0: 5})
            until(lambda: not flag.exists(), "the driver stands still, about to commit 5")
            commit(cluster_b, group, name, {0: 8})
            done = sparkmirror("failback", home.file, *home.back, "--force")
            assert done.returncode == 0, done.stdout + done.stderr
            assert committed(cluster_a, group, back) == {0: 8}
            driver.send_signal(signal.SIGCONT)
            deadline, seen = time.monotonic() + ROUNDS_SECONDS, set()
            while time.monotonic() < deadline:
                seen |= set(committed(cluster_a, group, back).values())
            assert seen == {8}
        finally:
            driver.send_signal(signal.SIGCONT)
            driver.terminate()
            driver.wait(timeout=240)


def test_a_failback_knows_when_a_flow_back_that_runs_has_ended_its_round(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("round"), tmp_path, kept=False)
    name, group = home.name, f"{home.name}-g"
    with home.file.open("a") as file:
        file.write("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")
    write(cluster_a, name, marked("old", 10))
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        commit(cluster_b, group, home.copy, {0: 7})
        done = sparkmirror("failback", home.file, *home.back)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "does not answer" not in done.stdout
        assert committed(cluster_a, group, name) == {0: 7}
        mirror.stop_in_time()
