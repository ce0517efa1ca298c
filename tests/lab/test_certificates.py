from __future__ import annotations

import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest

from sparkmirror.lab.certificates import KEY_PASSWORD, write_certificates


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    write_certificates(directory)
    return directory


def client_context(directory: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=directory / "ca.pem")
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13 does so by itself
    return context


def server_context(directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    context.load_verify_locations(directory / "ca.pem")
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> object:
    """The client's certificate as the server sees it."""
    ours, theirs = socket.socketpair()
    seen: list[object] = []

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as connection:
                connection.recv(1)
                seen.append(connection.getpeercert())
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=name) as connection:
            connection.sendall(b"x")
            thread.join(60)
    finally:
        ours.close()
        thread.join(60)
    return seen[0]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_the_server_is_trusted_under_its_names(directory: Path, name: str) -> None:
    shake_hands(server_context(directory), client_context(directory), name)


def test_the_server_is_refused_under_another_name(directory: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(server_context(directory), client_context(directory), "elsewhere.example")


@pytest.mark.parametrize(("file", "password"), [("client.pem", None), ("client-encrypted.pem", KEY_PASSWORD)])
def test_the_client_proves_itself(directory: Path, file: str, password: str | None) -> None:
    server, client = server_context(directory), client_context(directory)
    server.verify_mode = ssl.CERT_REQUIRED
    client.load_cert_chain(directory / file, password=password)
    seen = shake_hands(server, client, "localhost")
    assert isinstance(seen, dict)
    assert seen["subject"] == ((("commonName", "mirror"),),)


def test_private_keys_are_for_the_owner_alone(directory: Path) -> None:
    for name in ("server.pem", "client.pem", "client-encrypted.pem"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600


def test_certificates_of_an_earlier_run_stay(directory: Path) -> None:
    before = (directory / "server.pem").read_bytes()
    write_certificates(directory)
    assert (directory / "server.pem").read_bytes() == before
