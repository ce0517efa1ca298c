"""Certificates and keys in PEM, read and checked when the configuration is read.

Certificates come out as their PEM blocks only, without the text that tools write around them, so that every TLS
library takes them. Invariant: no error holds any part of a key or a password.
"""

from __future__ import annotations

import re
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)


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
        return Path(path).read_bytes()
    except OSError as error:
        raise PemError(f"{shown}: {(error.strerror or 'unreadable').lower()}") from None


def certificates(text: str) -> str:
    """The certificates of a text, as clean PEM blocks in their order.

    Raises:
        PemError: none, or one that cannot be read.
    """
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in _load(text))


def private_key(text: str) -> str:
    """The one private key of a text.

    Raises:
        PemError: none.
    """
    match = _PRIVATE_KEY.search(text)
    if match is None:
        raise PemError("there is no private key in it")
    return match[0] + "\n"


def check_pair(chain: str, key: str, password: str | None) -> None:
    """Sees that a key can be opened and belongs to the first certificate of a chain.

    Raises:
        PemError: it cannot, or it does not.
    """
    try:
        loaded = load_pem_private_key(key.encode(), password.encode() if password else None)
    except TypeError:
        reason = "the private key is not encrypted" if password else "the private key is encrypted"
        raise PemError(f"{reason}: {'remove' if password else 'set'} ssl.key.password") from None
    except (ValueError, UnsupportedAlgorithm):
        hint = "is ssl.key.password right?" if password else "it must be PKCS 8 in PEM"
        raise PemError(f"the private key cannot be read: {hint}") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if loaded.public_key().public_bytes(*form) != _load(chain)[0].public_key().public_bytes(*form):
        raise PemError("the private key does not belong to the first certificate of the chain")


def _load(text: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        raise PemError("there is no certificate in it, or one that cannot be read") from None
