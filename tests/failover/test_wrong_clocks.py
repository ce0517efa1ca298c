"""Operators whose clocks are wrong: which operation came first is told by what is on record."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.failover.test_changed_home import Home, marked
from tests.failover.test_lost_offsets import put
from tests.flow.running import Running, committed, until
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

BY = """
import sys, time
real, ahead_s = time.time, float(sys.argv[1])
time.time = lambda: real() + ahead_s
from sparkmirror.cli.app import main
main(sys.argv[2:])
"""


def by_a_clock(ahead_s: int, command: str, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", BY, str(ahead_s), command, str(file), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)


def by_a_clock_that_is_behind(command: str, file: Path, *words: str) -> None:
    done = by_a_clock(-120, command, file, *words)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_a_driver_lives_whatever_the_clock_of_the_machine_says_that_switches_over(
    cluster_a, cluster_b, topic, tmp_path
):
    home = Home(cluster_a, cluster_b, topic("ahead"), tmp_path, kept=False)
    name = home.name
    over = ("switchover", home.file, "--from", name, "--to", "b", "--wait-for-idle", "1", "--yes")
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        write(cluster_a, name, marked("old", 10))
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        shown = by_a_clock(60, "status", home.file, "--json")
        forth = next(one for one in json.loads(shown.stdout)["flows"] if one["name"] == f"{name}->b")
        assert forth["state"] == "running"
        assert "the clock of this machine is about" in str(forth["events"])
        done = by_a_clock(60, *over, "--report", str(tmp_path))
        assert done.returncode == 0, done.stdout + done.stderr
        mirror.kill_all()
    refused = by_a_clock(-60, "failback", home.file, *home.back)
    assert refused.returncode == 1
    assert "the flow is silent" in " ".join(refused.stdout.split())


def test_a_failback_after_a_switchover_back_by_a_clock_that_was_behind_is_refused(
    cluster_a, cluster_b, topic, tmp_path
):
    """It would put aside what applications have written since, and move groups to older offsets."""
    home = Home(cluster_a, cluster_b, topic("clock"), tmp_path, kept=True)
    name, group = home.name, f"{home.name}-g"
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        write(cluster_a, name, marked("old", 10))
        put(cluster_a, group, name, 5)
        until(lambda: mirrored(cluster_b, name) == marked("old", 10), "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        by_a_clock_that_is_behind("switchover", home.file, "--from", "b", *home.back)
        write(cluster_a, name, marked("live", 5))
        put(cluster_a, group, name, 15)
        assert sparkmirror("release", home.file, "--flow", f"b->{name}", "--yes").returncode == 0
        done = sparkmirror("failback", home.file, *home.back)
        assert done.returncode == 1
        assert "applications have gone back to" in " ".join(done.stderr.split())
        assert committed(cluster_a, group, name) == {0: 15}
        mirror.kill()
