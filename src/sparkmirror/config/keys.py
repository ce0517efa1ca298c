"""Every key that a MirrorMaker 2 file may hold, as data: who acts on it, and what becomes of it here.

Complete over the ConfigDefs of Kafka 4.3.1: MirrorSourceConfig, MirrorCheckpointConfig, MirrorHeartbeatConfig,
MirrorMakerConfig, MirrorClientConfig, DistributedConfig, SourceConnectorConfig, ConsumerConfig, ProducerConfig and
AdminClientConfig (a test holds their names against this table), with the names that older releases had.

Invariant: a key that is not in this table is unknown and is named in a warning; there is no silent third way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """What becomes of a key that somebody wrote."""

    ACTIVE = "acted upon, or checked and refused"
    LATER = "of a duty that is not active in this version"
    NO_MEANING = "of the Java clients; has no counterpart here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key.

    Attributes:
        status: what becomes of it.
        about: which duty or which part of the Java client it belongs to; keys with the same text are named together.
            Of an active key, what of it holds, where that is not all.
    """

    status: Status
    about: str = ""


def _table(*groups: tuple[Key, str], base: Mapping[str, Key] | None = None) -> Mapping[str, Key]:
    """The rows of ``base`` and of the groups; a group is a row and the names, parted by spaces, that have it."""
    return {**(base or {}), **{name: key for key, names in groups for name in names.split()}}


def _active(about: str = "") -> Key:
    return Key(status=Status.ACTIVE, about=about)


def _later(about: str) -> Key:
    return Key(status=Status.LATER, about=about)


def _no_meaning(about: str) -> Key:
    return Key(status=Status.NO_MEANING, about=about)


SECURITY: Mapping[str, Key] = _table(
    (
        _active(),
        """security.protocol security.providers sasl.mechanism sasl.jaas.config sasl.client.callback.handler.class
        sasl.login.callback.handler.class sasl.login.class ssl.truststore.type ssl.truststore.location
        ssl.truststore.certificates ssl.keystore.type ssl.keystore.location ssl.keystore.certificate.chain
        ssl.keystore.key ssl.key.password ssl.truststore.password ssl.keystore.password
        ssl.endpoint.identification.algorithm ssl.enabled.protocols
        ssl.cipher.suites ssl.engine.factory.class ssl.provider""",
    ),
    (
        _no_meaning("the Java runtime's TLS"),
        "ssl.protocol ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation",
    ),
    (_active("needs the extra gssapi"), "sasl.kerberos.service.name"),
    (
        _no_meaning("Java's renewal of tickets; Kerberos' own library does it"),
        """sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor""",
    ),
    (
        _active(),
        """sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.header.urlencode sasl.oauthbearer.scope
        sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.token.endpoint.certificates
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.template.file""",
    ),
    (
        _active("only Kafka's own classes"),
        "sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class",
    ),
    (
        _no_meaning("brokers look into tokens, clients do not"),
        """sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name""",
    ),
)
"""Security keys, the same for all clients; with ``bootstrap.servers`` those that also count at the top level."""

_CLIENT: Mapping[str, Key] = _table(
    (
        _active(),
        """bootstrap.servers client.id client.dns.lookup request.timeout.ms retry.backoff.ms retry.backoff.max.ms
        reconnect.backoff.ms reconnect.backoff.max.ms connections.max.idle.ms metadata.max.age.ms
        receive.buffer.bytes send.buffer.bytes socket.connection.setup.timeout.ms
        socket.connection.setup.timeout.max.ms""",
    ),
    (
        _no_meaning("Java metrics"),
        """metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms enable.metrics.push
        auto.include.jmx.reporter""",
    ),
    (
        _no_meaning("the Java clients' own recovery"),
        "metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms",
    ),
    (_no_meaning("providers of one client; they are set for the whole file"), "config.providers"),
    base=SECURITY,
)

CONSUMER: Mapping[str, Key] = _table(
    (
        _active(),
        """client.rack isolation.level auto.offset.reset fetch.min.bytes fetch.max.bytes fetch.max.wait.ms
        max.partition.fetch.bytes""",
    ),
    (_no_meaning("the Java clients' deadlines"), "default.api.timeout.ms"),
    (
        _no_meaning("consumer groups; positions are kept without one"),
        """group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms session.timeout.ms
        max.poll.interval.ms max.poll.records partition.assignment.strategy enable.auto.commit
        auto.commit.interval.ms internal.leave.group.on.close share.acknowledgement.mode share.acquire.mode""",
    ),
    (_no_meaning("always checked here"), "check.crcs"),
    (_no_meaning("topics are named by the flow"), "allow.auto.create.topics exclude.internal.topics"),
    (_no_meaning("Java code that does not run here; records are copied unchanged"), "interceptor.classes"),
    (_no_meaning("records are copied as bytes"), "key.deserializer value.deserializer"),
    base=_CLIENT,
)

