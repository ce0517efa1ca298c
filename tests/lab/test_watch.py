from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparkmirror.lab import watch

# An owner that starts a watcher, tells the process ids of both and goes on living.
OWNER = """
import os, subprocess, sys, time
watcher = subprocess.Popen(
    [sys.executable, "-I", "-S", {watch!r}, str(os.getpid()), {directory!r}, "sleep", "300"],
    stdout=subprocess.PIPE, start_new_session=True,
)
print(watcher.pid, watcher.stdout.readline().decode().strip(), flush=True)
time.sleep(300)
"""


def begin_owner(directory: str = "") -> tuple[subprocess.Popen[str], int, int]:
    text = OWNER.format(watch=watch.__file__, directory=directory)
    owner = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner.stdout as answer:
        watcher, broker = map(int, answer.readline().split())
    return owner, watcher, broker


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def assert_gone(*pids: int, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(map(is_alive, pids)):
            return
        time.sleep(0.05)
    pytest.fail(f"still alive after {seconds} s: {[pid for pid in pids if is_alive(pid)]}")


def test_the_command_and_its_watcher_end_when_the_owner_is_killed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "file").touch()
    owner, watcher, broker = begin_owner(str(data))
    assert is_alive(broker)
    owner.kill()
    owner.wait(60)
    assert_gone(watcher, broker)
    assert not data.exists()


def test_the_command_ends_when_its_watcher_is_killed() -> None:
    owner, watcher, broker = begin_owner()
    os.kill(watcher, signal.SIGKILL)
    assert_gone(broker)
    owner.kill()
    owner.wait(60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_watcher_alone_changes_nothing(number: signal.Signals) -> None:
    owner, watcher, broker = begin_owner()
    os.kill(watcher, number)
    time.sleep(0.2)
    assert is_alive(watcher)
    assert is_alive(broker)
    owner.kill()
    owner.wait(60)
    assert_gone(watcher, broker)


@pytest.mark.parametrize(("body", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_the_exit_code_of_the_command_is_passed_on(body: str, code: int) -> None:
    command = [sys.executable, "-I", "-S", watch.__file__, str(os.getpid()), "", "sh", "-c", body]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == code


def test_an_owner_that_is_gone_before_the_watcher_looks_counts_as_gone() -> None:
    command = [sys.executable, "-I", "-S", watch.__file__, "0", "", "sleep", "300"]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 1
