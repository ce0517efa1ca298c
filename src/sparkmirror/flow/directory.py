"""The directory of one run: where the settings lie, secrets included, on their way to the executors.

Only its user may enter it. It goes when the run ends; what a killed run left behind goes when the next one starts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "sparkmirror-run-"


def make_directory() -> Path:
    """Makes the directory of this process's run, and deletes those of this user's runs that were killed."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{PREFIX}*"):
        process = left.name.removeprefix(PREFIX).split("-")[0]
        with suppress(FileNotFoundError):  # another run that starts now may be faster
            if process.isdigit() and left.stat().st_uid == os.getuid() and not _alive(int(process)):
                shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
