"""A flow's own settings: what they come to, and what is refused."""

from __future__ import annotations

import pickle

import pytest

from sparkmirror.config import (
    AclSync,
    AutoOffsetReset,
    DeadLetters,
    DefaultsFrom,
    Drift,
    GoOn,
    GroupSettings,
    Isolation,
    Policies,
    PolicyKind,
    Refill,
    Tolerance,
)
from sparkmirror.config.settings import CONFIG_PROPERTIES_EXCLUDE, TOPICS_EXCLUDE
from sparkmirror.errors import ConfigError

MIRROR = "org.apache.kafka.connect.mirror."
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def test_defaults_are_those_of_mm2_but_for_aborted_transactions_and_how_often_groups_are_synced(load_flow):
    flow = load_flow()
    assert flow.topics == (".*",)
    assert flow.topics_exclude == TOPICS_EXCLUDE
    assert flow.config_properties_exclude == CONFIG_PROPERTIES_EXCLUDE
    assert (flow.policy.kind, flow.policy.separator) == (PolicyKind.DEFAULT, ".")
    assert flow.tasks_max is None
    assert flow.replication_factor == flow.internal_replication_factor == 2
    assert flow.refresh_topics_interval_s == flow.sync_topic_configs_interval_s == 600
    assert flow.sync_topic_configs_enabled
    assert (flow.use_defaults_from, flow.sync_topic_configs_drift) == (DefaultsFrom.TARGET, Drift.MEND)
    assert not flow.sync_topic_deletes_enabled
    assert flow.groups.exclude == ("console-consumer-.*", "connect-.*", "__.*")
    assert (flow.groups.refresh_interval_s, flow.groups.checkpoints_interval_s, flow.groups.sync_interval_s) == (
        600,
        60,
        5,
    )
    assert flow.groups.checkpoints_enabled
    assert not flow.groups.sync_enabled
    assert flow.auto_offset_reset is AutoOffsetReset.EARLIEST
    assert flow.isolation is Isolation.READ_COMMITTED
    assert flow.source.producer.receive_buffer_bytes == -1
    assert flow.source.admin.connections_max_idle_ms == 300_000


