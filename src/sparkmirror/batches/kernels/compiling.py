"""How the Numba kernels of this room are compiled, cached and loaded.

Purpose: one decorator for functions that Python calls (``kernel``), one for those that only kernels call
(``inner``), and ``warm``, which loads all of the first kind before the first batch comes.

Invariants:
    - A kernel has exactly one compiled signature. Its byte arrays are declared read-only, so that ``bytes`` and
      ``bytearray`` reach the same code, unless the kernel writes to them.
    - A cached kernel is never older than any source file of this room. Numba looks at the one file that holds the
      kernel, but its callees from other files are linked into it; hence the stamp below. It also tells code with
      bounds checking (``NUMBA_BOUNDSCHECK=1``) from code without, which Numba's own key does not.
    - Compiled code is loaded only from where nobody else can have put it: ``places``.
    - Kernels release the GIL: a lane's I/O thread goes on while a megabyte is being checked.

References: numba.core.caching (IndexDataCacheFile), https://numba.readthedocs.io/en/stable/developer/caching.html
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.core import config

from sparkmirror.batches.kernels import places

Function = TypeVar("Function", bound=Callable[..., Any])

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
WRITABLE = types.Array(types.uint8, 1, "C")
FLAGS = types.Array(types.uint8, 1, "C")
LONGS = types.Array(types.int64, 1, "C")
TABLE = types.Array(types.int64, 2, "C")
LONG = types.int64

_entries: list[tuple[Any, tuple[Any, ...]]] = []


def stamp(room: Path) -> tuple[str, bool]:
    """What compiled kernels depend on: all sources of the room, and whether bounds are checked."""
    sources = hashlib.sha256()
    for file in sorted(room.rglob("*.py")):
        sources.update(str(file.relative_to(room)).encode() + b"\0" + file.read_bytes())
    return sources.hexdigest(), bool(config.BOUNDSCHECK)


_STAMP = stamp(Path(__file__).parent.parent)


def kernel(*arguments: Any) -> Callable[[Function], Function]:
    """Declares a kernel that Python calls, with the Numba types of its arguments."""

    def declare(function: Function) -> Function:
        with _kept_where_it_is_safe():
            dispatcher = numba.njit(nogil=True, cache=True, error_model="numpy")(function)
        dispatcher._cache._cache_file._source_stamp = _STAMP
        _entries.append((dispatcher, arguments))
        declared: Function = dispatcher
        return declared

    return declare


@contextlib.contextmanager
def _kept_where_it_is_safe() -> Iterator[None]:
    """Has Numba keep what is declared meanwhile in `places`, unless the environment says where."""
    before = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = before or ",".join(places.LOCATORS)
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = before


def inner(function: Function) -> Function:
    """Declares a function that kernels call, and Python cannot.

    It is compiled into each of them and not cached by itself. Without Numba's reference counts on array arguments
    (``_nrt``) merging runs four times as fast; without entry points for Python and C compiling takes two thirds of the
    time.
    """
    compiled: Function = numba.njit(error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )
    return compiled


def warm() -> None:
    """Loads every kernel of the room, compiling those that the cache does not hold.

    A worker calls it once before its first batch: about 0.3 s from the cache, some 10 s and 60 MiB more without.
    Without it kernels load one by one at their first use, which a reader sees as latency. May be called again; that
    costs nothing.
    """
    for dispatcher, arguments in _entries:
        if dispatcher._can_compile:
            dispatcher.compile(arguments)
            dispatcher.disable_compile()


def fill_cache(timeout: float = 300.0) -> None:
    """Compiles, in a process of its own, the kernels that the cache does not hold.

    The driver calls it beside Spark's own start, so that workers only load: compiling in each of them would cost them
    its memory for as long as they live, and one another the processor. Takes 0.5 s when there is nothing to compile.

    Args:
        timeout: seconds after which the workers are left to compile for themselves.
    """
    program = "from sparkmirror.batches import warm; warm()"
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-P", "-c", program], timeout=timeout, check=False)
