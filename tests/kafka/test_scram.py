"""SCRAM with a false broker over a real socket: what it is told, and what it gets no proof for."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.config import ClientSettings, SaslMechanism, Secret, Security, SecurityProtocol
from sparkmirror.errors import LinkError
from sparkmirror.kafka.cluster import Cluster

PASSWORD = "canary-91c2"
SALT = base64.b64encode(b"salt").decode()
GOOD = f"s={SALT},i=4096"
API_VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
UNSUPPORTED_VERSION = 35


class FalseBroker:
    """Speaks as much of Kafka as a login needs, with messages of SCRAM as a test sets them.

    Attributes:
        parameters: salt and iterations of its first message.
        last: its last message; None for the right one.
        heard: the messages that it got.
        logged_in: whether a client went on after its login.
    """

    def __init__(self, parameters: str, last: str | None = None) -> None:
        self.parameters, self.last = parameters, last
        self.heard: list[str] = []
        self.logged_in = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def proofs(self) -> list[str]:
        return [message for message in self.heard if ",p=" in message]

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as frames:
                self._talk(connection, frames)

    def _talk(self, connection: socket.socket, frames: Any) -> None:
        first, nonce = "", ""
        while size := frames.read(4):
            frame = frames.read(int.from_bytes(size, "big"))
            key, version, number = struct.unpack_from(">hhi", frame)
            if key == API_VERSIONS:
                answer = _api_versions(UNSUPPORTED_VERSION if version else 0)
            elif key == HANDSHAKE:
                answer = struct.pack(">hi", 0, 1) + _text("SCRAM-SHA-256")
            elif key == AUTHENTICATE:
                said = frame[frame.index(b"n,,") if not first else frame.index(b"c=") :].decode()
                self.heard.append(said)
                if not first:
                    first, nonce = said.removeprefix("n,,"), said.partition("r=")[2] + "broker"
                    message = f"r={nonce},{self.parameters}"
                else:
                    message = self.last or self._signature(f"{first},r={nonce},{self.parameters},c=biws,r={nonce}")
                answer = struct.pack(">hhi", 0, -1, len(message)) + message.encode()
            else:
                self.logged_in = True
                return
            connection.sendall(struct.pack(">ii", len(answer) + 4, number) + answer)

    def _signature(self, exchange: str) -> str:
        salted = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", 4096)
        key = hmac.digest(salted, b"Server Key", "sha256")
        return "v=" + base64.b64encode(hmac.digest(key, exchange.encode(), "sha256")).decode()


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _api_versions(error: int) -> bytes:
    known = ((API_VERSIONS, 0, 0), (HANDSHAKE, 0, 1), (AUTHENTICATE, 0, 0), (METADATA, 0, 1))
    return struct.pack(">hi", error, len(known)) + b"".join(struct.pack(">hhh", *one) for one in known)


Brokers = Callable[..., FalseBroker]


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made: list[FalseBroker] = []

    def broker(parameters: str, last: str | None = None) -> FalseBroker:
        made.append(FalseBroker(parameters, last))
        return made[-1]

    yield broker
    for each in made:
        each.close()


def log_in(broker: FalseBroker, user: str = "mirror") -> LinkError:
    """Why it ended; a login that succeeds ends too, since this broker says nothing more."""
    security = Security(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        mechanism=SaslMechanism.SCRAM_SHA_256,
        username=user,
        password=Secret(PASSWORD),
    )
    cluster = Cluster("B", ClientSettings(bootstrap_servers=(broker.address,), security=security), role="test")
    try:
        with pytest.raises(LinkError) as ended:
            cluster.call(MetadataRequest(topics=[], max_version=1), timeout_ms=1_500)
    finally:
        cluster.close()
    return ended.value


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (f"s={SALT},i=1", "1 iterations; at least 4096"),
        (f"s={SALT},i=4095", "4095 iterations; at least 4096"),
        ("s=,i=4096", "without a salt"),
        (f"s={SALT},i=4096,m=x", "an extension of SCRAM"),
        (f"s={SALT},i=many", "is not SCRAM, or it does not know the password: its number of iterations is none"),
        ("x", "is not SCRAM"),
        ("e=other-error", "the broker refuses the SCRAM login: other-error"),
        ("e=s3cr3t-of-an-earlier-login", "the broker refuses the SCRAM login: the broker's own words are not shown"),
    ],
)
def test_a_broker_that_asks_for_a_weak_proof_gets_none(brokers: Brokers, parameters: str, reason: str):
    broker = brokers(parameters)
    error = log_in(broker)
    assert reason in str(error)
    assert "s3cr3t" not in str(error)
    assert "many" not in str(error)
    assert error.lasting
    assert broker.heard
    assert broker.proofs == []


@pytest.mark.parametrize(
    ("last", "reason", "hint"),
    [
        ("e=invalid-proof", "the broker refuses the SCRAM login: invalid-proof", "check user name, password"),
        (f"v={SALT}", "does not know the password", "is this the right broker?"),
        ("x=y", "is not SCRAM", "is this the right broker?"),
    ],
)
def test_a_broker_that_does_not_prove_itself_is_told_of(brokers: Brokers, last: str, reason: str, hint: str):
    broker = brokers(GOOD, last)
    error = log_in(broker)
    assert not broker.logged_in
    assert reason in str(error)
    assert hint in str(error)
    assert PASSWORD not in str(error)


@pytest.mark.parametrize(
    ("user", "sent"), [("mirror", "mirror"), ("a,b=c", "a=2Cb=3Dc"), ("=2C", "=3D2C"), ("Jörg", "Jörg")]
)
def test_a_login_ends_well_and_names_are_escaped(brokers: Brokers, user: str, sent: str):
    broker = brokers(GOOD)
    log_in(broker, user)
    assert broker.logged_in
    assert broker.heard[0].startswith(f"n,,n={sent},r=")