def test_settings_of_a_flow_win_over_the_top_level(load_flow):
    flow = load_flow("topics = x", "A->B.topics = foo-.*, bar", "tasks.max = 8", "A->B.topics.exclude =")
    assert flow.topics == ("foo-.*", "bar")
    assert flow.topics_exclude == ()
    assert flow.tasks_max == 8


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("topics.blacklist = x", "topics_exclude", ("x",)),
        ("A->B.topics.whitelist = x", "topics", ("x",)),
        ("config.properties.blacklist = x", "config_properties_exclude", ("x",)),
        ("replication.factor = -1", "replication_factor", -1),
        ("replication.factor = 3", "internal_replication_factor", 3),
        ("internal.topic.replication.factor = 1", "internal_replication_factor", 1),
        ("refresh.topics.enabled = false", "refresh_topics_enabled", False),
        ("refresh.topics.interval.seconds = 5", "refresh_topics_interval_s", 5.0),
        ("sync.topic.configs.enabled = false", "sync_topic_configs_enabled", False),
        ("sync.topic.configs.interval.seconds = 7", "sync_topic_configs_interval_s", 7.0),
        ("sync.topic.configs.drift = report", "sync_topic_configs_drift", Drift.REPORT),
        ("use.defaults.from = source", "use_defaults_from", DefaultsFrom.SOURCE),
        ("A->B.sync.topic.deletes.enabled = true", "sync_topic_deletes_enabled", True),
        ("shift.max.ms = 60000", "shift_max_ms", 60_000),
        ("stop.timeout.ms = 30000", "stop_timeout_ms", 30_000),
        ("on.source.retention = stop", "on", Policies(source_retention=GoOn.STOP)),
        ("on.source.tail.lost = stop", "on", Policies(source_tail_lost=GoOn.STOP)),
        ("on.source.recreated = stop", "on", Policies(source_recreated=GoOn.STOP)),
        ("on.target.recreated = position", "on", Policies(target_recreated=Refill.POSITION)),
        ("A.consumer.auto.offset.reset = none", "on", Policies(source_retention=GoOn.STOP)),
        ("A.consumer.auto.offset.reset = latest", "on", Policies()),
        ("lane.memory.bytes = 8388608", "memory_per_lane", 8_388_608),
        ("offset.map.max.bytes = 8388608", "offset_map_bytes", 8_388_608),
        ("heartbeats.replication.enabled = false", "heartbeats_replication", False),
        ("admin.timeout.ms = 5", "admin_timeout_ms", 5),
        ("batch.decompression.max.bytes = 1048576", "decompression_limit", 1_048_576),
        ("rpo.limit.ms = 60000", "rpo_limit_ms", 60_000),
        ("provenance.header.enabled = true", "provenance_header", True),
        ("A->B.homeward.enabled = true", "homeward", True),
        ("A->B.homeward.enabled = true", "tells_writers", True),
        ("B->A.homeward.enabled = true", "homeward", False),
        ("B->A.homeward.enabled = true", "homeward_back", True),
        ("B->A.homeward.enabled = true", "tells_writers", True),
        ("A->C.homeward.enabled = true", "tells_writers", False),
        ("A.consumer.max.partition.fetch.bytes = 30000000", "decompression_limit", 300_000_000),
        ("A.consumer.max.partition.fetch.bytes = 20000000", "decompression_limit", 268_435_456),
        ("A.consumer.max.partition.fetch.bytes = 2000000000", "decompression_limit", 2**31 - 1),
        ("A->B.errors.tolerance = all", "dead_letters", DeadLetters(tolerance=Tolerance.ALL)),
        ("errors.deadletterqueue.topic.name = dead", "dead_letters", DeadLetters(topic="dead")),
        (
            "errors.deadletterqueue.topic.replication.factor = -1",
            "dead_letters",
            DeadLetters(replication_factor=-1),
        ),
        (
            "errors.deadletterqueue.context.headers.enable = false",
            "dead_letters",
            DeadLetters(context_headers=False),
        ),
        ("groups = readers-.*, payer", "groups", GroupSettings(include=("readers-.*", "payer"))),
        ("A->B.groups.exclude =", "groups", GroupSettings(exclude=())),
        ("groups.blacklist = x", "groups", GroupSettings(exclude=("x",))),
        ("refresh.groups.enabled = false", "groups", GroupSettings(refresh_enabled=False)),
        ("refresh.groups.interval.seconds = 5", "groups", GroupSettings(refresh_interval_s=5.0)),
        ("emit.checkpoints.enabled = false", "groups", GroupSettings(checkpoints_enabled=False)),
        ("emit.checkpoints.interval.seconds = 1", "groups", GroupSettings(checkpoints_interval_s=1.0)),
        ("checkpoints.topic.replication.factor = -1", "groups", GroupSettings(checkpoints_replication_factor=-1)),
        ("sync.group.offsets.enabled = true", "groups", GroupSettings(sync_enabled=True)),
        ("sync.group.offsets.interval.seconds = 1", "groups", GroupSettings(sync_interval_s=1.0)),
        ("A.consumer.isolation.level = read_uncommitted", "isolation", Isolation.READ_UNCOMMITTED),
        ("A->B.consumer.auto.offset.reset = latest", "auto_offset_reset", AutoOffsetReset.LATEST),
    ],
)
def test_reads_a_setting(load_flow, line, field, value):
    assert getattr(load_flow(line), field) == value


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("compression.gzip.level = 9", 9),
        ("compression.gzip.level = -1", None),
        ("compression.lz4.level = 17", 17),
        ("compression.zstd.level = -131072", -131_072),
    ],
)
def test_reads_how_hard_a_codec_tries(load_flow, line, level):
    field = line.partition(" ")[0].replace(".", "_")
    assert getattr(load_flow(f"B.producer.{line}").target.producer, field) == level


def test_records_are_put_aside_only_where_the_file_says_so_and_says_where(load_flow):
    tolerant, name = "errors.tolerance = all", "errors.deadletterqueue.topic.name = dead"
    assert load_flow(tolerant, name).dead_letters.active
    assert not any(load_flow(*lines).dead_letters.active for lines in ((), (tolerant,), (name,)))


def test_the_new_name_wins_over_the_old_one(load_flow):
    assert load_flow("topics.exclude = new", "topics.blacklist = old").topics_exclude == ("new",)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DefaultReplicationPolicy", PolicyKind.DEFAULT),
        (MIRROR + "DefaultReplicationPolicy", PolicyKind.DEFAULT),
        ("IdentityReplicationPolicy", PolicyKind.IDENTITY),
        (MIRROR + "IdentityReplicationPolicy", PolicyKind.IDENTITY),
    ],
)
def test_a_policy_is_named_with_or_without_its_package(load_flow, name, kind):
    assert load_flow(f"replication.policy.class = {name}").policy.kind is kind


