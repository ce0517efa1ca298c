"""What a configuration file comes to: frozen values, one tree for each flow, the same for every input format.

Invariants: every value here has been checked, so later rooms need not ask again; everything pickles and is the same
after pickling; secrets lie in ``Secret`` only, certificates as PEM text (never as paths), so a pickled flow works on a
machine that has none of the driver's files. Field names are the Java client's keys with ``_`` for ``.``; times are in
the unit of their suffix. Defaults are MirrorMaker 2's and the Java clients' of Kafka 4.3 unless a
comment says why not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from sparkmirror.config.beginnings import StartPlaces, StoredPositions
from sparkmirror.config.groups import GroupSettings
from sparkmirror.config.mirror_topics import HeartbeatSettings, OffsetSyncSettings
from sparkmirror.config.security_settings import Security
from sparkmirror.model import Alias, FlowName

CONFIG_PROPERTIES_EXCLUDE = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
)
"""MirrorMaker 2's ``config.properties.exclude``: topic properties that are not copied."""

TOPICS_EXCLUDE = (r"mm2.*\.internal", r".*\.replica", "__.*")
"""MirrorMaker 2's ``topics.exclude``."""


class Isolation(Enum):
    """Kafka's ``isolation.level``; the number is the one of the Fetch and ListOffsets requests."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class AutoOffsetReset(Enum):
    """Where a partition begins that has no position yet."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


class Tolerance(Enum):
    """Connect's ``errors.tolerance``: what happens to a record that cannot be copied."""

    NONE = "none"
    ALL = "all"


class GoOn(Enum):
    """What a partition does when the source no longer has what the mirror stood at."""

    CONTINUE = "continue"
    STOP = "stop"


class Refill(Enum):
    """Where copying goes on when the target topic was deleted, or made anew, under the mirror."""

    OLDEST = "oldest"
    POSITION = "position"
    STOP = "stop"


class DefaultsFrom(Enum):
    """MirrorMaker 2's ``use.defaults.from``: whose default holds for a property that nobody set at the source."""

    SOURCE = "source"
    TARGET = "target"


