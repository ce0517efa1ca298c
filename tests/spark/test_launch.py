"""The JVM of this process ends with it, also one that hangs as it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from sparkmirror.spark import launch

HANGS = "import time\ntime.sleep(600)"


def test_a_jvm_that_does_not_end_is_killed(monkeypatch):
    process = subprocess.Popen([sys.executable, "-c", HANGS], stdin=subprocess.PIPE)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process, shutdown=lambda: None))
    monkeypatch.setattr(SparkContext, "_jvm", None)
    launch.end(0.2)
    assert process.returncode == -signal.SIGKILL
    assert SparkContext._gateway is None
    launch.end(0.2)


def masks(pid: int) -> dict[str, int]:
    """The signals that a process ignores, blocks and catches, as bits."""
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(lines[name], 16) for name in ("SigIgn", "SigBlk", "SigCgt")}


STOPPING = 1 << signal.SIGTERM - 1 | 1 << signal.SIGINT - 1

DAEMON = """
import signal, sys
from sparkmirror.spark.daemon import hold_back_signals
hold_back_signals()
signal.signal(signal.SIGTERM, signal.SIG_DFL)
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def caught() -> Iterator[None]:
    """SIGINT as in a foreground process: shells start what runs in the background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("caught")
@pytest.mark.parametrize("ignored", [True, False])
def test_a_daemon_gets_no_signals_where_its_jvm_ignores_them(ignored: bool):
    options = launch._Options(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if ignored:
        options["preexec_fn"] = None  # as PySpark sets it
    with subprocess.Popen([sys.executable, "-c", DAEMON], **options) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        assert masks(daemon.pid)["SigBlk"] & STOPPING == (STOPPING if ignored else 0)
        if ignored:
            daemon.send_signal(signal.SIGTERM)
            daemon.send_signal(signal.SIGINT)
        assert daemon.stdin is not None
        daemon.stdin.close()
    assert daemon.returncode == 0


@pytest.mark.parametrize(
    ("driver", "given", "page"),
    [
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "10.0.0.7", "10.0.0.7"),
        ("0.0.0.0", None, None),
        ("", None, None),
    ],
)
def test_a_page_that_somebody_asks_for_is_on_this_machine_where_the_driver_is_unless_it_is_told(
    monkeypatch, tmp_path, driver, given, page
):
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    if given is not None:
        monkeypatch.setenv("SPARK_LOCAL_IP", given)
    with launch._files_in(tmp_path, driver):
        assert os.environ.get("SPARK_LOCAL_IP") == page
    assert os.environ.get("SPARK_LOCAL_IP") == given
