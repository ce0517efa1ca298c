"""Processes that know secrets leave no core file, unless somebody looks for a defect."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

MOST = resource.getrlimit(resource.RLIMIT_CORE)[1]
COMMAND = """
from sparkmirror.cli import app
try:
    app.main([*{options}, "check", "nothing.properties"])
except SystemExit:
    pass
"""
DAEMON = """
import runpy, pyspark.daemon
from sparkmirror import batches
pyspark.daemon.manager = batches.warm = lambda: None
runpy.run_module("sparkmirror.spark.daemon", run_name="__main__")
"""


def limits_after(code: str, **environ: str) -> tuple[int, int]:
    begin = f"import resource\nresource.setrlimit(resource.RLIMIT_CORE, ({MOST}, {MOST}))\n"
    code = f"{begin}{code}\nprint(*resource.getrlimit(resource.RLIMIT_CORE))"
    known = {name: value for name, value in os.environ.items() if name != "SPARKMIRROR_DEBUG"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=known | environ)
    soft, hard = done.stdout.split()[-2:]
    return int(soft), int(hard)


@pytest.mark.parametrize("code", [COMMAND.format(options=[]), DAEMON], ids=["command", "daemon"])
def test_driver_and_workers_leave_no_core_file(code: str):
    assert limits_after(code) == (0, MOST)


def test_who_looks_for_a_defect_gets_what_the_system_allows():
    assert limits_after(COMMAND.format(options=["--debug"])) == (MOST, MOST)
    assert limits_after(COMMAND.format(options=[]), SPARKMIRROR_DEBUG="1") == (MOST, MOST)
    assert limits_after(DAEMON, SPARKMIRROR_DEBUG="1") == (MOST, MOST)
