"""TLS without a socket: bytes that came go in, application data and bytes to send come out.

Why not ``ssl.SSLSocket``: Python sets OpenSSL's SSL_MODE_AUTO_RETRY, so one call that reads from a socket takes message
after message of TLS itself (session tickets, key updates, requests for a handshake) until application data comes or the
socket is empty. A peer that sends such messages faster than they are taken holds that call, and with it the network
loop and all of its timers. A session here takes no more than what it was given.

Invariants:
    - Whatever was given is taken at once, up to a record that is not whole: nothing decrypted waits here.
    - `UNUSED_BYTES` that came without a byte of application data end the session, the handshake's among them.

Reference: RFC 8446, sections 4.6 and 5; ``SSL_CTX_set_mode(3)`` of OpenSSL.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable

from kafka import errors as kafka_errors

RECORD_BYTES = (16 << 10) + 256
"""The most application data of a record that lies here unfinished, with what TLS adds."""

UNUSED_BYTES = 512 << 10
"""A handshake has a few kilobytes; OpenSSL takes 100 KiB of certificates, and the names of authorities have 64 KiB at
most. Session tickets have some kilobytes each where they hold a client's certificates, and servers send one or two."""


class TlsSession:
    """One side of a connection: the client's.

    Args:
        context: what the connection is encrypted with, and checked by.
        host: the name that the certificate must have, where the context checks it.
    """

    def __init__(self, context: ssl.SSLContext, host: str | None) -> None:
        self._came, self._leaves = ssl.MemoryBIO(), ssl.MemoryBIO()
        name = host.rstrip(".") if host is not None else None
        self._tls = context.wrap_bio(self._came, self._leaves, server_hostname=name)
        self._unused = 0

    def shake_hands(self, came: bytes | bytearray | memoryview = b"") -> bool:
        """Goes on with the handshake; whether it is over.

        Raises:
            ssl.SSLError: the peer says what cannot be understood or trusted. `leaving` has what to answer.
            KafkaConnectionError: it does not come to an end.
        """
        self._give(came)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._check()
            return False
        return True

    def end(self) -> None:
        """Nothing more comes."""
        self._came.write_eof()

    def open(self, came: bytes | bytearray | memoryview, into: memoryview) -> int:
        """Decrypts what came.

        Args:
            came: bytes from the socket.
            into: where to; has room for them and `RECORD_BYTES` more.

        Returns:
            the number of bytes of application data.

        Raises:
            ssl.SSLError: what came is damaged; or the peer has ended the session, and nothing came before that.
            KafkaConnectionError: too much came without application data.
        """
        self._give(came)
        opened = 0
        try:
            while count := int(self._tls.read(len(into) - opened, into[opened:])):
                opened += count
        except ssl.SSLWantReadError:
            pass
        else:
            if not opened:
                raise ssl.SSLZeroReturnError("TLS/SSL connection has been closed (EOF)")
        if opened:
            self._unused = 0
        self._check()
        return opened

    def seal(self, pieces: Iterable[bytes | bytearray | memoryview], most: int) -> int:
        """Encrypts the first ``most`` bytes of pieces, or a record more; how many. `leaving` has the result."""
        sealed = 0
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                count = self._tls.write(rest)
                sealed, rest = sealed + count, rest[count:]
                if sealed >= most:
                    return sealed
        return sealed

    def leaving(self) -> bytes:
        """What is to be sent now, once, in this order: records, and answers and alerts of TLS itself."""
        return self._leaves.read()

    def _give(self, came: bytes | bytearray | memoryview) -> None:
        if came:
            self._came.write(came)
        self._unused += len(came)

    def _check(self) -> None:
        if max(self._unused, self._leaves.pending) > UNUSED_BYTES:
            raise kafka_errors.KafkaConnectionError(
                f"more than {UNUSED_BYTES >> 10} KiB of TLS came without a byte of an answer: "
                "session tickets, key updates or parts of a handshake without end"
            )
