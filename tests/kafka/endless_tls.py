"""Servers of TLS that say what TLS itself has to say without end: after a handshake, or in the place of one.

No library does that, so a handshake of TLS 1.3 is made here: TLS_AES_128_GCM_SHA256 and X25519, with the certificate
and the key (of the curve P-256) of a PEM file.

Reference: RFC 8446, sections 4.4, 4.6, 5.2 and 7.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

HANDSHAKE, DATA, CHANGE_CIPHER = 22, 23, 20
HELLO_REQUEST, SERVER_HELLO, TICKET, EXTENSIONS, CERTIFICATE, VERIFY, FINISHED, KEY_UPDATE = 0, 2, 4, 8, 11, 15, 20, 24
VERSIONS, KEY_SHARE, X25519, ECDSA_P256 = 0x2B, 0x33, 0x1D, 0x0403
ZEROS = b"\0" * 32
LASTS_S = 20.0
"""Longer than any call of a test may take."""


class Keys:
    """What one side encrypts its records with."""

    def __init__(self, secret: bytes) -> None:
        self._secret, self._number = secret, 0
        self._cipher, self._start = AESGCM(_expand(secret, b"key", b"", 16)), _expand(secret, b"iv", b"", 12)

    def record(self, kind: int, said: bytes) -> bytes:
        """One encrypted record."""
        nonce = (int.from_bytes(self._start, "big") ^ self._number).to_bytes(12, "big")
        self._number += 1
        head = struct.pack(">BHH", DATA, 0x0303, len(said) + 17)
        return head + self._cipher.encrypt(nonce, said + bytes([kind]), head)

    def following(self) -> Keys:
        """Those after an update."""
        return Keys(_expand(self._secret, b"traffic upd", b"", 32))


def tickets(keys: Keys) -> Iterator[bytes]:
    """Session tickets, as many as fit in each record."""
    ticket = _message(TICKET, struct.pack(">II", 7200, 0) + b"\0" + b"\0\1x" + b"\0\0")
    while True:
        yield b"".join(keys.record(HANDSHAKE, ticket * 880) for _ in range(16))


def key_updates(keys: Keys) -> Iterator[bytes]:
    """Updates of keys, to which the client must answer with its own."""
    while True:
        yield keys.record(HANDSHAKE, _message(KEY_UPDATE, b"\1"))
        keys = keys.following()


def serving(pem: bytes, what: Callable[[Keys], Iterator[bytes]]) -> Callable[[socket.socket], None]:
    """What takes connections and says that for `LASTS_S`, or until the client has gone (OSError)."""

    def serve(connection: socket.socket) -> None:
        _say(connection, what(_shake_hands(connection, pem)))

    return serve


def asking_again(connection: socket.socket) -> None:
    """Answers the first message of a client with requests for a handshake, which it passes over during one.

    In clear, so they cost the sender nothing, and as long as `serving`. Reference: RFC 5246, section 7.4.1.1.
    """
    requests = struct.pack(">BHH", HANDSHAKE, 0x0303, 1 << 14) + _message(HELLO_REQUEST, b"") * (1 << 12)
    _say(connection, repeat(requests * 64))


def _say(connection: socket.socket, what: Iterable[bytes]) -> None:
    end = time.monotonic() + LASTS_S
    for said in what:
        connection.sendall(said)
        if time.monotonic() > end:
            return


def _shake_hands(connection: socket.socket, pem: bytes) -> Keys:
    hello = _record(connection)[1]
    own = x25519.X25519PrivateKey.generate()
    shared = own.exchange(x25519.X25519PublicKey.from_public_bytes(_key_share(hello)))
    extensions = struct.pack(">HHH", VERSIONS, 2, 0x0304)
    extensions += struct.pack(">HHHH", KEY_SHARE, 36, X25519, 32) + own.public_key().public_bytes_raw()
    session = hello[38 : 39 + hello[38]]
    answer = _message(
        SERVER_HELLO,
        b"\x03\x03" + os.urandom(32) + session + b"\x13\x01\0" + struct.pack(">H", len(extensions)) + extensions,
    )
    secret = _extract(_expand(_extract(ZEROS, ZEROS), b"derived", _hash(b""), 32), shared)
    said = hello + answer
    traffic = _expand(secret, b"s hs traffic", _hash(said), 32)
    proof = _proof(pem, said, _expand(traffic, b"finished", b"", 32))
    connection.sendall(struct.pack(">BHH", HANDSHAKE, 0x0303, len(answer)) + answer)
    connection.sendall(Keys(traffic).record(HANDSHAKE, proof))
    while _record(connection)[0] == CHANGE_CIPHER:
        pass
    master = _extract(_expand(secret, b"derived", _hash(b""), 32), ZEROS)
    return Keys(_expand(master, b"s ap traffic", _hash(said + proof), 32))


def _proof(pem: bytes, said: bytes, finished: bytes) -> bytes:
    """The messages by which the server shows who it is."""
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    chain = [one.public_bytes(serialization.Encoding.DER) for one in x509.load_pem_x509_certificates(pem)]
    listed = b"".join(len(one).to_bytes(3, "big") + one + b"\0\0" for one in chain)
    proof = _message(EXTENSIONS, b"\0\0") + _message(CERTIFICATE, b"\0" + len(listed).to_bytes(3, "big") + listed)
    signed = b" " * 64 + b"TLS 1.3, server CertificateVerify\0" + _hash(said + proof)
    signature = key.sign(signed, ec.ECDSA(hashes.SHA256()))
    proof += _message(VERIFY, struct.pack(">HH", ECDSA_P256, len(signature)) + signature)
    return proof + _message(FINISHED, hmac.digest(finished, _hash(said + proof), "sha256"))


def _key_share(hello: bytes) -> bytes:
    """The client's public key of X25519."""
    at = 39 + hello[38]
    at += 2 + int.from_bytes(hello[at : at + 2], "big")
    at += 1 + hello[at] + 2
    while True:
        kind, size = struct.unpack_from(">HH", hello, at)
        if kind == KEY_SHARE:
            break
        at += 4 + size
    at += 6
    while True:
        group, size = struct.unpack_from(">HH", hello, at)
        if group == X25519:
            return hello[at + 4 : at + 4 + size]
        at += 4 + size


def _record(connection: socket.socket) -> tuple[int, bytes]:
    kind, _, size = struct.unpack(">BHH", connection.recv(5, socket.MSG_WAITALL))
    return kind, connection.recv(size, socket.MSG_WAITALL)


def _message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _extract(salt: bytes, key: bytes) -> bytes:
    return hmac.digest(salt, key, "sha256")


def _expand(secret: bytes, label: bytes, context: bytes, size: int) -> bytes:
    name = b"tls13 " + label
    info = struct.pack(">H", size) + bytes([len(name)]) + name + bytes([len(context)]) + context
    return HKDFExpand(hashes.SHA256(), size, info).derive(secret)
