"""Failback to a cluster that has changed since it was left, or between two attempts, with real clients."""

from __future__ import annotations

import json
import signal
import time
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import start
from tests.failover.clients import next_records
from tests.failover.dying import COMMITTED
from tests.failover.halting import halted
from tests.failover.test_switching import begun, died, told
from tests.flow.logs import read
from tests.flow.running import Running, admin_of, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NAMES_KEPT = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}


def marked(mark: str, count: int) -> list[bytes]:
    return [b"%s-%d" % (mark.encode(), number) for number in range(count)]


class Home:
    """Cluster a, which is left for b and which applications go back to."""

    def __init__(self, a, b, name: str, directory: Path, *, kept: bool) -> None:
        self.a, self.b, self.name, self.directory = a, b, name, directory
        self.copy = name if kept else f"{name}.{name}"
        settings = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
        self.file = write_file(
            directory / "mm2.properties",
            {name: a, "b": b},
            {f"{name}->b": name, f"b->{name}": name},
            settings | (NAMES_KEPT if kept else {}),
        )
        self.back = ("--to", name, "--wait-for-idle", "1", "--yes", "--report", str(directory))
        create_topic(a, name, 1)
        create_topic(b, name, 1)

    def leave(self, *how: str, code: int = 0) -> None:
        words = ("--from", self.name, "--to", "b", "--yes", "--report", str(self.directory))
        done = sparkmirror(how[0], self.file, *words, *how[1:])
        assert done.returncode == code, done.stdout + done.stderr

    def go_back(self, code: int = 0) -> dict[str, Any]:
        done = sparkmirror("failback", self.file, *self.back)
        reports = list(self.directory.glob("failback-*.json"))
        assert (done.returncode, len(reports)) == (code, 1), done.stdout + done.stderr
        return dict(json.loads(reports[0].read_text()))

    def divergent(self, report: dict[str, Any]) -> list[tuple[int, int]]:
        return [(one["first"], one["last"]) for one in report["divergent"]]

    def kept(self, report: dict[str, Any]) -> list[bytes | None]:
        topics = sorted({one["kept_in"] for one in report["divergent"]})
        return [one.value for topic in topics for one in read(self.a, topic)[0]]

    def group(self, report: dict[str, Any], group: str) -> dict[str, Any]:
        (found,) = (one for one in report["groups"] if one["group"] == group)
        (place,) = (one for one in found["partitions"] if one["target_topic"] == self.name)
        return dict(place)

    def next_on_a(self, group: str) -> bytes | None:
        return next_records(self.a, group, self.name, read(self.a, self.name))[0]


@pytest.mark.long
def test_what_is_written_at_home_between_mirrored_records_is_put_aside_too(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("between"), tmp_path, kept=True)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 10))
    commit(cluster_a, group, name, {0: 10})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        for turn in range(2):
            write(cluster_a, name, marked(f"home{turn}", 5))
            write(cluster_b, name, marked(f"away{turn}", 5))
            until(lambda: marked(f"away{turn}", 5)[-1] in mirrored(cluster_a, name), "mirrored back")  # noqa: B023 - at once
        commit(cluster_b, group, name, ends(cluster_b, name))
        report = home.go_back()
        assert home.kept(report) == [*marked("home0", 5), *marked("home1", 5)]
        log = [one.value for one in read(cluster_a, name)[0]]
        expected = [
            *marked("old", 10),
            *marked("home0", 5),
            *marked("away0", 5),
            *marked("home1", 5),
            *marked("away1", 5),
        ]
        assert log == expected
        assert home.next_on_a(group) is None
        write(cluster_a, name, marked("then", 2))
        until(lambda: mirrored(cluster_b, name)[-1] == marked("then", 2)[-1], "goes on")
        assert mirrored(cluster_b, name) == [
            *marked("old", 10),
            *marked("away0", 5),
            *marked("away1", 5),
            *marked("then", 2),
        ]
        assert home.next_on_a(group) == marked("then", 1)[0]
        mirror.stop_in_time()


