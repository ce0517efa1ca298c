"""The account of a process tree leaves nothing out, however short a process lived and whoever was its parent."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from meter import Account, Tree

BURN = """
import os, subprocess, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""
CHILD = BURN + "subprocess.run([sys.executable, '-c', sys.argv[1] + 'burn(0.3)'])\nburn(0.1)\n"
ORPHAN = (
    BURN
    + """
child = os.fork()
if child == 0:
    if os.fork() == 0:
        burn(0.3)
    os._exit(0)
os.waitpid(child, 0)
"""
)
HOLD = "import time; x = bytearray(80 << 20); time.sleep(2)"


def _run(tmp_path: Path, code: str, *arguments: str) -> Account:
    with Tree([sys.executable, "-c", code, *arguments], log=tmp_path / "log", environment=os.environ) as tree:
        deadline = time.monotonic() + 60
        while not tree.ended():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return tree.account


@pytest.mark.parametrize(("code", "at_least"), [(CHILD, 0.4), (ORPHAN, 0.3)], ids=["child", "orphan"])
def test_time_of_descendants_that_have_ended_is_counted(tmp_path: Path, code: str, at_least: float) -> None:
    account = _run(tmp_path, code, BURN)
    assert account.exit_code == 0
    assert at_least <= account.cpu_s < at_least + 1.0


def test_time_is_known_while_it_runs(tmp_path: Path) -> None:
    code = BURN + "burn(0.3)\ntime.sleep(300)\n"
    with Tree([sys.executable, "-c", code], log=tmp_path / "log", environment=os.environ) as tree:
        deadline = time.monotonic() + 60
        while tree.cpu_s() < 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert not tree.ended()
        assert tree.stop().cpu_s >= 0.3
    assert tree.account.exit_code == 128 + signal.SIGTERM


def test_memory_of_the_whole_tree_is_seen(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    account = _run(tmp_path, code, HOLD)
    assert 80 << 20 <= account.peak_tree < 160 << 20
    assert account.peak_worker == 0
