"""One token, from where the settings say: a token endpoint, a file, the settings themselves, or made here.

Everything here blocks, and so runs on a thread beside the network loop (tokens.py). Invariants: no message holds a
token, a secret or anything that an endpoint or a proxy sent but its status and an error code of a standard; an
endpoint is asked no longer than ``retry_backoff_max_ms`` and one last request, and no request lasts longer than its
two time-outs together.

References: RFC 6749 (sections 2.3.1, 4.4, 5), RFC 7523, ``HttpJwtRetriever`` and ``JwtResponseParser`` of Kafka 4.3.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

from sparkmirror.config.files import STORE_BYTES, UnreadableError, read_bytes
from sparkmirror.config.oauth_strimzi import ASSERTION_TYPE, TOKEN
from sparkmirror.config.security_settings import FixedToken, OAuth, TokenEndpoint, TokenFile, UnsecuredToken
from sparkmirror.kafka import assertions
from sparkmirror.kafka.login_errors import LoginDelayedError, LoginRefusedError
from sparkmirror.kafka.tls import tls_context

ANSWER_LIMIT = 1 << 20
LATEST = 253_402_300_799
"""The end of the year 9999, in seconds since 1970."""
BEARER_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_FOR_GOOD = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
"""Statuses that another try does not change, as in Kafka; all others may pass."""
_ERROR_CODES = frozenset(
    """
    invalid_request invalid_client invalid_grant unauthorized_client unsupported_grant_type invalid_scope
    access_denied unsupported_response_type server_error temporarily_unavailable
    invalid_token insufficient_scope unsupported_token_type
    invalid_redirect_uri invalid_client_metadata invalid_software_statement unapproved_software_statement
    authorization_pending slow_down expired_token invalid_target
    invalid_dpop_proof use_dpop_nonce insufficient_user_authentication
    """.split()
)
"""RFC 6749, 6750, 7009, 7591, 8628, 8707, 9449 and 9470. A code of an endpoint's own may be a part of what the endpoint
was sent, in any encoding, so no pattern tells which ones are safe to show."""
_TUNNEL = re.compile(r"Tunnel connection failed: [0-9]{3}(?![0-9])")
"""What ``http.client`` says of a proxy that refuses, without the proxy's own words, which may repeat its password."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Token:
    """A token and its life, in seconds since 1970.

    Attributes:
        value: as a broker gets it.
        begins: when it was issued, or fetched where it does not say.
        ends: when it expires; None where nothing says.
    """

    value: str
    begins: float
    ends: float | None

    def __repr__(self) -> str:
        return f"Token({self.begins:.0f}..{self.ends or 0:.0f})"


def obtain(login: OAuth, note: Callable[[Exception], None]) -> Token:
    """Gets a token; may last as long as the settings allow.

    Args:
        login: where from.
        note: told each failure that is tried again.

    Raises:
        LoginRefusedError: trying again would not help.
        LoginDelayedError: it might.
    """
    source, now = login.source, time.time()
    if isinstance(source, UnsecuredToken):
        return _made(source, now)
    if isinstance(source, FixedToken):
        token = _described(source.token.reveal(), now, None)
        remedy = f"put a new token into {source.key}"
    elif isinstance(source, TokenFile):
        token, remedy = _from_file(source, now), f"renew {source.shown} ({source.key})"
    else:
        token, remedy = _from_endpoint(source, note), "are the clocks of this machine and of the endpoint right?"
    if login.longest_s is not None and (token.ends is None or token.ends > token.begins + login.longest_s):
        token = Token(value=token.value, begins=token.begins, ends=token.begins + login.longest_s)
    if token.ends is not None and token.ends <= now:
        reason = f"the token of {_place(source)} expired {now - token.ends:.0f} s ago"
        # Whoever writes the file may be about to renew it.
        raise (LoginDelayedError if isinstance(source, TokenFile) else LoginRefusedError)(reason, remedy)
    return token


def _place(source: TokenEndpoint | TokenFile | FixedToken) -> str:
    return source.key if isinstance(source, FixedToken) else f"{source.shown} ({source.key})"


def _described(value: str, now: float, lasts_s: float | None) -> Token:
    """A token with the times that it tells, if it is a JSON web token."""
    begins, ends = now, now + lasts_s if lasts_s is not None else None
    parts = value.split(".")
    if len(parts) == 3:
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
            issued, expires = (_seconds(claims[name]) if name in claims else None for name in ("iat", "exp"))
            begins, ends = min(now if issued is None else issued, now), ends if expires is None else expires
        except (ValueError, TypeError, AttributeError, RecursionError):
            pass  # a token of three parts that only its issuer reads
    return Token(value=value, begins=begins, ends=ends)


def _seconds(told: Any) -> float:
    """A time that somebody tells.

    Raises:
        TypeError, ValueError: it is none: JSON of Python has ``NaN`` and ``Infinity``, and numbers of any size.
    """
    try:
        seconds = float(told)
    except OverflowError as failure:
        raise ValueError from failure
    if not abs(seconds) <= LATEST:
        raise ValueError
    return seconds


