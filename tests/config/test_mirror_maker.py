"""Which of several keys counts; ``mm2-precedence.json`` holds what MirrorMaker 2 4.3.1 made of the same files.

It was printed by ``MirrorMakerConfig.connectorBaseConfig`` and the client configurations of ``MirrorSourceConfig``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.config.entries import Entry
from sparkmirror.config.keys import ROLES
from sparkmirror.config.layers import client_entries
from sparkmirror.config.mirror_maker import connector_entries
from sparkmirror.config.properties import PropertiesFile
from sparkmirror.errors import ConfigError
from sparkmirror.model import Alias, FlowName

CASES = json.loads((Path(__file__).parent / "mm2-precedence.json").read_text(encoding="utf-8"))
FLOW = FlowName(source=Alias("A"), target=Alias("B"))


def flattened(pairs):
    entries = {key: Entry(file="f", key=key, raw=value) for key, value in pairs.items()}
    file = PropertiesFile(file="f", entries=entries, duplicates=())
    return dict(connector_entries(file, (FLOW.source, FLOW.target)))[FLOW]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['file'])} keys")
def test_a_connector_gets_what_mm2_gives_it(case):
    flat = flattened(case["file"])
    assert {key: flat[key].raw for key in case["flow"]} == case["flow"]
    keys = ("tasks.max", "topics", "topics.exclude", "replication.factor", "offset.lag.max")
    assert {key for key in keys if key in flat} == {key for key in keys if key in case["flow"]}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{len(case['file'])} keys")
def test_a_client_gets_what_mm2_gives_it(case, side, role):
    found = {key: entry.raw for key, entry in client_entries(flattened(case["file"]), side, role).items()}
    assert found == {key: value for key, value in case[f"{side}.{role}"].items() if key in ROLES[role]}


def test_an_override_wins_for_the_client_that_writes(load_flow):
    flow = load_flow("B.producer.batch.size = 1", "A->B.producer.override.batch.size = 2")
    assert flow.target.producer.batch_size == 2
    assert flow.source.producer.batch_size is None


def test_any_client_key_works_for_all_roles_of_a_cluster(load_flow):
    flow = load_flow("A.request.timeout.ms = 7", "A.fetch.min.bytes = 3", "A.admin.request.timeout.ms = 9")
    found = [client.request_timeout_ms for client in (flow.source.consumer, flow.source.producer, flow.source.admin)]
    assert found == [7, 7, 9]
    assert flow.source.consumer.fetch_min_bytes == 3


def test_security_at_the_top_level_counts_for_all_clusters(load_flow):
    flow = load_flow("ssl.enabled.protocols = TLSv1.3", "security.protocol = SSL", "B.security.protocol = PLAINTEXT")
    assert flow.source.consumer.security.protocol.tls
    assert not flow.target.producer.security.protocol.tls


def test_bootstrap_servers_lose_their_listener_names(load_flow):
    base = "clusters = A, B\nA->B.enabled = true\n"
    flow = load_flow("A.bootstrap.servers = SSL://h_1:9093, [::1]:9092", "B.bootstrap.servers = b:1", base=base)
    assert flow.source.admin.bootstrap_servers == ("h_1:9093", "[::1]:9092")


def test_flows_come_in_the_order_of_the_clusters(load_lines):
    lines = ("B->A.enabled = TRUE", "C.bootstrap.servers=c:1", "A->C.enabled = true ", "C->A.enabled=false")
    found = load_lines(*lines, "clusters = A, B, C")
    assert [str(flow.name) for flow in found.flows] == ["A->B", "A->C", "B->A"]


def test_an_alias_with_dots_is_told_from_a_shorter_one(load_lines):
    base = "clusters = eu, eu.west\neu.bootstrap.servers = e:1\neu.west.bootstrap.servers = w:1\n"
    found = load_lines("eu->eu.west.enabled = true", "replication.policy.separator = _", base=base)
    assert found.flows[0].target.admin.bootstrap_servers == ("w:1",)
    assert found.warnings == ()


def test_a_cluster_that_is_named_twice_is_one(load_lines):
    assert len(load_lines("clusters = A, B, A").flows) == 1


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["A->X.enabled = true"], "names 'X', which clusters does not list"),
        (["X->B.enabled = true"], "names 'X', which clusters does not list"),
        (["X->Y.enabled = true"], "names 'X' and 'Y'"),
        (["A->A.enabled = true"], "from a cluster to itself"),
        (["A->B.enabled = yes"], "neither true nor false"),
        (["A->B.enabled = false"], "no flow is enabled.*A->B.enabled = true"),
        (["clusters ="], "is empty"),
        (["clusters = A, B/C"], "'B/C' cannot be part of a topic's name"),
        ([f"clusters = A, {'x' * 101}"], "longer than 100"),
    ],
)
def test_refuses_what_cannot_run(load_lines, lines, reason):
    with pytest.raises(ConfigError, match=reason):
        load_lines(*lines)


def test_refuses_a_file_without_clusters(load_lines):
    with pytest.raises(ConfigError, match=r"mm2\.properties: clusters: is not set"):
        load_lines("A->B.enabled = true", base="")


def test_names_the_cluster_that_has_no_servers(load_lines):
    with pytest.raises(ConfigError, match=r"B\.bootstrap\.servers: is not set"):
        load_lines(base="clusters = A, B\nA->B.enabled = true\nA.bootstrap.servers = a:1\n")


@pytest.mark.parametrize("key", ["A->X.emit.heartbeats.enabled", "X->Y.sync.topic.acls.enabled"])
def test_a_switch_of_a_flow_that_is_not_there_does_no_harm(load_lines, key):
    (warning,) = load_lines(f"{key} = true").warnings
    assert key in warning
