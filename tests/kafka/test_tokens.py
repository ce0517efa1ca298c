"""Tokens: from a real endpoint, from files and made here; kept, replaced in time, and what is told without one."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config import (
    FixedToken,
    OAuth,
    Refresh,
    Secret,
    Security,
    SecurityProtocol,
    TokenEndpoint,
    TokenFile,
    UnsecuredToken,
)
from sparkmirror.config.security_settings import AssertionFile, FixedAssertion
from sparkmirror.kafka import token_sources, tokens
from sparkmirror.kafka.assertions import create
from sparkmirror.kafka.cluster import new_loop
from sparkmirror.kafka.login_errors import LoginDelayedError, LoginRefusedError
from sparkmirror.kafka.token_sources import Token, obtain
from sparkmirror.kafka.tokens import Tokens, keeper_of, refresh_at
from sparkmirror.lab import token_endpoint
from sparkmirror.lab.certificates import write_certificates
from tests.kafka import endless_tls

USER, SECRET = "mirror", "canary-70ce/+ %"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys and certificates, made once."""
    directory = tmp_path_factory.mktemp("tokens")
    token_endpoint.write_keys(directory)
    write_certificates(directory / "certificates")
    return directory


@pytest.fixture
def endpoint(place: Path) -> Iterator[token_endpoint.TokenEndpoint]:
    server = token_endpoint.TokenEndpoint(place, {USER: SECRET})
    yield server
    server.stop()


def source_at(url: str, **more: Any) -> TokenEndpoint:
    return TokenEndpoint(
        url=Secret(url),
        shown="'the endpoint'",
        key="A.url",
        client_id=USER,
        client_secret=Secret(SECRET),
        credentials_key="A.id",
        retry_backoff_ms=10,
        retry_backoff_max_ms=200,
        **more,
    )


def login_at(url: str, **more: Any) -> OAuth:
    return OAuth(source=source_at(url, **more))


def get(login: OAuth) -> Token:
    return obtain(login, lambda _: None)


def told(failure: BaseException) -> str:
    """All that a person could see of a failure."""
    text = "".join(traceback.format_exception(failure)) + repr(failure)
    assert SECRET not in text
    assert base64.b64encode(f"{USER}:{SECRET}".encode()).decode() not in text
    return str(failure)


# ---------------------------------------------------------------------------------------------- one token, one endpoint


def test_an_endpoint_gives_a_token_for_id_and_secret(endpoint: token_endpoint.TokenEndpoint):
    endpoint.lifetime_s = 100
    token = get(login_at(endpoint.url, scope="a b", audience="brokers"))
    assert [token.value] == endpoint.issued
    assert token.ends is not None
    assert 98 < token.ends - time.time() < 101
    assert endpoint.forms == [{"grant_type": ["client_credentials"], "scope": ["a b"], "audience": ["brokers"]}]
    assert token.value not in repr(token)


def test_credentials_are_encoded_where_the_file_asks_for_it(endpoint: token_endpoint.TokenEndpoint):
    endpoint._users = {USER: "canary-70ce%2F%2B+%25"}
    with pytest.raises(LoginRefusedError):
        get(login_at(endpoint.url))
    assert get(login_at(endpoint.url, encode_credentials=True)).value


def test_the_certificate_of_an_endpoint_is_checked(place: Path):
    server = token_endpoint.TokenEndpoint(place, {USER: SECRET}, certificates=place / "certificates")
    trusting = Security(protocol=SecurityProtocol.SSL, ca=(place / "certificates" / "ca.pem").read_text())
    try:
        assert get(login_at(server.url, tls=trusting)).value
        assert get(login_at(server.url, tls=replace(trusting, system_too=True))).value
        elsewhere = server.url.replace("127.0.0.1", "127.0.0.2")
        for url, security in ((server.url, Security(protocol=SecurityProtocol.SSL)), (elsewhere, trusting)):
            with pytest.raises((LoginRefusedError, LoginDelayedError)) as caught:
                get(login_at(url, tls=security))
            told(caught.value)
        with pytest.raises(LoginRefusedError, match="certificate of the token endpoint 'the endpoint'") as caught:
            get(login_at(server.url, tls=Security(protocol=SecurityProtocol.SSL)))
        assert "ssl.truststore" in caught.value.remedy
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, b'{"error": "invalid_client", "error_description": "canary-70ce/+ %"}', "401 invalid_client"),
        (400, b'{"error": "canary-70ce/+ %"}', r"refuses the client: 400 \(an error of its own, which is not shown\)$"),
        (400, b'{"error": 5}', "refuses the client: 400$"),
        (400, b"<html>", "refuses the client: 400$"),
        (400, b"[]", "refuses the client: 400$"),
        (302, b"", "refuses the client: 302$"),
        (404, b"", "404"),
        (200, b"<html>", "6 bytes that hold no access_token"),
        (200, b"", "no access_token"),
        (200, b"[]", "no access_token"),
        (200, b'{"access_token": "two words"}', "no access_token"),
        (200, b'{"access_token": 5}', "no access_token"),
        (200, b'{"access_token": "x", "expires_in": "soon"}', "no number of seconds"),
    ],
)
def test_what_another_try_would_not_change_is_told_at_once(
    endpoint: token_endpoint.TokenEndpoint, status: int, body: bytes, reason: str
):
    endpoint.answers = [(status, body)]
    with pytest.raises(LoginRefusedError, match=reason) as caught:
        get(login_at(endpoint.url))
    assert "'the endpoint' (A.url)" in told(caught.value)
    assert "A.id" in caught.value.remedy or "A.url" in caught.value.remedy
    assert len(endpoint.forms) == 1