def test_what_is_written_at_home_after_it_was_compared_is_added(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("added"), tmp_path, kept=True)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 10))
    commit(cluster_a, group, name, {0: 10})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        write(cluster_a, name, marked("home", 5))
        write(cluster_b, name, marked("away", 5))
        until(lambda: marked("away", 5)[-1] in mirrored(cluster_a, name), "mirrored back")
        commit(cluster_b, group, name, ends(cluster_b, name))
        command = halted(Step.MOVING, "failback", home.file, *home.back)
        write(cluster_a, name, marked("late", 3))
        command.send_signal(signal.SIGCONT)
        assert command.wait(timeout=240) == 0
        report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
        assert home.kept(report) == [*marked("home", 5), *marked("late", 3)]
        write(cluster_a, name, marked("then", 2))
        until(lambda: mirrored(cluster_b, name)[-1] == marked("then", 2)[-1], "goes on")
        assert mirrored(cluster_b, name) == [*marked("old", 10), *marked("away", 5), *marked("then", 2)]
        assert home.next_on_a(group) == marked("then", 1)[0]
        mirror.stop_in_time()


@pytest.mark.long
def test_the_flow_back_leaves_groups_where_a_failback_has_put_them(cluster_a, cluster_b, topic, tmp_path):
    """It syncs groups too; what was put aside looks to it like records that the other flow has still to bring."""
    home = Home(cluster_a, cluster_b, topic("placed"), tmp_path, kept=True)
    name, group = home.name, f"{home.name}-g"
    with home.file.open("a") as file:
        file.write("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")
    write(cluster_a, name, marked("old", 10))
    commit(cluster_a, group, name, {0: 10})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        write(cluster_a, name, marked("home", 5))
        write(cluster_b, name, marked("away", 5))
        until(lambda: marked("away", 5)[-1] in mirrored(cluster_a, name), "mirrored back")
        commit(cluster_b, group, name, {0: ends(cluster_b, name)[0] - 2})
        command = halted(Step.VERIFYING, "failback", home.file, *home.back)
        assert home.next_on_a(group) == marked("away", 5)[3]
        time.sleep(4)  # some rounds of the duty that syncs groups
        assert home.next_on_a(group) == marked("away", 5)[3]
        command.send_signal(signal.SIGCONT)
        assert command.wait(timeout=240) == 0
        time.sleep(4)
        assert home.next_on_a(group) == marked("away", 5)[3]
        mirror.stop_in_time()


@pytest.mark.parametrize("count", [pytest.param(20, marks=pytest.mark.long), 5])
def test_a_topic_that_was_created_again_at_home_is_put_aside_as_a_whole(cluster_a, cluster_b, topic, tmp_path, count):
    home = Home(cluster_a, cluster_b, topic("again"), tmp_path, kept=False)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 10))
    commit(cluster_a, group, name, {0: 5})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        for done in admin_of(cluster_a).delete_topics([name]).values():
            done.result(60)
        until(lambda: name not in admin_of(cluster_a).list_topics(timeout=10).topics, "it is gone")
        create_topic(cluster_a, name, 1)
        write(cluster_a, name, marked("new", count))
        report = home.go_back(code=1)
        (trouble,) = report["troubles"]
        assert f"topic {name} was deleted and created again on {name}" in trouble
        assert home.divergent(report) == [(0, count - 1)]
        assert home.kept(report) == marked("new", count)
        write(cluster_a, name, marked("then", 2))
        until(lambda: mirrored(cluster_b, home.copy)[-1] == marked("then", 2)[-1], "goes on")
        assert mirrored(cluster_b, home.copy) == [*marked("old", 10), *marked("then", 2)]
        assert home.next_on_a(group) == marked("then", 1)[0]
        mirror.stop_in_time()


