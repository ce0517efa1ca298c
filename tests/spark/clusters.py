"""A real cluster of Spark for a module of tests, and what runs on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparkmirror.lab.process import Owned
from sparkmirror.lab.processes import command_line, descendants
from sparkmirror.lab.spark_cluster import SparkCluster, start_spark

QUICK_SECONDS = 60.0
"""What takes a moment, on a machine under load."""

START_SECONDS = 180.0


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkCluster]:
    """Two workers with two cores each."""
    with start_spark(workers=2, cores=2) as cluster:
        yield cluster


def executors(spark: SparkCluster) -> dict[int, Owned]:
    """The executors' processes, and whose they are."""
    return {
        pid: worker
        for worker in spark.workers
        if worker.running
        for pid in descendants(worker.pid)
        if "CoarseGrainedExecutorBackend" in command_line(pid)
    }


def lanes(pid: int) -> list[int]:
    """The Python workers below a process: they were forked from Spark's daemon, which is one below it."""
    below = descendants(pid)
    daemons = [each for each in below if "sparkmirror.spark.daemon" in command_line(each)]
    return [each for daemon in daemons for each in descendants(daemon)]
