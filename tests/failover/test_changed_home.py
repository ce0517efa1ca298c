"""Failback to a cluster that has changed since it was left, or between two attempts, with real clients."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.failover.states import Step
from tests.failover.clients import next_records
from tests.failover.halting import halted
from tests.failover.test_switching import begun, told
from tests.flow.logs import read
from tests.flow.running import Running, admin_of, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

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

    def leave(self, *how: str) -> None:
        words = ("--from", self.name, "--to", "b", "--yes", "--report", str(self.directory))
        done = sparkmirror(how[0], self.file, *words, *how[1:])
        assert done.returncode == 0, done.stdout + done.stderr

    def go_back(self, code: int = 0) -> dict[str, Any]:
        done = sparkmirror("failback", self.file, *self.back)
        assert done.returncode == code, done.stdout + done.stderr
        return dict(json.loads(next(self.directory.glob("failback-*.json")).read_text()))

    def divergent(self, report: dict[str, Any]) -> list[tuple[int, int]]:
        return [(one["first"], one["last"]) for one in report["divergent"]]

    def kept(self, report: dict[str, Any]) -> list[bytes | None]:
        (topic,) = {one["kept_in"] for one in report["divergent"]}
        return [one.value for one in read(self.a, topic)[0]]

    def next_on_a(self, group: str) -> bytes | None:
        return next_records(self.a, group, self.name, read(self.a, self.name))[0]


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
        assert command.wait(timeout=120) == 0
        report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
        assert home.kept(report) == [*marked("home", 5), *marked("late", 3)]
        write(cluster_a, name, marked("then", 2))
        until(lambda: mirrored(cluster_b, name)[-1] == marked("then", 2)[-1], "goes on")
        assert mirrored(cluster_b, name) == [*marked("old", 10), *marked("away", 5), *marked("then", 2)]
        assert home.next_on_a(group) == marked("then", 1)[0]
        mirror.stop_in_time()


@pytest.mark.parametrize("count", [20, 5])
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
        told(begun(home.file, "failback", *home.back, dies_in=Step.MOVING))
        assert committed(cluster_a, moved, name) == {0: 15}
        commit(cluster_b, moved, home.copy, {0: 25})
        commit(cluster_b, still, home.copy, {0: 13})
        assert home.go_back()["troubles"] == []
        assert (home.next_on_a(moved), home.next_on_a(still)) == (b"old-25", b"old-13")
        mirror.stop_in_time()
