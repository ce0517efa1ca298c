"""The fault laboratory, short: one seed, four faults. `make chaos` is the long form, and has the others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

KINDS = ("kill_driver", "unclean", "cut", "healed_stop")


@pytest.mark.long
def test_four_faults_lose_repeat_and_reorder_nothing(tmp_path):
    only = [word for kind in KINDS for word in ("--only", kind)]
    wanted = ["--seed", "8", "--faults", str(len(KINDS)), "--minutes", "0.2", "--results", str(tmp_path)]
    command = [sys.executable, "-m", "sparkmirror.lab.chaos", *wanted, *only]
    run = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    (report,) = tmp_path.glob("*.json")
    found = json.loads(report.read_text())
    assert len(found["done"]) == len(KINDS)
    assert found["total"]["records"] > 1_000
    assert (found["total"]["lost"], found["total"]["repeated"], found["total"]["reordered"]) == (0, 0, 0)
