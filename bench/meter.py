"""What a replicator costs: CPU seconds and memory of its whole process tree, read from Linux's /proc.

As a script it is the warden of one command: ``meter.py COMMAND...`` starts it, adopts whatever its descendants leave
behind (``PR_SET_CHILD_SUBREAPER``), waits for every one of them, and passes SIGTERM and SIGINT on, also when the
benchmark itself is killed. So the warden's children are the replicator, all of it, and nothing that ran escapes the
account, however short.

Invariants:
- CPU is exact to the kernel's clock tick (10 ms per process): the own time of every live process of the tree, and what
  the kernel has added up of those that were waited for.
- Memory of the tree is the sum of proportional set sizes, so pages that forked Python workers share count once.
- Memory of a lane's worker is the greatest resident set that the kernel has seen for one, shared pages included.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK_EVERY_S = 0.5
STOP_S, KILL_S = 60.0, 10.0
WORKER_PARENT = b"spark.daemon"  # PySpark's own module or one that stands for it
KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the tree.

    Attributes:
        at_s: seconds since its start.
        tree: bytes of the whole tree.
        worker: greatest resident set that a lane worker has had, in bytes.
        worker_now: greatest resident set that one has now.
    """

    at_s: float
    tree: int
    worker: int
    worker_now: int


@dataclass(slots=True, kw_only=True)
class Account:
    """What a run has cost from start to end."""

    exit_code: int = 0
    cpu_s: float = 0.0
    looks: list[Look] = field(default_factory=list)

    @property
    def peak_tree(self) -> int:
        """Greatest memory of the tree, in bytes."""
        return max((look.tree for look in self.looks), default=0)

    @property
    def peak_worker(self) -> int:
        """Greatest memory of one lane worker, in bytes; 0 when there is none."""
        return max((look.worker for look in self.looks), default=0)


class Tree:
    """A command with all its descendants under account; a context manager that ends them all.

    Args:
        command: what to run.
        log: where its output goes.
        environment: of the command.
    """

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        self.account = Account()
        self.started = time.monotonic()
        with log.open("wb") as out:
            self._warden = subprocess.Popen(
                [sys.executable, __file__, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(environment),
            )
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look_regularly, daemon=True)
        self._watch.start()

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the warden, whose descendants are the tree."""
        return self._warden.pid

    def cpu_s(self) -> float:
        """CPU seconds of the tree up to now."""
        return sum(_cpu_ticks(stat) for stat in _family(self._warden.pid).values()) / TICKS

    def ended(self) -> bool:
        """True when the command has ended by itself."""
        return os.waitid(os.P_PID, self._warden.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def tail(self, lines: int = 25) -> str:
        """The end of what it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> Account:
        """Ends what still runs, waits for it and returns the account. May be called again."""
        if self._ended.is_set():
            return self.account
        self._ended.set()
        self._watch.join()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._warden.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while not self.ended() and time.monotonic() < deadline:
            time.sleep(0.02)
        while not self.ended():
            _kill(_family(self._warden.pid).keys() - {self._warden.pid})
            time.sleep(0.1)
        _, status, usage = os.wait4(self._warden.pid, 0)
        self._warden.returncode = self.account.exit_code = os.waitstatus_to_exitcode(status)
        self.account.cpu_s = usage.ru_utime + usage.ru_stime
        return self.account

    def _look_regularly(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            family = _family(self._warden.pid)
            workers = [pid for pid in family if _is_worker(pid, family)]
            self.account.looks.append(
                Look(
                    at_s=time.monotonic() - self.started,
                    tree=sum(_size(pid, "smaps_rollup", b"Pss:") for pid in family),
                    worker=max((_size(pid, "status", b"VmHWM:") for pid in workers), default=0),
                    worker_now=max((_size(pid, "status", b"VmRSS:") for pid in workers), default=0),
                )
            )


def _family(root: int) -> dict[int, list[bytes]]:
    """The process and its descendants: id to the fields of /proc/ID/stat after the command's name."""
    stats: dict[int, list[bytes]] = {}
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            text = _read(int(entry.name), "stat")
            if text:
                stats[int(entry.name)] = fields = text[text.rindex(b")") + 2 :].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    family, pending = {}, [root]
    while pending:
        pid = pending.pop()
        if pid in stats:
            family[pid] = stats[pid]
            pending += children.get(pid, [])
    return family


def _cpu_ticks(stat: list[bytes]) -> int:
    """utime, stime and those of children that were waited for."""
    return sum(map(int, stat[11:15]))


def _is_worker(pid: int, family: Mapping[int, list[bytes]]) -> bool:
    """A lane's worker is forked by PySpark's daemon: both show the same command, so the parent tells."""
    parent = int(family[pid][1])
    return parent in family and WORKER_PARENT in _read(pid, "cmdline") and WORKER_PARENT in _read(parent, "cmdline")


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _size(pid: int, name: str, key: bytes) -> int:
    for line in _read(pid, name).splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * KIB
    return 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended meanwhile
        return b""


def main(command: Sequence[str]) -> int:
    """The warden: runs the command and outlives every descendant of it."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    child = subprocess.Popen(command)

    def pass_on(number: int, _: object) -> None:
        if child.returncode is None:
            os.kill(child.pid, number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    while child.returncode is None:
        pid, status = os.wait()
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
    deadline = time.monotonic() + KILL_S
    while len(left := _family(os.getpid())) > 1:
        if time.monotonic() > deadline:
            _kill(left.keys() - {os.getpid()})
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.01)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
