"""Sockets that read in large pieces.

kafka-python reads 4 KiB per system call and joins the pieces, which is right for a client that opens records and
wrong for one that moves megabytes through. These transports read into one buffer that is kept, and hand out a view
of it: the protocol parser copies what it needs before the next read.

Reference: ``kafka.net.transport`` and ``kafka.net.manager`` of kafka-python 3.
"""

from __future__ import annotations

import ssl
from typing import Any

from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from kafka import errors as kafka_errors

READ_SIZE = 1 << 20


class _WideReads:
    """Replaces the read loop of a kafka-python transport: one buffer, as few system calls as the socket allows."""

    _sock: Any
    _read_buffer: bytearray | None = None

    def _sock_recv(self) -> tuple[memoryview, Exception | None]:
        if self._read_buffer is None:
            self._read_buffer = bytearray(READ_SIZE)
        view = memoryview(self._read_buffer)
        filled = 0
        error: Exception | None = None
        while filled < READ_SIZE:
            try:
                count = self._sock.recv_into(view[filled:])
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as failure:
                error = kafka_errors.KafkaConnectionError(failure)
                break
            if count == 0:
                error = kafka_errors.KafkaConnectionError("the broker closed the connection")
                break
            filled += count
        return view[:filled], error


class TcpTransport(_WideReads, KafkaTCPTransport):  # type: ignore[misc]  # kafka-python carries no types
    """A plain connection."""


class TlsTransport(_WideReads, KafkaSSLTransport):  # type: ignore[misc]  # kafka-python carries no types
    """An encrypted connection. What TLS still holds decrypted is read at once: the socket alone would not tell of it."""

    def _sock_recv(self) -> tuple[memoryview, Exception | None]:
        received, error = super()._sock_recv()
        if error is None and self._sock is not None and len(received) == READ_SIZE and self._sock.pending():
            rest = self._sock.recv(self._sock.pending())
            received = memoryview(bytes(received) + rest)
        return received, error


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]  # kafka-python carries no types
    """kafka-python's connections, on the transports above."""

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=self.config["proxy_url"],
            timeout_at=timeout_at,
        )
        if self.ssl_enabled:
            tls = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
            transport: Any = TlsTransport(self._net, sock, host=node.host, **tls)
        else:
            transport = TcpTransport(self._net, sock, host=node.host)
        try:
            await transport.handshake()
        except Exception as failure:
            raise kafka_errors.KafkaConnectionError(f"TLS handshake failed: {failure}") from failure
        return transport
