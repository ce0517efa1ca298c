"""Groups go on at the target where they were at the source: the same next record, told by clients of others."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from sparkmirror.config import load
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.group_offsets import CommitOffsets, GroupOffsets
from sparkmirror.duties.groups import Standing, explain_group
from sparkmirror.flow.schedule import connected
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.spark.gateway import Gateway
from tests.flow.logs import Log, read
from tests.flow.running import ANSWER_SECONDS, Running, admin_of, create_topic, ends, until, write_file
from tests.flow.test_compaction import COMPACTED, quick_cleaner

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PLAIN, TRANSACTIONS, CLEANED = 0, 1, 2
"""The partitions of the topic."""

Offsets = Mapping[int, int]


def settings_of(cluster: LabCluster) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "log_level": 3}


def commit(cluster: LabCluster, group: str, topic: str, offsets: Offsets, metadata: str = "") -> None:
    """As an administrator does it."""
    places = [TopicPartition(topic, number, offset, metadata) for number, offset in offsets.items()]
    admin = admin_of(cluster)
    (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)]).values()
    for place in future.result(ANSWER_SECONDS).topic_partitions:
        assert place.error is None, place.error


def committed(cluster: LabCluster, group: str, topic: str) -> dict[int, int]:
    admin = admin_of(cluster)
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    places = future.result(ANSWER_SECONDS).topic_partitions
    return {place.partition: place.offset for place in places if place.topic == topic and place.offset >= 0}


def write(cluster: LabCluster, topic: str) -> None:
    """A plain partition, one of transactions of which each third aborts, and one with a key that is always replaced."""
    plain = Producer(settings_of(cluster))
    for number in range(60):
        plain.produce(topic, b"%d" % number, b"%d" % number, PLAIN)
    for number in range(8):
        plain.produce(topic, b"%d" % number, b"replaced" if number % 3 else b"%d" % number, CLEANED)
        assert plain.flush(ANSWER_SECONDS) == 0
        time.sleep(0.12)  # each is a segment of its own; the last is never cleaned, and does not count
    writer = Producer(settings_of(cluster) | {"transactional.id": topic})
    writer.init_transactions(ANSWER_SECONDS)
    for turn in range(9):
        writer.begin_transaction()
        for number in range(4):
            writer.produce(topic, b"%d" % number, b"%d of turn %d" % (number, turn), TRANSACTIONS)
        assert writer.flush(ANSWER_SECONDS) == 0
        writer.abort_transaction(ANSWER_SECONDS) if turn % 3 == 0 else writer.commit_transaction(ANSWER_SECONDS)


def expected(here: Log, there: Log, offsets: Offsets) -> dict[int, int]:
    """Where the first record from each offset on lies on the target; behind the last one if there is none."""
    found = {}
    for number, offset in offsets.items():
        place = bisect_left([record.offset for record in here[number]], offset)
        rest = there[number][place:]
        assert [(r.key, r.value) for r in rest] == [(r.key, r.value) for r in here[number][place:]]
        found[number] = rest[0].offset if rest else there[number][-1].offset + 1
    return found


@contextmanager
def member(cluster: LabCluster, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    told = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "group.protocol": protocol}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3} | told)
    try:
        consumer.subscribe([topic])
        until(lambda: (consumer.poll(0.1), consumer.assignment())[1], f"{group} is joined", 30)
        yield consumer
    finally:
        consumer.close()


def as_java_tells(servers: str, groups: list[str], topic: str) -> dict[str, dict[int, tuple[int, str]]]:
    """What ``RemoteClusterUtils.translateOffsets`` of Kafka reads from the target, for groups of cluster ``a``.

    Where librdkafka's Python client writes metadata, it ends with a NUL.
    """
    found: dict[str, dict[int, tuple[int, str]]] = {}
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        java = gateway.jvm.java
        client = java.util.HashMap()
        client.put("bootstrap.servers", servers)
        for group in groups:
            told = gateway.jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
                client, "a", group, java.time.Duration.ofSeconds(20)
            )
            found[group] = {
                entry.getKey().partition(): (entry.getValue().offset(), entry.getValue().metadata().rstrip("\0"))
                for entry in told.entrySet()
                if entry.getKey().topic() == topic
            }
    return found


def standings(file: Path, group: str) -> dict[int, tuple[Standing, int]]:
    """What the explanation says of a group, by partition: where it stands, and its offset on the target."""
    (flow,) = load([str(file)]).flows
    with connected(flow, lambda _: None, role="test") as sides:
        lines = explain_group(GroupLook(sides, patience_s=0).look(target=True), group)
    return {line.partition.partition if line.partition else -1: (line.standing, line.there) for line in lines}


def test_groups_go_on_at_the_target_with_the_record_that_they_would_have_read_next(
    cluster_a, cluster_b, topic, tmp_path
):
    name, stem = topic("groups"), topic("readers")
    quick_cleaner(cluster_a)
    create_topic(cluster_a, name, 3, COMPACTED | {"segment.bytes": "1048576", "segment.ms": "100"})
    write(cluster_a, name)
    copy = f"a.{name}"
    until(lambda: len(read(cluster_a, name)[CLEANED]) == 5, "the log is cleaned", 60)
    last = ends(cluster_a, name)
    walks = {
        f"{stem}-at-{step}": {number: min(end, step * end // 12) for number, end in last.items()} for step in range(13)
    }
    for group, offsets in walks.items():
        commit(cluster_a, group, name, offsets, f"of {group}")
    beyond, active, modern = f"{stem}-beyond", f"{stem}-active", f"{stem}-modern"
    commit(cluster_a, beyond, name, {PLAIN: last[PLAIN] + 100})
    commit(cluster_a, active, name, {PLAIN: 7})
    commit(cluster_a, f"x-{stem}", name, {PLAIN: 7})
    with member(cluster_a, modern, name, "consumer") as consumer:
        consumer.commit(offsets=[TopicPartition(name, PLAIN, 33)], asynchronous=False)
    create_topic(cluster_b, copy, 3)
    intervals = ("refresh.groups", "emit.checkpoints", "sync.group.offsets")
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b},
        {"a->b": name},
        {"groups": f"{stem}.*", "sync.group.offsets.enabled": "true"}
        | {f"{each}.interval.seconds": "1" for each in intervals},
    )
    with member(cluster_b, active, copy), Running(file, log=tmp_path / "run.log") as mirror:
        until(lambda: committed(cluster_b, modern, copy), "the groups are translated")
        until(lambda: all(len(committed(cluster_b, group, copy)) == 3 for group in walks), "all of them")
        here, there = read(cluster_a, name), read(cluster_b, copy)
        assert [len(log) < last[number] for number, log in here.items()] == [False, True, True]
        translated = {group: expected(here, there, offsets) for group, offsets in walks.items()}
        assert {group: committed(cluster_b, group, copy) for group in walks} == translated
        assert committed(cluster_b, modern, copy) == expected(here, there, {PLAIN: 33})
        assert [committed(cluster_b, group, copy) for group in (beyond, active, f"x-{stem}")] == [{}, {}, {}]
        told = as_java_tells(cluster_b.bootstrap_servers, [*walks, active, beyond], copy)
        assert {group: told[group] for group in walks} == {
            group: {number: (offset, f"of {group}") for number, offset in offsets.items()}
            for group, offsets in translated.items()
        }
        assert told[active] == {PLAIN: (expected(here, there, {PLAIN: 7})[PLAIN], "")}
        assert told[beyond] == {}
        assert standings(file, beyond)[PLAIN][0] is Standing.AHEAD
        assert standings(file, active)[PLAIN] == (Standing.ACTIVE_THERE, -1)
        assert standings(file, f"x-{stem}") == {-1: (Standing.FILTERED, -1)}

        forth, back, used = (f"{stem}-at-{step}" for step in (3, 9, 6))
        commit(cluster_a, back, name, {PLAIN: 1})
        commit(cluster_a, forth, name, {PLAIN: 59})
        commit(cluster_b, used, copy, {PLAIN: 58})
        wanted = {group: expected(here, there, {PLAIN: at})[PLAIN] for group, at in ((back, 1), (forth, 59))}
        until(
            lambda: {group: committed(cluster_b, group, copy)[PLAIN] for group in wanted} == wanted,
            "one is set back, one goes on",
        )
        mirror.stop_in_time()
        assert f"group {back}" in " ".join(mirror.output.split())
    assert committed(cluster_b, used, copy)[PLAIN] == 58
    assert standings(file, used)[PLAIN] == (Standing.FURTHER_THERE, 58)

    # Set back while no mirror runs: what it had before is on record. One has no members any more, one gets one.
    late = f"{stem}-at-4"
    commit(cluster_a, forth, name, {PLAIN: 2, CLEANED: last[CLEANED]})
    commit(cluster_a, late, name, {PLAIN: 50})
    before = committed(cluster_b, late, copy)
    (flow,) = load([str(file)]).flows
    with connected(flow, lambda _: None, role="test") as sides:
        duty = GroupOffsets(sides)
        actions = duty.look()
        assert [action.group for action in actions if isinstance(action, CommitOffsets)] == [active, forth, late]
        with member(cluster_b, late, copy):
            assert [result.action for result in duty.apply(actions) if result.done] == list(actions[:2])
    after = expected(here, there, {PLAIN: 2, CLEANED: last[CLEANED]})
    assert {number: committed(cluster_b, forth, copy)[number] for number in after} == after
    assert committed(cluster_b, active, copy) == expected(here, there, {PLAIN: 7})
    assert committed(cluster_b, late, copy) == before
    assert committed(cluster_b, used, copy)[PLAIN] == 58
    assert {standing for standing, _ in standings(file, forth).values()} == {Standing.LEVEL}
