"""Locks between processes, which the system drops when their holder ends in whatever way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from pathlib import Path

from sparkmirror.errors import LabError

LOOK_SECONDS = 0.1


@contextmanager
def locked(path: Path, *, seconds: float, refusal: str = "") -> Iterator[None]:
    """Holds the lock on a file, which is made if need be.

    Args:
        path: of the file.
        seconds: how long to wait for another holder.
        refusal: what to say then, in the place of the file's name.

    Raises:
        LabError: another process held it for all of the given time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + seconds
    with path.open("a") as file:
        while True:
            try:
                flock(file, LOCK_EX | LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise LabError(refusal or f"{path} is held by another process: end that one") from None
                time.sleep(LOOK_SECONDS)
        yield


def is_held(path: Path) -> bool:
    """Whether some process holds the lock now."""
    try:
        with path.open() as file:
            flock(file, LOCK_SH | LOCK_NB)
            flock(file, LOCK_UN)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
