from __future__ import annotations

import socket

from sparkmirror.lab.ports import HOST, RANGE, free_ports, is_free


def test_ports_are_given_once_and_lie_below_those_of_outgoing_connections() -> None:
    ports = [port for _ in range(20) for port in free_ports(3)]
    assert len(set(ports)) == 60
    assert all(port in RANGE for port in ports)


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server((HOST, free_ports(1)[0])) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)
