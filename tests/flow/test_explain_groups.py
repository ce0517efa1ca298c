"""Where a group stands, asked of real clusters before anything is mirrored; what follows is in test_groups."""

from __future__ import annotations

import json
import subprocess

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from tests.flow.running import create_topic, write_file
from tests.flow.test_once import produce
from tests.invoking import sparkmirror

pytestmark = pytest.mark.kafka


def commit(cluster, group, topic, offset) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 3})
    consumer.commit(offsets=[Place(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_each_group_has_its_reason(cluster_a, cluster_b, topic, tmp_path):
    name = topic("groups")
    create_topic(cluster_a, name, 1)
    produce(cluster_a, name)
    known, filtered = f"{name}-known", f"{name}-filtered"
    for group in (known, filtered):
        commit(cluster_a, group, name, 17)
    clusters, flows = {name: cluster_a, "b": cluster_b}, {f"{name}->b": name}
    file = write_file(tmp_path / "mm2.properties", clusters, flows, {"groups.exclude": ".*-filtered"})

    def explain(*words: str) -> subprocess.CompletedProcess[str]:
        return sparkmirror("explain", file, *words)

    (flow,) = json.loads(explain("--group", known, "--json").stdout)["flows"]
    assert flow["failure"] is None
    assert flow["duties"].startswith("a checkpoint every 60 s; no offsets are committed on the target")
    (line,) = flow["lines"]
    assert (line["topic"], line["partition"], line["standing"]) == (name, 0, "nothing-mirrored")
    assert (line["committed"], line["translated"], line["there"]) == (17, None, None)
    assert f"  {name}-0: committed 17: " in explain("--group", known).stdout
    assert "not chosen: groups does not name it" in explain("--group", filtered).stdout
    assert "the source has no such group" in explain("--group", f"{name}-none").stdout
    assert explain("--group", known, "--topic", name).returncode == 2
    assert explain().returncode == 2
