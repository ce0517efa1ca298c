"""A flow's keys to a checked ``FlowConfig``, whatever format they came in.

The keys are those of MirrorMaker 2's source connector: ``topics``, ``source.cluster.bootstrap.servers``,
``source.consumer.fetch.max.bytes`` and so on. Nothing is looked up here that is not in the table of known keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sparkmirror.config import policies
from sparkmirror.config.beginnings import read_start_places, read_stored_positions
from sparkmirror.config.clients import read_client
from sparkmirror.config.entries import INT_MAX, LONG_MAX, Entry, Reader, Resolve, one_of
from sparkmirror.config.expressions import compile_list
from sparkmirror.config.groups import GROUPS_EXCLUDE, GroupSettings
from sparkmirror.config.keys import CLASSES, FLOW, OF_POLICY, ROLES, Status
from sparkmirror.config.layers import client_entries
from sparkmirror.config.mirror_topics import HeartbeatSettings, OffsetSyncSettings, Side
from sparkmirror.config.names import check_separator, check_topic
from sparkmirror.config.settings import (
    CONFIG_PROPERTIES_EXCLUDE,
    TOPICS_EXCLUDE,
    AclSync,
    AutoOffsetReset,
    ClientSettings,
    DeadLetters,
    DefaultsFrom,
    Drift,
    Endpoint,
    FlowConfig,
    GoOn,
    Isolation,
    Policies,
    PolicyChoice,
    PolicyKind,
    Refill,
    Tolerance,
)
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, FlowName

_ISOLATION = {"read_committed": Isolation.READ_COMMITTED, "read_uncommitted": Isolation.READ_UNCOMMITTED}
_RESET = {reset.value: reset for reset in AutoOffsetReset}
_GO_ON = {choice.value: choice for choice in GoOn}
_REFILL = {choice.value: choice for choice in Refill}
_SIDE = {side.value: side for side in Side}
_MAX_REPLICAS = 32_767
_DEFAULTS_FROM = {side.value: side for side in DefaultsFrom}
_DRIFT = {choice.value: choice for choice in Drift}
_TOLERANCE = {tolerance.value: tolerance for tolerance in Tolerance}
_MIN_LANE_MEMORY = 1024 * 1024
_MIN_OFFSET_MAP = 1024 * 1024
_MIN_DECOMPRESSION = 1024 * 1024
_MIN_RATE = 1024
_MIN_RPO_LIMIT = 10_000
"""What is known of a source that answers, and has nothing new, is on record within some seconds."""
_MIN_STOP_MS = 5_000
"""Lanes drain for 3 s, and what they were at is put on record after that."""
_DECOMPRESSION = 256 * 1024 * 1024
_DECOMPRESSION_TIMES = 10
"""The decompression limit's default: so many bytes, or so many times what a partition is fetched with."""

_INSTEAD: Mapping[str, str] = {
    "replication.policy.class": f"a policy that keeps the names is IdentityReplicationPolicy; {policies.HOW}",
    "topic.filter.class": "choose topics with topics and topics.exclude",
    "group.filter.class": "choose groups with groups and groups.exclude",
    "config.property.filter.class": "choose properties with config.properties.exclude",
    "forwarding.admin.class": "remove it: topics are created by sparkmirror itself, or create them beforehand",
    "key.converter": "records are copied as bytes; transform them after the mirror",
    "value.converter": "records are copied as bytes; transform them after the mirror",
    "header.converter": "records are copied as bytes; transform them after the mirror",
}
_TRANSFORMING = ("transforms", "predicates")
_POLICY = "replication.policy.class"


