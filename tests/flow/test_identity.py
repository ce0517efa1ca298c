"""Active/active under identity naming: the same topic names on both sides, and no loop."""

from __future__ import annotations

import time

import pytest

from sparkmirror.config import load
from sparkmirror.flow.status import read
from sparkmirror.lab.records import Reader, Row, extents, row_of
from tests.flow.running import Running, count, create_topic, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

QUIET_SECONDS = 5.0


def rows(cluster, topic):
    """All committed records by partition, in order."""
    found: dict[int | None, list[Row]] = {partition: [] for partition in extents(cluster.bootstrap_servers, topic)}
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        for messages in reader:
            for message in messages:
                found[message.partition()].append(row_of(message))
    return found


def born_in(mark, records):
    return [row for row in records if row[2].startswith(mark)]


def test_two_clusters_mirror_the_same_names_both_ways_without_a_loop(cluster_a, cluster_b, topic, tmp_path):
    name = topic("active")
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, name, 2)
    file = write_file(
        tmp_path / "mm2.properties",
        {"left": cluster_a, "right": cluster_b},
        {"left->right": name, "right->left": name},
        {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
    )
    left = Traffic(cluster_a, name, 2, mark="left-", nulls=False)
    right = Traffic(cluster_b, name, 2, mark="right-", nulls=False)
    with Running(file, log=tmp_path / "run.log") as mirror:
        with left.small(), right.large(per_turn=30):
            until(lambda: count(cluster_b, name) > right.written > 500 < left.written, "records came across")
            until(lambda: count(cluster_a, name) > left.written, "records came back")
        union = left.written + right.written
        until(lambda: min(count(cluster_a, name), count(cluster_b, name)) >= union, "the union on both sides")
        calm = time.monotonic() + QUIET_SECONDS
        until(lambda: time.monotonic() > calm or count(cluster_a, name) > union, "a loop would add records")
        mirror.stop_in_time()
    told = {one.name: one for one in read(load([file]))}
    assert (told["left->right"].loop_filtered or 0) >= right.written
    assert (told["right->left"].loop_filtered or 0) >= left.written
    assert "unconfirmed-writer" not in {event.kind for one in told.values() for event in one.events}
    with Running(file, log=tmp_path / "again.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    on_a, on_b = rows(cluster_a, name), rows(cluster_b, name)
    assert sum(map(len, on_a.values())) == sum(map(len, on_b.values())) == union
    for partition, records in on_a.items():
        for mark in (b"left-", b"right-"):
            assert born_in(mark, records) == born_in(mark, on_b[partition])
        assert len(set(map(repr, records))) == len(records)
