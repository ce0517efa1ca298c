"""A partition of ``__consumer_offsets`` of the source is silent: nothing is known of its groups, no loss is missed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from sparkmirror.duties.lost_groups import partition_of
from sparkmirror.lab.broker import Broker
from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.test_changed_home import marked
from tests.failover.test_lost_offsets import OFFSETS, on_record, put
from tests.flow import elections
from tests.flow.running import Running, client_of, commit, committed, ends, until, write_file
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 3
ONE_REPLICA = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": str(PARTITIONS)}
SETTINGS = {
    "tasks.max": "1",
    "groups": ".*-g[0-9]+",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "heartbeats.replication.enabled": "false",
}


def group_of(stem: str, partition: int) -> str:
    return next(
        name for name in (f"{stem}-g{number}" for number in range(100)) if partition_of(name, PARTITIONS) == partition
    )


def coordinator(cluster: LabCluster, group: str) -> int:
    """Its node: the leader of its partition of the topic, which the question makes."""

    def answers() -> list[int]:
        with suppress(KafkaException), client_of(cluster, group) as client:
            client.committed([TopicPartition(OFFSETS, 0)], 10)
            topic = client.list_topics(OFFSETS, timeout=10).topics[OFFSETS]
            known = {number: one.leader for number, one in topic.partitions.items()}
            return [leader for leader in (known.get(partition_of(group, PARTITIONS), -1),) if leader >= 0]
        return []

    return until(answers, f"{group} has a coordinator", 120)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Two groups, one of them on a partition whose only broker is dead and has lost the group's last commit."""

    source: LabCluster
    broker: Broker
    file: Path
    mirror: Running
    silent: str
    other: str
    copy: str


@contextmanager
def silenced(target: LabCluster, name: str, directory: Path) -> Iterator[Scene]:
    """The flow has seen both groups at 8; the broker has lost one commit of its group, and does not run.

    Nor has a second partition of the topic, which is empty, a leader then.
    """
    silent, other = group_of(name, 0), group_of(name, 1)
    with start("silent", brokers=3, config=ONE_REPLICA) as source:
        victim = coordinator(source, silent)
        assert victim != coordinator(source, other)
        elections.create(source, name, [[coordinator(source, other)], [victim]])
        file = write_file(directory / "mm2.properties", {name: source, "b": target}, {f"{name}->b": name}, SETTINGS)
        copy, internal = f"{name}.{name}", f"sparkmirror.{name}.b.internal"
        (broker,) = (one for one in source.brokers if one.node == victim)
        with Running(file, log=directory / "mirror.log") as mirror:
            write(source, name, marked("old", 10))
            put(source, silent, name, 3)
            put(source, other, name, 8)
            end = ends(source, OFFSETS)[0]
            put(source, silent, name, 8)
            until(lambda: on_record(target, internal) == {silent: {0: 8}, other: {0: 8}}, "on record", 60)
            until(lambda: mirrored(target, copy) == marked("old", 10), "copied")
            broker.kill()
            cut_log(broker, OFFSETS, end)
            yield Scene(source=source, broker=broker, file=file, mirror=mirror, silent=silent, other=other, copy=copy)
            mirror.kill()


def test_a_failover_takes_a_group_whose_partition_is_silent_to_where_it_was_seen_last(cluster_b, topic, tmp_path):
    """And others to where they are now, though a partition of the topic has no leader either."""
    name = topic("silent")
    with silenced(cluster_b, name, tmp_path) as scene:
        scene.mirror.kill_all()
        commit(scene.source, scene.other, name, {0: 9})
        words = ("--from", name, "--to", "b", "--force", "--yes", "--report", str(tmp_path))
        done = sparkmirror("failover", scene.file, *words)
        assert done.returncode == 1, done.stdout + done.stderr
        assert f"group {scene.silent} does not answer on {name} and goes by what was seen last" in done.stdout
        moved = {group: committed(cluster_b, group, scene.copy) for group in (scene.silent, scene.other)}
        assert moved == {scene.silent: {0: 8}, scene.other: {0: 9}}
        (report,) = (json.loads(one.read_text()) for one in tmp_path.glob("failover-*.json"))
        exact = {each["group"]: [place["exact"] for place in each["partitions"]] for each in report["groups"]}
        assert exact == {scene.silent: [False], scene.other: [True]}
        assert report["repeated_records"] is None
        said = (
            f"1 partitions of {name} have no leader that answers, {name}-1 among them",
            f"1 groups do not answer on {name} and go by what was seen last: {scene.silent}",
            f"1 partitions of {OFFSETS} of {name} do not say how far they go",
        )
        assert [any(text in trouble for trouble in report["troubles"]) for text in said] == [True] * 3


@pytest.mark.long
def test_a_loss_behind_a_silent_partition_is_found_when_it_answers(cluster_b, topic, tmp_path):
    name = topic("silent")
    with silenced(cluster_b, name, tmp_path) as scene:
        silent, other, mirror = scene.silent, scene.other, scene.mirror
        until(lambda: f"group {silent}: " in mirror.output, "the log says that it is not known", 60)
        commit(scene.source, other, name, {0: 9})
        until(lambda: committed(cluster_b, other, scene.copy) == {0: 9}, "the other one goes on", 60)
        assert committed(cluster_b, silent, scene.copy) == {0: 8}
        scene.broker.start()
        found = f"has lost the end of {OFFSETS}: 1 groups ({silent})"
        until(lambda: found in mirror.output, "it is found", 60)
        assert committed(scene.source, silent, name) == {0: 3}
        assert committed(cluster_b, silent, scene.copy) == {0: 8}
