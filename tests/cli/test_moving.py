"""The options of moving in and out, as far as they are judged before a cluster is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILE = "clusters = A, B\nA.bootstrap.servers = localhost:1\nB.bootstrap.servers = localhost:2\nA->B.enabled = true\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--offsets-topic", "mm2-offsets.A.internal"], "--offsets-topic belongs to --take-over mm2"),
        (["--take-over", "mirus"], "'mirus' is not"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: list[str], told: str) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    command = [sys.executable, "-m", "sparkmirror", "run", str(file), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert told in " ".join(done.stderr.replace("│", " ").split())
