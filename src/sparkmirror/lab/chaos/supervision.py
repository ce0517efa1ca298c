"""The mirror as a supervisor runs it: started again when it has ended without being asked to.

Every start has a log of its own. What it was asked to do (a stop at the end, a kill as a fault) is told to this class
first, so that only the rest counts as ended by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from sparkmirror.lab.mirror import Mirror
from sparkmirror.lab.processes import executors, is_there, lane_workers

LOOK_SECONDS = 0.2
STOP_SECONDS = 60.0
RESTART_SECONDS = 1.0


class Supervisor:
    """Keeps one mirror running.

    Args:
        file: the mirror's configuration.
        directory: for its logs.
        options: of ``sparkmirror run``.
        spark: process ids below which a Spark cluster's executors live, none when Spark runs in the mirror's own JVM.
        note: is told what happens, in words.
    """

    def __init__(
        self,
        file: Path,
        directory: Path,
        *,
        options: tuple[str, ...],
        spark: Callable[[], list[int]],
        note: Callable[[str], None],
    ) -> None:
        self._file, self._directory, self._options = file, directory, options
        self._spark, self._note = spark, note
        self._lock = threading.Lock()
        self._logs: list[Path] = []
        self._ending = threading.Event()
        self._mirror = self._new()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    @property
    def starts(self) -> int:
        """How often a mirror was started, seconds ones among them."""
        return len(self._logs)

    @property
    def pid(self) -> int:
        """Of the driver's Python process."""
        return self._mirror.pid

    def pid_or_none(self) -> int | None:
        """The same; None while it does not run."""
        mirror = self._mirror
        return mirror.pid if mirror.running else None

    def workers(self) -> list[int]:
        """The Python processes that copy, wherever Spark runs."""
        return [worker for root in self._roots() for worker in lane_workers(root) if is_there(worker)]

    def executors(self) -> list[int]:
        """Spark's executors, where it has its own."""
        return [executor for root in self._spark() for executor in executors(root)]

    def output(self) -> str:
        """All that every run has written."""
        return "".join(log.read_text(errors="replace") for log in self._logs)

    def another(self) -> Mirror:
        """Starts a second mirror on the same file, which nobody supervises."""
        with self._lock:
            return self._new()

    def kill(self) -> None:
        """Ends the driver as a crash would; it is started again."""
        self._mirror.kill()

    def end(self) -> int:
        """Ends the driver as an operator would (SIGTERM), and gives its exit code; it is started again.

        Raises:
            LabError: it did not end in time.
        """
        return self._mirror.stop(seconds=STOP_SECONDS)

    def stop(self) -> int:
        """Stops it for good, as an operator would, and gives its exit code.

        Raises:
            LabError: it did not end in time.
        """
        self._ending.set()
        self._thread.join(STOP_SECONDS)
        return self._mirror.stop(seconds=STOP_SECONDS)

    def abandon(self) -> None:
        """Kills what is left."""
        self._ending.set()
        self._thread.join(STOP_SECONDS)
        self._mirror.kill()

    def _roots(self) -> list[int]:
        return self._spark() or [self._mirror.pid]

    def _new(self) -> Mirror:
        log = self._directory / f"run-{len(self._logs) + 1}.log"
        self._logs.append(log)
        return Mirror(self._file, log=log, options=self._options)

    def _watch(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            if self._mirror.running:
                continue
            self._note(f"the mirror has ended with {self._mirror.code}, it is started again: {self._logs[-1].name}")
            time.sleep(RESTART_SECONDS)
            with self._lock:
                if not self._ending.is_set():
                    self._mirror = self._new()
