"""The JVM of this process ends with it, also one that hangs as it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

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
