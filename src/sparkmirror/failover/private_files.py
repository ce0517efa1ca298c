"""Files that only their owner reads: reports name topics and groups, and exports hold what topics held.

Invariant: a file is there whole or not at all, and is this user's own. In a directory that others can write to, nothing
is written into a file, or through a link, that lies there already.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def make_private_directory(path: Path) -> None:
    """A directory, and those above it that are not there; one that is there stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    if not path.is_dir():
        make_private_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def private_file(path: Path) -> Iterator[TextIO]:
    """Opens a file for text; at the end it takes the place of what had its name.

    Raises:
        OSError: it cannot be written.
    """
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".sparkmirror-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yield file
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
