"""Start positions in a file, and where it says that MirrorMaker 2's positions are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.config import Beginning, StartPlace, load
from sparkmirror.errors import ConfigError

NOVEMBER_MS = 1_793_491_200_000
LATEST = StartPlace(kind=Beginning.LATEST)


def test_the_most_special_start_wins(load_flow):
    start = load_flow(
        "start.position = timestamp:2026-11-01T00:00:00Z",
        "A->B.start.positions = orders:latest, orders:0:1500, payments:3:timestamp:2026-11-01T01:00:00+01:00",
    ).start
    assert start.of("orders", 0) == StartPlace(kind=Beginning.OFFSET, value=1500)
    assert start.of("orders", 1) == LATEST
    assert start.of("payments", 3) == StartPlace(kind=Beginning.TIMESTAMP, value=NOVEMBER_MS)
    assert start.of("payments", 0) == StartPlace(kind=Beginning.TIMESTAMP, value=NOVEMBER_MS)
    assert load_flow().start.of("orders", 0) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("start.position = yesterday", "'yesterday' is no place to start"),
        ("start.position = 15", "'15' is no place to start"),
        ("start.position = timestamp:2026-11-01T00:00:00", "is no place to start"),
        ("start.positions = orders", "'orders' is no start of a topic or partition"),
        ("start.positions = orders:", "'orders:' is no start of a topic or partition"),
        ("start.positions = :latest", "':latest' is no start of a topic or partition"),
        ("start.positions = orders:0:then", "'orders:0:then' is no start of a topic or partition"),
        ("start.positions = orders:-1:5", "'orders:-1:5' is no start of a topic or partition"),
        ("start.positions = orders:99999999999:5", "is no start of a topic or partition"),
        ("start.position = " + "9" * 5_000, "is no place to start"),
        (r"start.position = \uff11", "is no place to start"),
        ("start.positions = orders:" + "9" * 5_000 + ":5", "is no start of a topic or partition"),
        ("start.positions = orders:0:" + "9" * 5_000, "is no start of a topic or partition"),
        ("start.positions = orders:0:9223372036854775808", "is no start of a topic or partition"),
        ("start.position = timestamp:0001-01-01T00:00:00+23:59", "is no place to start"),
        ("start.position = timestamp:9999-12-31T23:59:59-23:59:", "is no place to start"),
        ("start.positions = orders:1500", "'orders:1500' gives an offset and no partition"),
        ("start.positions = a:0:1, a:0:2", "'a:0:2' names a place that is given already"),
        ("start.positions = a:latest, a:earliest", "'a:earliest' names a place that is given already"),
    ],
)
def test_a_start_that_cannot_be_is_refused_with_its_place(load_flow, line, reason):
    with pytest.raises(ConfigError) as refused:
        load_flow(line)
    assert reason in refused.value.reason
    assert refused.value.key == line.split(" ")[0]
    assert "latest" in refused.value.remedy


def test_mirror_makers_own_names_hold_where_it_runs_by_itself(load_flow):
    stored = load_flow().stored_positions
    assert (stored.connector, stored.topic, stored.group) == (
        "MirrorSourceConnector",
        "mm2-offsets.A.internal",
        "A-mm2",
    )


@pytest.mark.parametrize(
    ("lines", "topic"),
    [
        (["offset.storage.topic = top"], "top"),
        (["B.offset.storage.topic = of-cluster"], "of-cluster"),
        (["A.offset.storage.topic = of-source"], "mm2-offsets.A.internal"),
        (["B.offset.storage.topic = of-cluster", "offset.storage.topic = top"], "top"),
        (["offset.storage.topic = top", "mm2.offsets.topic = ours"], "ours"),
        (["offset.storage.topic = top", "A->B.mm2.offsets.topic = of-flow"], "of-flow"),
    ],
)
def test_the_workers_topic_is_the_one_that_mirror_maker_would_use(load_flow, lines, topic):
    assert load_flow(*lines).stored_positions.topic == topic


def test_the_workers_group_is_that_of_the_target(load_flow):
    assert load_flow("B.group.id = workers", "A.group.id = others").stored_positions.group == "workers"


CONFIG = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"name": "mm2-source", "config": CONFIG}, "mm2-source"),
        (CONFIG | {"name": "of-config"}, "of-config"),
        ({"shown": {"info": {"config": CONFIG}, "status": {}}}, "shown"),
        ({"name": "MirrorSourceConnector", "config": CONFIG}, "MirrorSourceConnector"),
    ],
)
def test_a_connector_keeps_its_positions_under_its_name(tmp_path: Path, document, name):
    file = tmp_path / "connector.json"
    file.write_text(json.dumps(document))
    stored = load([file]).flows[0].stored_positions
    assert (stored.connector, stored.topic, stored.group) == (name, "", "")


def test_what_a_connectors_file_says_for_us_counts(tmp_path: Path):
    file = tmp_path / "connector.json"
    own = {"mm2.offsets.topic": "top", "mm2.group": "workers"}
    file.write_text(json.dumps({"name": "MirrorSourceConnector", "config": CONFIG | own}))
    stored = load([file]).flows[0].stored_positions
    assert (stored.topic, stored.group) == ("top", "workers")


def test_a_connectors_own_topic_of_offsets_is_read(tmp_path: Path):
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": "x", "config": CONFIG | {"offsets.storage.topic": "own"}}))
    assert load([file]).flows[0].stored_positions.topic == "own"


STRIMZI = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {{name: m}}
spec:
  connectCluster: B
  clusters:
  - {{alias: A, bootstrapServers: "a:9092"}}
  - {{alias: B, bootstrapServers: "b:9092", config: {config}}}
  mirrors:
  - {{sourceCluster: A, targetCluster: B, sourceConnector: {{}}}}
"""
STRIMZI_V1 = """
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  target: {alias: B, bootstrapServers: "b:9092", groupId: g, offsetStorageTopic: o, configStorageTopic: c,
    statusStorageTopic: s}
  mirrors:
  - source: {alias: A, bootstrapServers: "a:9092"}
    sourceConnector: {}
"""


@pytest.mark.parametrize(
    ("text", "topic", "group"),
    [
        (STRIMZI.format(config="{}"), "mirrormaker2-cluster-offsets", "mirrormaker2-cluster"),
        (STRIMZI.format(config="{offset.storage.topic: mine, group.id: ours}"), "mine", "ours"),
        (STRIMZI_V1, "o", "g"),
    ],
)
def test_strimzis_names_are_the_operators(tmp_path: Path, text, topic, group):
    file = tmp_path / "mirror.yaml"
    file.write_text(text)
    stored = load([file]).flows[0].stored_positions
    assert (stored.connector, stored.topic, stored.group) == ("A->B.MirrorSourceConnector", topic, group)
