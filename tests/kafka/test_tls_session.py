"""TLS in memory: what a peer says of itself is taken in small pieces, and not without end."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka import errors as kafka_errors
from sparkmirror.config import Security, SecurityProtocol, TlsVersion
from sparkmirror.kafka.tls import tls_context
from sparkmirror.kafka.tls_session import RECORD_BYTES, UNUSED_BYTES, TlsSession
from sparkmirror.lab.certificates import write_certificates


@dataclass
class Pair:
    """A session with its server, which may be asked to say anything."""

    client: TlsSession
    server: ssl.SSLObject
    to_server: ssl.MemoryBIO
    to_client: ssl.MemoryBIO

    def shake_hands(self) -> None:
        """Has both do so, until each is done."""
        over = False
        while not over:
            over = self.client.shake_hands(self.to_client.read())
            self.to_server.write(self.client.leaving())
            with suppress(ssl.SSLWantReadError):
                self.server.do_handshake()

    def opened(self, *, step: int) -> bytes:
        """What the server has said, given in pieces of so many bytes."""
        found = b""
        while came := self.to_client.read(step):
            into = memoryview(bytearray(len(came) + RECORD_BYTES))
            found += into[: self.client.open(came, into)]
        return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    write_certificates(directory)
    return directory


def pair(files: Path, version: TlsVersion = TlsVersion.V1_3, tickets: int = 0) -> Pair:
    security = Security(
        protocol=SecurityProtocol.SSL, ca=(files / "ca.pem").read_text(), tls_versions=(version, version)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "server.pem")
    context.num_tickets = tickets
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = Pair(
        TlsSession(tls_context(security), "localhost."), context.wrap_bio(there, back, server_side=True), there, back
    )
    made.shake_hands()
    return made


@pytest.fixture(params=list(TlsVersion), scope="module")
def of_version(request: pytest.FixtureRequest, files: Path) -> Pair:
    return pair(files, request.param)


@settings(max_examples=30, deadline=None)
@given(said=st.lists(st.binary(min_size=1, max_size=70_000), max_size=4), step=st.integers(1, 100_000))
def test_what_both_say_arrives_however_it_is_cut(of_version: Pair, said: list[bytes], step: int):
    whole = b"".join(said)
    written = 0
    while written < len(whole):
        written += of_version.server.write(whole[written:])
    assert of_version.opened(step=max(step, len(whole) // 50)) == whole
    sent, heard = of_version.client.seal(said, step), b""
    while sent < len(whole):
        sent += of_version.client.seal([whole[sent:]], step)
    of_version.to_server.write(of_version.client.leaving())
    while len(heard) < len(whole):
        heard += of_version.server.read(len(whole))
    assert (sent, heard) == (len(whole), whole)


def test_tickets_of_a_server_are_taken(files: Path):
    made = pair(files, tickets=8)
    made.server.write(b"data")
    assert made.opened(step=1 << 16) == b"data"


def test_tickets_without_end_end_the_session_after_a_piece_of_them(files: Path):
    made = pair(files, tickets=4_000)
    assert made.to_client.pending > UNUSED_BYTES + (1 << 16)
    with pytest.raises(kafka_errors.KafkaConnectionError, match="512 KiB of TLS came without a byte of an answer"):
        made.opened(step=1 << 16)
    assert made.to_client.pending


def test_requests_for_a_handshake_without_end_end_it_after_a_piece_of_them(files: Path):
    """A client passes them over while it shakes hands."""
    security = Security(protocol=SecurityProtocol.SSL, ca=(files / "ca.pem").read_text())
    client = TlsSession(tls_context(security), "localhost")
    assert not client.shake_hands()
    requests = bytes.fromhex("1603034000") + bytes(1 << 14)
    for _ in range(UNUSED_BYTES // len(requests)):
        assert not client.shake_hands(requests)
    with pytest.raises(kafka_errors.KafkaConnectionError, match="512 KiB of TLS came without a byte of an answer"):
        client.shake_hands(requests)


def test_data_between_what_tls_says_of_itself_has_a_session_go_on(files: Path):
    made = pair(files)
    for _ in range(2 * UNUSED_BYTES // (1 << 14)):
        made.server.write(b"x" * (1 << 14))
    assert len(made.opened(step=1_000)) == 2 * UNUSED_BYTES


def test_the_end_that_a_peer_tells_comes_behind_its_data(files: Path):
    made = pair(files)
    made.server.write(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        made.server.unwrap()
    assert made.opened(step=1 << 16) == b"last"
    with pytest.raises(ssl.SSLZeroReturnError):
        made.client.open(b"", memoryview(bytearray(RECORD_BYTES)))


def test_a_broker_cannot_ask_for_another_handshake(files: Path):
    security = Security(protocol=SecurityProtocol.SSL, ca=(files / "ca.pem").read_text())
    assert tls_context(security).options & ssl.OP_NO_RENEGOTIATION