PRODUCER: Mapping[str, Key] = _table(
    (
        _active(),
        """batch.size compression.type compression.gzip.level compression.lz4.level compression.zstd.level
        max.request.size delivery.timeout.ms""",
    ),
    (
        _no_meaning("the Java producer's buffer; see lane.memory.bytes"),
        "buffer.memory linger.ms max.block.ms metadata.max.idle.ms",
    ),
    (
        _no_meaning("always acks=all and idempotent here"),
        "acks enable.idempotence max.in.flight.requests.per.connection retries",
    ),
    (
        _no_meaning("transactions; none are used"),
        "transaction.timeout.ms transaction.two.phase.commit.enable transactional.id",
    ),
    (
        _no_meaning("records keep their partition"),
        """partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
        partitioner.ignore.keys""",
    ),
    (_no_meaning("Java code that does not run here; records are copied unchanged"), "interceptor.classes"),
    (_no_meaning("records are copied as bytes"), "key.serializer value.serializer"),
    base=_CLIENT,
)

ADMIN: Mapping[str, Key] = _table(
    (_no_meaning("the Java clients' deadlines"), "default.api.timeout.ms"),
    (_no_meaning("the Java admin client's retries"), "retries"),
    (_no_meaning("controllers are reached through the brokers"), "bootstrap.controllers"),
    base=_CLIENT,
)

ROLES: Mapping[str, Mapping[str, Key]] = {"consumer": CONSUMER, "producer": PRODUCER, "admin": ADMIN}

CLASSES: Mapping[str, tuple[str, ...]] = {
    "replication.policy.class": (
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy",
    ),
    "topic.filter.class": ("org.apache.kafka.connect.mirror.DefaultTopicFilter",),
    "group.filter.class": ("org.apache.kafka.connect.mirror.DefaultGroupFilter",),
    "config.property.filter.class": ("org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter",),
    "forwarding.admin.class": ("org.apache.kafka.clients.admin.ForwardingAdmin",),
    "key.converter": ("org.apache.kafka.connect.converters.ByteArrayConverter",),
    "value.converter": ("org.apache.kafka.connect.converters.ByteArrayConverter",),
    "header.converter": ("org.apache.kafka.connect.converters.ByteArrayConverter",),
}
"""Keys that name a Java class, and the classes whose work is done here; every other class is refused."""

FLOW: Mapping[str, Key] = _table(
    (_active("only Kafka's own classes, and Strimzi's policy"), " ".join(CLASSES)),
    (_active("Kafka's own classes, Strimzi's policy, or a Python class"), "replication.policy.class"),
    (_active("refused unless empty"), "transforms predicates"),
    (
        _active(),
        """enabled topics topics.exclude topics.append config.properties.exclude tasks.max replication.factor
        replication.policy.separator replication.policy.internal.topic.separator.enabled refresh.topics.enabled
        refresh.topics.interval.seconds heartbeats.replication.enabled admin.timeout.ms
        source.cluster.alias target.cluster.alias exactly.once.source.support exactly.once.support
        errors.tolerance errors.deadletterqueue.topic.name errors.deadletterqueue.topic.replication.factor
        errors.deadletterqueue.context.headers.enable
        provenance.header.enabled shift.max.ms lane.memory.bytes max.bytes.per.second internal.topic.replication.factor
        offset.map.max.bytes
        rpo.limit.ms homeward.enabled stop.timeout.ms
        batch.decompression.max.bytes
        on.source.retention on.source.tail.lost on.source.recreated on.target.recreated
        start.position start.positions mm2.connector.name mm2.offsets.topic mm2.group mm2.takeover.enabled
        emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor
        emit.offset-syncs.enabled offset-syncs.topic.location offset-syncs.topic.replication.factor offset.lag.max
        sync.topic.acls.enabled sync.topic.acls.interval.seconds sync.topic.acls.prefixed sync.topic.acls.remove
        sync.group.acls.enabled""",
    ),
    (
        _active(),
        """sync.topic.configs.enabled sync.topic.configs.interval.seconds use.defaults.from sync.topic.configs.drift
        sync.topic.deletes.enabled""",
    ),
    (_no_meaning("properties are always changed one by one"), "use.incremental.alter.configs"),
    (
        _active(),
        """emit.checkpoints.enabled emit.checkpoints.interval.seconds checkpoints.topic.replication.factor groups
        groups.exclude refresh.groups.enabled refresh.groups.interval.seconds
        sync.group.offsets.enabled""",
    ),
    (_active("5 unless it is set"), "sync.group.offsets.interval.seconds"),
    (_later("metrics"), "metric.names.formats add.source.alias.to.metrics"),
    (_no_meaning("Java metrics"), "metric.reporters auto.include.jmx.reporter"),
    (_no_meaning("values are read at the start, a change asks for a restart"), "config.action.reload"),
    (_no_meaning("the Java consumer's poll loop; see source.consumer.fetch.max.wait.ms"), "consumer.poll.timeout.ms"),
    (
        _no_meaning("the Connect worker; there is none here"),
        """name connector.class connector.plugin.version errors.log.enable
        errors.log.include.messages errors.retry.delay.max.ms errors.retry.timeout tasks.max.enforce
        key.converter.plugin.version value.converter.plugin.version header.converter.plugin.version
        offsets.storage.topic topic.creation.groups transaction.boundary transaction.boundary.interval.ms""",
    ),
)
"""Keys of a flow: at the top level for all flows, behind ``A->B.`` for one."""

