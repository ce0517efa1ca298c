"""What Connect's workers run: Connect's own classes as referee for the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.mm2.assignments import read_worker
from sparkmirror.spark.gateway import Gateway

Given = Mapping[str, Sequence[int]]

HELD: Given = {"a->b.MirrorSourceConnector": (0, 1), "søk": (7,)}
FRESH: Given = {"a->b.MirrorSourceConnector": (2,), "other": (0,)}
ALL = {"a->b.MirrorSourceConnector": {0, 1, 2}, "søk": {7}, "other": {0}}
URL = "http://worker:8083"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway


def lists(gateway: Any, given: Given) -> tuple[Any, Any]:
    """Connectors, of which one is stopped and has no tasks, and tasks."""
    jvm = gateway.jvm
    connectors, tasks = jvm.java.util.ArrayList(), jvm.java.util.ArrayList()
    for name in (*given, "stopped"):
        connectors.add(name)
    for name, numbers in given.items():
        for number in numbers:
            tasks.add(jvm.org.apache.kafka.connect.util.ConnectorTaskId(name, number))
    return connectors, tasks


def extended(gateway: Any, given: Given, revoked: Given) -> Any:
    runtime = gateway.jvm.org.apache.kafka.connect.runtime.distributed
    lost = lists(gateway, revoked)
    return runtime.ExtendedAssignment(2, 0, "leader", URL, 5, *lists(gateway, given), *lost, 0)


@pytest.mark.kafka
def test_connect_writes_an_eager_worker_that_we_read(gateway: Any) -> None:
    runtime = gateway.jvm.org.apache.kafka.connect.runtime.distributed
    protocol = runtime.ConnectProtocol
    metadata = protocol.serializeMetadata(runtime.ConnectProtocol.WorkerState(URL, 5))
    given = protocol.serializeAssignment(protocol.Assignment(0, "leader", URL, 5, *lists(gateway, HELD)))
    assert read_worker(bytes(metadata.array()), bytes(given.array())) == {
        "a->b.MirrorSourceConnector": {0, 1},
        "søk": {7},
    }


@pytest.mark.kafka
@pytest.mark.parametrize("sessioned", [False, True])
def test_of_a_cooperative_worker_that_connect_writes_we_read_what_it_ran_already_too(
    gateway: Any, sessioned: bool
) -> None:
    runtime = gateway.jvm.org.apache.kafka.connect.runtime.distributed
    protocol = runtime.IncrementalCooperativeConnectProtocol
    state = runtime.ExtendedWorkerState(URL, 5, extended(gateway, HELD, {}))
    metadata = bytes(protocol.serializeMetadata(state, sessioned).array())
    assert read_worker(metadata, b"") == {"a->b.MirrorSourceConnector": {0, 1}, "søk": {7}}
    given = protocol.serializeAssignment(extended(gateway, FRESH, HELD), sessioned)
    assert read_worker(metadata, bytes(given.array())) == ALL


@pytest.mark.kafka
def test_a_cooperative_worker_that_joined_without_anything_runs_nothing(gateway: Any) -> None:
    runtime = gateway.jvm.org.apache.kafka.connect.runtime.distributed
    state = runtime.ExtendedWorkerState(URL, 5, None)
    metadata = runtime.IncrementalCooperativeConnectProtocol.serializeMetadata(state, True)
    assert read_worker(bytes(metadata.array()), b"") == {}


@pytest.mark.parametrize("buffer", [b"", b"\0", b"\0\1\0\x05lea", b"\0\1\0\0" + b"\0" * 8 + b"\0\0\0\x09"])
def test_metadata_that_is_not_connects_is_refused(buffer: bytes) -> None:
    with pytest.raises(ValueError, match=r"text|number|assignment"):
        read_worker(buffer, b"")


@pytest.mark.parametrize("buffer", [b"\0", b"\0\1\0\0\0\x05lea", b"\0\1" + b"\xff" * 40])
def test_an_assignment_that_is_not_connects_is_refused(buffer: bytes) -> None:
    with pytest.raises(ValueError, match=r"text|number"):
        read_worker(b"\0\0" + b"\0" * 10, buffer)
