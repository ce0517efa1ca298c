"""Shifts on a real cluster of Spark: two workers with two cores each, and one session, shared by the module."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import py4j.java_gateway
import py4j.protocol
import pytest
from pyspark import SparkContext

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, Secret, Security
from sparkmirror.config.security_settings import SaslMechanism, SecurityProtocol
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.errors import SparkmirrorError
from sparkmirror.lab.ports import HOST
from sparkmirror.lab.spark_cluster import SparkCluster
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.spark.job import cancel_flow, cancel_shift, packed, run_shift
from sparkmirror.spark.session import Session, close_session, has_ended, open_session, slots_of
from sparkmirror.spark.settings import parse_options
from tests.flow.running import patience, until
from tests.spark.clusters import QUICK_SECONDS, START_SECONDS, executors, lanes, spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

__all__ = ["spark"]  # a fixture

SECRET = "kept-between-driver-and-lane"
NEVER_MS = 3_600_000


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


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes a log of what it tells about its jobs."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def whole(spark: SparkCluster, events: Path) -> Iterator[Session]:
    """All of the cluster."""
    conf = (
        "spark.eventLog.enabled=true",
        "spark.eventLog.compress=false",
        f"spark.eventLog.dir=file://{events}",
        "spark.storage.blockManagerHeartbeatTimeoutMs=10s",
    )
    session = open_session(parse_options(spark.url, conf, None), slots=0)
    try:
        yield session
    finally:
        close_session(session)
        # PySpark changes how py4j reads every answer, and cannot do it without its own JVM.
        py4j.java_gateway.get_return_value = py4j.protocol.get_return_value
    assert has_ended(session)
    # A flow that ends later than its session has nothing to cancel.
    cancel_flow(session, "run", "a->b")
    cancel_shift(session, "run", "a->b", "lane-0.0", "it is silent")
    until(lambda: not executors(spark), "the executors end with their application", 60)


@pytest.fixture
def session(whole: Session, spark: SparkCluster) -> Session:
    """The same for all tests: each finds all slots free."""
    until(lambda: slots_of(whole) == 4, "both workers have executors", START_SECONDS)
    until(lambda: not any(lanes(worker.pid) for worker in spark.workers), "no lane of another test", QUICK_SECONDS)
    return whole


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


def shift(run: str, name: str, flow: str) -> ShiftPlan:
    partition = PartitionPlan(
        source=TopicPartition("t", 0),
        target_topic="a.t",
        topic_id="",
        position=0,
        writer=Writer(producer_id=1, epoch=0),
    )
    return ShiftPlan(
        flow=flow,
        run=run,
        shift=name,
        generation=1,
        partitions=(partition,),
        internal_topic="i",
        control_topic="c",
    )


class Shifts:
    """Runs shifts in threads, as a flow does, in a run of its own: Spark cancels what is cancelled for good."""

    _runs = itertools.count()

    def __init__(self, session: Session, config: FlowConfig) -> None:
        self._pool = ThreadPoolExecutor(8)
        self._session, self._config = session, config
        self._run = f"run-{next(self._runs)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for flow in ("a->b", "c->d"):
            self.cancel_flow(flow)
        self._pool.shutdown()

    def submit(self, name: str, flow: str = "a->b") -> Future[Any]:
        return self._pool.submit(run_shift, self._session, shift(self._run, name, flow), packed(self._config))

    def cancel(self, name: str, reason: str) -> None:
        cancel_shift(self._session, self._run, "a->b", name, reason)

    def cancel_flow(self, flow: str = "a->b") -> None:
        cancel_flow(self._session, self._run, flow)


def failure(job: Future[Any]) -> str:
    error = job.exception(QUICK_SECONDS)
    assert isinstance(error, SparkmirrorError)
    return str(error)


def test_shifts_land_on_both_workers_and_each_can_be_cancelled_alone_before_and_while_it_runs(spark, session, silent):
    with Shifts(session, silent) as shifts:
        early = "lane-9.0"
        shifts.cancel(early, "nobody wants it")
        assert "cancelled" in failure(shifts.submit(early))
        jobs = [shifts.submit(f"lane-{number}.0") for number in range(3)]
        other = shifts.submit("lane-0.0", flow="c->d")
        until(lambda: [len(lanes(worker.pid)) for worker in spark.workers] == [2, 2], "two lanes on each worker")
        shifts.cancel("lane-1.0", "it is silent")
        assert "it is silent" in failure(jobs[1])
        assert not any(job.done() for job in (jobs[0], jobs[2], other))
        shifts.cancel_flow()
        assert "cancelled" in failure(jobs[0])
        assert "cancelled" in failure(jobs[2])
        assert not other.done(), "another flow's lane goes on"


def test_a_cancelled_shift_returns_at_once_though_its_executor_is_stopped_and_spark_finds_a_new_executor(
    spark, session, silent
):
    with Shifts(session, silent) as shifts:
        jobs = [shifts.submit(f"lane-{number}.0") for number in range(4)]
        until(lambda: sum(len(lanes(worker.pid)) for worker in spark.workers) == 4, "four lanes")
        stopped, worker = next(iter(executors(spark).items()))
        held = lanes(stopped)
        for pid in (stopped, *held):
            os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        for number in range(4):
            shifts.cancel(f"lane-{number}.0", "it is silent")
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
        jobs = [shifts.submit(name) for name in ("lane-0.0", "lane-1.0")]
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


def test_secrets_reach_a_lane_and_no_file_of_spark(spark, session, silent, events):
    with Shifts(session, silent) as shifts:
        job = shifts.submit("lane-0.0")
        until(lambda: sum(len(lanes(worker.pid)) for worker in spark.workers) == 1, "a lane")
        until(lambda: any("SparkListenerJobStart" in log.read_text() for log in files(events)), "Spark's log of it")
        shifts.cancel_flow()
        failure(job)
        written = files(spark.directory) + files(events)
        assert [file for file in written if SECRET.encode() in file.read_bytes()] == []


def files(place: Path) -> list[Path]:
    return [file for file in place.rglob("*") if file.is_file()]


def test_executors_without_sparkmirror_are_named(session, silent, monkeypatch):
    monkeypatch.setattr(session.sparkContext, "pythonExec", "/no/such/python")
    with Shifts(session, silent) as shifts:
        assert "/no/such/python" in failure(shifts.submit("lane-0.0"))