@pytest.mark.long
def test_a_group_that_was_in_place_already_is_followed_when_the_command_goes_on(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("follows"), tmp_path, kept=False)
    name, still, moved = home.name, f"{home.name}-still", f"{home.name}-moved"
    write(cluster_a, name, marked("old", 40))
    for group in (still, moved):
        commit(cluster_a, group, name, {0: 10})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, home.copy)) == 40, "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        commit(cluster_b, moved, home.copy, {0: 15})
        died(begun(home.file, "failback", *home.back, dies_in=Step.MOVING))
        assert committed(cluster_a, moved, name) == {0: 15}
        commit(cluster_b, moved, home.copy, {0: 25})
        commit(cluster_b, still, home.copy, {0: 13})
        assert home.go_back()["troubles"] == []
        assert (home.next_on_a(moved), home.next_on_a(still)) == (b"old-25", b"old-13")
        mirror.stop_in_time()


def test_a_transaction_that_is_open_at_home_is_waited_for(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("open"), tmp_path, kept=True)
    name, group = home.name, f"{home.name}-g"
    write(cluster_a, name, marked("old", 10))
    commit(cluster_a, group, name, {0: 10})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        for value in marked("open", 3):
            producer.produce(name, value, partition=0)
        producer.flush(60)
        write(cluster_a, name, marked("home", 5))
        write(cluster_b, name, marked("away", 5))
        until(lambda: ends(cluster_a, name)[0] == 23, "mirrored back, behind the open transaction")
        commit(cluster_b, group, name, {0: 15})
        plan = sparkmirror("failback", home.file, "--to", name, "--dry-run")
        assert f"a transaction is open in {name}-0 on {name}" in plan.stdout
        command = begun(home.file, "failback", *home.back)
        assert command.stdout is not None
        assert any("it is waited for" in line for line in command.stdout)
        producer.commit_transaction(60)
        rest = told(command)
        assert command.returncode == 0, rest
        report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
        assert home.kept(report) == [*marked("open", 3), *marked("home", 5)]
        write(cluster_a, name, marked("then", 2))
        until(lambda: mirrored(cluster_b, name)[-1] == marked("then", 2)[-1], "goes on")
        assert mirrored(cluster_b, name) == [*marked("old", 10), *marked("away", 5), *marked("then", 2)]
        assert home.next_on_a(group) == marked("then", 1)[0]
        mirror.stop_in_time()


@pytest.mark.long
def test_a_topic_that_the_stopped_flow_never_found_is_compared_from_its_begin(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("found"), tmp_path, kept=True)
    name, new, group = home.name, f"{home.name}-new", f"{home.name}-g"
    more = {f"{name}->b.topics": f"{name}.*", f"b->{name}.topics": f"{name}.*"}
    rounds = {f"{name}->b.refresh.topics.interval.seconds": "600", f"b->{name}.refresh.topics.interval.seconds": "1"}
    with home.file.open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in (more | rounds).items())
    write(cluster_a, name, marked("old", 10))
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        create_topic(cluster_a, new, 1)
        write(cluster_a, new, marked("home", 5))
        commit(cluster_a, group, new, {0: 2})
        home.leave("failover", "--force")
        create_topic(cluster_b, new, 1)
        write(cluster_b, new, marked("away", 5))
        until(lambda: mirrored(cluster_a, new) == [*marked("home", 5), *marked("away", 5)], "mirrored back")
        commit(cluster_b, group, new, {0: 5})
        report = home.go_back()
        assert [one["topic"] for one in report["divergent"]] == [new]
        assert home.kept(report) == marked("home", 5)
        assert committed(cluster_a, group, new) == {0: 10}
        write(cluster_a, new, marked("then", 2))
        until(lambda: mirrored(cluster_b, new) == [*marked("away", 5), *marked("then", 2)], "goes on behind it")
        mirror.stop_in_time()


