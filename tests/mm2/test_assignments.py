"""What Connect's workers run: Connect's own classes as referee for the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.mm2.assignments import read_tasks
from sparkmirror.spark.gateway import Gateway

CONNECTORS = ("a->b.MirrorSourceConnector", "søk", "stopped")
TASKS: Mapping[str, Sequence[int]] = {"a->b.MirrorSourceConnector": (0, 1), "søk": (7,)}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway


def arguments(gateway: Any) -> tuple[Any, Any]:
    jvm = gateway.jvm
    connectors, tasks = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    for name in CONNECTORS:
        connectors.add(name)
    for name, numbers in TASKS.items():
        for number in numbers:
            tasks.add(jvm.org.apache.kafka.connect.util.ConnectorTaskId(name, number))
    return connectors, tasks


@pytest.mark.kafka
def test_connect_writes_an_assignment_that_we_read(gateway: Any) -> None:
    runtime = gateway.jvm.org.apache.kafka.connect.runtime.distributed
    connectors, tasks = arguments(gateway)
    eager = runtime.ConnectProtocol.Assignment(0, "leader", "http://leader:8083", 5, connectors, tasks)
    buffer = runtime.ConnectProtocol.serializeAssignment(eager)
    assert read_tasks(bytes(buffer.array())) == TASKS


@pytest.mark.kafka
@pytest.mark.parametrize("sessioned", [False, True])
def test_connect_writes_a_cooperative_assignment_that_we_read(gateway: Any, sessioned: bool) -> None:
    jvm = gateway.jvm
    runtime = jvm.org.apache.kafka.connect.runtime.distributed
    connectors, tasks = arguments(gateway)
    nothing = jvm.java.util.ArrayList()
    given = runtime.ExtendedAssignment(2, 0, "leader", "http://leader:8083", 5, connectors, tasks, nothing, tasks, 0)
    buffer = runtime.IncrementalCooperativeConnectProtocol.serializeAssignment(given, sessioned)
    assert read_tasks(bytes(buffer.array())) == TASKS


def test_a_worker_without_an_assignment_runs_nothing() -> None:
    assert read_tasks(b"") == {}


@pytest.mark.parametrize("buffer", [b"\0", b"\0\1\0\0\0\x05lea", b"\0\1" + b"\xff" * 40])
def test_what_is_no_assignment_is_refused(buffer: bytes) -> None:
    with pytest.raises(ValueError, match=r"text|number"):
        read_tasks(buffer)
