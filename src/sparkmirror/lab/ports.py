"""Free ports for brokers.

They are taken from below the range that the system hands to outgoing connections. A broker that is killed and started
again needs its old port back, which an outgoing connection must not have taken in between; and a client that keeps
connecting to a dead port of that range may one day be connected to itself.
"""

from __future__ import annotations

import random
import socket
import threading

from sparkmirror.errors import LabError

HOST = "127.0.0.1"
RANGE = range(20_000, 32_000)

_given: set[int] = set()
_lock = threading.Lock()
_random = random.SystemRandom()  # not the shared generator: tests seed that one, and two runs would ask for the same


class PortTakenError(LabError):
    """Somebody took a port between its choice and its use; other ports will do."""


def free_ports(count: int) -> tuple[int, ...]:
    """Ports on the loopback address that nobody listens on and that this function has not given out before.

    Raises:
        LabError: the range is used up.
    """
    ports: list[int] = []
    with _lock:
        for port in _random.sample(RANGE, len(RANGE)):
            if len(ports) == count:
                break
            if port not in _given and is_free(port):
                _given.add(port)
                ports.append(port)
    if len(ports) < count:
        raise LabError(f"no {count} free ports between {RANGE.start} and {RANGE.stop}: end what listens there")
    return tuple(ports)


def is_free(port: int) -> bool:
    """Whether a server could bind this port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
