from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.ports import HOST, free_ports
from sparkmirror.lab.ready import known_brokers


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], tuple[str, int]]]:
    """Makes a server that sends these bytes to whoever connects, and hangs up."""
    servers: list[tuple[socket.socket, threading.Thread]] = []

    def serve(server: socket.socket, answer: bytes) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(answer)

    def make(answer: bytes) -> tuple[str, int]:
        server = socket.create_server((HOST, 0))
        thread = threading.Thread(target=serve, args=(server, answer))
        thread.start()
        servers.append((server, thread))
        return HOST, server.getsockname()[1]

    yield make
    for server, thread in servers:
        thread.join(60)
        server.close()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x15\x03\x03\x00\x02\x02\x50", id="a TLS alert"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="HTTP"),
        pytest.param(struct.pack(">iii", 100, 7, 1), id="cut off"),
        pytest.param(struct.pack(">iiii", 12, 7, 9, 0), id="fewer brokers than it says"),
    ],
)
def test_what_is_no_answer_of_a_broker_counts_as_not_yet(
    answering: Callable[[bytes], tuple[str, int]], answer: bytes
) -> None:
    assert known_brokers(answering(answer)) is None


def test_a_port_where_nobody_listens_counts_as_not_yet() -> None:
    assert known_brokers((HOST, free_ports(1)[0])) is None


def test_brokers_with_and_without_a_rack_are_read(answering: Callable[[bytes], tuple[str, int]]) -> None:
    brokers = struct.pack(">ih1sih", 4, 1, b"h", 9092, -1) + struct.pack(">ih2sih3s", 5, 2, b"hh", 9092, 3, b"r-1")
    body = struct.pack(">ii", 7, 2) + brokers + struct.pack(">ii", 4, 0)
    assert known_brokers(answering(struct.pack(">i", len(body)) + body)) == frozenset({4, 5})


@pytest.mark.kafka
def test_a_real_broker_names_itself(cluster_a: LabCluster) -> None:
    assert known_brokers((HOST, cluster_a.brokers[0].port)) == frozenset({1})
