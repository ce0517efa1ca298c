"""A disk of a broker that can be made full: a file system in memory, mounted where its data goes.

Mounts are seen by this process and its children alone (a mount namespace), and end with them, however they end.

References: unshare(1), mount(8): a tmpfs may be made as small as what it holds, but not smaller.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkmirror.errors import LabError

SIZE_MB = 2048
MOUNT_SECONDS = 20.0
_INSIDE = "SPARKMIRROR_OWN_MOUNTS"
_WAYS = (("unshare", "--mount"), ("unshare", "--user", "--map-root-user", "--mount"))


def with_own_mounts(module: str, arguments: Sequence[str]) -> bool:
    """Starts this program anew where it may mount, if it may; returns only when it does not need to or may not.

    Returns:
        whether it may mount here.
    """
    if os.environ.get(_INSIDE):
        return True
    for way in _WAYS:
        if shutil.which(way[0]) and _run([*way, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]) == "":
            os.environ[_INSIDE] = "1"
            os.execvp(way[0], [*way, sys.executable, "-m", module, *arguments])
    return False


class Disk:
    """A file system of its own at a directory.

    Args:
        directory: made if need be; it has to be empty.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._mount("-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs")

    def fill(self) -> int:
        """Leaves no room from here on; returns how many bytes it holds."""
        state = os.statvfs(self.directory)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize
        for room in (0, 1, 4, 16):  # what was written between the look and the mount must fit
            with_room = used + (room << 20)
            try:
                self._mount("-o", f"remount,size={with_room}", "tmpfs")
            except LabError:
                continue
            return with_room
        raise LabError(f"{self.directory} could not be made full: its brokers write faster than that")

    def empty(self) -> None:
        """There is room again."""
        self._mount("-o", f"remount,size={SIZE_MB}m", "tmpfs")

    def release(self) -> None:
        """Unmounts it; what it held is gone."""
        _run(["umount", "--lazy", str(self.directory)])

    def _mount(self, *options: str) -> None:
        problem = _run(["mount", *options, str(self.directory)])
        if problem:
            raise LabError(f"{self.directory} could not be mounted: {problem}")


def _run(command: Sequence[str]) -> str:
    """What went wrong, in the program's words; "" when nothing did."""
    run = subprocess.run(command, capture_output=True, text=True, timeout=MOUNT_SECONDS, check=False)
    return "" if run.returncode == 0 else run.stderr.strip() or f"exit code {run.returncode}"
