"""Batches go to a socket only while they may; everything else always does."""

from __future__ import annotations

import logging
import random
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaProtocolError, KafkaTimeoutError, RequestTimedOutError
from kafka.protocol.sasl import SaslAuthenticateRequest

from sparkmirror.config import Security, SecurityProtocol
from sparkmirror.kafka.cluster import new_loop
from sparkmirror.kafka.tls import tls_context
from sparkmirror.kafka.transport import Pieces, Protocol, TcpTransport, TlsTransport, more_telling
from sparkmirror.lab.certificates import write_certificates


class Line:
    """A transport with the other end of its socket."""

    def __init__(self) -> None:
        self.loop = new_loop("test")
        near, self.far = socket.socketpair()
        for end in (near, self.far):
            end.setblocking(False)
        self.allowed = True
        self.transport = TcpTransport(self.loop, near)
        self.transport.batches_allowed = lambda: self.allowed

    def close(self) -> None:
        self.transport.abort()
        self.far.close()
        self.loop.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def test_batches_that_waited_too_long_are_not_sent(line: Line):
    line.transport.write(Pieces((b"head", b"batch")))
    line.allowed = False
    sent, failure = line.transport._sock_send()
    assert (sent, "may not be sent" in str(failure)) == (0, True)
    with pytest.raises(BlockingIOError):
        line.far.recv(100)


def test_the_rest_of_a_batch_is_not_sent_either(line: Line):
    line.transport.write(Pieces((b"head", b"x" * (16 << 20))))
    sent, failure = line.transport._sock_send()
    assert 0 < sent < 16 << 20
    assert failure is None
    line.allowed = False
    line.far.recv(1 << 16)
    assert line.transport._sock_send()[0] == 0


def test_what_holds_no_batch_always_goes(line: Line):
    line.transport.write(Pieces((b"batch",)))
    assert line.transport._sock_send() == (5, None)
    line.allowed = False
    line.transport.write(b"sign of life")
    assert line.transport._sock_send() == (12, None)
    assert line.far.recv(100) == b"batchsign of life"


class Heard:
    """A protocol that hears of the end of its connection."""

    _sensors = None

    def __init__(self) -> None:
        self.lost: list[Exception | None] = []

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


def test_a_connection_that_another_thread_closes_while_it_sends_fails_and_nothing_else_does(
    line: Line, monkeypatch: pytest.MonkeyPatch
):
    push = line.transport._push

    def closed_meanwhile(waiting: Any) -> int:
        sent = int(push(waiting))
        line.transport.abort()
        return sent

    monkeypatch.setattr(line.transport, "_push", closed_meanwhile)
    line.transport.write(b"request")
    _, failure = line.transport._sock_send()
    assert "another thread closed the connection" in str(failure)


@pytest.mark.parametrize("waits", [True, False])
def test_a_connection_that_closes_once_it_has_sent_what_waits_ends_at_a_deadline_too(line: Line, waits: bool):
    """The other end takes nothing any more: whoever waits for an answer on it would wait without end."""
    heard, late = Heard(), KafkaTimeoutError()
    line.transport.set_protocol(heard)
    if waits:
        line.transport.write(b"x" * (16 << 20))
        line.transport._sock_send()
    line.transport.close()
    assert heard.lost == ([] if waits else [None])
    line.transport.abort(late)
    line.transport.abort(late)
    assert heard.lost == ([late] if waits else [None])


def far_end(files: Path) -> tuple[TlsTransport, socket.socket, ssl.SSLSocket]:
    """A transport with TLS, its own socket, and the server's, after the handshake."""
    near, far = socket.socketpair()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files / "server.pem")
    security = Security(protocol=SecurityProtocol.SSL, ca=(files / "ca.pem").read_text())
    transport = TlsTransport(new_loop("test"), near, "localhost", tls_context(security))
    near.setblocking(False)
    with ThreadPoolExecutor(1) as threads:
        wrapped = threads.submit(server.wrap_socket, far, server_side=True)
        transport._net.run(transport.shake_hands, time.monotonic() + 10)
        return transport, near, wrapped.result(10)


def test_batches_that_were_encrypted_wait_like_others_and_go_no_more_when_they_may_not(tmp_path: Path):
    write_certificates(tmp_path)
    transport, near, far = far_end(tmp_path)
    allowed = True
    transport.batches_allowed = lambda: allowed
    try:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        transport.write(Pieces((b"head", bytes(16 << 20))))
        sent, failure = transport._sock_send()
        assert failure is None
        assert sent < 16 << 20
        assert transport._sealed  # encrypted, and still in the queue
        assert sum(map(len, transport._write_buffer)) == (16 << 20) + 4 - sent
        allowed = False
        left, failure = transport._sock_send()
        assert (left, "may not be sent" in str(failure)) == (0, True)
    finally:
        transport.abort()
        transport._net.close()
        far.close()


def test_all_that_is_written_arrives_once_and_in_order(tmp_path: Path):
    write_certificates(tmp_path)
    transport, _, far = far_end(tmp_path)
    transport.batches_allowed = lambda: True
    pieces = [random.Random(size).randbytes(size) for size in (1, 100, 40_000, 300_000, 17, 2_000_000)]
    try:
        with ThreadPoolExecutor(1) as threads:
            heard = threads.submit(lambda: far.makefile("rb").read(2 * sum(map(len, pieces))))
            transport.write(Pieces(pieces))
            transport.write(b"".join(pieces))
            while transport._write_buffer:
                transport._net.poll(timeout_ms=100)
            assert heard.result(10) == b"".join(pieces) * 2
    finally:
        transport.abort()
        transport._net.close()
        far.close()


def test_what_is_sent_is_in_no_log_even_at_its_finest(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    protocol, login = Protocol(client_id="test", limit=1 << 20), SaslAuthenticateRequest(b"canary-10c5", version=1)
    login.API_VERSION = 1
    protocol.send_request(login)
    assert b"canary-10c5" in bytes(protocol.send_bytes())
    logging.getLogger("kafka.net.connection").debug("%s", login)
    assert caplog.text == ""
    logging.getLogger("kafka.net.connection").warning("something else")
    assert "something else" in caplog.text


def late_to_connect() -> Exception:
    """As kafka-python gives it."""
    failure: Exception = KafkaConnectionError("Connection timed out")
    failure.__context__ = KafkaTimeoutError()
    return failure


@pytest.mark.parametrize("late", [late_to_connect(), KafkaTimeoutError(), RequestTimedOutError()])
def test_an_attempt_that_a_deadline_cut_short_does_not_hide_why_those_before_it_failed(late: Exception):
    reason = KafkaProtocolError("more than 2000 brokers are named")
    assert more_telling(reason, late, cut_short=True) is reason
    assert more_telling(None, late, cut_short=True) is late
    assert more_telling(late, reason, cut_short=True) is reason


def test_what_a_connection_newly_fails_by_is_told_where_it_had_its_time():
    refused, late = KafkaConnectionError("111 ECONNREFUSED"), late_to_connect()
    assert more_telling(refused, late, cut_short=False) is late
    assert more_telling(late, refused, cut_short=True) is refused
    assert more_telling(refused, RequestTimedOutError(), cut_short=False) is refused