@pytest.mark.parametrize("kept", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_home_that_has_lost_the_end_of_its_log_is_compared_from_there(cluster_b, topic, tmp_path, kept):
    name = topic("lost")
    with start("home") as home_cluster:
        home = Home(home_cluster, cluster_b, name, tmp_path, kept=kept)
        (broker,), groups = home_cluster.brokers, {f"{name}-six": 6, f"{name}-eight": 8, f"{name}-end": 10}
        for value in marked("old", 10):
            write(home_cluster, name, [value])
        for group, offset in groups.items():
            commit(home_cluster, group, name, {0: offset})
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            until(lambda: all(group in seen(home) for group in groups), "groups are on record")
            broker.kill()
            home.leave("failover")
            cut_log(broker, name, 7)
            broker.start()
            write(home_cluster, name, marked("new", 5))
            write(cluster_b, name, marked("away", 3))
            back = name if kept else f"b.{name}"
            until(lambda: mirrored(home_cluster, back)[-1:] == marked("away", 3)[-1:], "mirrored back")
            if kept:
                commit(cluster_b, f"{name}-end", name, ends(cluster_b, name))
            report = home.go_back(code=1)
            (trouble,) = report["troubles"]
            assert f"{name}-0: {name} has lost what lay from offset 7 on" in trouble
            assert home.divergent(report) == [(7, 11)]
            assert home.kept(report) == marked("new", 5)
            assert [home.group(report, group)["skipped"] for group in groups] == [3, 2, 0]
            write(home_cluster, name, marked("then", 2))
            until(lambda: mirrored(cluster_b, home.copy)[-1] == marked("then", 2)[-1], "goes on")
            away = marked("away", 3) if kept else []
            assert mirrored(cluster_b, home.copy) == [*marked("old", 10), *away, *marked("then", 2)]
            following = (away or marked("then", 1))[0]
            assert [home.next_on_a(group) for group in groups] == [b"old-6", following, marked("then", 1)[0]]
            commit(home_cluster, f"{name}-six", name, {0: 8})  # in what the lost tail was replaced with
            there = until(lambda: translated(home, f"{name}-six"), "its place is on record", 60)
            commit(cluster_b, f"{name}-there", home.copy, {0: there})
            log = read(cluster_b, home.copy)
            assert next_records(cluster_b, f"{name}-there", home.copy, log)[0] == (away or marked("then", 1))[0]
            mirror.stop_in_time()


def translated(home: Home, group: str) -> int:
    """Where a group goes on on the other cluster; 0 as long as that is not known."""
    words = ("--group", group, "--flow", f"{home.name}->b", "--topic", home.name, "--json")
    done = sparkmirror("offsets", home.file, *words)
    assert done.returncode == 0, done.stderr
    (place,) = json.loads(done.stdout)["partitions"]
    return place["offset"] or 0


def seen(home: Home) -> str:
    done = sparkmirror("status", home.file, "--flow", f"{home.name}->b", "--groups")
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(home: Home, flow: str) -> bool:
    done = sparkmirror("status", home.file, "--flow", flow, "--json")
    (one,) = json.loads(done.stdout)["flows"]
    return bool(one["state"] == "running")


SLICE_SECONDS = 0.02
"""So long a command runs between two looks at what it has done."""


@pytest.mark.long
def test_what_is_found_later_is_kept_as_a_whole_when_the_command_died_over_it(cluster_a, cluster_b, topic, tmp_path):
    home = Home(cluster_a, cluster_b, topic("twice"), tmp_path, kept=True)
    name = home.name
    write(cluster_a, name, marked("old", 10))
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("failover", "--force")
        write(cluster_a, name, marked("home", 5))
        command = halted(Step.MOVING, "failback", home.file, *home.back)
        write(cluster_a, name, marked("late", 3))

        def later() -> list[str]:
            there = admin_of(cluster_a).list_topics(timeout=10).topics
            return [one for one in there if one.startswith(f"{name}.divergent.") and one.endswith("-2")]

        deadline = time.monotonic() + 120
        while not (later() and ends(cluster_a, later()[0]).get(0)):  # it stands still meanwhile, so it goes no further
            assert time.monotonic() < deadline
            command.send_signal(signal.SIGCONT)
            time.sleep(SLICE_SECONDS)
            command.send_signal(signal.SIGSTOP)
        assert command.poll() is None, "it has not come to its end"
        command.kill()
        command.wait()
        before = read(cluster_a, later()[0])[0]
        report = home.go_back()
        assert home.kept(report) == [*marked("home", 5), *marked("late", 3)]
        assert report["divergent"][-1]["kept_in"][-2:] in {"-2", "-3"}, "whether it had been told that all is there"
        assert read(cluster_a, later()[0])[0] == before, "what was kept is never deleted"
        mirror.stop_in_time()


@pytest.mark.long
def test_records_of_others_in_a_topic_that_only_the_flow_back_copies_are_read_at_home(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("inward")
    brought, group = f"{name}-in", f"{name}-g"
    flows = {f"{name}->b": name, f"b->{name}": f"{name},{brought}"}
    settings = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, flows, settings | NAMES_KEPT)
    words = ("--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
    for cluster, each in product((cluster_a, cluster_b), (name, brought)):
        create_topic(cluster, each, 1)
    write(cluster_b, brought, marked("b", 3))
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_a, brought) == marked("b", 3), "brought to a")
        write(cluster_a, brought, marked("home", 2))
        commit(cluster_a, group, brought, {0: 3})
        over = sparkmirror("switchover", file, "--from", name, "--to", "b", *words)
        assert over.returncode == 0, over.stdout + over.stderr
        write(cluster_b, brought, marked("away", 4))
        until(lambda: marked("away", 4)[-1] in mirrored(cluster_a, brought), "brought to a too")
        commit(cluster_b, group, brought, {0: 5})
        back = sparkmirror("failback", file, "--to", name, *words)
        assert back.returncode == 0, back.stdout + back.stderr
        assert next_records(cluster_a, group, brought, read(cluster_a, brought))[0] == marked("home", 1)[0]
        (report,) = (json.loads(one.read_text()) for one in tmp_path.glob("failback-*.json"))
        (place,) = (one for each in report["groups"] for one in each["partitions"])
        assert (place["exact"], "that others wrote" in place["text"]) == (False, True)
        mirror.stop_in_time()


