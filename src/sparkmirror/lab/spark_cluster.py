"""A standalone Spark cluster on this machine: a master and workers, through the scripts that PySpark carries.

    with start_spark(workers=2) as spark:
        ... sparkmirror run FILE --master {spark.url} ...

Everything listens on the loopback interface only, unless a worker is told otherwise, and anybody who can connect there
can run programs as its user: it is for trying things out. It ends with the process that started it (watch.py), and
unless a directory is given its logs go with it. Executors end with their worker, Python workers with their executor.

Reference: https://spark.apache.org/docs/latest/spark-standalone.html
"""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from sparkmirror.errors import LabError
from sparkmirror.lab.ports import HOST, free_ports
from sparkmirror.lab.process import Owned
from sparkmirror.spark.java import find_java, spark_home

READY_SECONDS = 120.0
STOP_SECONDS = 20.0
ANSWER_SECONDS = 5.0
LOOK_SECONDS = 0.1

_CONF = """\
# Executors that die often must not end the application.
spark.deploy.maxExecutorRetries -1
# A worker that is killed is known by its closed connection; one that is stopped, after this many seconds.
spark.worker.timeout 20
# Ports on which anybody could submit programs, or end the application.
spark.master.rest.enabled false
spark.ui.killEnabled false
"""


class SparkCluster:
    """A running cluster; a context manager that stops it.

    Args:
        directory: holds the logs, and a directory with the executors' logs for each worker.
        removed: whether the directory goes with the cluster.

    Attributes:
        directory: as given.
        workers: in the order of their start.
    """

    def __init__(self, directory: Path, *, removed: bool) -> None:
        self.directory = directory
        self.workers: list[Owned] = []
        self._removed = removed
        self._port, self._page = free_ports(2)
        (directory / "conf").mkdir(parents=True, exist_ok=True)
        (directory / "conf" / "spark-defaults.conf").write_text(_CONF)
        self.master = self._program("master")

    @property
    def url(self) -> str:
        """For ``--master``."""
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> SparkCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_master(self) -> None:
        """Starts the master and waits until it answers.

        Raises:
            LabError: it did not.
        """
        place = ("--host", HOST, "--port", str(self._port), "--webui-port", str(self._page))
        self.master.begin(self._command("org.apache.spark.deploy.master.Master", *place))
        self._wait(self.master, lambda: self._state().get("status") == "ALIVE")

    def begin_worker(self, *, cores: int, memory: str = "4g", host: str = HOST) -> Owned:
        """Starts a worker, without waiting.

        Args:
            cores: how many tasks it takes at once.
            memory: of all its executors.
            host: on which it and its executors listen; on another interface than loopback others reach them.
        """
        name = f"worker-{len(self.workers) + 1}"
        worker = self._program(name)
        place = ("--host", host, "--cores", str(cores), "--memory", memory, "--work-dir", str(self.directory / name))
        page = ("--webui-port", "0")
        worker.begin(self._command("org.apache.spark.deploy.worker.Worker", *place, *page, self.url))
        self.workers.append(worker)
        return worker

    def add_worker(self, *, cores: int, host: str = HOST) -> Owned:
        """Starts a worker, as `begin_worker` does, and waits until the master counts it in.

        Raises:
            LabError: it did not come up.
        """
        known = self.alive_workers
        worker = self.begin_worker(cores=cores, host=host)
        self.wait_for(known + 1)
        return worker

    def wait_for(self, workers: int) -> None:
        """Waits until the master has so many workers.

        Raises:
            LabError: it has not in time, or a process ended.
        """
        for worker in self.workers:
            self._wait(worker, lambda: self.alive_workers >= workers)

    @property
    def alive_workers(self) -> int:
        """How many workers the master counts as alive; 0 while it does not answer."""
        return sum(worker["state"] == "ALIVE" for worker in self._state().get("workers", ()))

    def stop(self) -> None:
        """Ends everything. May be called again."""
        for each in (*self.workers, self.master):
            with suppress(LabError):  # it has been killed then, which is the end too
                each.end(signal.SIGTERM, STOP_SECONDS)
        if self._removed:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _program(self, name: str) -> Owned:
        log = self.directory / f"{name}.log"
        return Owned(name=f"Spark's {name}", log=log, removed=self.directory if self._removed else None)

    def _command(self, *arguments: str) -> list[str]:
        settings = {
            "JAVA_HOME": find_java().home,
            "SPARK_HOME": spark_home(),
            "SPARK_CONF_DIR": self.directory / "conf",
            "SPARK_LOCAL_DIRS": self.directory / "local",
            "SPARK_LOCAL_IP": HOST,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
        }
        pairs = [f"{key}={value}" for key, value in settings.items()]
        script = str(spark_home() / "bin" / "spark-class")
        # What the owner's Python was told is not for the executors' Python.
        return ["env", "-u", "PYTHONPATH", "-u", "PYSPARK_PYTHON", *pairs, script, *arguments]

    def _state(self) -> dict[str, Any]:
        """What the master tells about itself; empty while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=ANSWER_SECONDS) as answer:
                state: dict[str, Any] = json.load(answer)
        except (OSError, ValueError):
            return {}
        return state

    @staticmethod
    def _wait(program: Owned, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not ready():
            if not program.running:
                raise LabError(f"{program.name} ended while it started: {program.tail()}")
            if time.monotonic() > deadline:
                raise LabError(f"{program.name} was not ready after {READY_SECONDS:.0f} s: {program.tail()}")
            time.sleep(LOOK_SECONDS)


def start_spark(*, workers: int = 2, cores: int = 2, directory: Path | None = None) -> SparkCluster:
    """Starts a cluster and returns when the master knows all its workers.

    Args:
        workers: how many.
        cores: of each worker: how many tasks it takes at once, whatever the machine has.
        directory: for logs, kept afterwards; a temporary one that goes with the cluster unless given.

    Raises:
        LabError: it could not be started.
        JavaError: there is no Java for it.
    """
    place = directory or Path(tempfile.mkdtemp(prefix="sparkmirror-lab-spark-"))
    cluster = SparkCluster(place.resolve(), removed=directory is None)
    try:
        cluster.start_master()
        for _ in range(workers):
            cluster.begin_worker(cores=cores)
        cluster.wait_for(workers)
    except BaseException:
        cluster.stop()
        raise
    return cluster
