"""Where the Python workers of an executor keep compiled kernels.

As every process does (`places`), but for an environment that Spark has unpacked: that lies in the directory of one
executor and goes with it, so each executor would compile for 10 s anew. So its kernels go to one place of the user,
whatever the path: once for each machine.

Invariant: each state of the sources has a directory of its own, named by the stamp of ``batches.kernels.compiling``:
two releases on one machine, whose files Numba would write over each other, never meet.

Reference: numba.core.caching (``NUMBA_CACHE_LOCATOR_CLASSES``)
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from sparkmirror.batches.kernels import places
from sparkmirror.spark.settings import ENVIRONMENT
from sparkmirror.user_cache import user_cache


class Shipped(places.OfUser):
    """Only in an environment that Spark has unpacked in the directory of this executor."""

    def __init__(self, function: Any, file: str) -> None:
        super().__init__(function, file)
        self._cache_path = str(self.place())

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        """The locator, or None where it does not apply or cannot write, or others can."""
        shipped = (Path.cwd() / ENVIRONMENT).resolve() in Path(file).resolve().parents
        return super().from_function(function, file) if shipped else None

    @staticmethod
    def place() -> Path:
        """The directory."""
        return user_cache() / "kernels" / _release()

    @staticmethod
    def root(place: Path) -> Path:
        """The user's cache."""
        return place.parent.parent


@functools.cache
def _release() -> str:
    from sparkmirror.batches.kernels import compiling  # it imports Numba, which asks for the locators only later

    return compiling.stamp(Path(compiling.__file__).parent.parent)[0][:16]
