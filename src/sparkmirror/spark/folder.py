"""The private folder of one run below the temporary directory: what Spark, its JVM and its Python workers put on disk.

    <temporary directory>/sparkmirror-<user id>/    0700, one for each user
        sweep.lock                                  held for a moment by whoever makes or removes a folder
        run-<random>/                               0700, one for each run
            lock                                    held by the run's process for as long as it lives

A process that is killed leaves its folder. The kernel has released its lock then, so the next start of the same user
removes it, whatever process has that pid by now.

Invariants: a folder whose lock is held is never touched; a folder is made and locked while ``sweep.lock`` is held, so
no sweep sees one without a lock; a directory of the user that belongs to somebody else, or is open to others, is not
used.

Reference: flock(2).
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

log = logging.getLogger(__name__)

LOCK, SWEEP, PREFIX = "lock", "sweep.lock", "run-"
SWEEP_SECONDS, PAUSE_SECONDS = 10.0, 0.05
"""How long a start waits for another one that makes or removes a folder."""


class RunFolder:
    """A folder that this process holds; made by `make`.

    Attributes:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = os.open(path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Removes the folder with all that is in it, once nobody uses it any more; twice does no harm."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def make(base: Path | None = None) -> RunFolder:
    """Makes a folder for this run, and removes those of runs of this user that are dead.

    Args:
        base: where; the temporary directory by default.
    """
    base = base or Path(tempfile.gettempdir())
    home = base / f"sparkmirror-{os.getuid()}"
    if not _is_ours(home):
        log.warning(
            "%s belongs to another user, or is open to others: it is not used, and files of killed runs stay in %s; "
            "remove it",
            home,
            base,
        )
        return RunFolder(Path(tempfile.mkdtemp(prefix="sparkmirror-", dir=base)))
    with _alone(home) as alone:
        if alone:
            _sweep(home)
        return RunFolder(Path(tempfile.mkdtemp(prefix=PREFIX, dir=home)))


def _is_ours(home: Path) -> bool:
    """Whether the directory is this user's alone; it is made where it is not there."""
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
    found = home.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


@contextmanager
def _alone(home: Path) -> Iterator[bool]:
    """Holds the lock of all runs of this user; False where another start keeps it for too long."""
    deadline = time.monotonic() + SWEEP_SECONDS
    lock = os.open(home / SWEEP, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        held = _held(lock)
        while not held and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
            held = _held(lock)
        yield held
    finally:
        os.close(lock)


def _sweep(home: Path) -> None:
    """Removes the folders whose process is gone."""
    for path in sorted(home.glob(f"{PREFIX}*")):
        try:
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # it was killed between making the folder and its lock, or while it removed both
            shutil.rmtree(path, ignore_errors=True)
            continue
        try:
            if _held(lock):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _held(lock: int) -> bool:
    """Takes a lock if nobody has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
