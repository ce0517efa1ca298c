from __future__ import annotations

import os
import socket
import subprocess
import sys

from sparkmirror.lab.processes import sockets


def test_the_sockets_of_a_process_come_and_go() -> None:
    before = sockets(os.getpid())
    with socket.socket() as first, socket.socket() as second:
        both = sockets(os.getpid()) - before
        assert both == {f"socket:[{os.fstat(each.fileno()).st_ino}]" for each in (first, second)}
    assert not both & sockets(os.getpid())


def test_a_process_that_is_gone_has_no_sockets() -> None:
    gone = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    gone.wait(60)
    assert sockets(gone.pid) == frozenset()
