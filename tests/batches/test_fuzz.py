"""No damage makes a kernel leave its arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.batches.fuzz import fuzz

ROOT = Path(__file__).parents[2]


def test_damaged_answers_are_copied_or_refused() -> None:
    seen = fuzz(3000, 20)
    assert seen["records"] > 1000
    assert seen["refused by merge"] > 100


@pytest.mark.slow
def test_no_kernel_leaves_its_arrays_under_bounds_checking(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.batches.fuzz", "30000", "7"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "30000 answers" in done.stdout
