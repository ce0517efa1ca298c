"""Connectors in JSON: the shapes that people have, three connectors as one flow, whose keys count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.config import load
from sparkmirror.errors import ConfigError

FILES = Path(__file__).parent / "files"
TRIO = [FILES / f"connect-{one}.json" for one in ("source", "checkpoint", "heartbeat")]
CANARY = "canary-77"
MIRROR = "org.apache.kafka.connect.mirror."
CLUSTERS = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:1",
    "target.cluster.bootstrap.servers": "b:1",
}
OFF = "sync.group.offsets.enabled"


def connector(role="Source", name="c", **more):
    config = {"connector.class": f"{MIRROR}Mirror{role}Connector"} | CLUSTERS
    return {"name": name, "config": config | {key.replace("_", "."): value for key, value in more.items()}}


@pytest.fixture
def load_json(tmp_path):
    def load_json(document, name="c.json", **wanted):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return load([path], **wanted)

    return load_json


def warned(found, text):
    (line,) = [line for line in found.warnings if text in line]
    return line


def test_three_files_of_a_pair_are_one_flow():
    found = load(TRIO)
    (flow,) = found.flows
    assert str(flow.name) == "east->west"
    assert flow.topics == (r"orders\..*", "payments")
    assert flow.tasks_max == 4
    assert flow.replication_factor == 3
    assert flow.source.consumer.bootstrap_servers == ("east-1.example.com:9094", "east-2.example.com:9094")
    assert flow.source.consumer.fetch_max_bytes == 52_428_800
    assert flow.source.consumer.max_partition_fetch_bytes == 2_097_152
    assert flow.source.admin.request_timeout_ms == 20_000
    assert flow.source.admin.security.username == "mirror"
    assert flow.target.producer.batch_size == 327_680
    assert flow.target.producer.compression_type == "zstd"
    assert flow.target.admin.client_id == "mm2-west"
    assert dict(flow.origins)["tasks.max"] == "mm2-east-west-source.config.tasks.max"
    assert CANARY not in repr(found)


def test_a_key_that_stands_in_a_connector_is_acted_upon_or_named():
    found = load(TRIO)
    assert "mm2-east-west-source.config.colour" in warned(found, "unknown keys")
    assert "mm2-east-west-source.config.producer.override.linger.ms" in warned(found, "the Java producer's buffer")
    assert "mm2-east-west-checkpoint.config.tasks.max" in warned(found, "another connector of the pair decides")
    assert "values are read at the start" in warned(found, "config.action.reload")


@pytest.mark.parametrize(
    "document",
    [
        connector(topics="t"),
        connector(topics="t")["config"],
        [connector(topics="t")],
        {"connectors-name": {"info": connector(topics="t"), "status": {"connector": {"state": "RUNNING"}}}},
        connector(topics="t") | {"initial_state": "RUNNING", "tasks": [], "type": "source"},
    ],
    ids=["request", "bare", "list", "expanded", "shown"],
)
def test_every_shape_of_a_connector_is_read(load_json, document):
    (flow,) = load_json(document).flows
    assert flow.topics == ("t",)


def test_what_connect_shows_of_all_connectors_is_read():
    found = load([FILES / "connect-expanded.json"])
    assert [str(flow.name) for flow in found.flows] == ["east->west"]
    assert "jdbc-sink" in warned(found, "not connectors of MirrorMaker 2, not run")
    assert "west->east is not run: west-to-east.initial_state says paused" in warned(found, "is not run")
    assert CANARY not in repr(found)


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
def test_a_connector_that_is_not_to_run_is_not_run(load_json, state):
    with pytest.raises(ConfigError, match=r"no flow is enabled.*not paused or stopped"):
        load_json(connector() | {"initial_state": state})


def test_a_connector_that_is_switched_off_is_not_run(load_json):
    found = load_json([connector(), connector("Checkpoint", "d", enabled=False)])
    assert "A->B runs without MirrorCheckpointConnector: d.config.enabled is false" in warned(found, "runs without")


def test_a_key_of_another_connector_counts_only_where_its_owner_has_it(load_json):
    found = load_json([connector(groups="x", topics="t"), connector("Checkpoint", "d", topics="u", groups="y")])
    (flow,) = found.flows
    assert flow.topics == ("t",)
    line = warned(found, "another connector of the pair decides")
    assert "c.config.groups" in line
    assert "d.config.topics" in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("target_cluster_bootstrap_servers", "other:1"),
        ("replication_policy_class", "IdentityReplicationPolicy"),
        ("replication_policy_separator", "_"),
    ],
)
def test_connectors_that_do_not_belong_together_are_refused(load_json, key, value):
    with pytest.raises(ConfigError, match="is not what the other connector of the pair has") as caught:
        load_json([connector(), connector("Heartbeat", "h", **{key: value})])
    assert caught.value.key == f"h.config.{key.replace('_', '.')}"


def test_the_same_policy_under_its_two_names_is_one(load_json):
    short, full = "IdentityReplicationPolicy", f"{MIRROR}IdentityReplicationPolicy"
    assert load_json([connector(replication_policy_class=short), connector("Heartbeat", replication_policy_class=full)])


def test_heartbeats_alone_are_a_flow_that_copies_nothing(load_json):
    found = load_json(connector("Heartbeat"))
    (flow,) = found.flows
    assert flow.topics == ()
    assert not flow.heartbeats_replication
    assert "A->B has no MirrorSourceConnector: nothing is copied" in warned(found, "no MirrorSourceConnector")


REFUSED = [
    ("{", "line 1: is no JSON"),
    ("[1]", r"\[0\]: is no connector"),
    ('"x"', "holds no connector"),
    ({"a": "b"}, "has no config and no connector.class"),
    ('{"name": "a", "name": "b"}', "name: stands twice"),
    ({"name": "x", "config": {"connector.class": "io.example.Sink"}}, "no connector of MirrorMaker 2: x"),
    ({"name": "x", "config": {}}, r"x\.config\.connector\.class: is not set"),
    (connector(topics=["a"]), r"c\.config\.topics: is no text"),
    (connector() | {"initial_state": "ASLEEP"}, r"c\.initial_state: 'ASLEEP' is no state.*RUNNING, PAUSED, STOPPED"),
    (connector(source_cluster_alias="B"), r"source\.cluster\.alias: is the alias of the target too"),
    (connector(source_cluster_alias="a b"), "cannot be part of a topic's name"),
    (connector(source_cluster_alias=None), "c: has no source.cluster.alias"),
    (connector(target_cluster_bootstrap_servers=None), "c: has no target.cluster.bootstrap.servers.*is not read"),
    ([connector(), connector(name="d")], "d: is a second MirrorSourceConnector of one pair"),
    (connector("Checkpoint"), "MirrorCheckpointConnector and no MirrorSourceConnector"),
    (connector(transforms="mask"), r"c\.config\.transforms: Connect transforms do not run here"),
    ([connector(), connector("Heartbeat", "h", transforms="mask")], r"h\.config\.transforms: Connect transforms"),
    (connector(predicates="p"), r"c\.config\.predicates"),
    (connector(tasks_max="${vault:x:y}"), r"'vault', which is not declared.*whose file is not read: use file, env"),
    (connector(target_cluster_bootstrap_servers="a:1"), "one cluster: both name a:1.*see c.config.source"),
]


@pytest.mark.parametrize(("document", "reason"), REFUSED)
def test_what_cannot_work_is_refused_with_its_place(load_json, document, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_json(document)
    assert "c.json" in str(caught.value)


def test_a_reference_is_resolved_by_the_providers_that_everybody_has(load_json, monkeypatch):
    monkeypatch.setenv("SPARKMIRROR_TEST_TOPIC", "t")
    assert load_json(connector(topics="${env:SPARKMIRROR_TEST_TOPIC}")).flows[0].topics == ("t",)


def test_providers_that_a_connector_declares_count(load_json, tmp_path):
    declared = {"config.providers": "d", "config.providers.d.class": "DirectoryConfigProvider"}
    (tmp_path / "topic").write_text("t\n", encoding="utf-8")
    document = connector(topics=f"${{d:{tmp_path}:topic}}")
    document["config"] |= declared
    found = load_json(document)
    assert found.flows[0].topics == ("t",)
    assert not found.warnings or all("config.providers" not in line for line in found.warnings)
