"""Flows on a real cluster of Spark."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from sparkmirror.spark.environment import pack
from sparkmirror.user_cache import user_cache
from tests.flow.exact import repeats
from tests.flow.running import Running, count, create_topic, ends, until, write_file
from tests.flow.traffic import Traffic
from tests.spark.clusters import executors, lanes, spark

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

__all__ = ["spark"]  # a fixture


def test_a_flow_survives_its_executors_and_spreads_over_a_worker_that_joins(
    spark, cluster_a, cluster_b, topic, tmp_path
):
    name = topic("spread")
    copy = f"a.{name}"
    create_topic(cluster_a, name, 8)
    extra = {"tasks.max": "8", "a->b.heartbeats.replication.enabled": "false"}
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name}, extra)
    joined = None
    options = ("--master", spark.url)
    try:
        with (
            Traffic(cluster_a, name, 8, nulls=False).small(per_turn=4),
            Running(file, log=tmp_path / "run.log", options=options, spark=True) as mirror,
        ):
            until(lambda: count(cluster_b, copy) > 100, "the copy runs")
            until(lambda: sum(len(lanes(worker.pid)) for worker in spark.workers) == 3, "a lane less than slots")
            assert all(lanes(worker.pid) for worker in spark.workers), "lanes on both"

            executor = max(executors(spark), key=lambda pid: len(lanes(pid)))
            hit = len(lanes(executor))
            os.kill(executor, signal.SIGKILL)
            until(lambda: mirror.output.count(" was lost: ") >= hit, "its lanes are lost")
            before = ends(cluster_b, copy)
            until(lambda: all(end > before[p] for p, end in ends(cluster_b, copy).items()), "all partitions go on")
            lost = set(re.findall(r"(lane-\d+\.\d+) was lost", mirror.output))
            assert len(lost) == hit, "the others are not disturbed"

            joined = spark.add_worker(cores=2)
            until(lambda: "packing the lanes anew" in mirror.output, "the new slots are used")
            until(lambda: lanes(joined.pid), "a lane on the new worker")
            arrived = count(cluster_b, copy)
            until(lambda: count(cluster_b, copy) > arrived + 50, "the copy goes on")
            mirror.stop_in_time()
            assert "failed" not in mirror.output
    finally:
        if joined is not None:
            joined.end(signal.SIGTERM, 60)
            spark.workers.remove(joined)
    with Running(file, log=tmp_path / "last.log", options=("--once",), spark=True) as last:
        assert last.wait() == 0, last.tail()
    assert repeats(cluster_a, cluster_b, name, copy) == 0


@pytest.mark.long
def test_executors_get_a_packed_environment_and_compile_for_their_machine_and_not_for_themselves(
    spark, cluster_a, cluster_b, topic, tmp_path
):
    name = topic("packed")
    create_topic(cluster_a, name, 2)
    archive = tmp_path / "environment.tar.gz"
    pack(archive)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    options = (
        "--master",
        spark.url,
        "--archive",
        str(archive),
        "--conf",
        "spark.cores.max=2",
        "--conf",
        "spark.executor.cores=2",
    )
    with (
        Traffic(cluster_a, name, 2, nulls=False).small(per_turn=4),
        Running(file, log=tmp_path / "run.log", options=options, spark=True) as mirror,
    ):
        until(lambda: count(cluster_b, f"a.{name}") > 100, "the copy runs", 240)
        copying = [pid for worker in spark.workers for pid in lanes(worker.pid)]
        assert copying
        for pid in copying:
            assert "/environment/lib/python" in Path(f"/proc/{pid}/maps").read_text(), "libraries from the archive"
        mirror.stop_in_time()
    assert list((user_cache() / "kernels").glob("*/*.nbc"))
    assert not list(spark.directory.rglob("environment/**/*.nbc"))