def read_flow(name: FlowName, flat: Mapping[str, Entry], resolve: Resolve, file: str) -> FlowConfig:
    """Reads and checks all keys of a flow.

    Args:
        name: the flow.
        flat: its keys, as MirrorMaker 2 would hand them to its connector.
        resolve: replaces references to config providers.
        file: where the keys are from, for what is missing.

    Raises:
        ConfigError: a key that is refused, or a value that cannot work.
    """
    reader = Reader(entries=flat, resolve=resolve)
    _refuse_code(reader)
    _check_sides(name, reader)
    consumer = Reader(entries=client_entries(flat, "source", "consumer"), resolve=resolve)
    replication_factor = _replication_factor(reader, "replication.factor", 2)
    policy = _policy(reader, name)
    source = _endpoint(name.source, "source", reader, file)
    reset = consumer.choice("auto.offset.reset", _RESET, AutoOffsetReset.EARLIEST)
    return FlowConfig(
        name=name,
        source=source,
        target=_endpoint(name.target, "target", reader, file),
        topics=_expressions(reader, "topics", (".*",)),
        topics_exclude=_expressions(reader, "topics.exclude", TOPICS_EXCLUDE),
        topics_append=_expressions(reader, "topics.append", ()),
        config_properties_exclude=_expressions(reader, "config.properties.exclude", CONFIG_PROPERTIES_EXCLUDE),
        policy=policy,
        tasks_max=reader.optional_integer("tasks.max", low=1),
        replication_factor=replication_factor,
        refresh_topics_enabled=reader.boolean("refresh.topics.enabled", default=True),
        refresh_topics_interval_s=_seconds(reader, "refresh.topics.interval.seconds"),
        sync_topic_configs_enabled=reader.boolean("sync.topic.configs.enabled", default=True),
        sync_topic_configs_interval_s=_seconds(reader, "sync.topic.configs.interval.seconds"),
        use_defaults_from=reader.choice("use.defaults.from", _DEFAULTS_FROM, DefaultsFrom.TARGET),
        sync_topic_configs_drift=reader.choice("sync.topic.configs.drift", _DRIFT, Drift.MEND),
        sync_topic_deletes_enabled=_deletes(reader, policy),
        acls=_acls(reader),
        shift_max_ms=reader.integer("shift.max.ms", 600_000, low=1_000),
        stop_timeout_ms=reader.integer("stop.timeout.ms", 8_500, low=_MIN_STOP_MS),
        memory_per_lane=reader.integer("lane.memory.bytes", 64 * 1024 * 1024, low=_MIN_LANE_MEMORY, high=LONG_MAX),
        offset_map_bytes=reader.integer("offset.map.max.bytes", 32 * 1024 * 1024, low=_MIN_OFFSET_MAP, high=LONG_MAX),
        isolation=consumer.choice("isolation.level", _ISOLATION, Isolation.READ_COMMITTED),
        auto_offset_reset=reset,
        heartbeats_replication=reader.boolean("heartbeats.replication.enabled", default=True),
        heartbeats=_heartbeats(reader),
        offset_syncs=_offset_syncs(reader),
        internal_replication_factor=_replication_factor(
            reader, "internal.topic.replication.factor", replication_factor
        ),
        decompression_limit=_decompression_limit(reader, source),
        max_bytes_per_s=reader.optional_integer("max.bytes.per.second", low=_MIN_RATE, high=LONG_MAX),
        rpo_limit_ms=reader.optional_integer("rpo.limit.ms", low=_MIN_RPO_LIMIT, high=LONG_MAX),
        dead_letters=_dead_letters(reader),
        groups=_groups(reader),
        on=_policies(reader, reset),
        provenance_header=reader.boolean("provenance.header.enabled", default=False),
        homeward=homeward(reader),
        start=read_start_places(reader),
        stored_positions=read_stored_positions(reader, name),
        admin_timeout_ms=reader.integer("admin.timeout.ms", 60_000, low=1, high=LONG_MAX),
        origins=_origins(flat),
        provided=frozenset(entry.key for entry in flat.values() if "${" in entry.raw),
    )


def homeward(reader: Reader) -> bool:
    """Whether a flow brings home what others wrote to copies; also asked of a flow of which nothing else is read.

    Raises:
        ConfigError: it is no boolean.
    """
    return reader.boolean("homeward.enabled", default=False)


def _refuse_code(reader: Reader) -> None:
    """Refuses Java code that would change what is copied, and how: ignoring a masking transform would leak data."""
    for key in _TRANSFORMING:
        if reader.listing(key, ()):
            raise reader.entries[key].wrong(
                "Connect transforms do not run here, and records must not arrive without them",
                "mask or change records before or behind the mirror, or keep this flow on MirrorMaker 2",
            )
    for key, classes in CLASSES.items():
        for place in (key, f"source.cluster.{key}", f"target.cluster.{key}"):
            if place != _POLICY:
                _known_class(reader, place, classes, _INSTEAD[key])


def _known_class(reader: Reader, place: str, classes: tuple[str, ...], instead: str) -> str | None:
    """The simple name of a class that is known here."""
    text = reader.text(place)
    if text is None:
        return None
    simple = {known.rpartition(".")[2]: known for known in classes}
    if text not in classes and text not in simple:
        entry = reader.entries[place]
        raise entry.wrong(f"{entry.shown_class} is a Java class that is not known here", f"{one_of(simple)}; {instead}")
    return text.rpartition(".")[2]