def _made(source: UnsecuredToken, now: float) -> Token:
    claims = json.loads(source.claims) | {"iat": now, "exp": now + source.lifetime_s}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims)]
    return Token(value=b".".join([*parts, b""]).decode(), begins=now, ends=now + source.lifetime_s)


def _from_file(source: TokenFile, now: float) -> Token:
    try:
        text = read_bytes(Path(source.path), STORE_BYTES).decode("ascii", "replace").strip()
    except UnreadableError as refused:
        reason = f"no token from {_place(source)}: {refused}"
        raise LoginDelayedError(reason, "the file must be readable on every machine that copies") from None
    if not TOKEN.fullmatch(text):
        raise LoginDelayedError(f"{_place(source)} holds no token", "it must hold one token and nothing else")
    return _described(text, now, None)


def _from_endpoint(source: TokenEndpoint, note: Callable[[Exception], None]) -> Token:
    deadline = time.monotonic() + source.retry_backoff_max_ms / 1000
    pause = source.retry_backoff_ms / 1000
    while True:
        try:
            return _asked(source)
        except LoginDelayedError as failure:
            note(failure)
            left = deadline - time.monotonic()
            if left <= 0:
                raise
            time.sleep(min(pause, left))
            pause *= 2


def _asked(source: TokenEndpoint) -> Token:
    remedy = f"is {source.key} right, is the endpoint up, and may this machine reach it?"
    try:
        status, body = _post(source)
    except ssl.SSLCertVerificationError as failure:
        raise LoginRefusedError(
            f"the certificate of the token endpoint {_place(source)} is not trusted: {failure.verify_message}",
            "add its authority to ssl.truststore.* of the file, or to the ssl.truststore.* options of sasl.jaas.config",
        ) from None
    except (OSError, http.client.HTTPException) as failure:
        raise LoginDelayedError(f"no token from {_place(source)}: {_told(failure)}", remedy) from None
    if status not in (200, 201):
        raise _refusal(source, status, body)
    try:
        answer = json.loads(body)
        value = answer.get("access_token") or answer.get("id_token")
        told = answer.get("expires_in")
    except (ValueError, TypeError, AttributeError, RecursionError):
        value, told = None, None
    if not isinstance(value, str) or not TOKEN.fullmatch(value.strip()):
        raise LoginRefusedError(
            f"{_place(source)} answered with {len(body)} bytes that hold no access_token",
            f"is {source.key} the token endpoint, and not its neighbour?",
        )
    try:
        lasts = None if told is None else _seconds(told)
    except (ValueError, TypeError):
        raise LoginRefusedError(
            f"{_place(source)} answered with an expires_in that is no number of seconds",
            f"is {source.key} the token endpoint, and not its neighbour?",
        ) from None
    return _described(value.strip(), time.time(), lasts)


def _refusal(source: TokenEndpoint, status: int, body: bytes) -> LoginDelayedError | LoginRefusedError:
    try:
        code = json.loads(body).get("error")
    except (ValueError, AttributeError, RecursionError):
        code = None
    known = ""
    if isinstance(code, str):
        known = f" {code}" if code in _ERROR_CODES else " (an error of its own, which is not shown)"
    reason = f"the token endpoint {_place(source)} refuses the client: {status}{known}"
    if status in _FOR_GOOD or 300 <= status < 400:
        shown = "id and secret" if source.assertion is None else "assertion, its key, claims and clock"
        remedy = f"check the client's {shown} ({source.credentials_key}) and its scope"
        return LoginRefusedError(reason, remedy if status in (400, 401, 403) else f"is {source.key} right?")
    return LoginDelayedError(reason, "is the endpoint well?")


def _credentials(source: TokenEndpoint) -> tuple[dict[str, str], dict[str, str]]:
    """Who asks: fields of the form, and of the request's head."""
    if source.bearer:
        assert source.assertion is not None
        return {"grant_type": BEARER_GRANT, "assertion": assertions.create(source.assertion)}, {}
    form = {"grant_type": "client_credentials"}
    if source.assertion is not None:
        shown = {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertions.create(source.assertion)}
        return form | {"client_id": source.client_id} | shown, {}
    assert source.client_secret is not None
    client, secret = source.client_id, source.client_secret.reveal()
    if source.encode_credentials:
        client, secret = quote_plus(client), quote_plus(secret)
    pair = base64.b64encode(f"{client}:{secret}".encode()).decode()
    return form, {"Authorization": f"Basic {pair}"}


