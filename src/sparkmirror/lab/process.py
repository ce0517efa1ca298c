"""A program that ends with whoever started it: brokers and ZooKeeper, in processes of their own.

Invariants: it runs under watch.py, so it never outlives its owner; after its end it may be begun again, and its log
goes on where it was. It has a process group and no session of its own: Linux deals out the processor session by session
(autogroup), and a mirror with twenty workers would get as much as each of six brokers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkmirror.errors import LabError

KILL_SECONDS = 20.0
LOG_LINES = 30

_WATCH = Path(__file__).with_name("watch.py")


class Owned:
    """One program.

    Args:
        name: for messages.
        log: where its output goes.
        removed: the directory to remove when the owner is gone, None to leave everything.

    Attributes:
        name: for messages.
        log: what it wrote, from its first start on.
    """

    def __init__(self, *, name: str, log: Path, removed: Path | None = None) -> None:
        self.name, self.log = name, log
        self._removed = removed
        self._watch: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def running(self) -> bool:
        """Whether its process is there; says nothing about whether it answers."""
        return self._watch is not None and self._watch.poll() is None

    @property
    def pid(self) -> int:
        """The id of the program's own process, not of its watcher.

        Raises:
            LabError: it does not run.
        """
        if not self.running:
            raise LabError(f"{self.name} does not run: {self.tail()}")
        return self._pid

    def begin(self, command: Sequence[str]) -> None:
        """Starts the process in its log's directory, without waiting; does nothing while it runs.

        Raises:
            LabError: not even its watcher started.
        """
        if self.running:
            return
        owned = [sys.executable, "-I", "-S", str(_WATCH), str(os.getpid()), str(self._removed or "")]
        with self.log.open("ab") as log:
            self._watch = subprocess.Popen(
                [*owned, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.log.parent,
                process_group=0,  # Ctrl-C is for the owner, which then ends what it has started
            )
        assert self._watch.stdout is not None
        with self._watch.stdout as answer:
            line = answer.readline()
        if not line.strip().isdigit():
            raise LabError(f"{self.name}: its watcher did not start: {self.tail()}")
        self._pid = int(line)

    def end(self, number: signal.Signals, seconds: float) -> None:
        """Sends a signal and waits for the end. Does nothing when it does not run.

        Raises:
            LabError: it did not end in time; it has been killed then.
        """
        if self._watch is None or not self.running:
            return
        os.kill(self._pid, number)
        try:
            self._watch.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._watch.pid, signal.SIGKILL)
            self._watch.wait(KILL_SECONDS)
            raise LabError(f"{self.name} did not end within {seconds:.0f} s: {self.tail()}") from None

    def tail(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return f"the end of {self.log}:\n  " + "\n  ".join(lines[-LOG_LINES:])
