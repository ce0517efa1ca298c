"""A cluster that one thread closes while another one calls: that call ends, with the project's own error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import LinkError
from sparkmirror.kafka.cluster import CLOSED, Cluster
from sparkmirror.lab.ports import HOST

CALLS, WAIT_SECONDS = 4, 60.0


@pytest.fixture
def silent() -> Iterator[Cluster]:
    """A cluster of a broker that takes connections, and answers nothing."""
    with socket.create_server((HOST, 0)) as server:
        settings = ClientSettings(bootstrap_servers=(f"{HOST}:{server.getsockname()[1]}",))
        cluster = Cluster("A", settings, role="test")
        yield cluster
        cluster.close()


def ask(cluster: Cluster) -> Any:
    return cluster.call(MetadataRequest(topics=[]), timeout_ms=60_000)


def test_calls_that_wait_fail_and_so_do_those_that_come_later(silent: Cluster):
    with ThreadPoolExecutor(CALLS) as pool:
        begun = threading.Barrier(CALLS + 1)

        def work() -> Any:
            begun.wait(WAIT_SECONDS)
            return ask(silent)

        waiting = [pool.submit(work) for _ in range(CALLS)]
        begun.wait(WAIT_SECONDS)
        silent.close()
        for call in waiting:
            assert isinstance(call.exception(WAIT_SECONDS), LinkError)
    with pytest.raises(LinkError, match=CLOSED):
        ask(silent)
    with pytest.raises(LinkError, match=CLOSED):
        silent.run(silent.bootstrap, 1_000)


def test_a_call_that_comes_between_the_end_of_the_loop_and_its_closing_does_not_wait(
    silent: Cluster, monkeypatch: pytest.MonkeyPatch
):
    came, told = threading.Event(), dict[str, Any]()
    close = silent.loop.close

    def late() -> None:
        silent.loop._pending_waiters[came] = told  # as its ``run`` does before it hands the call over
        close()

    monkeypatch.setattr(silent.loop, "close", late)
    silent.close()
    assert came.is_set()
    assert CLOSED in str(told["exception"])


def test_a_defect_in_a_cluster_that_is_open_is_told_as_it_is(silent: Cluster):
    async def fails() -> None:
        raise KeyError("a defect")

    with pytest.raises(KeyError, match="a defect"):
        silent.run(fails)
