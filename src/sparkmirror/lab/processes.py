"""Who is whose child on this machine, and which processes copy: what a mirror is made of, seen from outside (/proc)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_DAEMON = "spark.daemon pyspark.worker"
"""How Spark starts the process that its workers are forked from: a module, and the workers' module."""

_EXECUTOR = "CoarseGrainedExecutorBackend"


def descendants(pid: int) -> list[int]:
    """The children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(parent(int(entry.name)), []).append(int(entry.name))
    found, open_ends = [], [pid]
    while open_ends:
        following = children.get(open_ends.pop(), [])
        found += following
        open_ends += following
    return found


def command_line(pid: int) -> str:
    """A process's words; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def lane_workers(pid: int) -> list[int]:
    """The Python processes below this one that copy: a worker has Spark's daemon as its parent and its command line."""
    return [
        each for each in descendants(pid) if _DAEMON in command_line(each) and _DAEMON in command_line(parent(each))
    ]


def executors(pid: int) -> list[int]:
    """The JVMs below this one that run tasks for a driver elsewhere."""
    return [each for each in descendants(pid) if _EXECUTOR in command_line(each)]


def is_there(pid: int) -> bool:
    """Whether the process lives, which a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def sockets(pid: int) -> frozenset[str]:
    """The open sockets of a process, each with its inode; none when it is gone."""
    found = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found.add(entry.readlink().name)
    return frozenset(each for each in found if each.startswith("socket:"))


def send(pid: int, number: int) -> bool:
    """Sends a signal; false when there was nobody to take it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def parent(pid: int) -> int:
    """The process that it is a child of; 0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
