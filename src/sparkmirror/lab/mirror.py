"""``sparkmirror run FILE`` as a process of its own, for the demo, the tests and the fault laboratory.

Invariant: it does not outlive the process that started it, however that one ends: it runs under watch.py, as the lab's
brokers do, and Spark's JVM ends with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Protocol

from sparkmirror.errors import LabError
from sparkmirror.lab.processes import lane_workers

KILL_SECONDS = 20.0
LOG_LINES = 30

_WATCH = Path(__file__).with_name("watch.py")


class Process(Protocol):
    """What a mirror needs of the process that runs it, as `subprocess.Popen` has it."""

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; raises `subprocess.TimeoutExpired`."""


class Mirror:
    """A running mirror; a context manager that kills it if it still runs then.

    Args:
        file: the configuration.
        log: where its output goes.
        options: of ``sparkmirror run``.
    """

    def __init__(self, file: Path, *, log: Path, options: tuple[str, ...] = ()) -> None:
        self.log = log
        command = [sys.executable, "-I", "-S", str(_WATCH), str(os.getpid()), ""]
        command += [sys.executable, "-m", "sparkmirror", "run", str(file), *options]
        with log.open("wb") as out:
            watch = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=out,
                process_group=0,  # Ctrl-C is for the owner, which then stops the mirror
            )
        self._watch: Process = watch
        assert watch.stdout is not None
        with watch.stdout as answer:
            line = answer.readline()
        if not line.strip().isdigit():
            raise LabError(f"sparkmirror run did not start: {self.tail()}")
        self.pid = int(line)

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def running(self) -> bool:
        """Whether its process is there."""
        return self._watch.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._watch.poll()

    @property
    def output(self) -> str:
        """What it wrote so far."""
        return self.log.read_text(errors="replace")

    def lane_workers(self) -> list[int]:
        """The Python processes that copy, when Spark runs in this mirror's own JVM."""
        return lane_workers(self.pid)

    def kill(self) -> None:
        """Ends it as a crash would (SIGKILL)."""
        self._signal(signal.SIGKILL)
        self._watch.wait(KILL_SECONDS)

    def stop(self, *, seconds: float) -> int:
        """Stops it as an operator would (SIGTERM) and returns its exit code.

        Raises:
            LabError: it did not end in time; it has been killed then.
        """
        self._signal(signal.SIGTERM)
        try:
            return self._watch.wait(seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._watch.wait(KILL_SECONDS)
            raise LabError(f"sparkmirror run did not end within {seconds:.0f} s of SIGTERM: {self.tail()}") from None

    def tail(self) -> str:
        """The end of what it wrote."""
        lines = self.log.read_text(errors="replace").splitlines()
        return f"the end of {self.log}:\n  " + "\n  ".join(lines[-LOG_LINES:])

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)
