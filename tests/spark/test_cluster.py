"""Shifts and flows on a real cluster of Spark: two workers with two cores each, shared by the module."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest
from pyspark import SparkContext

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, Secret, Security
from sparkmirror.config.security_settings import SaslMechanism, SecurityProtocol
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.errors import SparkmirrorError
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.process import Owned
from sparkmirror.lab.processes import command_line, descendants
from sparkmirror.lab.spark_cluster import SparkCluster, start_spark
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.spark.environment import pack
from sparkmirror.spark.java import user_cache
from sparkmirror.spark.job import cancel_flow, cancel_shift, packed, run_shift
from sparkmirror.spark.session import Session, has_ended, open_session, slots_of
from sparkmirror.spark.settings import parse_options
from tests.flow.exact import repeats
from tests.flow.running import (
    Running,
    count,
    create_topic,
    ends,
    patience,
    until,
    write_file,
)
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECRET = "kept-between-driver-and-lane"
QUICK_SECONDS = 60.0
"""What takes a moment, on a machine under load."""

START_SECONDS = 180.0
NEVER_MS = 3_600_000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkCluster]:
    with start_spark(workers=2, cores=2) as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def _java_ends() -> Iterator[None]:
    """PySpark would keep its JVM until the end of all tests."""
    yield
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(QUICK_SECONDS)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def session(spark: SparkCluster, tmp_path: Path) -> Iterator[Session]:
    """All of the cluster, with a log of what Spark tells about its jobs."""
    (tmp_path / "events").mkdir()
    conf = (
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",
        f"spark.eventLog.dir=file://{tmp_path}/events",
        "spark.storage.blockManagerHeartbeatTimeoutMs=10s",
    )
    session = open_session(parse_options(spark.url, conf, None), slots=0)
    try:
        until(lambda: slots_of(session) == 4, "both workers have executors", START_SECONDS)
        yield session
    finally:
        session.stop()
        # PySpark changes how py4j reads every answer, and cannot do it without its own JVM.
        py4j.java_gateway.get_return_value = py4j.protocol.get_return_value
    assert has_ended(session)
    until(lambda: not executors(spark), "the executors end with their application", 60)


@pytest.fixture
def silent() -> Iterator[FlowConfig]:
    """A flow between clusters whose brokers take connections and never answer: its shifts last until they are ended."""
    with socket.create_server((HOST, 0), backlog=128) as broker:
        client = ClientSettings(
            bootstrap_servers=(f"{HOST}:{broker.getsockname()[1]}",),
            request_timeout_ms=NEVER_MS,
            socket_connection_setup_timeout_ms=NEVER_MS,
            socket_connection_setup_timeout_max_ms=NEVER_MS,
            security=Security(
                protocol=SecurityProtocol.SASL_PLAINTEXT,
                mechanism=SaslMechanism.PLAIN,
                username="lane",
                password=Secret(SECRET),
            ),
        )
        ends = [Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client) for alias in "ab"]
        yield FlowConfig(name=FlowName(source=Alias("a"), target=Alias("b")), source=ends[0], target=ends[1])


def shift(name: str, flow: str = "a->b") -> ShiftPlan:
    partition = PartitionPlan(
        source=TopicPartition("t", 0),
        target_topic="a.t",
        topic_id="",
        position=0,
        writer=Writer(producer_id=1, epoch=0),
    )
    return ShiftPlan(
        flow=flow,
        run="run",
        shift=name,
        generation=1,
        partitions=(partition,),
        internal_topic="i",
        control_topic="c",
    )


class Shifts:
    """Runs shifts in threads, as a flow does."""

    def __init__(self, session: Session, config: FlowConfig) -> None:
        self._pool = ThreadPoolExecutor(8)
        self._session, self._config = session, config

    def __enter__(self) -> Shifts:
        return self

    def __exit__(self, *_: object) -> None:
        for flow in ("a->b", "c->d"):
            cancel_flow(self._session, "run", flow)
        self._pool.shutdown()

    def submit(self, plan: ShiftPlan) -> Future[Any]:
        return self._pool.submit(run_shift, self._session, plan, packed(self._config))


def failure(job: Future[Any]) -> str:
    error = job.exception(QUICK_SECONDS)
    assert isinstance(error, SparkmirrorError)
    return str(error)


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


def test_shifts_land_on_both_workers_and_each_can_be_cancelled_alone_before_and_while_it_runs(spark, session, silent):
    with Shifts(session, silent) as shifts:
        early = "lane-9.0"
        cancel_shift(session, "run", "a->b", early, "nobody wants it")
        assert "cancelled" in failure(shifts.submit(shift(early)))
        jobs = [shifts.submit(shift(f"lane-{number}.0")) for number in range(3)]
        other = shifts.submit(shift("lane-0.0", flow="c->d"))
        until(lambda: [len(lanes(worker.pid)) for worker in spark.workers] == [2, 2], "two lanes on each worker")
        cancel_shift(session, "run", "a->b", "lane-1.0", "it is silent")
        assert "it is silent" in failure(jobs[1])
        assert not any(job.done() for job in (jobs[0], jobs[2], other))
        cancel_flow(session, "run", "a->b")
        assert "cancelled" in failure(jobs[0])
        assert "cancelled" in failure(jobs[2])
        assert not other.done(), "another flow's lane goes on"


def test_a_cancelled_shift_returns_at_once_though_its_executor_is_stopped_and_spark_finds_a_new_executor(
    spark, session, silent
):
    with Shifts(session, silent) as shifts:
        jobs = [shifts.submit(shift(f"lane-{number}.0")) for number in range(4)]
        until(lambda: sum(len(lanes(worker.pid)) for worker in spark.workers) == 4, "four lanes")
        stopped, worker = next(iter(executors(spark).items()))
        held = lanes(stopped)
        for pid in (stopped, *held):
            os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        for number in range(4):
            cancel_shift(session, "run", "a->b", f"lane-{number}.0", "it is silent")
        for job in jobs:
            assert "it is silent" in failure(job)
        took = time.monotonic() - began
        assert took < 15 * patience(), f"Spark waited {took:.1f} s for an executor that does not answer"
        until(lambda: stopped not in executors(spark) and len(executors(spark)) == 2, "a new executor", START_SECONDS)
        until(lambda: slots_of(session) == 4, "its slots", START_SECONDS)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in held), "stopped lanes die with it", 60)
        assert worker.running


def test_a_lane_whose_worker_is_gone_is_lost_and_never_repeated(spark, session, silent):
    """Spark blames the machine then and not the task, and starts it again on another, whatever maxFailures says."""
    with Shifts(session, silent) as shifts:
        jobs = [shifts.submit(shift(name)) for name in ("lane-0.0", "lane-1.0")]
        until(lambda: sum(len(lanes(worker.pid)) for worker in spark.workers) == 2, "two lanes")
        worker = max(spark.workers, key=lambda each: len(lanes(each.pid)))
        executor = next(pid for pid, owner in executors(spark).items() if owner is worker)
        hit = len(lanes(worker.pid))
        worker.end(signal.SIGKILL, QUICK_SECONDS)
        os.kill(executor, signal.SIGKILL)
        until(lambda: sum(job.done() for job in jobs) == hit, "its lanes are lost")
        for job in jobs:
            if job.done():
                assert "Spark repeated a lane by itself" in failure(job)
    spark.workers.remove(worker)
    spark.add_worker(cores=2)


def test_secrets_reach_a_lane_and_no_file_of_spark(spark, session, silent, tmp_path):
    with Shifts(session, silent) as shifts:
        job = shifts.submit(shift("lane-0.0"))
        until(lambda: sum(len(lanes(worker.pid)) for worker in spark.workers) == 1, "a lane")
        until(lambda: any("SparkListenerJobStart" in log.read_text() for log in logs(tmp_path)), "Spark's log of it")
        cancel_flow(session, "run", "a->b")
        failure(job)
        files = [file for place in (spark.directory, tmp_path) for file in place.rglob("*") if file.is_file()]
        assert [file for file in files if SECRET.encode() in file.read_bytes()] == []


def logs(place: Path) -> list[Path]:
    return [file for file in (place / "events").rglob("*") if file.is_file()]


def test_executors_without_sparkmirror_are_named(session, silent):
    session.sparkContext.pythonExec = "/no/such/python"
    with Shifts(session, silent) as shifts:
        assert "/no/such/python" in failure(shifts.submit(shift("lane-0.0")))


@pytest.mark.kafka
def test_a_flow_survives_its_executors_and_spreads_over_a_worker_that_joins(
    spark, cluster_a, cluster_b, topic, tmp_path
):
    name = topic("spread")
    copy = f"a.{name}"
    create_topic(cluster_a, name, 8)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name}, {"tasks.max": "8"})
    joined = None
    options = ("--master", spark.url)
    try:
        with (
            Traffic(cluster_a, name, 8, nulls=False).small(per_turn=4),
            Running(file, log=tmp_path / "run.log", options=options) as mirror,
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
    with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
        assert last.wait() == 0, last.tail()
    assert repeats(cluster_a, cluster_b, name, copy) == 0


@pytest.mark.kafka
def test_executors_get_a_packed_environment_and_compile_for_their_machine_and_not_for_themselves(
    spark, cluster_a, cluster_b, topic, tmp_path
):
    name = topic("packed")
    create_topic(cluster_a, name, 2)
    archive = tmp_path / "environment.tar.gz"
    pack(archive)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    options = ("--master", spark.url, "--archive", str(archive), "--conf", "spark.cores.max=2")
    with (
        Traffic(cluster_a, name, 2, nulls=False).small(per_turn=4),
        Running(file, log=tmp_path / "run.log", options=options) as mirror,
    ):
        until(lambda: count(cluster_b, f"a.{name}") > 100, "the copy runs", 240)
        copying = [pid for worker in spark.workers for pid in lanes(worker.pid)]
        assert copying
        for pid in copying:
            assert "/environment/lib/python" in Path(f"/proc/{pid}/maps").read_text(), "libraries from the archive"
        mirror.stop_in_time()
    assert list((user_cache() / "kernels").glob("*/*.nbc"))
    assert not list(spark.directory.rglob("environment/**/*.nbc"))
