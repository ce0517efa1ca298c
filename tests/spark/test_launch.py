"""The JVM of this process ends with it, also one that hangs as it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