def _check_sides(name: FlowName, reader: Reader) -> None:
    for key, alias in (("source.cluster.alias", name.source), ("target.cluster.alias", name.target)):
        text = reader.text(key)
        if text is not None and text != alias:
            raise reader.entries[key].wrong(
                f"{reader.entries[key].tell(text)} is not the cluster of the flow {name}", "remove the line"
            )


def _endpoint(alias: Alias, side: str, reader: Reader, file: str) -> Endpoint:
    clients: dict[str, ClientSettings] = {}
    for role in ROLES:
        entries = client_entries(reader.entries, side, role)
        if "bootstrap.servers" not in entries:
            raise ConfigError(
                file=file,
                key=f"{alias}.bootstrap.servers",
                reason="is not set",
                remedy=f"give the brokers of {alias}: {alias}.bootstrap.servers = host:port, host:port",
            )
        clients[role] = read_client(Reader(entries=entries, resolve=reader.resolve), role)
    return Endpoint(alias=alias, consumer=clients["consumer"], producer=clients["producer"], admin=clients["admin"])


def _expressions(reader: Reader, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    found = reader.listing(name, default)
    entry = reader.entry(name)
    if entry is not None:
        try:
            compile_list(found, file=entry.file, key=entry.key)
        except ConfigError as error:
            if entry.tell("") == repr(""):
                raise
            raise entry.wrong(f"{entry.shown} gives an expression that cannot be used", error.remedy) from None
    return found


def _policy(reader: Reader, name: FlowName) -> PolicyChoice:
    own = _own_policy(reader, name)
    simple = _known_class(reader, _POLICY, CLASSES[_POLICY], _INSTEAD[_POLICY]) if own is None else None
    stray = [key for key in reader.entries if key.startswith(OF_POLICY) and key not in FLOW]
    if own is None and stray:
        raise reader.entries[stray[0]].wrong("only a replication policy of one's own knows it", "remove the line")
    separator = reader.text("replication.policy.separator")
    entry = reader.entry("replication.policy.separator")
    if entry is not None:
        check_separator(entry, separator or "")
    return replace(
        own or PolicyChoice(kind=PolicyKind(simple or PolicyKind.DEFAULT.value)),
        separator=separator or ".",
        internal_separator_follows=reader.boolean("replication.policy.internal.topic.separator.enabled", default=True),
    )


def _own_policy(reader: Reader, name: FlowName) -> PolicyChoice | None:
    """A policy that is a Python class; None where the file names none, or a class of Java."""
    path = reader.text(_POLICY)
    known = {*CLASSES[_POLICY], *(each.rpartition(".")[2] for each in CLASSES[_POLICY])}
    if path is None or path in known:
        return None
    entry = reader.entries[_POLICY]
    own = policies.find_class(entry, path)
    if own is None:
        return None
    entries = {key: found for key, found in sorted(reader.entries.items()) if key.startswith(OF_POLICY)}
    secretive = any(found.secret or "${" in found.raw for found in entries.values())
    settings = {key: reader.text(key) or "" for key in entries}
    settings |= {"source.cluster.alias": name.source, "target.cluster.alias": name.target}
    policy = policies.make_policy(entry, own, settings, secretive=secretive)
    return PolicyChoice(
        kind=PolicyKind.OWN,
        path=f"{own.__module__}:{own.__name__}" if ":" not in path else path,
        settings=tuple(settings.items()),
        secretive=secretive,
        own_keeps_names=policies.keeps_names(entry, policy, name.source, secretive=secretive),
        file=entry.file,
        key=entry.key,
    )


def _deletes(reader: Reader, policy: PolicyChoice) -> bool:
    name = "sync.topic.deletes.enabled"
    wanted = reader.boolean(name, default=False)
    if wanted and policy.keeps_names:
        raise reader.entries[name].wrong(
            f"cannot be true under {policy.name}: a topic of the same name may hold records that other "
            "producers wrote, and they would go with it",
            "remove the line, or use DefaultReplicationPolicy for this flow",
        )
    return wanted


def _seconds(reader: Reader, name: str, default: int = 600) -> float:
    return float(reader.integer(name, default, low=1, high=LONG_MAX // 1000))


def _replication_factor(reader: Reader, name: str, default: int) -> int:
    found = reader.integer(name, default, low=-1, high=_MAX_REPLICAS)
    if found == 0:
        raise reader.entries[name].wrong("cannot be 0", "give a number from 1, or -1 for the brokers' default")
    return found


def _decompression_limit(reader: Reader, source: Endpoint) -> int:
    fetched = _DECOMPRESSION_TIMES * (source.consumer.max_partition_fetch_bytes or 0)
    default = min(INT_MAX, max(_DECOMPRESSION, fetched))
    return reader.integer("batch.decompression.max.bytes", default, low=_MIN_DECOMPRESSION)


def _heartbeats(reader: Reader) -> HeartbeatSettings:
    return HeartbeatSettings(
        enabled=reader.boolean("emit.heartbeats.enabled", default=True),
        interval_s=float(reader.integer("emit.heartbeats.interval.seconds", 1, low=1, high=LONG_MAX // 1000)),
        replication_factor=_replication_factor(reader, "heartbeats.topic.replication.factor", 3),
    )


def _offset_syncs(reader: Reader) -> OffsetSyncSettings:
    return OffsetSyncSettings(
        enabled=reader.boolean("emit.offset-syncs.enabled", default=True),
        location=reader.choice("offset-syncs.topic.location", _SIDE, Side.SOURCE),
        replication_factor=_replication_factor(reader, "offset-syncs.topic.replication.factor", 3),
        lag_max=reader.integer("offset.lag.max", 100, low=0, high=LONG_MAX),
    )


def _dead_letters(reader: Reader) -> DeadLetters:
    """Connect's keys of a sink, since here too a record has been read and cannot be written."""
    topic = reader.text("errors.deadletterqueue.topic.name") or ""
    if topic:
        check_topic(reader.entries["errors.deadletterqueue.topic.name"], topic)
    return DeadLetters(
        tolerance=reader.choice("errors.tolerance", _TOLERANCE, Tolerance.NONE),
        topic=topic,
        replication_factor=_replication_factor(reader, "errors.deadletterqueue.topic.replication.factor", 3),
        context_headers=reader.boolean("errors.deadletterqueue.context.headers.enable", default=True),
    )


def _acls(reader: Reader) -> AclSync:
    return AclSync(
        enabled=reader.boolean("sync.topic.acls.enabled", default=True),
        interval_s=_seconds(reader, "sync.topic.acls.interval.seconds"),
        prefixed=reader.boolean("sync.topic.acls.prefixed", default=False),
        groups=reader.boolean("sync.group.acls.enabled", default=False),
        remove=reader.boolean("sync.topic.acls.remove", default=False),
    )


def _groups(reader: Reader) -> GroupSettings:
    return GroupSettings(
        include=_expressions(reader, "groups", (".*",)),
        exclude=_expressions(reader, "groups.exclude", GROUPS_EXCLUDE),
        refresh_enabled=reader.boolean("refresh.groups.enabled", default=True),
        refresh_interval_s=_seconds(reader, "refresh.groups.interval.seconds"),
        checkpoints_enabled=reader.boolean("emit.checkpoints.enabled", default=True),
        checkpoints_interval_s=_seconds(reader, "emit.checkpoints.interval.seconds", 60),
        checkpoints_replication_factor=_replication_factor(reader, "checkpoints.topic.replication.factor", 3),
        sync_enabled=reader.boolean("sync.group.offsets.enabled", default=False),
        sync_interval_s=_seconds(reader, "sync.group.offsets.interval.seconds", 5),
    )


def _policies(reader: Reader, reset: AutoOffsetReset) -> Policies:
    overtaken = GoOn.STOP if reset is AutoOffsetReset.NONE else GoOn.CONTINUE
    return Policies(
        source_retention=reader.choice("on.source.retention", _GO_ON, overtaken),
        source_tail_lost=reader.choice("on.source.tail.lost", _GO_ON, GoOn.CONTINUE),
        source_recreated=reader.choice("on.source.recreated", _GO_ON, GoOn.CONTINUE),
        target_recreated=reader.choice("on.target.recreated", _REFILL, Refill.OLDEST),
    )


def _origins(flat: Mapping[str, Entry]) -> tuple[tuple[str, str], ...]:
    """Where the settings come from, under the names that ``effective`` gives them."""
    found = {key: entry.key for key, entry in flat.items() if key in FLOW and FLOW[key].status is Status.ACTIVE}
    for side in ("source", "target"):
        for role, known in ROLES.items():
            for name, entry in client_entries(flat, side, role).items():
                if known[name].status is Status.ACTIVE:
                    found[f"{side}.{role}.{name}"] = entry.key
    return tuple(found.items())
