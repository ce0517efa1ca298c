"""No memory of a process that knows secrets goes to a disk when it crashes.

The soft limit alone is lowered, and processes that are started inherit it: Spark's Java process and its Python workers.
What was rejected: ``PR_SET_DUMPABLE``, which would also keep ``py-spy``, ``gdb`` and ``lsof`` of the same user out, and
does not outlive ``exec``, so that Java, which has the same settings in memory, would stay as it is.
"""

from __future__ import annotations

import resource


def forbid() -> None:
    """From now on this process, and whatever it starts, leaves no core file."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