def _post(source: TokenEndpoint) -> tuple[int, bytes]:
    """One request; the status and the body."""
    form, authorization = _credentials(source)
    form |= {"scope": source.scope, "audience": source.audience}
    request = urllib.request.Request(
        source.url.reveal(),
        data=urlencode({name: value for name, value in form.items() if value}).encode(),
        headers={
            "Accept": "application/json",
            **authorization,
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    ways = _Ways(source)
    late = threading.Timer(ways.left, ways.cut)  # the time-outs of a socket hold for each of its reads only
    late.daemon = True
    late.start()
    try:
        with _opener(ways).open(request, timeout=source.connect_timeout_ms / 1000) as answer:
            found = answer.status, _read(answer)
    except urllib.error.HTTPError as failure:
        with failure:
            found = failure.code, _read(failure)
    except urllib.error.URLError as failure:
        if not ways.is_cut:
            raise failure.reason if isinstance(failure.reason, OSError) else OSError(str(failure.reason)) from None
    except (OSError, http.client.HTTPException):  # a connection that was cut may look reset
        if not ways.is_cut:
            raise
    finally:
        late.cancel()
        ways.close()
    if ways.is_cut:
        raise TimeoutError
    return found


def _read(answer: Any) -> bytes:
    pieces, size = [], 0
    while piece := answer.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > ANSWER_LIMIT:
            raise OSError("its answer does not end")
    return b"".join(pieces)


def _told(failure: Exception) -> str:
    if isinstance(failure, TimeoutError):
        return "no answer in time"
    if isinstance(failure, http.client.HTTPException):  # their texts hold what was sent or came
        return f"its answer is no HTTP ({type(failure).__name__})"
    text = getattr(failure, "strerror", None) or str(failure) or type(failure).__name__
    refused = _TUNNEL.match(text)
    text = refused[0] if refused else text
    return text[:1].lower() + text[1:]


class _Plain(http.client.HTTPConnection):
    """A connection whose way is made by somebody else, who is told when it is there."""

    ways: _Ways

    def connect(self) -> None:
        """Connects, with the time-out that was given at the start."""
        self._create_connection = self.ways.line_to
        super().connect()
        self.ways.connected(self.sock)


class _Secure(http.client.HTTPSConnection):
    """The same with TLS."""

    ways: _Ways

    def connect(self) -> None:
        """Connects and shakes hands, with the time-out that was given at the start."""
        self._create_connection = self.ways.line_to
        super().connect()
        self.ways.connected(self.sock)


class _Ways(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Both kinds of connections; proxies of the environment (``HTTPS_PROXY``, ``NO_PROXY``) stand before them."""

    def __init__(self, source: TokenEndpoint) -> None:
        urllib.request.HTTPHandler.__init__(self)
        self.is_cut = False
        self._read_seconds = source.read_timeout_ms / 1000
        self._end = time.monotonic() + (source.connect_timeout_ms + source.read_timeout_ms) / 1000
        self._tls = tls_context(source.tls) if source.tls is not None else None
        self._line: socket.socket | None = None

    @property
    def left(self) -> float:
        """Seconds until all has to be over."""
        return max(self._end - time.monotonic(), 0.0)

    def cut(self) -> None:
        """Ends what is under way, from another thread: a tunnel, a handshake of TLS, a request or its answer."""
        self.is_cut = True
        if self._line is not None:
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)
                while self._line.recv(1 << 20):  # megabytes that came before would still be read, as TLS
                    pass

    def close(self) -> None:
        """Lets go of the line."""
        if self._line is not None:
            self._line.close()

    def line_to(self, place: tuple[str, int], seconds: float, _: Any) -> socket.socket:
        """A socket to the endpoint, or to the proxy before it; all of its addresses have the time that is left.

        Raises:
            OSError: there is none.
        """
        failed: OSError = TimeoutError()
        for family, kind, protocol, _name, address in socket.getaddrinfo(*place, type=socket.SOCK_STREAM):
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(min(seconds, max(self.left, 0.001)))
                made.connect(address)
                made.settimeout(seconds)
                self.close()
                self._line = made.dup()  # what TLS wraps loses its socket; both are ends of the same line
            except OSError as failure:
                made.close()
                failed = failure
            else:
                if self.is_cut:
                    made.close()
                    raise TimeoutError
                return made
        raise failed

    def connected(self, found: socket.socket) -> None:
        """From here on the time-out is that for reading."""
        found.settimeout(self._read_seconds)

    def _made(self, kind: type[http.client.HTTPConnection], **more: Any) -> Callable[..., http.client.HTTPConnection]:
        def make(host: str, **given: Any) -> http.client.HTTPConnection:
            connection = kind(host, **given, **more)
            connection.ways = self  # type: ignore[attr-defined]  # both kinds have it
            return connection

        return make

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Called for ``http`` URLs."""
        return self.do_open(self._made(_Plain), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Called for ``https`` URLs."""
        return self.do_open(self._made(_Secure, context=self._tls), req)


def _opener(ways: _Ways) -> urllib.request.OpenerDirector:
    """Follows no redirection, which would carry the client's secret to where nobody has said."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        ways,
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener
