"""Runs one broker and ends it when the process that started it is gone, however that one ended.

Started as a script, ``python -I -S watch.py OWNER DIRECTORY COMMAND…``, so it imports nothing of ours and stays small.
It writes the broker's process id to its standard output and ends with the broker's exit code.

Invariants: a broker never outlives its owner by more than a second or two; a DIRECTORY other than "" goes with it.
What was rejected: a pipe that closes with the owner (a forked child of the owner keeps it open), and Linux's
parent-death signal alone (macOS lacks it, and it follows the thread that forked, not the process). Here it is the
second line, for the case that this watcher is killed too.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

LOOK_SECONDS = 0.5
_PR_SET_PDEATHSIG = 1


def main(owner: int, directory: str, command: list[str]) -> int:
    """Runs the command until it ends or the owner is gone; returns the exit code to end with."""
    woken = _wake_on_child_exit()
    broker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=_die_with_parent)  # noqa: PLW1509 - this process has one thread
    os.write(1, b"%d\n" % broker.pid)
    while broker.poll() is None:
        if os.getppid() != owner:
            broker.kill()
            broker.wait()
            if directory:
                _remove(directory)
            return 1
        if select.select([woken], [], [], LOOK_SECONDS)[0]:
            os.read(woken, 1024)
    return broker.returncode if broker.returncode >= 0 else 128 - broker.returncode


def _wake_on_child_exit() -> int:
    """A descriptor that becomes readable when the broker ends, so that its end is seen at once."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Ending the broker is the owner's business; a signal to the whole session must not leave it without a watcher.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return reading


def _die_with_parent() -> None:
    # Ignored signals stay ignored over exec, and the broker must hear these.
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _remove(directory: str) -> None:
    """Ours may not be the last broker of the cluster to go; then that one's watcher removes what is left."""
    import shutil

    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
