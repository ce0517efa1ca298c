"""Where compiled kernels are kept, and whether they may be loaded from there.

Numba keeps them beside their source, or in a place of the user that it names after the source's path. The last resort,
for a user without such a place who may not write to the installation, is the directory of the process.

Invariant: compiled code is run as it is found, so it is loaded only from a directory that nobody else can write to. The
one above it may be shared, or made by somebody else: the directory of a process, and the user's cache where ``HOME`` or
``XDG_CACHE_HOME`` lead to a place of several users.

Reference: numba.core.caching (``NUMBA_CACHE_LOCATOR_CLASSES``)
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from numba.core.caching import UserWideCacheLocator

from sparkmirror.user_cache import why_not_below

log = logging.getLogger(__name__)

LOCATORS = (
    "UserProvidedCacheLocator",
    "InTreeCacheLocator",
    "sparkmirror.batches.kernels.places.OfUser",
    "sparkmirror.batches.kernels.places.OfProcess",
)
"""Numba's own and those of this file, the first that can: it uses ``NUMBA_CACHE_DIR`` only where somebody sets that."""

_PRIVATE, _OTHERS = 0o700, 0o077


class OfUser(UserWideCacheLocator):  # type: ignore[misc]  # Numba has no types for this
    """Numba's directory in the user's cache, where it is this user's."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        """The locator, or None where it cannot write, or others can."""
        place = Path(cls(function, file).get_cache_path())
        root = cls.root(place)
        with contextlib.suppress(OSError):
            root.parent.mkdir(parents=True, exist_ok=True)
            for each in (root, *reversed(place.relative_to(root).parents), place):
                (root / each).mkdir(mode=_PRIVATE, exist_ok=True)
        return super().from_function(function, file) if _is_for_user_alone(place, root) else None

    @staticmethod
    def root(place: Path) -> Path:
        """The directory from which on nobody else may be able to write on the way to the kernels."""
        return place.parent


class OfProcess(UserWideCacheLocator):  # type: ignore[misc]  # Numba has no types for this
    """The directory of this process."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(self.place())

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


def _is_for_user_alone(place: Path, root: Path) -> bool:
    """Whether nobody else can have put kernels there, or into a directory above it from ``root`` on."""
    why = why_not_below(place, root)
    if why:
        _warn(why)
    return not why


@functools.cache
def _warn(why: str) -> None:
    """Once for all kernels of a process."""
    log.warning("%s: no compiled kernels are loaded from there, since they would be run as you", why)


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
