"""Settings of a client that end up on its connections."""

from __future__ import annotations

import socket

import pytest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.config import ClientSettings
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("size", [-1, 50_000])
def test_socket_buffers_are_the_systems_unless_they_are_set(cluster_a: LabCluster, size: int):
    servers = tuple(cluster_a.bootstrap_servers.split(","))
    settings = ClientSettings(bootstrap_servers=servers, receive_buffer_bytes=size, send_buffer_bytes=size)
    cluster = Cluster("A", settings, role="test")
    try:
        cluster.call(MetadataRequest(topics=[], max_version=1))
        (connection, *_) = [each for each in cluster.connections._conns.values() if each.transport is not None]
        own = connection.transport._sock
        for name in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            doubled = own.getsockopt(socket.SOL_SOCKET, name)  # the kernel takes as much again for itself
            assert (doubled == 2 * size) == (size > 0)
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        cluster.close()