@pytest.mark.parametrize(
    ("dies_in", "kept"), [(COMMITTED, False), pytest.param(Step.VERIFYING, True, marks=pytest.mark.long)]
)
def test_what_is_written_at_home_when_groups_had_been_moved_is_read_there_and_copied(
    cluster_a, cluster_b, topic, tmp_path, dies_in, kept
):
    """A consumer that commits here late has the failback move groups once more when it is given again."""
    home = Home(cluster_a, cluster_b, topic("moved"), tmp_path, kept=kept)
    name, group, late = home.name, f"{home.name}-g", f"{home.name}-late"
    write(cluster_a, name, marked("old", 10))
    commit(cluster_a, group, name, {0: 10})
    commit(cluster_a, late, name, {0: 2})
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        commit(cluster_b, late, home.copy, {0: 3})
        died(begun(home.file, "failback", *home.back, dies_in=dies_in))
        assert committed(cluster_a, group, name) == {0: 10}
        write(cluster_a, name, marked("home", 5))
        commit(cluster_b, late, home.copy, {0: 4})
        report = home.go_back(code=int(dies_in is Step.VERIFYING))
        assert home.divergent(report) == []
        assert home.next_on_a(group) == marked("home", 1)[0]
        assert committed(cluster_a, late, name) == {0: 4}
        until(lambda: mirrored(cluster_b, home.copy) == [*marked("old", 10), *marked("home", 5)], "copied too")
        mirror.stop_in_time()


