"""Files for libraries that read keys from a path only.

Invariant: where the system has files in memory, as Linux has, a key is written to no disk, and no end of the process
leaves it anywhere. Elsewhere it lies in a file that only this user can read, for as long as a library needs it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def secret_file(content: bytes, suffix: str) -> Iterator[str]:
    """A path at which this process, and no other user's, reads ``content``.

    Args:
        content: the key.
        suffix: what the file is, such as ``.keytab``.
    """
    in_memory = hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()
    if in_memory:
        handle = os.memfd_create(f"sparkmirror{suffix}")
        path = f"/proc/self/fd/{handle}"
    else:
        handle, path = tempfile.mkstemp(prefix="sparkmirror-", suffix=suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            yield path
    finally:
        if not in_memory:
            Path(path).unlink()
