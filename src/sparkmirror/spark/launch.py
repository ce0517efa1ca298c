"""Starts Spark's JVM, and makes log lines of ours of what it and its Python workers print.

Whatever a library prints by itself, past the log, breaks the format that an operator chose: JSON lines are read by
machines. So the JVM's standard output and error are a pipe, which a thread reads for as long as the JVM lives.

Signals that end a run are for the driver alone, which drains the lanes. Others get them too: systemd signals all
processes of a service, a terminal all of its foreground group. So the JVM ignores them, and with it what it starts
(``daemon``); it ends when the driver says so, or when the pipe from the driver is closed, whatever the driver died of.

Invariants: nothing but `NOISE` is left out; why a JVM did not start is in the error, with what it printed last.

Reference: ``pyspark.java_gateway.launch_gateway``; HotSpot leaves signals alone that it finds ignored
(``JVM_RegisterSignal``).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway

from sparkmirror.errors import SparkmirrorError
from sparkmirror.spark.settings import is_loopback

log = logging.getLogger("pyspark.jvm")

NOISE = ("WARNING: Using incubator modules: jdk.incubator.vector",)
"""Printed at each start, whatever happens: Spark asks for that module."""

PAGE_ADDRESS = "SPARK_LOCAL_IP"

LINES_KEPT = 20
END_SECONDS = 3.0

FOR_THE_DRIVER = frozenset({signal.SIGTERM, signal.SIGINT})
"""Signals by which a run is asked to stop."""


def start(settings: Mapping[str, str], folder: Path) -> None:
    """Starts the JVM of this process's session, unless there is one.

    Args:
        settings: of the session.
        folder: for files of the JVM and of its Python workers.

    Raises:
        SparkmirrorError: it did not start; with what it printed.
    """
    if SparkContext._gateway is not None:
        return
    read, write = os.pipe()
    last: deque[str] = deque(maxlen=LINES_KEPT)
    reader = threading.Thread(target=_tell, args=(read, last), name="what Spark prints", daemon=True)
    reader.start()
    launch_gateway: Any = java_gateway.launch_gateway
    try:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        with _files_in(folder, settings.get("spark.driver.bindAddress", "")):
            gateway = launch_gateway(conf, _Options(stdout=write, stderr=subprocess.STDOUT))
    except Exception as failure:
        os.close(write)
        reader.join(END_SECONDS)
        printed = " | ".join(last) or "it printed nothing"
        raise SparkmirrorError(f"its Java process ended before it answered: {printed}") from failure
    os.close(write)
    SparkContext._ensure_initialized(gateway=gateway)


class _Options(dict[str, Any]):
    """How the JVM is started; PySpark sets what the new process does first, and would have it ignore SIGINT alone."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _ignore_signals if name == "preexec_fn" else value)


def _ignore_signals() -> None:
    for number in FOR_THE_DRIVER:
        signal.signal(number, signal.SIG_IGN)


def end(seconds: float = END_SECONDS) -> None:
    """Ends the JVM, and waits for that, since it removes its files. One that does not end is killed: nothing is left.

    Args:
        seconds: to wait before it is killed.
    """
    gateway: Any = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    SparkContext._gateway = SparkContext._jvm = None
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    if process is not None:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            log.info("Spark's Java process %d did not end within %g s, and is killed", process.pid, seconds)
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


@contextmanager
def _files_in(folder: Path, address: str = "") -> Iterator[None]:
    """What is started meanwhile keeps its files in a folder: these variables win over all settings of Spark.

    Its Python workers take no modules from the directory in which somebody has started this process. Spark's web page,
    where somebody asks for it, listens where this variable says, else everywhere: with a driver on the loopback
    interface it stays there, unless the variable is set.
    """
    ours = {"TMPDIR": str(folder), "SPARK_LOCAL_DIRS": str(folder), "PYTHONSAFEPATH": "1"}
    if is_loopback(address) and not os.environ.get(PAGE_ADDRESS):
        ours[PAGE_ADDRESS] = address
    before, known = {name: os.environ.get(name) for name in ours}, tempfile.tempdir
    os.environ.update(ours)
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = known
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _tell(descriptor: int, last: deque[str]) -> None:
    """Logs what comes through a pipe until its writers are gone."""
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            text = line.rstrip()
            if text and text not in NOISE:
                last.append(text)
                log.warning("%s", text)