class Drift(Enum):
    """What becomes of a property of a target topic that is not what the source says."""

    MEND = "mend"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What is done when something happened that a mirror cannot make undone: sparkmirror's own ``on.*`` keys.

    Attributes:
        source_retention: the source deleted records that were not copied yet; ``stop`` unless set where
            ``auto.offset.reset`` is ``none``, as for a consumer.
        source_tail_lost: the source lost records that were copied: an unclean election, or a restored disk.
        source_recreated: the source topic was deleted and made anew.
        target_recreated: the target topic was. The default copies again all that the source has: a mirror with a hole
            that nobody sees is worse than traffic, and in an empty topic nothing is there twice.
    """

    source_retention: GoOn = GoOn.CONTINUE
    source_tail_lost: GoOn = GoOn.CONTINUE
    source_recreated: GoOn = GoOn.CONTINUE
    target_recreated: Refill = Refill.OLDEST


class PolicyKind(Enum):
    """The replication policies of MirrorMaker 2, and those that are none of them."""

    DEFAULT = "DefaultReplicationPolicy"
    IDENTITY = "IdentityReplicationPolicy"
    OWN = "a Python class"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """Which replication policy names the topics of the target.

    Attributes:
        kind: renaming (``A.topic``) or the same names.
        separator: between the alias and the topic.
        internal_separator_follows: whether MirrorMaker 2's internal topics are named with ``separator`` too, or with
            a dot whatever ``separator`` is.
        path: of an own policy, ``package.module:Class``.
        settings: that it is made with.
        secretive: whether one of them must not be shown.
        own_keeps_names: whether it leaves topics their names.
        file, key: where it was chosen, for messages.
    """

    kind: PolicyKind = PolicyKind.DEFAULT
    separator: str = "."
    internal_separator_follows: bool = True
    path: str = ""
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secretive: bool = False
    own_keeps_names: bool = False
    file: str = ""
    key: str = ""

    @property
    def name(self) -> str:
        """The class."""
        return self.path or self.kind.value

    @property
    def keeps_names(self) -> bool:
        """Whether topics have the same names on both sides, so that only the writers of batches tell loops."""
        return self.kind is PolicyKind.IDENTITY or self.own_keeps_names


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Where records go that the target topic cannot hold: the ``errors.*`` keys of Connect.

    Attributes:
        tolerance: whether copying goes on behind such a record.
        topic: on the target; "" where the file names none.
        replication_factor: of the topic, should it have to be created; -1 means the broker's default.
        context_headers: whether headers tell where a record comes from and why it is there. Connect's default is no; a
            dead letter that nobody can trace back is of little use.
    """

    tolerance: Tolerance = Tolerance.NONE
    topic: str = ""
    replication_factor: int = 3
    context_headers: bool = True

    @property
    def active(self) -> bool:
        """Whether such a record goes to the topic, and not its partition to a stop."""
        return self.tolerance is Tolerance.ALL and bool(self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclSync:
    """Which ACL bindings of the source the target gets: ``sync.topic.acls.*``, and our own ``sync.group.acls.*``.

    Attributes:
        enabled: whether any do.
        interval_s: seconds between rounds.
        prefixed: those of prefixes too.
        groups: those of consumer groups too.
        remove: whether a binding that the flow created leaves the target when it has left the source.
    """

    enabled: bool = True
    interval_s: float = 600.0
    prefixed: bool = False
    groups: bool = False
    remove: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What one client (a cluster in one role) is told; None where the file says nothing and we choose.

    Attributes:
        bootstrap_servers: ``host:port`` each, at least one.
        compression_type: None leaves batches in the codec that they have.
        compression_gzip_level, compression_lz4_level, compression_zstd_level: of what is compressed anew.
        delivery_timeout_ms: how long a batch may wait for its acknowledgement before its partition is reported.
    """

    bootstrap_servers: tuple[str, ...]
    client_id: str | None = None
    client_rack: str = ""
    security: Security = field(default_factory=Security)
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    metadata_max_age_ms: int = 300_000
    socket_connection_setup_timeout_ms: int = 10_000
    socket_connection_setup_timeout_max_ms: int = 30_000
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    client_dns_lookup: str = "use_all_dns_ips"
    fetch_min_bytes: int | None = None
    fetch_max_bytes: int | None = None
    fetch_max_wait_ms: int | None = None
    max_partition_fetch_bytes: int | None = None
    batch_size: int | None = None
    compression_type: str | None = None
    compression_gzip_level: int | None = None
    compression_lz4_level: int | None = None
    compression_zstd_level: int | None = None
    max_request_size: int | None = None
    delivery_timeout_ms: int = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A cluster as one flow sees it, with the settings of each role."""

    alias: Alias
    consumer: ClientSettings
    producer: ClientSettings
    admin: ClientSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowConfig:
    """Everything that one source to target replication is told.

    Attributes:
        topics: regular expressions, each of which must match a whole topic name.
        topics_exclude: the same; an exclude wins.
        topics_append: the same, of source topics that may be copied behind records that others wrote to the copy.
        tasks_max: lanes at most, or None where the file does not say: as many as Spark has free slots.
        replication_factor: of topics created on the target; -1 means the broker's default.
        use_defaults_from: whose default holds where the source topic has none of its own.
        sync_topic_configs_drift: whether properties of target topics that differ are changed, or only told of.
        sync_topic_deletes_enabled: whether a copy goes when its source topic is gone; never under identity naming,
            where the topic may hold other producers' records too.
        acls: which ACL bindings are copied.
        shift_max_ms: how long one Spark job of a lane lasts.
        stop_timeout_ms: from the request to stop on; what has not ended then is given up.
        memory_per_lane: bytes of batches that a lane holds before it pauses fetching.
        offset_map_bytes: of the holes that the offset map may hold before old ones are thinned.
        isolation: read_committed unless the file says otherwise. MirrorMaker 2's default is read_uncommitted, which
            copies records of aborted transactions as if they were valid: a default that corrupts is not kept.
        internal_replication_factor: of sparkmirror's own topics; ``replication_factor`` unless set.
        max_bytes_per_s: bytes of batches that the flow may copy in a second; None for no limit.
        rpo_limit_ms: how old the recovery point may be before that is an event; None for no limit.
        decompression_limit: the most bytes that one source batch may decompress to.
        heartbeats, offset_syncs: what is written to MirrorMaker 2's own topics.
        dead_letters: what becomes of records that the target topic cannot hold.
        groups: which consumer groups are translated, and what becomes of their offsets.
        on: what is done when source or target were changed under the mirror.
        provenance_header: whether each record is given a header that names the clusters it has come through, and those
            that have been on the target are left out.
        homeward: whether the flow also brings home what others wrote to copies of its target's topics.
        homeward_back: whether the file says so of the flow back.
        start: where partitions begin that have no position on record.
        stored_positions: where MirrorMaker 2 keeps its own.
        origins: (setting as ``effective`` names it, key as written in the file), for those that the file sets.
        provided: keys as written in the file, of values that came from config providers.
    """

    name: FlowName
    source: Endpoint
    target: Endpoint
    topics: tuple[str, ...] = (".*",)
    topics_exclude: tuple[str, ...] = TOPICS_EXCLUDE
    topics_append: tuple[str, ...] = ()
    config_properties_exclude: tuple[str, ...] = CONFIG_PROPERTIES_EXCLUDE
    policy: PolicyChoice = PolicyChoice()
    tasks_max: int | None = None
    replication_factor: int = 2
    refresh_topics_enabled: bool = True
    refresh_topics_interval_s: float = 600.0
    sync_topic_configs_enabled: bool = True
    sync_topic_configs_interval_s: float = 600.0
    use_defaults_from: DefaultsFrom = DefaultsFrom.TARGET
    sync_topic_configs_drift: Drift = Drift.MEND
    sync_topic_deletes_enabled: bool = False
    acls: AclSync = AclSync()
    shift_max_ms: int = 600_000
    stop_timeout_ms: int = 8_500
    memory_per_lane: int = 64 * 1024 * 1024
    offset_map_bytes: int = 32 * 1024 * 1024
    isolation: Isolation = Isolation.READ_COMMITTED
    auto_offset_reset: AutoOffsetReset = AutoOffsetReset.EARLIEST
    heartbeats_replication: bool = True
    heartbeats: HeartbeatSettings = field(default_factory=HeartbeatSettings)
    offset_syncs: OffsetSyncSettings = field(default_factory=OffsetSyncSettings)
    internal_replication_factor: int = 2
    decompression_limit: int = 256 * 1024 * 1024
    max_bytes_per_s: int | None = None
    rpo_limit_ms: int | None = None
    dead_letters: DeadLetters = DeadLetters()
    groups: GroupSettings = field(default_factory=GroupSettings)
    on: Policies = Policies()
    provenance_header: bool = False
    homeward: bool = False
    homeward_back: bool = False
    start: StartPlaces = field(default_factory=StartPlaces)
    stored_positions: StoredPositions = field(default_factory=StoredPositions)
    admin_timeout_ms: int = 60_000
    origins: tuple[tuple[str, str], ...] = ()
    provided: frozenset[str] = frozenset()

    @property
    def brings_home(self) -> bool:
        """Whether what others wrote to copies of the target's topics goes home; kept names need no such way."""
        return self.homeward and not self.policy.keeps_names

    @property
    def tells_writers(self) -> bool:
        """Whether the topics that are written may have other producers, and only writers tell what is a copy."""
        return self.policy.keeps_names or self.homeward or self.homeward_back


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorConfig:
    """One configuration: the flows to run, in the order of the file, and what its author should know.

    Attributes:
        file: the file or files as the user named them.
        flows: the enabled flows that were asked for.
        pulses: pairs of clusters whose flow is not enabled, and that get heartbeats all the same.
        warnings: one line each, without secrets.
        several_aliases: whether two aliases may be one cluster.
    """

    file: str
    flows: tuple[FlowConfig, ...]
    pulses: tuple[FlowConfig, ...] = ()
    warnings: tuple[str, ...] = ()
    several_aliases: bool = False
