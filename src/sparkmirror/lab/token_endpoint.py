"""A token endpoint for a lab cluster: an HTTP server in a thread that gives signed tokens.

Clients show a secret or an assertion; their ids and secrets are the lab's users. Tokens are JSON web tokens (RS256),
its keys lie in ``jwks.json`` of its directory, where brokers read them. It protects nothing.

References: RFC 6749 (section 4.4), RFC 7515, RFC 7517, RFC 7523.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

ISSUER, AUDIENCE, KEY_ID = "sparkmirror-lab", "lab-brokers", "lab-key"
PATH = "/token"
LIFETIME_S = 3_600
_SECONDS = 10.0
_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class TokenEndpoint:
    """The server.

    Args:
        directory: for its key and ``jwks.json``, made if need be; a key that is there is taken.
        users: client id to secret.
        port: 0 for a free one.
        certificates: the directory of certificates.py, for ``https``.

    Attributes:
        lifetime_s: of the tokens that it gives from now on.
        delay_s: how long it thinks before each answer.
        issued: the tokens that it has given.
        forms: the form of each request that it has had.
        answers: (status, body) pairs to send instead of a token, one for each request, the first one first.
        signers: the keys of clients that show an assertion, by client id, which its subject names.
        assertions: header and claims of each assertion that it has taken.
    """

    def __init__(
        self, directory: Path, users: Mapping[str, str], *, port: int = 0, certificates: Path | None = None
    ) -> None:
        self.lifetime_s: float = LIFETIME_S
        self.delay_s = 0.0
        self.issued: list[str] = []
        self.forms: list[dict[str, list[str]]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.signers: dict[str, rsa.RSAPublicKey | ec.EllipticCurvePublicKey] = {}
        self.assertions: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._key = _key(directory)
        self._users = users
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _SECONDS

            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode())
                status, body = endpoint._answer(self.path, self.headers.get("Authorization", ""), form)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the library
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        if certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates / "server.pem")
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "http" if certificates is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}{PATH}"
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def token(self, subject: str, **claims: Any) -> str:
        """A signed token.

        Args:
            subject: whom it names.
            claims: further ones, or others than usual.
        """
        now = time.time()
        told = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "iat": int(now),
            "exp": int(now + self.lifetime_s),
            "jti": uuid.uuid4().hex,
        } | claims
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        signed = b".".join(_base64(json.dumps(part).encode()) for part in (head, told))
        signature = self._key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return b".".join((signed, _base64(signature))).decode()

    def stop(self) -> None:
        """Ends it. May be called again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_SECONDS)

    def _answer(self, path: str, authorization: str, form: dict[str, list[str]]) -> tuple[int, bytes]:
        self.forms.append(form)
        time.sleep(self.delay_s)
        if self.answers:
            return self.answers.pop(0)
        if path != PATH:
            return 404, b"{}"
        (grant,) = form.get("grant_type", [""])
        if grant not in ("client_credentials", _BEARER):
            return 400, b'{"error": "unsupported_grant_type"}'
        (shown,) = form.get("assertion" if grant == _BEARER else "client_assertion", [""])
        if shown and grant != _BEARER and form.get("client_assertion_type") != [_ASSERTION]:
            return 400, b'{"error": "invalid_request"}'
        user = self._signer(shown) if shown or grant == _BEARER else self._user(authorization)
        if user is None:
            return 401, b'{"error": "invalid_client", "error_description": "no such client, or not this secret"}'
        token = self.token(user, scope=" ".join(form.get("scope", [])) or "none")
        self.issued.append(token)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}
        return 200, json.dumps(answer).encode()

    def _user(self, authorization: str) -> str | None:
        kind, _, shown = authorization.partition(" ")
        try:
            user, _, secret = base64.b64decode(shown).decode().partition(":")
        except ValueError:
            return None
        return user if kind == "Basic" and self._users.get(user) == secret else None

    def _signer(self, assertion: str) -> str | None:
        """Whom an assertion names, if it is signed with that client's key and holds now, and here."""
        try:
            content, _, signature = assertion.rpartition(".")
            header, claims = (json.loads(_bytes(part)) for part in content.split("."))
            name, key, signed = claims["sub"], self.signers[claims["sub"]], _bytes(signature)
            if isinstance(key, rsa.RSAPublicKey):
                key.verify(signed, content.encode(), padding.PKCS1v15(), hashes.SHA256())
            else:
                half = len(signed) // 2
                numbers = encode_dss_signature(int.from_bytes(signed[:half]), int.from_bytes(signed[half:]))
                key.verify(numbers, content.encode(), ec.ECDSA(hashes.SHA256()))
        except (ValueError, KeyError, InvalidSignature):
            return None
        algorithm = "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"
        if header["alg"] != algorithm or claims["aud"] != self.url or not claims["nbf"] <= time.time() < claims["exp"]:
            return None
        self.assertions.append((header, claims))
        return str(name)


def write_keys(directory: Path) -> Path:
    """Writes the key and ``jwks.json`` into the directory unless they are there; the path of the latter."""
    _key(directory)
    return directory / "jwks.json"


def _key(directory: Path) -> rsa.RSAPrivateKey:
    place = directory / "key.pem"
    if not place.exists():
        directory.mkdir(parents=True, exist_ok=True)
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        numbers = key.public_key().public_numbers()
        public = {"kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256"}
        public |= {
            name: _base64(number.to_bytes((number.bit_length() + 7) // 8)).decode()
            for name, number in (("n", numbers.n), ("e", numbers.e))
        }
        (directory / "jwks.json").write_text(json.dumps({"keys": [public]}))
        place.touch(mode=0o600)
        place.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    found = serialization.load_pem_private_key(place.read_bytes(), None)
    assert isinstance(found, rsa.RSAPrivateKey)
    return found


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