@pytest.mark.long
def test_a_switchover_is_refused_while_a_failback_has_not_ended(cluster_a, cluster_b, topic, tmp_path):
    """Where it was forced nevertheless, the failback does not go on, but is given up, and its flow goes on."""
    home = Home(cluster_a, cluster_b, topic("cross"), tmp_path, kept=True)
    name = home.name
    write(cluster_a, name, marked("old", 10))
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        died(begun(home.file, "failback", *home.back, dies_in=Step.IDLING))
        across = ("--from", "b", "--to", name, "--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
        refused = sparkmirror("switchover", home.file, *across)
        assert refused.returncode != 0
        assert f"go on with sparkmirror failback --to {name}, or add --abandon" in " ".join(refused.stdout.split())
        forced = sparkmirror("switchover", home.file, *across, "--force")
        assert forced.returncode == 0, forced.stdout + forced.stderr
        write(cluster_a, name, marked("then", 5))
        stands = sparkmirror("failback", home.file, *home.back)
        assert stands.returncode != 0
        assert f"applications have gone to {name} another way since" in " ".join(stands.stderr.split())
        back = sparkmirror("failback", home.file, *home.back, "--abandon")
        assert (back.returncode, f"{name}->b is released" in back.stdout) == (0, True), back.stdout + back.stderr
        until(lambda: mirrored(cluster_b, name) == [*marked("old", 10), *marked("then", 5)], "it goes on")
        mirror.stop_in_time()


STRAY = b"written to a copy"


@pytest.mark.parametrize("homeward", [pytest.param("false", id="renamed"), pytest.param("true", id="homeward")])
@pytest.mark.parametrize("strays", ["none", "before", "between"])
@pytest.mark.long
def test_in_a_chain_what_the_first_flow_has_brought_meanwhile_goes_on(
    cluster_a, cluster_b, topic, tmp_path, strays, homeward
):
    """Others' records before it are put aside; nobody can go on behind one that lies in its midst."""
    name = topic("chain")
    group, middle, last = f"{name}-g", f"a.{name}", f"{name}.a.{name}"
    settings = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
    settings[f"c->{name}.homeward.enabled"] = homeward
    with start("third") as third:
        clusters = {"a": cluster_a, name: cluster_b, "c": third}
        flows = {f"a->{name}": name, f"{name}->c": rf"(a\\.)?{name}", f"c->{name}": rf"(a\\.)?{name}"}
        file = write_file(tmp_path / "mm2.properties", clusters, flows, settings)
        words = ("--yes", "--report", str(tmp_path))
        create_topic(cluster_a, name, 1)
        write(cluster_a, name, marked("first", 10))
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(third, last) == marked("first", 10), "copied to the third")
            commit(cluster_b, group, middle, {0: 10})
            until(lambda: group in sparkmirror("status", file, "--groups").stdout, "the group is on record")
            over = sparkmirror("failover", file, "--from", name, "--to", "c", "--force", *words)
            assert over.returncode == 0, over.stdout + over.stderr
            if strays == "before":
                write(cluster_b, middle, [STRAY])
            write(cluster_a, name, marked("more", 10))
            until(lambda: marked("more", 10)[-1] in mirrored(cluster_b, middle), "brought to the second")
            if strays == "between":
                write(cluster_b, middle, [STRAY])
            write(cluster_a, name, marked("again", 5))
            until(lambda: marked("again", 5)[-1] in mirrored(cluster_b, middle), "brought to the second")
            back = sparkmirror("failback", file, "--to", name, "--wait-for-idle", "1", *words)
            assert back.returncode == (strays == "between"), back.stdout + back.stderr
            report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
            assert [(one["first"], one["last"]) for one in report["divergent"]] == [(10, 10)] * (strays == "before")
            assert ("others have written" in back.stdout) == (strays == "between")
            between = [STRAY] * (strays == "between")
            expected = [*marked("first", 10), *marked("more", 10), *between, *marked("again", 5)]
            until(lambda: mirrored(third, last) == expected, "it goes on")
            assert next_records(cluster_b, group, middle, read(cluster_b, middle))[0] == marked("more", 1)[0]
            mirror.stop_in_time()