FILE: Mapping[str, Key] = _table(
    (_active(), "clusters config.providers several.aliases.per.cluster"),
    (
        _later("REST"),
        """dedicated.mode.enable.internal.rest listeners admin.listeners access.control.allow.methods
        access.control.allow.origin response.http.headers.config rest.advertised.host.name rest.advertised.listener
        rest.advertised.port rest.extension.classes ssl.client.auth""",
    ),
)
"""Keys of the file as a whole."""

WORKER: Mapping[str, Key] = _table(
    (
        _active("where a flow's first start, `--take-over mm2` and `hand-over` find MirrorMaker 2's positions"),
        "offset.storage.topic",
    ),
    (
        _no_meaning("the Connect worker; there is none here"),
        """group.id config.storage.topic config.storage.replication.factor offset.storage.partitions
        offset.storage.replication.factor offset.storage.file.filename status.storage.topic
        status.storage.partitions status.storage.replication.factor offset.flush.interval.ms offset.flush.timeout.ms
        connect.protocol connector.client.config.override.policy heartbeat.interval.ms session.timeout.ms
        rebalance.timeout.ms scheduled.rebalance.max.delay.ms worker.sync.timeout.ms worker.unsync.backoff.ms
        task.shutdown.graceful.timeout.ms plugin.path plugin.discovery topic.creation.enable topic.tracking.enable
        topic.tracking.allow.reset inter.worker.key.generation.algorithm inter.worker.key.size
        inter.worker.key.ttl.ms inter.worker.signature.algorithm inter.worker.verification.algorithms
        internal.key.converter internal.value.converter""",
    ),
)
"""Keys of the Connect worker, which MirrorMaker 2 runs on; wherever they stand in a file."""

OF_POLICY = "replication.policy."
"""What keys of an own replication policy begin with."""

PREFIXES: Mapping[str, Key] = {
    "config.providers.": _active(),
    OF_POLICY: _active("of a policy of one's own"),
    "transforms.": _later("transforms"),
    "predicates.": _later("transforms"),
    "key.converter.": _no_meaning("the Connect worker; there is none here"),
    "value.converter.": _no_meaning("the Connect worker; there is none here"),
    "header.converter.": _no_meaning("the Connect worker; there is none here"),
    "offset.storage.": _no_meaning("the Connect worker; there is none here"),
    "config.storage.": _no_meaning("the Connect worker; there is none here"),
    "status.storage.": _no_meaning("the Connect worker; there is none here"),
    "task.": _no_meaning("the Connect worker; there is none here"),
    "worker.": _no_meaning("the Connect worker; there is none here"),
    "topic.creation.": _no_meaning("the Connect worker; there is none here"),
    "metrics.context.": _no_meaning("Java metrics"),
    "listeners.https.": _later("REST"),
    "admin.listeners.https.": _later("REST"),
}
"""Families of keys whose last part is free."""

OLD_NAMES: Mapping[str, str] = {
    "topics.blacklist": "topics.exclude",
    "topics.whitelist": "topics",
    "groups.blacklist": "groups.exclude",
    "groups.whitelist": "groups",
    "config.properties.blacklist": "config.properties.exclude",
    "rest.host.name": "listeners",
    "rest.port": "listeners",
}
"""Names that older releases had, and what they are called now; accepted with a warning."""


def find(name: str, *tables: Mapping[str, Key]) -> Key | None:
    """The row of a key, looked up in the tables given and then among the families."""
    for table in tables:
        if name in table:
            return table[name]
    return next((key for prefix, key in PREFIXES.items() if name.startswith(prefix)), None)