@pytest.mark.parametrize("taken", [slice(None), slice(-1), slice(20), slice(-64, None)])
@pytest.mark.parametrize("field", ["secret", "basic", "assertion"])
def test_no_part_of_what_an_endpoint_was_sent_is_told_as_its_error_code(
    endpoint: token_endpoint.TokenEndpoint, field: str, taken: slice
):
    secret, signature = "S3cretOfTheClient0123456789abcdefXYZ", "c1gnatureOfTheAssertion" + "b" * 43
    assertion = f"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJtIn0.{signature}"
    basic = base64.b64encode(f"{USER}:{secret}".encode()).decode().rstrip("=")
    code = {"secret": secret, "basic": basic, "assertion": assertion}[field][taken]
    endpoint.answers = [(401, json.dumps({"error": code}).encode())]
    source = replace(source_at(endpoint.url), client_secret=Secret(secret))
    if field == "assertion":
        proof = FixedAssertion(assertion=Secret(assertion), key="A.assertion")
        source = replace(source, client_secret=None, assertion=proof)
    with pytest.raises(LoginRefusedError, match=r"401 \(an error of its own, which is not shown\)$") as caught:
        get(OAuth(source=source))
    assert code not in told(caught.value)


def test_of_a_proxy_that_refuses_the_status_alone_is_told(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 407 for user:canary-70ce\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://user:canary-70ce@127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        secured = Security(protocol=SecurityProtocol.SSL)
        login = OAuth(source=replace(source_at("https://idp.invalid/token", tls=secured), retry_backoff_max_ms=0))
        with pytest.raises(LoginDelayedError, match=r"tunnel connection failed: 407$") as caught:
            get(login)
        thread.join(5)
    assert "canary" not in told(caught.value)


def test_an_identity_token_does_where_there_is_no_access_token(endpoint: token_endpoint.TokenEndpoint):
    endpoint.answers = [(201, b'{"id_token": "only-letters", "expires_in": 60}')]
    token = get(login_at(endpoint.url))
    assert token.value == "only-letters"
    assert token.ends is not None
    assert 58 < token.ends - time.time() < 61


def test_what_may_pass_is_tried_again(endpoint: token_endpoint.TokenEndpoint):
    endpoint.answers = [(503, b""), (429, b"{}")]
    noted: list[Exception] = []
    assert obtain(login_at(endpoint.url), noted.append).value
    assert [str(one)[-3:] for one in noted] == ["503", "429"]


def test_trying_again_ends(endpoint: token_endpoint.TokenEndpoint):
    endpoint.answers = [(503, b"")] * 50
    with pytest.raises(LoginDelayedError, match="503"):
        get(login_at(endpoint.url))
    assert 1 < len(endpoint.forms) < 20


def test_an_endpoint_that_is_not_there_is_told_with_its_key():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(
        LoginDelayedError, match=r"no token from 'the endpoint' \(A\.url\): connection refused"
    ) as caught:
        get(login_at(f"http://127.0.0.1:{port}/"))
    assert "A.url" in caught.value.remedy


def test_nothing_of_what_an_endpoint_says_instead_of_http_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"token=" + SECRET.encode() + b"\r\n\r\n")
                peer.recv(1 << 16)

        threading.Thread(target=echo, daemon=True).start()
        source = replace(source_at(f"http://127.0.0.1:{server.getsockname()[1]}/"), retry_backoff_max_ms=0)
        with pytest.raises(LoginDelayedError, match="its answer is no HTTP") as caught:
            get(OAuth(source=source))
        assert SECRET not in str(caught.value)


