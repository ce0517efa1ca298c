"""Certificates and keys in PEM, read and checked when the configuration is read.

Certificates come out as their PEM blocks only, without the text that tools write around them, so that every TLS
library takes them. OpenSSL says whether they are any, since it is OpenSSL that will use them: authorities that are
trusted everywhere have certificates that ``cryptography`` warns of, and will refuse (a serial number of 0).

Invariant: no error holds any part of a key or a password.
"""

from __future__ import annotations

import base64
import re
import ssl
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.utils import CryptographyDeprecationWarning

from sparkmirror.config.files import STORE_BYTES, UnreadableError, read_bytes

_BODY = r"(?:[^-]|-(?!----))*+"
"""Up to the next line of dashes, and not to the end of the text from each of them: a text of nothing but begins would
take time with the square of its length."""
_PRIVATE_KEY = re.compile(rf"-----BEGIN ([A-Z ]*)PRIVATE KEY-----{_BODY}-----END \1PRIVATE KEY-----")
_CERTIFICATE = re.compile(rf"-----BEGIN ((?:X509 )?)CERTIFICATE-----({_BODY})-----END \1CERTIFICATE-----")
_BASE_64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class PemError(ValueError):
    """Something is wrong with a certificate or a key; the message says what, without its text."""


def read(path: str, shown: str) -> bytes:
    """A file of certificates or keys.

    Args:
        path: the file.
        shown: the path as it may appear in a message.

    Raises:
        PemError: it cannot be read.
    """
    try:
        return read_bytes(Path(path), STORE_BYTES)
    except UnreadableError as refused:
        raise PemError(f"{shown}: {refused}") from None


def certificates(text: str) -> str:
    """The certificates of a text, as clean PEM blocks in their order.

    Raises:
        PemError: none, or one that cannot be read.
    """
    found = _checked(tuple(match[2] for match in _CERTIFICATE.finditer(text)))
    if not found:
        raise PemError("there is no certificate in it, or one that cannot be read")
    return found


@lru_cache(maxsize=8)
def _checked(bodies: tuple[str, ...]) -> str:
    """Certificates in base 64 as clean blocks, "" where one is none. Each client of a cluster has the same ones."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found = []
    try:
        for body in bodies:
            encoded = base64.b64decode("".join(body.split()), validate=True)
            context.load_verify_locations(cadata=encoded)
            found.append(ssl.DER_cert_to_PEM_cert(encoded))
    except (ValueError, ssl.SSLError):
        return ""
    return "".join(found)


def shown(text: str, most: int) -> list[str]:
    """Whom the first certificates of a text are for, and until when they hold.

    Args:
        text: from `certificates`.
        most: how many at most.
    """
    blocks = [match[0] for match in _CERTIFICATE.finditer(text)]
    lines = [_shown(block) for block in blocks[:most]]
    return lines + ([f"{len(blocks) - most} more"] if len(blocks) > most else [])


def _shown(block: str) -> str:
    try:
        (one,) = _load(block)
        return f"{one.subject.rfc4514_string()} until {one.not_valid_after_utc:%Y-%m-%d}"
    except ValueError:
        return "a certificate that OpenSSL takes and that cannot be shown"


@contextmanager
def odd_certificates() -> Iterator[None]:
    """Within it, certificates that a later ``cryptography`` will refuse are taken without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        yield


def private_key(text: str) -> str:
    """The one private key of a text.

    Raises:
        PemError: none.
    """
    match = _PRIVATE_KEY.search(text)
    if match is None:
        cut = "-----BEGIN" in text and "-----END" not in text
        hint = ": it ends in its first line, each but the last needs \\n\\ at its end" if cut else ""
        raise PemError(f"there is no private key in it{hint}")
    return match[0] + "\n"


def signing_key(text: str) -> str:
    """The private key of a text that may have no more than its base 64, as Kafka takes it.

    Raises:
        PemError: there is none.
    """
    bare = "".join(text.split())
    if "-----BEGIN" in text or not _BASE_64.fullmatch(bare):
        return private_key(text)
    return f"-----BEGIN PRIVATE KEY-----\n{bare}\n-----END PRIVATE KEY-----\n"


def check_signing(key: str, password: str | None, *, elliptic: bool) -> None:
    """Sees that a key can be opened and signs what it is for.

    Args:
        key: in PEM.
        password: opens it where it is encrypted.
        elliptic: whether it has to be one of the curve P-256, and not one of RSA.

    Raises:
        PemError: it cannot, or it does not.
    """
    loaded = _opened(key, password, "its passphrase")
    curve = getattr(getattr(loaded, "curve", None), "name", "")
    if not (curve == "secp256r1" if elliptic else isinstance(loaded, rsa.RSAPrivateKey)):
        wanted = "of the curve P-256 (ES256)" if elliptic else "of RSA (RS256)"
        raise PemError(f"the private key is none {wanted}: give another key, or another algorithm")


def check_pair(chain: str, key: str, password: str | None) -> None:
    """Sees that a key can be opened and belongs to the first certificate of a chain.

    Raises:
        PemError: it cannot, or it does not.
    """
    loaded = _opened(key, password, "ssl.key.password")
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if loaded.public_key().public_bytes(*form) != _load(chain)[0].public_key().public_bytes(*form):
        raise PemError("the private key does not belong to the first certificate of the chain")


def _opened(key: str, password: str | None, setting: str) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(key.encode(), password.encode() if password else None)
    except TypeError:
        reason = "the private key is not encrypted" if password else "the private key is encrypted"
        raise PemError(f"{reason}: {'remove' if password else 'set'} {setting}") from None
    except (ValueError, UnsupportedAlgorithm):
        hint = f"is {setting} right?" if password else "it must be PKCS 8 in PEM"
        raise PemError(f"the private key cannot be read: {hint}") from None


def _load(text: str) -> list[x509.Certificate]:
    try:
        with odd_certificates():
            return x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        raise PemError("there is no certificate in it, or one that cannot be read") from None
