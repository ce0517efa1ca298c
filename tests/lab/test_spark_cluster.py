"""A real master with real workers. What runs on them is tested in tests/spark."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparkmirror.errors import LabError
from sparkmirror.lab.processes import command_line, descendants
from sparkmirror.lab.spark_cluster import READY_SECONDS, SparkCluster, start_spark
from tests.flow.running import until
from tests.lab.test_watch import assert_gone

pytestmark = pytest.mark.spark

OWNER = """
import sys, time
from sparkmirror.lab.spark_cluster import start_spark
cluster = start_spark(workers=1, cores=1)
print(cluster.master.pid, cluster.workers[0].pid, cluster.directory, flush=True)
time.sleep(600)
"""


@pytest.mark.long
def test_a_worker_joins_and_one_that_is_killed_is_missed(tmp_path: Path) -> None:
    with start_spark(workers=1, cores=1, directory=tmp_path) as cluster:
        assert cluster.alive_workers == 1
        cluster.add_worker(cores=3)
        assert cluster.alive_workers == 2
        cluster.workers[0].end(signal.SIGKILL, 20)
        until(lambda: cluster.alive_workers == 1, "the master misses the worker", 60)
        everything = [cluster.master.pid, cluster.workers[1].pid]
        assert "org.apache.spark.deploy.master.Master" in command_line(everything[0])
    assert_gone(*everything)
    assert (tmp_path / "master.log").exists(), "a directory that was given is kept"


@pytest.mark.long
def test_it_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        master, worker, directory = owner.stdout.readline().split()
        assert set(map(int, (master, worker))) <= set(descendants(owner.pid))
        owner.kill()
    assert_gone(int(master), int(worker))
    until(lambda: not Path(directory).exists(), "the temporary directory is gone", 20)


def test_a_master_that_cannot_start_says_why(tmp_path: Path) -> None:
    began = time.monotonic()
    with SparkCluster(tmp_path, removed=False) as cluster:
        (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.deploy.maxExecutorRetries many\n")
        with pytest.raises(LabError, match=r"(?s)ended while it started.*maxExecutorRetries"):
            cluster.start_master()
    assert time.monotonic() - began < READY_SECONDS, "its end is seen, not the deadline awaited"
