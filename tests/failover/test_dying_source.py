"""A source that dies in two stages: the record keeps what groups had committed, also of those that it lost first."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow import elections
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.running import Running, commit, until, write_file
from tests.flow.test_events import records
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OFFSETS, PARTITIONS, NO_LEADER = "__consumer_offsets", 3, -1
FEW = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": str(PARTITIONS)}
VICTIM = 2


def seen(file: Path) -> dict[str, float]:
    """When each group was seen on the source last, in seconds since 1970, as the record says."""
    (flow,) = json.loads(sparkmirror("status", file, "--groups", "--json").stdout)["flows"]
    return {one["group"]: one["seen_ms"] / 1000 for one in flow["groups"]}


def places_of(report: Path) -> dict[str, Any]:
    return {one["group"]: one["partitions"] for one in json.loads(report.read_text())["groups"]}


def leaders(source: LabCluster) -> list[int]:
    """Of the partitions of ``__consumer_offsets``, as the first broker knows them."""
    server = source.bootstrap_servers.split(",")[0]
    topics = AdminClient({"bootstrap.servers": server, "log_level": 0}).list_topics(OFFSETS, timeout=10).topics
    return [one.leader for _, one in sorted(topics[OFFSETS].partitions.items())]


def partition_of(group: str) -> int:
    """As ``GroupCoordinator.partitionFor`` and ``String.hashCode`` have it."""
    code = 0
    for letter in group:
        code = (31 * code + ord(letter)) % 2**32
    return (code if code < 2**31 else 2**32 - code) % PARTITIONS


@pytest.mark.long
def test_groups_whose_coordinator_is_gone_stay_on_record_and_others_are_followed(cluster_b, topic, tmp_path):
    name = topic("dying")
    groups = [f"{name}-g{number}" for number in range(8)]
    with start("source", brokers=3, config=FEW) as source:
        elections.create(source, name, [[1, 3]])
        write(source, name, records(100))
        settings = {"tasks.max": "1", "groups": f"{name}-.*", "refresh.groups.interval.seconds": "1"}
        settings |= {f"{each}.interval.seconds": "1" for each in ("emit.checkpoints", "sync.group.offsets")}
        file = write_file(tmp_path / "mm2.properties", {name: source, "b": cluster_b}, {f"{name}->b": name}, settings)
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: len(mirrored(cluster_b, f"{name}.{name}")) == 100, "copied", PATIENCE_SECONDS)
            for group in groups:
                commit(source, group, name, {0: 40})
            until(lambda: seen(file).keys() == set(groups), "all are on record", PATIENCE_SECONDS)
            coordinators = leaders(source)
            source.brokers[VICTIM - 1].kill()
            alive = [group for group in groups if coordinators[partition_of(group)] != VICTIM]
            assert 0 < len(alive) < len(groups)
            until(lambda: leaders(source)[coordinators.index(VICTIM)] == NO_LEADER, "its groups have no coordinator")
            for group in alive:
                commit(source, group, name, {0: 70})
            since = time.time()
            until(lambda: all(seen(file)[group] > since for group in alive), "those that live are followed", 30)
            assert all(seen(file)[group] < since for group in groups if group not in alive), "they cannot be read"
            for broker in source.brokers:
                broker.kill()
            done = sparkmirror("failover", file, "--from", name, "--to", "b", "--yes", "--report", tmp_path)
            assert done.returncode == 0, done.stdout + done.stderr
            mirror.kill()
    (report,) = tmp_path.glob("failover-*.json")
    assert {group: place[0]["committed"] for group, place in places_of(report).items()} == {
        group: 70 if group in alive else 40 for group in groups
    }
