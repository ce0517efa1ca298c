"""Whether a standalone master takes programs from whoever asks: its REST server of submissions has no login.

Spark 4 starts that server unless ``spark.master.rest.enabled`` is false, also where ``spark.authenticate`` is on. A
program that it takes runs as the workers' user, and reads what lanes and executors have.
Reference: org.apache.spark.deploy.rest.StandaloneRestServer.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

PORT = 6066
ANSWER_SECONDS = 2.0

_QUESTION = b"GET /v1/submissions/status/none HTTP/1.0\r\n\r\n"
_MOST_BYTES = 65_536


def open_to_all(masters: Iterable[str]) -> tuple[str, ...]:
    """Those of these hosts on which such a server answers at its usual port, within `ANSWER_SECONDS`."""
    hosts = sorted(set(masters))
    if not hosts:
        return ()
    with ThreadPoolExecutor(len(hosts)) as pool:
        return tuple(host for host, answers in zip(hosts, pool.map(_answers, hosts), strict=True) if answers)


def _answers(host: str) -> bool:
    """Every answer of the server names its version of Spark."""
    end, told = time.monotonic() + ANSWER_SECONDS, b""
    with suppress(OSError), socket.create_connection((host.strip("[]"), PORT), ANSWER_SECONDS) as line:
        line.sendall(_QUESTION)
        while len(told) < _MOST_BYTES and (left := end - time.monotonic()) > 0:
            line.settimeout(left)
            part = line.recv(_MOST_BYTES)
            if not part:
                break
            told += part
    return b'"serverSparkVersion"' in told
