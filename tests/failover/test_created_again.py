"""A topic is deleted and created again on the cluster that groups leave, and the flow has not found that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkmirror.config import load
from sparkmirror.duties import group_records
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.group_records import ids_where_committed
from sparkmirror.flow.sides import connected, record
from sparkmirror.kafka.groups import Committed
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from tests.failover.test_changed_home import marked
from tests.flow.running import Running, commit, committed, create_topic, until, write_file
from tests.flow.test_events import delete_topic
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

SETTINGS = {
    "tasks.max": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.topics.interval.seconds": "600",
    "heartbeats.replication.enabled": "false",
}
ORDERS, PAY = TopicPartition("orders", 0), TopicPartition("pay", 0)


def progress(place: TopicPartition, topic_id: str) -> Progress:
    writer = Writer(producer_id=1, epoch=0)
    return Progress(partition=place, writer=writer, generation=1, position=9, next_sequence=0, topic_id=topic_id)


@pytest.mark.parametrize(
    ("now", "ids"),
    [
        ({"orders": "aa", "pay": "bb"}, {"orders": "aa", "pay": "bb"}),
        ({"orders": "cc", "pay": "bb"}, {"orders": "cc", "pay": "bb"}),  # created again
        ({"pay": ""}, {"orders": "aa", "pay": "bb"}),  # deleted; brokers that have no ids
    ],
)
def test_what_groups_have_committed_is_on_record_by_the_ids_of_the_topics_as_they_are(monkeypatch, tmp_path, now, ids):
    def answered(_cluster: object, topics: Mapping[str, str], _timeout_ms: int) -> dict[str, str]:
        return {name: now[name] for name in topics if name in now}

    monkeypatch.setattr(group_records, "ids_of_topics", answered)
    clusters = {"a": {"bootstrap.servers": "a.test:9092"}, "b": {"bootstrap.servers": "b.test:9092"}}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->b": ".*"}, {})
    (flow,) = load([str(file)]).flows
    sides = Sides(flow=flow, source=None, target=None, store=None)  # type: ignore[arg-type]  # nobody is asked
    known = {ORDERS: progress(ORDERS, "aa"), PAY: progress(PAY, "bb")}
    found = {"g": {ORDERS: Committed(5), PAY: Committed(5), PAY._replace(topic="not-copied"): Committed(5)}}
    assert ids_where_committed(sides, known, found, 1) == ids


def created_again(cluster: LabCluster, name: str, file: Path, directory: Path, flow: str) -> Running:
    """Deletes the topic while the flow runs, starts the flow again, and makes the topic anew with 40 other records."""
    with Running(file, log=directory / "before.log") as mirror:
        delete_topic(cluster, name)
        until(lambda: "was deleted" in mirror.output, "its end is told", 120)
        mirror.stop_in_time()
    mirror = Running(file, log=directory / "after.log")
    mirror.__enter__()
    until(lambda: states(file).get(flow) == "running", "runs again", 120)
    create_topic(cluster, name)
    write(cluster, name, marked("new", 40))
    return mirror


def states(file: Path) -> dict[str, str]:
    told = json.loads(sparkmirror("status", file, "--json").stdout)
    return {one["name"]: one["state"] for one in told["flows"]}


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_a_failback_waits_until_the_flow_back_has_brought_what_is_there_now(cluster_a, cluster_b, topic, tmp_path):
    name, other = topic("again"), topic("moving")
    group = f"{name}-g"
    create_topic(cluster_b, name)
    create_topic(cluster_a, other)
    write(cluster_b, name, marked("old", 100))
    write(cluster_a, other, marked("old", 5))
    commit(cluster_b, group, name, {0: 100})
    topics = {"a->b": f"{other}|{name}", "b->a": f"{other}|{name}"}
    file = write_file(
        tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, topics, SETTINGS | {"groups": f"{name}-.*"}
    )
    words = ("--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: len(mirrored(cluster_a, f"b.{name}")) == 100, "copied")
        until(lambda: len(mirrored(cluster_b, f"a.{other}")) == 5, "copied")
        done = sparkmirror("switchover", file, "--from", "a", "--to", "b", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        mirror.stop_in_time()
    mirror = created_again(cluster_b, name, file, tmp_path, "b->a")
    try:
        commit(cluster_b, group, name, {0: 30})
        waited = sparkmirror("wait", file, "--caught-up", "--flow", "b->a", "--timeout", "0")
        assert waited.returncode == 1, waited.stdout
        plan = sparkmirror("failback", file, "--to", "a", "--dry-run")
        assert f"topic {name} was deleted and created again on b" in " ".join(plan.stdout.split())
        done = sparkmirror("failback", file, "--to", "a", "--timeout", "120", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "is told to look now" in " ".join(done.stdout.split())
        assert mirrored(cluster_a, f"b.{name}")[100:] == marked("new", 40)
        assert committed(cluster_a, group, f"b.{name}") == {0: 130}
    finally:
        mirror.kill_all()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_a_failover_moves_no_group_by_what_it_has_committed_in_a_topic_that_was_not_copied(cluster_b, topic, tmp_path):
    name = topic("again")
    group, copy = f"{name}-g", f"{name}.{name}"
    with start("again") as source:
        create_topic(source, name)
        write(source, name, marked("old", 100))
        commit(source, group, name, {0: 100})
        file = write_file(
            tmp_path / "mm2.properties",
            {name: source, "b": cluster_b},
            {f"{name}->b": name},
            SETTINGS | {"groups": f"{name}-.*"},
        )
        with Running(file, log=tmp_path / "first.log") as mirror:
            until(lambda: committed(cluster_b, group, copy) == {0: 100}, "copied")
            mirror.stop_in_time()
        mirror = created_again(source, name, file, tmp_path, f"{name}->b")
        try:
            commit(source, group, name, {0: 30})
            until(lambda: on_record(file, group, name) == 30, "on record", 60)
            (broker,) = source.brokers
            broker.kill()
            mirror.kill_all()
            done = sparkmirror("failover", file, "--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
            assert committed(cluster_b, group, copy) == {0: 100}, done.stdout
        finally:
            mirror.kill_all()


def on_record(file: Path, group: str, name: str) -> int | None:
    (flow,) = load([str(file)]).flows
    with connected(flow, role="test", needs=[]) as sides:
        known = record(sides)
        assert known is not None
        seen = [one for one in known.groups.values() if (one.group, one.topic) == (group, name)]
        return seen[0].offsets[0][0] if seen else None