def test_an_endpoint_that_hangs_costs_the_time_outs_and_no_more():
    with socket.create_server(("127.0.0.1", 0)) as server:
        login = login_at(f"http://127.0.0.1:{server.getsockname()[1]}/", read_timeout_ms=100)
        began = time.monotonic()
        with pytest.raises(LoginDelayedError, match="no answer in time"):
            get(login)
        assert 0.2 < time.monotonic() - began < 3


@pytest.mark.parametrize("opening", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "], ids=["body", "header"])
def test_an_endpoint_that_never_stops_talking_is_left(opening: bytes):
    def talk(server: socket.socket) -> None:
        with suppress(OSError):  # the test has ended
            while True:
                peer, _ = server.accept()
                with peer, suppress(OSError):  # the client has left, and comes again
                    peer.sendall(opening)
                    while True:
                        peer.sendall(b" ")
                        time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=talk, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        source = replace(source_at(url), retry_backoff_max_ms=10, connect_timeout_ms=100, read_timeout_ms=200)
        with pytest.raises(LoginDelayedError, match="no answer in time"):
            get(OAuth(source=source))


def without_end(peer: socket.socket, opening: bytes, more: bytes) -> None:
    peer.sendall(opening)
    while True:
        peer.sendall(more)
        time.sleep(0.02)


def goes_on(place: Path) -> dict[str, Callable[[socket.socket], None]]:
    """What a peer says before a request could be sent."""
    certificate = (place / "certificates" / "server.pem").read_bytes()
    opening = b"HTTP/1.1 200 OK\r\n"
    return {
        "tunnel": lambda peer: without_end(peer, opening, b"x"),
        "tunnel of lines": lambda peer: without_end(peer, opening, b"x: y\r\n"),
        "handshake": lambda peer: without_end(peer, bytes.fromhex("1603034000"), b"\0"),
        "handshakes": lambda peer: without_end(peer, b"", bytes.fromhex("1603034000") + b"\0" * 16_384),
        "tickets": endless_tls.serving(certificate, endless_tls.tickets),
    }


@pytest.mark.parametrize("what", ["tunnel", "tunnel of lines", "handshake", "handshakes", "tickets"])
def test_neither_a_proxy_nor_tls_that_does_not_come_to_an_end_outlives_the_time_outs(
    what: str, place: Path, monkeypatch: pytest.MonkeyPatch
):
    def talk(server: socket.socket) -> None:
        with suppress(OSError):
            peer, _ = server.accept()
            with peer:
                goes_on(place)[what](peer)

    trusting = Security(protocol=SecurityProtocol.SSL, ca=(place / "certificates" / "ca.pem").read_text())
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=talk, args=(server,), daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        for name in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY"):
            monkeypatch.delenv(name, raising=False)
        if what.startswith("tunnel"):
            monkeypatch.setenv("https_proxy", f"http://{address}")
        url = "https://idp.invalid/" if what.startswith("tunnel") else f"https://{address}/"
        source = replace(source_at(url, tls=trusting), retry_backoff_max_ms=0)
        began = time.monotonic()
        with pytest.raises(LoginDelayedError, match="no answer in time"):
            get(OAuth(source=replace(source, connect_timeout_ms=700, read_timeout_ms=300)))
        assert 0.2 < time.monotonic() - began < 4


def test_all_addresses_of_an_endpoint_share_its_time(monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as deaf:  # its queue is full: the system answers nobody else
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(deaf.getsockname())
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", deaf.getsockname())] * 20
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        source = replace(source_at("http://idp.invalid/"), retry_backoff_max_ms=0)
        began = time.monotonic()
        with pytest.raises(LoginDelayedError, match="no answer in time"):
            get(OAuth(source=replace(source, connect_timeout_ms=500, read_timeout_ms=500)))
        assert 0.4 < time.monotonic() - began < 3
        for one in waiting:
            one.close()


# ------------------------------------------------------------------------------------------------------- other sources


def test_a_file_is_read_anew(tmp_path: Path, endpoint: token_endpoint.TokenEndpoint):
    file = tmp_path / "token"
    login = OAuth(source=TokenFile(path=str(file), shown="'the file'", key="A.url"))
    for value in (endpoint.token("a"), endpoint.token("b")):
        file.write_text(f"{value}\n")
        assert get(login).value == value
    file.write_text("canary-70ce is no token")
    with pytest.raises(LoginDelayedError, match=r"'the file' \(A.url\) holds no token") as caught:
        get(login)
    assert "canary" not in told(caught.value)
    file.unlink()
    with pytest.raises(LoginDelayedError, match="no such file"):
        get(login)


@pytest.mark.parametrize("kind", ["pipe", "device", "endless"])
def test_a_token_is_read_from_a_regular_file_that_ends(kind: str, tmp_path: Path):
    file = tmp_path / "token"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as made:
            made.truncate(1 << 32)
    login = OAuth(source=TokenFile(path=str(file), shown="'the file'", key="A.url"))
    with pytest.raises(LoginDelayedError, match=r"no token from 'the file' \(A\.url\): is (a|larger than) "):
        get(login)
    source = AssertionFile(path=str(file), shown="'the file'", key="A.assertion")
    with pytest.raises(LoginDelayedError, match=r"no assertion from 'the file' \(A\.assertion\): is (a|larger than) "):
        create(source)


@pytest.mark.parametrize("lasts", ["NaN", "Infinity", "-Infinity", "1e400", "1e300", "9" * 400, '"soon"', "[]", "{}"])
def test_a_token_whose_life_is_no_number_of_seconds_is_refused(lasts: str, monkeypatch: pytest.MonkeyPatch):
    body = f'{{"access_token": "abc", "expires_in": {lasts}}}'.encode()
    monkeypatch.setattr(token_sources, "_post", lambda _: (200, body))
    with pytest.raises(LoginRefusedError, match=r"\(A\.url\) answered with an expires_in that is no number of seconds"):
        get(login_at("http://127.0.0.1:1/"))


@pytest.mark.parametrize(("status", "said"), [(200, "hold no access_token"), (400, "refuses the client: 400")])
def test_an_answer_with_parts_in_parts_without_end_is_refused(status: int, said: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(token_sources, "_post", lambda _: (status, b"[" * 200_000))
    with pytest.raises(LoginRefusedError, match=said):
        get(login_at("http://127.0.0.1:1/"))


@pytest.mark.parametrize(
    "claims", ['{"exp": NaN}', '{"exp": Infinity, "iat": -Infinity}', '{"exp": 1e308, "iat": -1e308}', "[" * 100_000]
)
def test_times_of_a_token_that_are_none_tell_nothing(claims: str):
    part = base64.urlsafe_b64encode(claims.encode()).rstrip(b"=").decode()
    token = get(OAuth(source=FixedToken(token=Secret(f"a.{part}.c"), key="k")))
    assert token.ends is None
    assert abs(token.begins - time.time()) < 60


def test_a_token_that_is_over_is_not_sent(endpoint: token_endpoint.TokenEndpoint):
    over = endpoint.token("a", exp=int(time.time()) - 10)
    with pytest.raises(LoginRefusedError, match=r"the token of A\.jaas expired 1\d s ago") as caught:
        get(OAuth(source=FixedToken(token=Secret(over), key="A.jaas")))
    assert over not in told(caught.value)
    assert "put a new token into A.jaas" in caught.value.remedy


@pytest.mark.parametrize("value", ["opaque", "a.b.c", "a.W10.c"])
def test_a_token_that_tells_nothing_is_taken(value: str):
    token = get(OAuth(source=FixedToken(token=Secret(value), key="k")))
    assert (token.value, token.ends) == (value, None)


def test_a_token_lives_no_longer_than_the_file_allows(endpoint: token_endpoint.TokenEndpoint):
    token = get(replace(login_at(endpoint.url), longest_s=60))
    assert token.ends == token.begins + 60


def test_a_token_made_here_has_its_claims_and_no_signature():
    token = get(OAuth(source=UnsecuredToken(claims='{"sub": "m"}', lifetime_s=60)))
    head, claims, signature = token.value.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    found = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert (found["sub"], found["exp"] - found["iat"], signature) == ("m", 60, "")


# -------------------------------------------------------------------------------------------------------------- keeping


@pytest.mark.parametrize(
    ("begins", "ends", "chance", "expected"),
    [
        (0, 10_000, 0.0, 8_000),  # 80 % of its life
        (0, 10_000, 1.0, 8_500),  # with all of the jitter
        (0, 1_000, 0.0, 700),  # 300 s before the end at the latest
        (0, 359, 0.0, 287.2),  # too short for the two: 80 % of what is left
        (-1_000, 400, 0.0, 100),  # 80 % are over: 300 s before the end
        (-3_000, 361, 0.0, 60),  # 80 % are long over, but not before a minute
        (0, None, 0.0, 60),  # nobody knows
    ],
)
def test_a_token_is_replaced_when_java_would(begins: float, ends: float | None, chance: float, expected: float):
    token = Token(value="x", begins=begins, ends=ends)
    assert refresh_at(token, Refresh(), 0.0, chance) == pytest.approx(expected)


def wait_for(login: OAuth, seconds: float = 5.0) -> None:
    loop = new_loop("test")
    try:
        loop.run(Tokens(login).ready, loop, time.monotonic() + seconds)
    finally:
        loop.close()


def test_clients_with_one_login_share_a_token(endpoint: token_endpoint.TokenEndpoint):
    for _ in range(3):
        wait_for(login_at(endpoint.url))
    assert len(endpoint.issued) == 1
    assert Tokens(login_at(endpoint.url)).token() == endpoint.issued[0]
    wait_for(login_at(endpoint.url, scope="another"))
    assert len(endpoint.issued) == 2


def test_extensions_go_beside_the_token(endpoint: token_endpoint.TokenEndpoint):
    assert Tokens(replace(login_at(endpoint.url), extensions=(("a", "b"),))).extensions() == {"a": "b"}


def test_a_fetch_does_not_hold_up_the_loop_and_is_joined(endpoint: token_endpoint.TokenEndpoint):
    endpoint.delay_s = 0.5
    loop, login, steps = new_loop("test"), login_at(endpoint.url), 0

    async def other_work() -> None:
        nonlocal steps
        while True:
            steps += 1
            await loop.sleep(0.01)

    async def all_at_once() -> None:
        loop.call_soon(other_work)
        waiting = [loop.call_soon_with_future(Tokens(login).ready, loop, time.monotonic() + 5) for _ in range(4)]
        for one in waiting:
            await one

    try:
        loop.run(all_at_once)
    finally:
        loop.close()
    assert steps > 10
    assert len(endpoint.issued) == 1


def test_who_waits_too_long_is_told_why_and_the_next_one_gets_the_token(endpoint: token_endpoint.TokenEndpoint):
    endpoint.answers, endpoint.delay_s = [(503, b"")] * 1_000, 0.5
    login = login_at(endpoint.url)
    with pytest.raises(LoginDelayedError, match="no token has come in time yet"):
        wait_for(login, 0.1)
    with pytest.raises(LoginDelayedError, match="503"):
        wait_for(login, 2.0)
    endpoint.answers, endpoint.delay_s = [], 0.0
    wait_for(login)
    assert len(endpoint.issued) == 1


def test_a_token_is_replaced_and_the_old_one_kept_while_that_fails(
    endpoint: token_endpoint.TokenEndpoint, caplog: pytest.LogCaptureFixture
):
    login = login_at(endpoint.url)
    wait_for(login)
    keeper = keeper_of(login)
    first, keeper._refresh_at = keeper.value(), time.time() - 1
    endpoint.answers = [(401, b'{"error": "invalid_client"}')]
    wait_for(login)
    assert keeper.value() == first
    assert "could not be replaced yet" in caplog.text
    assert SECRET not in caplog.text
    wait_for(login)
    assert keeper.value() != first


def test_nobody_waits_long_for_a_new_token_while_the_old_one_holds(endpoint: token_endpoint.TokenEndpoint):
    login = login_at(endpoint.url)
    wait_for(login)
    keeper = keeper_of(login)
    keeper._refresh_at = time.time() - 1
    endpoint.delay_s = 4.0
    began = time.monotonic()
    wait_for(login, 10.0)
    assert time.monotonic() - began < 3.5, "it went on with the old one"


def test_a_token_that_is_over_is_never_handed_out(endpoint: token_endpoint.TokenEndpoint):
    endpoint.lifetime_s = 1
    login = login_at(endpoint.url)
    wait_for(login)
    time.sleep(1.1)
    with pytest.raises(LoginDelayedError):
        Tokens(login).token()
    endpoint.answers = [(403, b"")]
    with pytest.raises(LoginRefusedError):
        wait_for(login)
    endpoint.lifetime_s = 60
    wait_for(login)
    assert Tokens(login).token() == endpoint.issued[-1]


def test_a_mistake_of_ours_is_told_to_who_waits(
    endpoint: token_endpoint.TokenEndpoint, monkeypatch: pytest.MonkeyPatch
):
    def wrong(*_: object) -> Token:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(tokens, "obtain", wrong)
    with pytest.raises(LoginDelayedError, match="ZeroDivisionError") as caught:
        wait_for(login_at(endpoint.url))
    told(caught.value)