@pytest.mark.long
def test_what_another_spoke_has_brought_home_meanwhile_goes_on_and_no_group_goes_behind_it(
    cluster_a, cluster_b, topic, tmp_path
):
    """Applications write to the copies of both spokes while the hub's are on one of them."""
    name = topic("hub")
    copy, group, middle, own = f"{name}.{name}", f"{name}-g", f"{name}-middle", marked("own", 10)
    with start("third") as third:
        flows = {f"{name}->b": name, f"b->{name}": rf"({name}\\.)?{name}"}
        flows |= {f"{name}->c": name, f"c->{name}": rf"({name}\\.)?{name}"}
        homeward = {f"{spoke}->{name}.homeward.enabled": "true" for spoke in ("b", "c")}
        settings = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
        clusters = {name: cluster_a, "b": cluster_b, "c": third}
        file = write_file(tmp_path / "mm2.properties", clusters, flows, settings | homeward)
        create_topic(cluster_a, name, 1)
        write(cluster_a, name, own)
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, copy) == mirrored(third, copy) == own, "copied")
            commit(cluster_a, group, name, {0: 10})
            commit(cluster_a, middle, name, {0: 4})
            words = ("--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
            over = sparkmirror("switchover", file, "--from", name, "--to", "b", *words)
            assert over.returncode == 0, over.stdout + over.stderr
            write(third, copy, marked("third", 5))
            until(lambda: mirrored(cluster_a, name) == [*own, *marked("third", 5)], "brought home")
            write(cluster_b, copy, marked("away", 5))
            until(lambda: mirrored(cluster_a, name)[15:] == marked("away", 5), "brought home behind that")
            commit(cluster_b, group, copy, ends(cluster_b, copy))
            back = sparkmirror("failback", file, "--from", "b", "--to", name, *words)
            assert back.returncode == 0, back.stdout + back.stderr
            report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
            assert report["divergent"] == []
            until(lambda: mirrored(cluster_b, copy) == [*own, *marked("away", 5), *marked("third", 5)], "goes on")
            log = read(cluster_a, name)
            assert next_records(cluster_a, group, name, log)[0] == marked("third", 1)[0], "not read on b"
            assert next_records(cluster_a, middle, name, log)[0] == own[4]
            mirror.stop_in_time()


@pytest.mark.parametrize(
    "dies_in",
    [
        Step.SAVING,
        Step.IDLING,
        Step.RELEASING,
    ],
)
@pytest.mark.long
def test_a_home_that_loses_the_end_of_its_log_after_it_was_compared(cluster_b, topic, tmp_path, dies_in):
    """What was put aside before stays; what has come in its place is put aside too, or copied once it may be."""
    with start("home") as cluster:
        home = Home(cluster, cluster_b, topic("again"), tmp_path, kept=False)
        (broker,), name, group = cluster.brokers, home.name, f"{home.name}-g"
        for value in marked("old", 10):
            write(cluster, name, [value])
        commit(cluster, group, name, {0: 10})
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            home.leave("failover", "--force")
            for value in marked("home", 10):
                write(cluster, name, [value])
            died(begun(home.file, "failback", *home.back, dies_in=dies_in))
            broker.kill()
            cut_log(broker, name, 15)
            broker.start()
            until(lambda: ends(cluster, name) == {0: 15}, "records are really lost")
            for value in marked("fresh", 3):
                write(cluster, name, [value])
            released = dies_in is Step.RELEASING
            report = home.go_back(code=int(released))
            kept = sorted(topic for topic in admin_of(cluster).list_topics(timeout=10).topics if ".divergent." in topic)
            values = [[one.value for one in read(cluster, topic)[0]] for topic in kept]
            again = [*marked("home", 5), *marked("fresh", 3)]
            assert values == [marked("home", 10), *([] if released else [again])]
            write(cluster, name, marked("then", 3))
            onward = [*(marked("fresh", 3) if released else ()), *marked("then", 3)]
            until(lambda: mirrored(cluster_b, home.copy) == [*marked("old", 10), *onward], "goes on")
            if released:
                # The group had been moved behind what was lost.
                assert f"{group} go on at other offsets since groups were moved" in str(report["troubles"])
                assert committed(cluster, group, name) == {0: 15}
            else:
                assert home.divergent(report) == [(10, 17)]
                assert home.next_on_a(group) == marked("then", 1)[0]
            mirror.stop_in_time()


@pytest.mark.long
def test_a_failback_whose_cluster_is_gone_again_can_be_taken_back_or_gives_way_to_a_failover(
    cluster_b, topic, tmp_path
):
    name = topic("gone")
    with start("home") as cluster:
        home = Home(cluster, cluster_b, name, tmp_path, kept=False)
        (broker,), group = cluster.brokers, f"{name}-g"
        write(cluster, name, marked("old", 10))
        commit(cluster, group, name, {0: 4})
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            home.leave("switchover", "--wait-for-idle", "1")
            commit(cluster_b, group, home.copy, {0: 6})
            died(begun(home.file, "failback", *home.back, dies_in=Step.IDLING))
            broker.kill()
            back = sparkmirror("failback", home.file, *home.back, "--abandon")
            assert back.returncode == 0, back.stdout + back.stderr
            broker.start()
            until(lambda: runs(home, f"b->{name}"), "the flow back tells again that it runs")
            died(begun(home.file, "failback", *home.back, dies_in=Step.MOVING))
            assert committed(cluster, group, name) == {0: 6}
            broker.kill()
            stands = sparkmirror("failback", home.file, *home.back)
            assert stands.returncode != 0
            assert f"cluster {name} at" in stands.stderr
            over = sparkmirror("failover", home.file, "--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
            assert over.returncode == 1, over.stdout + over.stderr
            assert f"is given up, since {name} does not answer" in over.stdout
            assert over.stdout.count("trouble: ") == 1
            assert f"1 groups were brought back to {name} by failback-" in " ".join(over.stdout.split())
            assert committed(cluster_b, group, home.copy) == {0: 6}, "consumers have committed that"
            assert next_records(cluster_b, group, home.copy, read(cluster_b, home.copy))[0] == b"old-6"
            mirror.stop(seconds=60)


@pytest.mark.long
def test_a_failover_that_is_resumed_when_the_source_is_there_again_is_refused_as_a_new_one_is(
    cluster_b, topic, tmp_path
):
    name = topic("resumed")
    with start("home") as cluster:
        home = Home(cluster, cluster_b, name, tmp_path, kept=False)
        (broker,), group = cluster.brokers, f"{name}-g"
        write(cluster, name, marked("old", 10))
        commit(cluster, group, name, {0: 4})
        words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            until(lambda: group in seen(home), "the group is on record")
            broker.kill()
            died(begun(home.file, "failover", *words, dies_in=Step.STOPPING))
            broker.start()
            write(cluster, name, marked("more", 3))
            commit(cluster, group, name, {0: 9})
            refused = sparkmirror("failover", home.file, *words)
            assert refused.returncode != 0
            assert "the source answers" in refused.stdout
            assert "3 of its records are not on the target" in refused.stdout
            forced = sparkmirror("failover", home.file, *words, "--force")
            assert forced.returncode == 0, forced.stdout + forced.stderr
            assert next_records(cluster_b, group, home.copy, read(cluster_b, home.copy))[0] == b"old-9"
            mirror.stop(seconds=60)
