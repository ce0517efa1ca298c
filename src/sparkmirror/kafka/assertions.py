"""An assertion for one request to a token endpoint: signed here, from a file, or from the settings themselves.

Invariant: no message holds an assertion or any part of a key.

References: RFC 7515, RFC 7518 (section 3.4), RFC 7523; ``DynamicAssertionJwtTemplate`` of Kafka 4.3.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sparkmirror.config.files import STORE_BYTES, UnreadableError, read_bytes
from sparkmirror.config.oauth_strimzi import TOKEN
from sparkmirror.config.security_settings import AssertionFile, FixedAssertion, SignedAssertion
from sparkmirror.kafka.login_errors import LoginDelayedError

P_256_BYTES = 32


def create(source: SignedAssertion | AssertionFile | FixedAssertion) -> str:
    """The assertion.

    Raises:
        LoginDelayedError: the file does not hold one, and may in a while.
    """
    if isinstance(source, FixedAssertion):
        return source.assertion.reveal()
    if isinstance(source, AssertionFile):
        return _from_file(source)
    now = int(time.time())
    times = {"iat": now, "exp": now + source.lasts_s, "nbf": now - source.before_s}
    own: dict[str, Any] = times | ({"jti": str(uuid.uuid4())} if source.unique else {})
    head = json.loads(source.header) | {"alg": source.algorithm.value, "typ": "JWT"}
    content = b".".join(_base64(json.dumps(part).encode()) for part in (head, json.loads(source.claims) | own))
    return b".".join((content, _base64(_signature(source, content)))).decode()


def _signature(source: SignedAssertion, content: bytes) -> bytes:
    passphrase = source.passphrase.reveal().encode() if source.passphrase else None
    key = load_pem_private_key(source.private_key.reveal().encode(), passphrase)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), SHA256())
    assert isinstance(key, ec.EllipticCurvePrivateKey)  # seen to when the configuration was read
    numbers = decode_dss_signature(key.sign(content, ec.ECDSA(SHA256())))
    return b"".join(number.to_bytes(P_256_BYTES) for number in numbers)


def _from_file(source: AssertionFile) -> str:
    place = f"{source.shown} ({source.key})"
    try:
        text = read_bytes(Path(source.path), STORE_BYTES).decode("ascii", "replace").strip()
    except UnreadableError as refused:
        reason = f"no assertion from {place}: {refused}"
        raise LoginDelayedError(reason, "the file must be readable on every machine that copies") from None
    if not TOKEN.fullmatch(text):
        raise LoginDelayedError(f"{place} holds no assertion", "it must hold one assertion and nothing else")
    return text


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