def test_a_separator_can_be_several_characters(load_flow):
    flow = load_flow("replication.policy.separator = __", "replication.policy.internal.topic.separator.enabled = false")
    assert flow.policy.separator == "__"
    assert not flow.policy.internal_separator_follows


@pytest.mark.parametrize("prefix", ["", "A->B.", "B."])
@pytest.mark.parametrize("name", [BYTES, "ByteArrayConverter"])
def test_the_converter_that_copies_bytes_is_accepted(load_flow, prefix, name):
    assert load_flow(f"{prefix}key.converter = {name}", f"{prefix}value.converter = {name}")


@pytest.mark.parametrize(
    "line",
    [
        f"topic.filter.class = {MIRROR}DefaultTopicFilter",
        f"group.filter.class = {MIRROR}DefaultGroupFilter",
        "config.property.filter.class = DefaultConfigPropertyFilter",
        "forwarding.admin.class = org.apache.kafka.clients.admin.ForwardingAdmin",
        "transforms =",
        "A->B.source.cluster.alias = A",
    ],
)
def test_what_mm2_has_by_default_is_accepted(load_flow, line):
    assert load_flow(line)


REFUSED = [
    ("A->B.transforms = mask", "must not arrive without them"),
    ("transforms = mask", "must not arrive without them"),
    ("A->B.predicates = p", "must not arrive without them"),
    ("key.converter = org.apache.kafka.connect.json.JsonConverter", "possible: ByteArrayConverter"),
    ("A->B.value.converter = io.confluent.connect.avro.AvroConverter", "possible: ByteArrayConverter"),
    ("B.header.converter = org.apache.kafka.connect.storage.SimpleHeaderConverter", "possible: ByteArrayConverter"),
    ("replication.policy.class = com.example.Policy", "keeps the names is IdentityReplicationPolicy"),
    ("topic.filter.class = com.example.Filter", "choose topics with topics"),
    ("group.filter.class = com.example.Filter", "choose groups with groups"),
    ("config.property.filter.class = com.example.Filter", "choose properties with config.properties.exclude"),
    ("forwarding.admin.class = com.example.Admin", "create them beforehand"),
    ("B.forwarding.admin.class = com.example.Admin", "create them beforehand"),
    ("replication.policy.separator = /", "cannot be part of a topic's name"),
    ("replication.policy.separator =", "cannot be part of a topic's name"),
    ("replication.factor = 0", "cannot be 0"),
    ("A->B.replication.factor = -2", "out of range"),
    ("replication.factor = two", "is not a whole number"),
    ("internal.topic.replication.factor = 0", "cannot be 0"),
    ("tasks.max = 0", "at least 1"),
    ("tasks.max = -1", "at least 1"),
    ("tasks.max =", "has no value"),
    ("refresh.topics.interval.seconds = -5", "at least 1"),
    ("refresh.topics.interval.seconds = 0.5", "is not a whole number"),
    ("sync.topic.configs.interval.seconds = -1", "at least 1"),
    ("sync.topic.configs.drift = ignore", "possible: mend, report"),
    ("use.defaults.from = both", "possible: source, target"),
    ("sync.topic.deletes.enabled = maybe", "neither true nor false"),
    ("refresh.topics.enabled = yes", "neither true nor false"),
    ("shift.max.ms = 10", "at least 1000"),
    ("stop.timeout.ms = 4999", "at least 5000"),
    ("on.source.retention = oldest", "continue"),
    ("on.target.recreated = continue", "oldest"),
    ("lane.memory.bytes = 10", "at least 1048576"),
    ("offset.map.max.bytes = 10", "at least 1048576"),
    ("rpo.limit.ms = 9999", "at least 10000"),
    ("A->B.rpo.limit.ms = 5s", "is not a whole number"),
    ("rpo.limit.ms =", "has no value"),
    ("batch.decompression.max.bytes = 1000", "at least 1048576"),
    ("batch.decompression.max.bytes = 2147483648", "at most 2147483647"),
    ("errors.tolerance = some", "possible: none, all"),
    ("errors.deadletterqueue.topic.name = a/b", "cannot be the name of a topic"),
    ("errors.deadletterqueue.topic.name = ..", "cannot be the name of a topic"),
    ("A->B.errors.deadletterqueue.topic.name = __dead", "the name of an internal topic"),
    ("errors.deadletterqueue.topic.name = sparkmirror.A.B.internal", "the name of an internal topic"),
    ("errors.deadletterqueue.topic.replication.factor = 0", "cannot be 0"),
    ("errors.deadletterqueue.context.headers.enable = yes", "neither true nor false"),
    ("groups = *.foo", "cannot be used"),
    ("A->B.groups.exclude = ba(r", "ba\\(r"),
    ("refresh.groups.interval.seconds = 0", "at least 1"),
    ("emit.checkpoints.enabled = on", "neither true nor false"),
    ("emit.checkpoints.interval.seconds = -1", "at least 1"),
    ("checkpoints.topic.replication.factor = 0", "cannot be 0"),
    ("sync.group.offsets.enabled = 1", "neither true nor false"),
    ("sync.group.offsets.interval.seconds = soon", "is not a whole number"),
    ("topics = *.foo", "cannot be used"),
    ("A->B.topics = foo, ba(r", "ba\\(r"),
    ("topics.exclude = a{1,2}", "cannot be used"),
    ("topics.blacklist = [", "cannot be used"),
    ("config.properties.exclude = (", "cannot be used"),
    ("A.consumer.isolation.level = dirty", "possible: read_committed, read_uncommitted"),
    ("A.consumer.auto.offset.reset = by_duration:PT1H", "possible: earliest, latest, none"),
    ("A.consumer.fetch.min.bytes = x", "is not a whole number"),
    ("A.request.timeout.ms = -1", "at least 1"),
    ("B.producer.compression.type = brotli", "possible: none, gzip, snappy, lz4, zstd"),
    ("B.producer.compression.gzip.level = 0", "cannot be 0"),
    ("B.producer.compression.gzip.level = 10", "at most 9"),
    ("B.producer.compression.lz4.level = 0", "at least 1"),
    ("B.producer.compression.lz4.level = 18", "at most 17"),
    ("B.producer.compression.zstd.level = 23", "at most 22"),
    ("B.client.dns.lookup = default", "possible: use_all_dns_ips"),
    ("B.bootstrap.servers = b", "not host:port"),
    ("B.bootstrap.servers = b:0", "not host:port"),
    ("B.bootstrap.servers = b:70000", "not host:port"),
    ("B.bootstrap.servers =", "is empty"),
    ("B.bootstrap.servers = a2.example.com:9092", "are one cluster"),
    ("A->B.source.cluster.alias = C", "is not the cluster of the flow A->B"),
]


