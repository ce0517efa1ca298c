"""Operators whose clocks are wrong: which operation came first is told by what is on record."""

from __future__ import annotations

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

BEHIND = """
import sys, time
real = time.time
time.time = lambda: real() - 120
from sparkmirror.cli.app import main
main(sys.argv[1:])
"""


def by_a_clock_that_is_behind(command: str, file: Path, *words: str) -> None:
    line = [sys.executable, "-c", BEHIND, command, str(file), *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


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
