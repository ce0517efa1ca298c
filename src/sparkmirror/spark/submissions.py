"""Whether a standalone master takes programs from whoever asks: its REST server of submissions has no login.

Spark 4 starts that server unless ``spark.master.rest.enabled`` is false, also where ``spark.authenticate`` is on. A
program that it takes runs as the workers' user, and reads what lanes and executors have.
Reference: org.apache.spark.deploy.rest.StandaloneRestServer.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

PORT = 6066
ANSWER_SECONDS = 2.0

_MOST_BYTES = 65_536


def open_to_all(masters: Iterable[str]) -> tuple[str, ...]:
    """Those of these hosts on which such a server answers at its usual port; each is waited for `ANSWER_SECONDS`."""
    hosts = sorted(set(masters))
    if not hosts:
        return ()
    with ThreadPoolExecutor(len(hosts)) as pool:
        return tuple(host for host, answers in zip(hosts, pool.map(_answers, hosts), strict=True) if answers)


def _answers(host: str) -> bool:
    """Any version of the server answers so, whatever is asked of it."""
    connection = http.client.HTTPConnection(host.strip("[]"), PORT, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/v1/submissions/status/none")
        told = json.loads(connection.getresponse().read(_MOST_BYTES))
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return isinstance(told, dict) and "serverSparkVersion" in told
