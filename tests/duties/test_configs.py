"""Properties of copies: what is decided, row by row of MirrorMaker 2's rule, then rounds between real clusters.

``mm2-configs.json`` holds what MirrorMaker 2 4.3.1 made of two copies that began as it says, each with another
``use.defaults.from``, between brokers of the same version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigResource
from confluent_kafka.admin import ConfigEntry as ConfigEntryToSet

from sparkmirror.config import ClientSettings, DefaultsFrom, Drift, Endpoint, FlowConfig
from sparkmirror.duties.configs import Alter, Observed, TopicConfigs, Unknown, decide
from sparkmirror.duties.duty import Sides, do_round
from sparkmirror.duties.notes import Notes
from sparkmirror.duties.properties import at_creation
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import Alteration, ConfigEntry, ConfigSource, alter_configs, topic_configs
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import OLDER_KAFKA_VERSION
from sparkmirror.model import Alias, FlowName
from sparkmirror.naming import config_property_filter
from tests.flow.running import admin_of, until

NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))


def _flow(a: ClientSettings = NOWHERE, b: ClientSettings = NOWHERE) -> FlowConfig:
    source, target = Alias("A"), Alias("B")
    return FlowConfig(
        name=FlowName(source=source, target=target),
        source=Endpoint(alias=source, consumer=a, producer=a, admin=a),
        target=Endpoint(alias=target, consumer=b, producer=b, admin=b),
        replication_factor=1,
        heartbeats_replication=False,
        admin_timeout_ms=20_000,
    )


FLOW = _flow()
BOTH = replace(FLOW, use_defaults_from=DefaultsFrom.SOURCE)
REPORT = replace(FLOW, sync_topic_configs_drift=Drift.REPORT)


def _entry(value: str, source: ConfigSource, **more: bool) -> ConfigEntry:
    return ConfigEntry(value=value, source=source, **more)


def _own(value: str) -> ConfigEntry:
    return _entry(value, ConfigSource.TOPIC)


def _default(value: str) -> ConfigEntry:
    return _entry(value, ConfigSource.DEFAULT)


def _observed(
    source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry], flow: FlowConfig = FLOW
) -> Observed:
    return Observed(flow=flow, pairs=(("orders", "A.orders"),), source={"orders": source}, target={"A.orders": target})


def _decided(here: ConfigEntry, there: ConfigEntry, flow: FlowConfig, name: str = "retention.ms") -> str:
    """What one property comes to, as the diff tells it."""
    (*actions,) = decide(_observed({name: here}, {name: there}, flow))
    assert len(actions) <= 1
    return actions[0].change.text if actions else ""


SET = "~ B: topic A.orders  retention.ms: 5 -> 7"
OVER = "~ B: topic A.orders  retention.ms: 5 (default) -> 7"
DELETE = "~ B: topic A.orders  retention.ms: 5 -> the default"

# What MirrorSourceConnector of Kafka 4.3.1 sends for a source property, by its own methods, and what that changes:
#   targetConfig drops what is read-only, sensitive, from STATIC_BROKER_CONFIG, or not shouldReplicateConfigProperty;
#   incrementalAlterConfigs sends DELETE for isDefault (DEFAULT_CONFIG) unless shouldReplicateSourceDefault, else SET.
RULES = [
    ("SET: set for the source topic", _own("7"), _own("5"), FLOW, SET),
    ("SET of what is there changes nothing", _own("7"), _own("7"), FLOW, ""),
    ("SET over a default of the target", _own("7"), _default("5"), FLOW, OVER),
    ("SET of the value of a default makes it the topic's own", _own("5"), _default("5"), FLOW, OVER.replace("7", "5")),
    ("SET over the target brokers' file", _own("7"), _entry("5", ConfigSource.STATIC_BROKER), FLOW, OVER),
    ("SET: dynamic in one source broker", _entry("7", ConfigSource.DYNAMIC_BROKER), _default("5"), FLOW, OVER),
    ("SET: dynamic default at the source", _entry("7", ConfigSource.DYNAMIC_DEFAULT_BROKER), _own("5"), FLOW, SET),
    ("SET: a source that is not known is no default", _entry("7", ConfigSource.UNKNOWN), _own("5"), FLOW, SET),
    ("nothing: from the source brokers' file", _entry("7", ConfigSource.STATIC_BROKER), _own("5"), FLOW, ""),
    ("nothing: the same, defaults from the source", _entry("7", ConfigSource.STATIC_BROKER), _own("5"), BOTH, ""),
    ("nothing: read-only", _entry("7", ConfigSource.TOPIC, read_only=True), _own("5"), FLOW, ""),
    ("nothing: sensitive", _entry("7", ConfigSource.TOPIC, sensitive=True), _own("5"), FLOW, ""),
    ("DELETE: a default at the source, set on the target", _default("7"), _own("5"), FLOW, DELETE),
    ("DELETE of what is not set changes nothing", _default("7"), _default("5"), FLOW, ""),
    ("the same with a default of the target's brokers", _default("7"), _entry("5", ConfigSource(3)), FLOW, ""),
    ("SET: a default at the source that holds", _default("7"), _own("5"), BOTH, SET),
    ("the same over a default of the target", _default("7"), _default("5"), BOTH, OVER),
    ("SET: set for the source topic, defaults from there", _own("7"), _own("5"), BOTH, SET),
]


@pytest.mark.parametrize(
    ("here", "there", "flow", "line"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES]
)
def test_a_property_follows_the_rule_of_mm2(here: ConfigEntry, there: ConfigEntry, flow: FlowConfig, line: str) -> None:
    assert _decided(here, there, flow) == line


def test_excluded_properties_are_left_alone_on_both_sides() -> None:
    assert _decided(_own("7"), _own("5"), FLOW, "min.insync.replicas") == ""
    assert _decided(_default("7"), _own("5"), FLOW, "unclean.leader.election.enable") == ""
    none = replace(FLOW, config_properties_exclude=())
    assert "min.insync.replicas: 5 -> 7" in _decided(_own("7"), _own("5"), none, "min.insync.replicas")


def test_a_property_that_only_the_target_has_is_left_alone() -> None:
    assert decide(_observed({}, {"new.property": _own("1")})) == ()


@pytest.mark.parametrize(
    ("here", "there", "line"),
    [
        (_own("7"), _own("5"), "! B: topic A.orders  retention.ms: 5, and 7 at the source"),
        (_own("7"), _default("5"), "! B: topic A.orders  retention.ms: 5, and 7 at the source"),
        (_default("7"), _own("5"), "! B: topic A.orders  retention.ms: 5, and 7 at the source"),
        (_own("5"), _default("5"), ""),
        (_default("5"), _own("5"), ""),
        (_default("7"), _default("5"), ""),
    ],
)
def test_with_report_each_difference_is_told_and_nothing_is_changed(
    here: ConfigEntry, there: ConfigEntry, line: str
) -> None:
    assert _decided(here, there, REPORT) == line


def test_properties_that_the_targets_brokers_do_not_know_are_told_in_one_line_each() -> None:
    pairs = tuple((name, f"A.{name}") for name in "abcde")
    observed = Observed(
        flow=FLOW,
        pairs=pairs,
        source={here: {"old.one": _own("1"), "old.two": _default("2")} for here, _ in pairs},
        target={there: {} for _, there in pairs},
    )
    (unknown,) = decide(observed)
    assert unknown.change.text == (
        "! B: topic property old.one  its brokers do not know it, so it is not copied to A.a, A.b, A.c and 2 more"
    )
    assert unknown == Unknown(cluster=Alias("B"), name="old.one", topics=())


def test_a_topic_that_cannot_be_read_is_told_and_the_others_go_on() -> None:
    observed = replace(
        _observed({"retention.ms": _own("7")}, {"retention.ms": _own("5")}),
        pairs=(("orders", "A.orders"), ("secret", "A.secret")),
        unreadable={(Alias("A"), "secret"): "not allowed"},
    )
    assert [action.change.text for action in decide(observed)] == [
        "! A: topic secret  its properties cannot be read: not allowed",
        SET,
    ]


def test_a_copy_is_created_with_what_is_set_later_too() -> None:
    entries = {
        "retention.ms": _own("7"),
        "segment.ms": _entry("8", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        "flush.ms": _default("9"),
        "index.interval.bytes": _entry("1", ConfigSource.STATIC_BROKER),
        "min.insync.replicas": _own("2"),
    }
    created = at_creation(entries, config_property_filter(FLOW), DefaultsFrom.TARGET)
    assert created == {"retention.ms": "7", "segment.ms": "8"}
    with_defaults = at_creation(entries, config_property_filter(FLOW), DefaultsFrom.SOURCE)
    assert with_defaults == {"retention.ms": "7", "segment.ms": "8", "flush.ms": "9"}
    for flow, own in ((FLOW, created), (BOTH, with_defaults)):
        there = {name: _default("0") for name in entries} | {name: _own(value) for name, value in own.items()}
        assert decide(_observed(entries, there, flow)) == ()


def test_a_note_is_told_once_while_it_lasts() -> None:
    notes: Notes[str] = Notes()
    told = []
    for found in (["a"], ["a", "b"], ["b"], [], ["b"]):
        notes.stand(found)
        told.append([note for note in found if notes.tell(note)])
    assert told == [["a"], ["b"], [], [], ["b"]]


def test_it_can_be_switched_off() -> None:
    def interval(flow: FlowConfig) -> float | None:
        with_nobody = Sides(flow=flow, source=None, target=None, store=None)  # type: ignore[arg-type]  # asks nobody
        return TopicConfigs(with_nobody).interval_s

    assert interval(FLOW) == 600
    assert interval(replace(FLOW, sync_topic_configs_interval_s=5.0)) == 5
    assert interval(replace(FLOW, sync_topic_configs_enabled=False)) is None


# ------------------------------------------------------------------------------------------------------ real clusters


class Site:
    """A topic on the source and its copy on the target, and rounds of the duty between them."""

    def __init__(self, flow: FlowConfig, source: Cluster, target: Cluster, topic: str) -> None:
        self.source, self.target, self.topic, self.copy = source, target, topic, f"A.{topic}"
        self.flow = replace(flow, topics=(topic,))
        self.duty = self.new_duty()

    def new_duty(self, **settings: object) -> TopicConfigs:
        flow = replace(self.flow, **settings)  # type: ignore[arg-type]  # settings of a flow by name
        return TopicConfigs(Sides(flow=flow, source=self.source, target=self.target, store=None))

    def create(self, cluster: Cluster, name: str, **configs: str) -> None:
        own = tuple((key.replace("_", "."), value) for key, value in configs.items())
        wanted = NewTopic(name=name, partitions=1, replication_factor=1, configs=own)
        admin.create_topics(cluster, [wanted]).complete()
        admin.wait_for_leaders(cluster, {name: 1}).complete()

    def alter(self, cluster: Cluster, name: str, **values: str | None) -> None:
        wanted = {key.replace("_", "."): value for key, value in values.items()}
        alter_configs(cluster, {name: [Alteration(key, value) for key, value in wanted.items()]}).complete()
        self._arrived(cluster, {name: wanted})

    def _arrived(self, cluster: Cluster, wanted: Mapping[str, Mapping[str, str | None]]) -> None:
        """Waits until the broker that is asked shows what the controller has accepted: it reads that a moment later."""

        def shown() -> bool:
            found = topic_configs(cluster, list(wanted))
            return all(
                (entry.value if entry.source is ConfigSource.TOPIC else None) == value
                for name, values in wanted.items()
                for entry, value in ((found[name][key], value) for key, value in values.items())
            )

        until(shown, "the broker has the properties")

    def own(self) -> dict[str, str | None]:
        """The properties that are set for the copy itself."""
        entries = topic_configs(self.target, [self.copy])[self.copy]
        return {key: entry.value for key, entry in entries.items() if entry.source is ConfigSource.TOPIC}

    def round(self, duty: TopicConfigs | None = None) -> list[str]:
        """One round: the lines of what was done or told, and what failed."""
        results = do_round(duty or self.duty)
        altered = [result.action for result in results if isinstance(result.action, Alter) and not result.failure]
        self._arrived(self.target, {self.copy: {action.name: action.value for action in altered}})
        return [result.failure or str(result.action.change and result.action.change.text) for result in results]


@pytest.fixture
def site(lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic_name: str) -> Site:
    flow = replace(lab_flow, heartbeats_replication=False, admin_timeout_ms=20_000)
    return Site(flow, lab_cluster("A"), lab_cluster("B"), topic_name)


@pytest.mark.kafka
def test_rounds_bring_changes_of_the_source_and_mend_what_was_changed_on_the_target(site: Site) -> None:
    site.create(site.source, site.topic, retention_ms="1000", min_insync_replicas="1")
    site.create(site.target, site.copy, retention_ms="1000", min_insync_replicas="1")
    assert site.round() == []
    site.alter(site.source, site.topic, retention_ms="2000", cleanup_policy="compact")
    assert site.round() == [
        f"~ B: topic {site.copy}  cleanup.policy: delete (default) -> compact",
        f"~ B: topic {site.copy}  retention.ms: 1000 -> 2000",
    ]
    assert site.round() == []
    site.alter(site.target, site.copy, retention_ms="3000", segment_ms="70000", min_insync_replicas=None)
    assert site.round() == [
        f"~ B: topic {site.copy}  retention.ms: 3000 -> 2000",
        f"~ B: topic {site.copy}  segment.ms: 70000 -> the default",
    ]
    site.alter(site.source, site.topic, cleanup_policy=None)
    assert site.round() == [f"~ B: topic {site.copy}  cleanup.policy: compact -> the default"]
    assert site.own() == {"retention.ms": "2000"}


@pytest.mark.kafka
def test_with_report_a_difference_is_told_once_and_again_when_it_is_another(site: Site) -> None:
    site.create(site.source, site.topic, retention_ms="1000")
    site.create(site.target, site.copy, retention_ms="5000", segment_ms="70000")
    duty = site.new_duty(sync_topic_configs_drift=Drift.REPORT)
    told = f"! B: topic {site.copy}  retention.ms: 5000, and"
    first = site.round(duty)
    assert first[0] == f"{told} 1000 at the source"
    assert first[1].startswith(f"! B: topic {site.copy}  segment.ms: 70000, and")
    assert site.round(duty) == []
    site.alter(site.source, site.topic, retention_ms="2000")
    assert site.round(duty) == [f"{told} 2000 at the source"]
    assert site.own() == {"retention.ms": "5000", "segment.ms": "70000"}


@pytest.mark.kafka
def test_defaults_of_the_source_are_set_where_the_file_says_so(site: Site) -> None:
    site.create(site.source, site.topic)
    site.create(site.target, site.copy, retention_ms="5000")
    duty = site.new_duty(use_defaults_from=DefaultsFrom.SOURCE)
    assert f"~ B: topic {site.copy}  retention.ms: 5000 -> 604800000" in site.round(duty)
    entries = topic_configs(site.source, [site.topic])[site.topic]
    properties = config_property_filter(site.flow)
    assert site.own() == at_creation(entries, properties, DefaultsFrom.SOURCE)
    assert site.round(duty) == []


@pytest.mark.kafka
@pytest.mark.parametrize("defaults", DefaultsFrom)
def test_a_copy_ends_with_the_properties_that_mm2_gave_it(site: Site, defaults: DefaultsFrom) -> None:
    recorded = json.loads((Path(__file__).parent / "mm2-configs.json").read_text(encoding="utf-8"))
    site.create(site.source, site.topic, **recorded["source topic"])
    site.create(site.target, site.copy, **recorded["copy before"])
    assert all(line.startswith("~ ") for line in site.round(site.new_duty(use_defaults_from=defaults)))
    assert site.own() == recorded["copy after, by use.defaults.from"][defaults.value]


@pytest.mark.kafka
@pytest.mark.long
def test_a_source_of_another_version_with_settings_of_its_brokers(site: Site) -> None:
    with start("old", version=OLDER_KAFKA_VERSION, config={"log.flush.interval.messages": "9999"}) as lab:
        settings = ClientSettings(bootstrap_servers=tuple(lab.bootstrap_servers.split(",")))
        site.source = Cluster("A", settings, role="test")
        try:
            _rounds_from_an_old_source(site, lab)
        finally:
            site.source.close()


def _rounds_from_an_old_source(site: Site, lab: LabCluster) -> None:
    """What only the source knows, what the target refuses, what the source's brokers set."""
    dynamic = ConfigEntryToSet("log.retention.ms", "4242", incremental_operation=AlterConfigOpType.SET)
    broker = str(lab.brokers[0].node)
    resource = ConfigResource(ConfigResource.Type.BROKER, broker, incremental_configs=[dynamic])
    admin_client = admin_of(lab)
    admin_client.incremental_alter_configs([resource])[resource].result(60)
    # Kafka 4 takes no segments below 1 MiB, and does not know the last property any more.
    site.create(
        site.source, site.topic, segment_bytes="70000", segment_ms="80000", message_downconversion_enable="false"
    )
    site.create(site.target, site.copy, flush_messages="5")
    duty = site.new_duty()
    retention, refused, segment, unknown = site.round(duty)
    assert refused.startswith(f"segment.bytes cannot be 70000: cluster B, {site.copy}: INVALID_CONFIG")
    assert "config.properties.exclude" in refused
    assert retention == f"~ B: topic {site.copy}  retention.ms: 604800000 (default) -> 4242"
    assert segment == f"~ B: topic {site.copy}  segment.ms: 604800000 (default) -> 80000"
    assert unknown == (
        f"! B: topic property message.downconversion.enable  its brokers do not know it, so it is not copied to "
        f"{site.copy}"
    )
    assert site.own() == {"retention.ms": "4242", "segment.ms": "80000", "flush.messages": "5"}
    assert site.round(duty) == [refused]
