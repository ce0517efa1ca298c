"""The clock of a process, stepped while it runs; the machine's own stays as it is.

libfaketime is loaded before the process's other libraries and reads the step from a file, at most a second late. Only
the time of day steps: what counts seconds since some start (CLOCK_MONOTONIC, CLOCK_BOOTTIME) goes on, as on a machine
whose administrator corrects the clock.

Not for programs that start others, such as the mirror: libfaketime's processes share a lock with their children, and
one that is killed while it holds it stops them all.

References: https://github.com/wolfcw/libfaketime (FAKETIME_TIMESTAMP_FILE, FAKETIME_DONT_FAKE_MONOTONIC)
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

CLOCK = "clock"
"""The file with the step, in the directory where the process runs."""

PROBE_SECONDS = 20.0
_LIBRARY = "vendor/libfaketime/src/libfaketime.so.1"
_SETTINGS = (
    "FAKETIME_DONT_FAKE_MONOTONIC=1",
    "FAKETIME_FORCE_MONOTONIC_FIX=0",  # with the fix that it finds needed here, Java's waits end at once
    "FAKETIME_CACHE_DURATION=1",
)
_PROBE = "import time; print(int(time.time()))"


def steppable(file: Path | str = CLOCK) -> tuple[str, ...]:
    """What stands before a command whose clock shall be stepped by ``step(file, …)``; empty where that cannot be done.

    A relative file is looked for where the process runs.
    """
    library = _library()
    if library is None:
        return ()
    prefix = ("env", f"LD_PRELOAD={library}", *_SETTINGS)
    probe = [*prefix, "FAKETIME=+9000s", sys.executable, "-I", "-S", "-c", _PROBE]
    true = [sys.executable, "-I", "-S", "-c", _PROBE]
    times = [
        subprocess.run(each, capture_output=True, timeout=PROBE_SECONDS, check=False).stdout for each in (probe, true)
    ]
    if not all(time.strip().isdigit() for time in times) or int(times[0]) - int(times[1]) < 8_000:
        return ()  # another processor or another libc than the library was made for
    return (*prefix, f"FAKETIME_TIMESTAMP_FILE={file}")


def step(file: Path, seconds: float) -> None:
    """Sets the clock of who looks at this file: so much before (negative) or behind the machine's; 0 puts it right."""
    draft = file.with_suffix(".draft")
    draft.write_text(f"{seconds:+.0f}s\n")
    draft.replace(file)


def _library() -> Path | None:
    spec = importlib.util.find_spec("libfaketime")
    if spec is None or not spec.submodule_search_locations:
        return None
    library = Path(spec.submodule_search_locations[0]) / _LIBRARY
    return library if library.is_file() else None