@pytest.mark.parametrize(("line", "reason"), REFUSED, ids=[line for line, _ in REFUSED])
def test_refuses(load_flow, line, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_flow(line)
    key = line.partition("=")[0].strip()
    assert caught.value.file.endswith("mm2.properties")
    assert caught.value.key == ("A->B.enabled" if "one cluster" in reason else key)


def test_deletions_are_not_followed_where_topics_keep_their_names(load_flow):
    identity = "replication.policy.class = IdentityReplicationPolicy"
    assert not load_flow(identity, "sync.topic.deletes.enabled = false").sync_topic_deletes_enabled
    with pytest.raises(ConfigError, match="records that other producers wrote") as caught:
        load_flow(identity, "A->B.sync.topic.deletes.enabled = true")
    assert caught.value.key == "A->B.sync.topic.deletes.enabled"
    assert "remove the line" in caught.value.remedy


def test_every_setting_survives_pickling(load_lines):
    found = load_lines("A.client.id = x", "A->B.topics = a, b", "B.producer.compression.type = zstd")
    assert pickle.loads(pickle.dumps(found)) == found


def test_acls_are_copied_as_in_mm2_unless_a_key_says_more(load_flow):
    assert load_flow().acls == AclSync(enabled=True, interval_s=600.0, prefixed=False, groups=False, remove=False)
    flow = load_flow(
        "sync.topic.acls.enabled = false",
        "A->B.sync.topic.acls.interval.seconds = 7",
        "sync.topic.acls.prefixed = true",
        "sync.group.acls.enabled = true",
        "sync.topic.acls.remove = true",
    )
    assert flow.acls == AclSync(enabled=False, interval_s=7.0, prefixed=True, groups=True, remove=True)


def test_a_wrong_expression_for_groups_names_its_key(load_flow):
    with pytest.raises(ConfigError, match=r"A->B\.groups\.exclude: the expression"):
        load_flow("A->B.groups.exclude = *-test")
