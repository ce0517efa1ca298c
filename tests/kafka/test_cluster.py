"""Settings of a client that end up on its connections."""

from __future__ import annotations

import itertools
import os
import signal
import socket

import pytest
from kafka.net import manager
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.ports import HOST

pytestmark = pytest.mark.kafka


HANG_MS = 8_000
"""Less than the 30 s that a request may take; more than one broker is waited for."""


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


def test_a_broker_that_has_come_back_since_the_metadata_was_read_is_found():
    with start("returned", brokers=3) as lab:
        cluster = Cluster("A", ClientSettings(bootstrap_servers=(lab.bootstrap_servers.split(",")[0],)), role="test")
        try:
            admin.cluster_id(cluster)
            known = cluster.connections.cluster._brokers
            away = next(node for node in known if node not in cluster.connections._conns)
            del known[away]  # as if it had been away then
            assert cluster.call(MetadataRequest(topics=[]), node=away).brokers
            with pytest.raises(LinkError, match="UnknownBrokerIdError"):
                cluster.call(MetadataRequest(topics=[]), node=99)
        finally:
            cluster.close()


def test_a_bootstrap_server_that_hangs_costs_seconds(cluster_a: LabCluster, monkeypatch: pytest.MonkeyPatch):
    """It takes connections, as a broker does whose process stands still, and answers nothing."""
    with socket.create_server((HOST, 0)) as silent:
        servers = (f"{HOST}:{silent.getsockname()[1]}", cluster_a.bootstrap_servers)
        turns = itertools.cycle(range(len(servers)))
        monkeypatch.setattr(manager.random, "choice", lambda brokers: brokers[next(turns)])
        cluster = Cluster("A", ClientSettings(bootstrap_servers=servers), role="test")
        try:
            assert cluster.call(MetadataRequest(topics=[]), timeout_ms=HANG_MS).brokers
        finally:
            cluster.close()


def test_a_broker_that_hangs_is_not_the_one_that_any_question_waits_for(monkeypatch: pytest.MonkeyPatch):
    with start("hanging", brokers=3) as lab:
        servers = tuple(lab.bootstrap_servers.split(","))
        cluster = Cluster("A", ClientSettings(bootstrap_servers=servers), role="test")
        try:
            for node in (2, 3):
                cluster.call(MetadataRequest(topics=[]), node)
            turns = iter((2, 3))
            monkeypatch.setattr(cluster.connections, "least_loaded_node", lambda: next(turns))
            os.kill(lab.brokers[1].pid, signal.SIGSTOP)
            try:
                assert cluster.call(MetadataRequest(topics=[]), timeout_ms=HANG_MS).brokers
            finally:
                os.kill(lab.brokers[1].pid, signal.SIGCONT)
        finally:
            cluster.close()


def test_a_cluster_that_is_away_reads_the_same_however_late_the_loop_comes_to_it():
    """A duty reports a failure again when its text changes, as a remaining time would on a busy machine."""
    cluster = Cluster("away", ClientSettings(bootstrap_servers=(f"{HOST}:9",)), role="test")
    try:
        with pytest.raises(LinkError, match=r"no connection within 1\.4 s"):
            cluster.run(cluster.bootstrap, 100, 1_400)
    finally:
        cluster.close()
