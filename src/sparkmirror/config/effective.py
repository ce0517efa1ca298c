"""The effective configuration of a flow as rows, for people: every setting, its value, and the key that set it.

Invariant: no row holds a secret, nor a value that came from a config provider, which may be a secret under any key;
certificates are shown as whom they name and when they end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from sparkmirror.config import pem
from sparkmirror.config.mirror_topics import Side
from sparkmirror.config.secret import HIDDEN
from sparkmirror.config.security_settings import (
    AssertionFile,
    FixedToken,
    Kerberos,
    Security,
    SignedAssertion,
    TokenEndpoint,
    UnsecuredToken,
)
from sparkmirror.config.settings import ClientSettings, Endpoint, FlowConfig

_ROLES = ("consumer", "producer", "admin")
_CONSUMER_ONLY = ("client.rack", "fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes")
_PRODUCER_ONLY = (
    "batch.size",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "max.request.size",
    "delivery.timeout.ms",
)


_IN_PARTS = ("sasl.jaas.config", "ssl.truststore.location", "ssl.keystore.location")
"""Rows that say in parts what a login or a store holds, and hide themselves which of it is secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting.

    Attributes:
        setting: a key that would set it.
        value: as text; "" where nothing is set and there is no default.
        origin: the key of the file that set it; "" for a default.
    """

    setting: str
    value: str
    origin: str = ""


def effective(flow: FlowConfig) -> tuple[Row, ...]:
    """Every setting of a flow, secrets hidden.

    Settings of a client that are the same in all its roles are one row, such as ``source.bootstrap.servers``.
    """
    origins = dict(flow.origins)
    own = [Row(setting=setting, value=value, origin=origins.get(setting, "")) for setting, value in _flow_rows(flow)]
    for setting, key in (
        ("source.consumer.isolation.level", flow.isolation.name.lower()),
        ("source.consumer.auto.offset.reset", flow.auto_offset_reset.value),
    ):
        own.append(Row(setting=setting, value=key, origin=origins.get(setting, "")))
    source = _endpoint_rows("source", flow.source, origins)
    return tuple(
        replace(row, value=HIDDEN) if row.origin in flow.provided and not row.setting.endswith(_IN_PARTS) else row
        for row in (*own, *source, *_endpoint_rows("target", flow.target, origins))
    )


def origin_of(flow: FlowConfig, side: Side, role: str, setting: str) -> str:
    """The key of the file that sets a client's setting, or one that would.

    Args:
        flow: the flow.
        side: whose client.
        role: ``consumer``, ``producer`` or ``admin``.
        setting: as the client knows it, such as ``bootstrap.servers``.
    """
    end = flow.source if side is Side.SOURCE else flow.target
    return _origin(dict(flow.origins), side.value, role, setting) or f"{end.alias}.{setting}"


def _flow_rows(flow: FlowConfig) -> Iterator[tuple[str, str]]:
    yield "topics", ", ".join(flow.topics)
    yield "topics.exclude", ", ".join(flow.topics_exclude)
    yield "topics.append", ", ".join(flow.topics_append)
    yield "config.properties.exclude", ", ".join(flow.config_properties_exclude)
    yield "replication.policy.class", flow.policy.name
    yield "replication.policy.separator", flow.policy.separator
    yield "replication.policy.internal.topic.separator.enabled", _boolean(flow.policy.internal_separator_follows)
    yield "provenance.header.enabled", _boolean(flow.provenance_header)
    yield "homeward.enabled", _boolean(flow.homeward)
    yield "replication.factor", str(flow.replication_factor)
    yield "internal.topic.replication.factor", str(flow.internal_replication_factor)
    yield "tasks.max", "as many as Spark has free slots" if flow.tasks_max is None else str(flow.tasks_max)
    yield "refresh.topics.enabled", _boolean(flow.refresh_topics_enabled)
    yield "refresh.topics.interval.seconds", f"{flow.refresh_topics_interval_s:g}"
    yield from _duty_rows(flow)
    yield "shift.max.ms", str(flow.shift_max_ms)
    yield "stop.timeout.ms", str(flow.stop_timeout_ms)
    yield "lane.memory.bytes", str(flow.memory_per_lane)
    yield "offset.map.max.bytes", str(flow.offset_map_bytes)
    yield "batch.decompression.max.bytes", str(flow.decompression_limit)
    yield "max.bytes.per.second", "no limit" if flow.max_bytes_per_s is None else str(flow.max_bytes_per_s)
    yield "rpo.limit.ms", "no limit" if flow.rpo_limit_ms is None else str(flow.rpo_limit_ms)
    yield "errors.tolerance", flow.dead_letters.tolerance.value
    yield "errors.deadletterqueue.topic.name", flow.dead_letters.topic
    yield "errors.deadletterqueue.topic.replication.factor", str(flow.dead_letters.replication_factor)
    yield "errors.deadletterqueue.context.headers.enable", _boolean(flow.dead_letters.context_headers)
    yield "on.source.retention", flow.on.source_retention.value
    yield "on.source.tail.lost", flow.on.source_tail_lost.value
    yield "on.source.recreated", flow.on.source_recreated.value
    yield "on.target.recreated", flow.on.target_recreated.value
    yield from zip(("start.position", "start.positions"), flow.start.shown, strict=True)
    yield "mm2.connector.name", flow.stored_positions.connector
    yield "mm2.offsets.topic", flow.stored_positions.topic
    yield "mm2.group", flow.stored_positions.group
    yield "mm2.takeover.enabled", _boolean(flow.stored_positions.takeover)
    yield "admin.timeout.ms", str(flow.admin_timeout_ms)


def _duty_rows(flow: FlowConfig) -> Iterator[tuple[str, str]]:
    """What is done beside the copying."""
    yield "sync.topic.configs.enabled", _boolean(flow.sync_topic_configs_enabled)
    yield "sync.topic.configs.interval.seconds", f"{flow.sync_topic_configs_interval_s:g}"
    yield "sync.topic.configs.drift", flow.sync_topic_configs_drift.value
    yield "use.defaults.from", flow.use_defaults_from.value
    yield "sync.topic.deletes.enabled", _boolean(flow.sync_topic_deletes_enabled)
    yield "heartbeats.replication.enabled", _boolean(flow.heartbeats_replication)
    yield "emit.heartbeats.enabled", _boolean(flow.heartbeats.enabled)
    yield "emit.heartbeats.interval.seconds", f"{flow.heartbeats.interval_s:g}"
    yield "heartbeats.topic.replication.factor", str(flow.heartbeats.replication_factor)
    yield "emit.offset-syncs.enabled", _boolean(flow.offset_syncs.enabled)
    yield "offset-syncs.topic.location", flow.offset_syncs.location.value
    yield "offset-syncs.topic.replication.factor", str(flow.offset_syncs.replication_factor)
    yield "offset.lag.max", str(flow.offset_syncs.lag_max)
    yield "sync.topic.acls.enabled", _boolean(flow.acls.enabled)
    yield "sync.topic.acls.interval.seconds", f"{flow.acls.interval_s:g}"
    yield "sync.topic.acls.prefixed", _boolean(flow.acls.prefixed)
    yield "sync.topic.acls.remove", _boolean(flow.acls.remove)
    yield "sync.group.acls.enabled", _boolean(flow.acls.groups)
    yield "groups", ", ".join(flow.groups.include)
    yield "groups.exclude", ", ".join(flow.groups.exclude)
    yield "refresh.groups.enabled", _boolean(flow.groups.refresh_enabled)
    yield "refresh.groups.interval.seconds", f"{flow.groups.refresh_interval_s:g}"
    yield "emit.checkpoints.enabled", _boolean(flow.groups.checkpoints_enabled)
    yield "emit.checkpoints.interval.seconds", f"{flow.groups.checkpoints_interval_s:g}"
    yield "checkpoints.topic.replication.factor", str(flow.groups.checkpoints_replication_factor)
    yield "sync.group.offsets.enabled", _boolean(flow.groups.sync_enabled)
    yield "sync.group.offsets.interval.seconds", f"{flow.groups.sync_interval_s:g}"


def _endpoint_rows(side: str, endpoint: Endpoint, origins: dict[str, str]) -> Iterator[Row]:
    by_role = {role: _client_rows(getattr(endpoint, role), role) for role in _ROLES}
    names = dict.fromkeys(name for rows in by_role.values() for name in rows)
    for name in names:
        found = [
            Row(setting=f"{side}.{role}.{name}", value=rows[name], origin=_origin(origins, side, role, name))
            for role, rows in by_role.items()
            if name in rows
        ]
        if len(found) > 1 and len({(row.value, row.origin) for row in found}) == 1:
            yield Row(setting=f"{side}.{name}", value=found[0].value, origin=found[0].origin)
        else:
            yield from found


def _origin(origins: dict[str, str], side: str, role: str, name: str) -> str:
    """A store may come from a file or from the value itself."""
    beside = {
        "ssl.truststore.location": ("ssl.truststore.certificates",),
        "ssl.keystore.location": ("ssl.keystore.certificate.chain", "ssl.keystore.key"),
    }
    keys = [f"{side}.{role}.{key}" for key in (name, *beside.get(name, ()))]
    return next((origins[key] for key in keys if key in origins), "")


def _client_rows(client: ClientSettings, role: str) -> dict[str, str]:
    rows = {"bootstrap.servers": ", ".join(client.bootstrap_servers), **_security_rows(client.security)}
    for field in fields(client):
        name = field.name.replace("_", ".")
        foreign = (name in _CONSUMER_ONLY and role != "consumer") or (name in _PRODUCER_ONLY and role != "producer")
        if name not in ("bootstrap.servers", "security") and not foreign:
            value = getattr(client, field.name)
            rows[name] = "" if value is None else str(value)
    return rows


def _security_rows(security: Security) -> dict[str, str]:
    rows = {"security.protocol": security.protocol.value}
    if security.mechanism is not None:
        rows["sasl.mechanism"] = security.mechanism.value
        rows |= _login_rows(security)
    if security.protocol.tls:
        rows["ssl.truststore.location"] = _certificates(security.ca) if security.ca else "the system's certificates"
        if security.certificate_chain:
            rows["ssl.keystore.location"] = f"{_certificates(security.certificate_chain)}; key {HIDDEN}"
        if security.key_password is not None:
            rows["ssl.key.password"] = HIDDEN
        rows["ssl.enabled.protocols"] = ", ".join(version.value for version in security.tls_versions)
        rows["ssl.endpoint.identification.algorithm"] = "https" if security.verify_hostname else "(no check)"
    return rows


def _shown_at_endpoint(source: TokenEndpoint) -> dict[str, str]:
    """What the client proves itself with."""
    shown, begin = source.assertion, "sasl.oauthbearer.assertion."
    if shown is None:
        return {"sasl.oauthbearer.client.credentials.client.secret": HIDDEN}
    if isinstance(shown, AssertionFile):
        return {f"{begin}file": shown.shown}
    if isinstance(shown, SignedAssertion):
        return {f"{begin}private.key.file": f"key {HIDDEN}, {shown.algorithm.value}"}
    return {f"{begin}file": HIDDEN}


def _login_rows(security: Security) -> dict[str, str]:
    if security.kerberos is not None:
        return _ticket_rows(security.kerberos)
    if security.oauth is None:
        return {"sasl.jaas.config": f"user {security.username}, password {HIDDEN}"}
    source, refresh, login = security.oauth.source, security.oauth.refresh, "sasl.login."
    if isinstance(source, FixedToken | UnsecuredToken):
        text = f"token {HIDDEN}" if isinstance(source, FixedToken) else "a token that nobody has signed"
        return {"sasl.jaas.config": text}
    url, client = "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.client.credentials.client."
    rows = {url: source.shown}
    if isinstance(source, TokenEndpoint):
        rows |= {
            f"{client}id": source.client_id,
            **_shown_at_endpoint(source),
            "sasl.oauthbearer.scope": source.scope,
            "sasl.oauthbearer.header.urlencode": _boolean(source.encode_credentials),
            f"{login}connect.timeout.ms": str(source.connect_timeout_ms),
            f"{login}read.timeout.ms": str(source.read_timeout_ms),
            f"{login}retry.backoff.ms": str(source.retry_backoff_ms),
            f"{login}retry.backoff.max.ms": str(source.retry_backoff_max_ms),
        }
    return rows | {
        f"{login}refresh.window.factor": f"{refresh.window_factor:g}",
        f"{login}refresh.window.jitter": f"{refresh.window_jitter:g}",
        f"{login}refresh.min.period.seconds": str(refresh.min_period_s),
        f"{login}refresh.buffer.seconds": str(refresh.buffer_s),
    }


def _ticket_rows(kerberos: Kerberos) -> dict[str, str]:
    ways = [f"keytab {HIDDEN}" if kerberos.keytab else "the system's keytab"] if kerberos.any_keytab else []
    if kerberos.cache is not None:
        ways.append(f"ticket cache {kerberos.cache}" if kerberos.cache else "the system's ticket cache")
    who = f"principal {kerberos.principal}, " if kerberos.principal else ""
    return {"sasl.kerberos.service.name": kerberos.service_name, "sasl.jaas.config": who + ", ".join(ways)}


def _certificates(text: str) -> str:
    return "; ".join(pem.shown(text, 3))


def _boolean(value: bool) -> str:
    return "true" if value else "false"
