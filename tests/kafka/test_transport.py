"""Batches go to a socket only while they may; everything else always does."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.protocol.sasl import SaslAuthenticateRequest

from sparkmirror.kafka.cluster import new_loop
from sparkmirror.kafka.transport import Pieces, Protocol, TcpTransport


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
