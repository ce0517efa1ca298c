"""Where the Python workers of an executor keep compiled kernels.

Numba keeps them beside their source, or in a place of the user that it names after the source's path. An environment
that Spark has unpacked lies in the directory of one executor and goes with it: each executor would compile for 10 s
anew. So its kernels go to one place of the user, whatever the path: once for each machine. The last resort, for a user
without a home who may not write to the installation, is the executor's directory.

Invariants: each state of the sources has a directory of its own, named by the stamp of ``batches.kernels.compiling``:
two releases on one machine, whose files Numba would write over each other, never meet. Compiled code is run as it is
found. What lies in the executor's directory is loaded only from a directory that nobody else can write to: the one
above it may be shared.

Reference: numba.core.caching (``NUMBA_CACHE_LOCATOR_CLASSES``)
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from numba.core.caching import UserWideCacheLocator

from sparkmirror.spark.java import user_cache
from sparkmirror.spark.settings import ENVIRONMENT

_PRIVATE, _OTHERS = 0o700, 0o077


class AnyPath(UserWideCacheLocator):  # type: ignore[misc]  # Numba has no types for this
    """Kernels of sources that may lie anywhere, in the user's cache."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(self.place())

    @staticmethod
    def place() -> Path:
        """The directory."""
        return user_cache() / "kernels" / _release()


class Shipped(AnyPath):
    """Only in an environment that Spark has unpacked in the directory of this executor."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        """The locator, or None where it does not apply or cannot write."""
        shipped = (Path.cwd() / ENVIRONMENT).resolve() in Path(file).resolve().parents
        return super().from_function(function, file) if shipped else None


class OfExecutor(AnyPath):
    """The directory of this executor."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        """The locator, or None where there is no directory of this user alone, and none can be made."""
        try:
            return super().from_function(function, file)
        except OSError:
            return None

    @staticmethod
    def place() -> Path:
        """The directory.

        Raises:
            OSError: there is none of this user alone, and none can be made.
        """
        return _of_nobody_else(Path.cwd() / "kernels")


@functools.cache
def _of_nobody_else(place: Path) -> Path:
    """The directory, or a new one beside it where others may have written to it.

    Raises:
        OSError: none can be made.
    """
    with contextlib.suppress(FileExistsError):
        place.mkdir(mode=_PRIVATE)
    if is_private(place):
        return place
    return Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=place.parent))


def is_private(place: Path) -> bool:
    """Whether it is a directory that this user has made, and into which nobody else can have put anything.

    Raises:
        OSError: it cannot be asked.
    """
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS


@functools.cache
def _release() -> str:
    from sparkmirror.batches.kernels import compiling  # it imports Numba, which asks for the locators only later

    return compiling.stamp(Path(compiling.__file__).parent.parent)[0][:16]
