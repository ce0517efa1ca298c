"""A client's keys to checked ``ClientSettings``, with the Java client's defaults of its role."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkmirror.config.entries import LONG_MAX, Entry, Reader, one_of
from sparkmirror.config.security import read_security
from sparkmirror.config.settings import ClientSettings

_SERVER = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?(\[[0-9a-fA-F:%.]+\]|[0-9a-zA-Z\-%._]+):([0-9]{1,5})")
"""As ``Utils.getHost`` and ``getPort`` of Kafka read it; a listener name in front is dropped."""

_MAX_IDLE: Mapping[str, int] = {"consumer": 540_000, "producer": 540_000, "admin": 300_000}
_DNS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def read_client(reader: Reader, role: str) -> ClientSettings:
    """Reads and checks the keys of one client.

    Args:
        reader: the client's keys without any prefix; ``bootstrap.servers`` must be among them.
        role: ``consumer``, ``producer`` or ``admin``.

    Raises:
        ConfigError: a value that cannot work.
    """

    def millis(name: str, default: int) -> int:
        return reader.integer(name, default, low=0, high=LONG_MAX)

    return ClientSettings(
        bootstrap_servers=read_servers(reader),
        client_id=reader.text("client.id"),
        client_rack=reader.text("client.rack") or "",
        security=read_security(reader),
        request_timeout_ms=reader.integer("request.timeout.ms", 30_000, low=1),
        retry_backoff_ms=millis("retry.backoff.ms", 100),
        retry_backoff_max_ms=millis("retry.backoff.max.ms", 1_000),
        reconnect_backoff_ms=millis("reconnect.backoff.ms", 50),
        reconnect_backoff_max_ms=millis("reconnect.backoff.max.ms", 1_000),
        connections_max_idle_ms=reader.integer("connections.max.idle.ms", _MAX_IDLE[role], low=-1, high=LONG_MAX),
        metadata_max_age_ms=millis("metadata.max.age.ms", 300_000),
        socket_connection_setup_timeout_ms=reader.integer(
            "socket.connection.setup.timeout.ms", 10_000, low=1, high=LONG_MAX
        ),
        socket_connection_setup_timeout_max_ms=reader.integer(
            "socket.connection.setup.timeout.max.ms", 30_000, low=1, high=LONG_MAX
        ),
        receive_buffer_bytes=reader.integer("receive.buffer.bytes", -1, low=-1),
        send_buffer_bytes=reader.integer("send.buffer.bytes", -1, low=-1),
        client_dns_lookup=_one(reader, "client.dns.lookup", _DNS) or _DNS[0],
        fetch_min_bytes=reader.optional_integer("fetch.min.bytes", low=0),
        fetch_max_bytes=reader.optional_integer("fetch.max.bytes", low=1),
        fetch_max_wait_ms=reader.optional_integer("fetch.max.wait.ms", low=0),
        max_partition_fetch_bytes=reader.optional_integer("max.partition.fetch.bytes", low=1),
        batch_size=reader.optional_integer("batch.size", low=0),
        compression_type=_one(reader, "compression.type", _CODECS),
        compression_gzip_level=_gzip_level(reader),
        compression_lz4_level=reader.optional_integer("compression.lz4.level", low=1, high=17),
        compression_zstd_level=reader.optional_integer("compression.zstd.level", low=-131_072, high=22),
        max_request_size=reader.optional_integer("max.request.size", low=1),
        delivery_timeout_ms=reader.integer("delivery.timeout.ms", 120_000, low=1),
    )


def read_servers(reader: Reader) -> tuple[str, ...]:
    """The ``bootstrap.servers``, each as ``host:port``.

    Raises:
        ConfigError: none, or one that is no address.
    """
    entry = reader.entries["bootstrap.servers"]
    servers = reader.listing("bootstrap.servers", ())
    if not servers:
        raise entry.wrong("is empty", "give at least one host:port")
    return tuple(_server(entry, server) for server in servers)


def _server(entry: Entry, server: str) -> str:
    match = _SERVER.fullmatch(server)
    if match is None or not 0 < int(match[2]) <= 65_535:
        raise entry.wrong(f"{entry.shown} holds an address that is not host:port", "such as kafka-1.example.com:9092")
    return f"{match[1]}:{int(match[2])}"


def _gzip_level(reader: Reader) -> int | None:
    """From 1 to 9; -1 is zlib's default and so is not to set it."""
    level = reader.optional_integer("compression.gzip.level", low=-1, high=9)
    if level == 0:
        raise reader.entries["compression.gzip.level"].wrong("cannot be 0", "give a number from 1 to 9, or -1")
    return None if level == -1 else level


def _one(reader: Reader, name: str, options: tuple[str, ...]) -> str | None:
    text = reader.text(name)
    if text is not None and text.lower() not in options:
        entry = reader.entries[name]
        raise entry.wrong(f"{entry.shown_choice(options)} is not possible", one_of(options))
    return text.lower() if text else None
