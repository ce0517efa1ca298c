"""Groups go on at the target where they were at the source: the same next record, told by clients of others."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sparkmirror.config import load
from sparkmirror.duties.group_look import GroupLook
from sparkmirror.duties.group_offsets import CommitOffsets, GroupOffsets
from sparkmirror.duties.groups import Standing, explain_group
from sparkmirror.flow.sides import connected
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.spark.gateway import Gateway
from tests.flow.logs import Log, read
from tests.flow.running import ANSWER_SECONDS, Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_compaction import COMPACTED, quick_cleaner
from tests.invoking import sparkmirror

pytestmark = pytest.mark.kafka

PLAIN, TRANSACTIONS, CLEANED = 0, 1, 2
"""The partitions of the topic."""

Offsets = Mapping[int, int]


def settings_of(cluster: LabCluster) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "log_level": 3}


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
    with connected(flow, role="test") as sides:
        lines = explain_group(GroupLook(sides, patience_s=0).look(target=True), group)
    return {line.partition.partition if line.partition else -1: (line.standing, line.there) for line in lines}


@dataclass(frozen=True)
class Scene:
    """A topic, groups that have committed for it, and a mirror's file.

    Attributes:
        walks: groups from the start to the end, by partition where each is.
        last: the ends of the source.
    """

    source: LabCluster
    target: LabCluster
    topic: str
    copy: str
    stem: str
    walks: Mapping[str, Offsets]
    last: Offsets
    file: Path

    def there(self, group: str) -> dict[int, int]:
        return committed(self.target, group, self.copy)


def staged(source: LabCluster, target: LabCluster, name: str, stem: str, directory: Path) -> Scene:
    quick_cleaner(source)
    create_topic(source, name, 3, COMPACTED | {"segment.bytes": "1048576", "segment.ms": "100"})
    create_topic(target, f"a.{name}", 3)
    write(source, name)
    until(lambda: len(read(source, name)[CLEANED]) == 5, "the log is cleaned", 240)
    last = ends(source, name)
    walks = {
        f"{stem}-at-{step}": {number: min(end, step * end // 12) for number, end in last.items()} for step in range(13)
    }
    for group, offsets in walks.items():
        commit(source, group, name, offsets, f"of {group}")
    commit(source, f"{stem}-beyond", name, {PLAIN: last[PLAIN] + 100})
    commit(source, f"{stem}-active", name, {PLAIN: 7})
    commit(source, f"x-{stem}", name, {PLAIN: 7})
    with member(source, f"{stem}-modern", name, "consumer") as consumer:
        consumer.commit(offsets=[TopicPartition(name, PLAIN, 33)], asynchronous=False)
    intervals = ("refresh.groups", "emit.checkpoints", "sync.group.offsets")
    file = write_file(
        directory / "mm2.properties",
        {"a": source, "b": target},
        {"a->b": name},
        {"groups": f"{stem}.*", "sync.group.offsets.enabled": "true"}
        | {f"{each}.interval.seconds": "1" for each in intervals},
    )
    return Scene(source, target, name, f"a.{name}", stem, walks, last, file)


def java_tells_of_all(scene: Scene, others: list[str]) -> dict[str, dict[int, tuple[int, str]]]:
    """What Java reads, once it reads something of every group that is translated; nothing before."""
    told = as_java_tells(scene.target.bootstrap_servers, [*scene.walks, *others], scene.copy)
    return told if all(len(told[group]) == 3 for group in scene.walks) else {}


def check_translated(scene: Scene, here: Log, there: Log) -> None:
    """Every group is at the target where the records say, and clients of MirrorMaker 2 are told the same."""
    beyond, active, other = f"{scene.stem}-beyond", f"{scene.stem}-active", f"x-{scene.stem}"
    assert [len(log) < scene.last[number] for number, log in here.items()] == [False, True, True]
    translated = {group: expected(here, there, offsets) for group, offsets in scene.walks.items()}
    assert {group: scene.there(group) for group in scene.walks} == translated
    assert scene.there(f"{scene.stem}-modern") == expected(here, there, {PLAIN: 33})
    assert [scene.there(group) for group in (beyond, active, other)] == [{}, {}, {}]
    told = until(lambda: java_tells_of_all(scene, [active, beyond]), "the checkpoints, which come after the offsets")
    assert {group: told[group] for group in scene.walks} == {
        group: {number: (offset, f"of {group}") for number, offset in offsets.items()}
        for group, offsets in translated.items()
    }
    assert told[active] == {PLAIN: (expected(here, there, {PLAIN: 7})[PLAIN], "")}
    assert told[beyond] == {}
    assert standings(scene.file, beyond)[PLAIN][0] is Standing.AHEAD
    assert standings(scene.file, active)[PLAIN] == (Standing.ACTIVE_THERE, -1)
    assert standings(scene.file, other) == {-1: (Standing.FILTERED, -1)}


def check_a_restart(scene: Scene, here: Log, there: Log) -> None:
    """Set back while no mirror runs: what it had is on record. One group has no members any more, one gets one."""
    forth, active, late = f"{scene.stem}-at-3", f"{scene.stem}-active", f"{scene.stem}-at-4"
    offsets = {PLAIN: 2, CLEANED: scene.last[CLEANED]}
    commit(scene.source, forth, scene.topic, offsets)
    commit(scene.source, late, scene.topic, {PLAIN: 50})
    before = scene.there(late)
    (flow,) = load([str(scene.file)]).flows
    with connected(flow, role="test") as sides:
        duty = GroupOffsets(sides)
        actions = duty.look()
        assert [action.group for action in actions if isinstance(action, CommitOffsets)] == [active, forth, late]
        with member(scene.target, late, scene.copy):
            assert [result.action for result in duty.apply(actions) if result.done] == list(actions[:2])
    after = expected(here, there, offsets)
    assert {number: scene.there(forth)[number] for number in after} == after
    assert scene.there(active) == expected(here, there, {PLAIN: 7})
    assert scene.there(late) == before
    assert {standing for standing, _ in standings(scene.file, forth).values()} == {Standing.LEVEL}


def told_by_command(scene: Scene, group: str, *words: str) -> dict[int, int | None]:
    """What ``sparkmirror offsets`` says, by partition."""
    done = sparkmirror("offsets", scene.file, "--group", group, "--json", *words)
    assert done.returncode == 0, done.stderr
    return {each["partition"]: each["offset"] for each in json.loads(done.stdout)["partitions"]}


def expected_back(here: Log, there: Log, offsets: Offsets, last: Offsets) -> dict[int, int]:
    """Where the first record from each offset of the target on lies on the source; its end if there is none."""
    found = {}
    for number, offset in offsets.items():
        place = bisect_left([record.offset for record in there[number]], offset)
        found[number] = here[number][place].offset if place < len(here[number]) else last[number]
    return found


def check_the_command(scene: Scene, here: Log, there: Log) -> None:
    """Both ways it says what the records say, and commits it for groups without members, and for no others."""
    for group in scene.walks:
        offsets = committed(scene.source, group, scene.topic)
        assert told_by_command(scene, group) == expected(here, there, offsets)
        back = told_by_command(scene, group, "--reverse", "--topic", scene.copy)
        assert back == expected_back(here, there, scene.there(group), scene.last)
    beyond, active, other = f"{scene.stem}-beyond", f"{scene.stem}-active", f"x-{scene.stem}"
    assert told_by_command(scene, beyond) == {PLAIN: None}
    left_out = sparkmirror("offsets", scene.file, "--group", beyond, "--apply")
    assert (left_out.returncode, left_out.stdout.splitlines()[-1]) == (
        1,
        f"0 offsets committed for group {beyond} on cluster b, 1 left out",
    )
    with member(scene.target, active, scene.copy):
        refused = sparkmirror("offsets", scene.file, "--group", active, "--apply")
    assert refused.returncode == 1
    assert f"group {active} has members there, and nothing was changed" in " ".join(refused.stderr.split())
    assert told_by_command(scene, other, "--apply") == scene.there(other) == expected(here, there, {PLAIN: 7})
    commit(scene.target, other, scene.copy, {PLAIN: 20})
    assert told_by_command(scene, other, "--apply", "--reverse") == expected_back(here, there, {PLAIN: 20}, scene.last)
    assert committed(scene.source, other, scene.topic) == expected_back(here, there, {PLAIN: 20}, scene.last)
    for words, why in (
        (("--group", "nobody"), "cluster a: there is no group nobody"),
        (("--group", other, "--topic", "other"), f"cluster a: group {other} has committed nothing for other: "),
        (("--group", other, "--topic", scene.topic, "--topic", "x"), f"group {other} has committed nothing for x: "),
    ):
        failed = sparkmirror("offsets", scene.file, *words)
        assert failed.returncode == 1
        assert why in " ".join(failed.stderr.split())


def test_groups_go_on_at_the_target_with_the_record_that_they_would_have_read_next(
    cluster_a, cluster_b, topic, tmp_path
):
    scene = staged(cluster_a, cluster_b, topic("groups"), topic("readers"), tmp_path)
    modern, forth, back, used = (f"{scene.stem}-{name}" for name in ("modern", "at-3", "at-9", "at-6"))
    with (
        member(cluster_b, f"{scene.stem}-active", scene.copy),
        Running(scene.file, log=tmp_path / "run.log") as mirror,
    ):
        until(lambda: scene.there(modern), "the groups are translated")
        until(lambda: all(len(scene.there(group)) == 3 for group in scene.walks), "all of them")
        here, there = read(cluster_a, scene.topic), read(cluster_b, scene.copy)
        check_translated(scene, here, there)
        commit(cluster_a, back, scene.topic, {PLAIN: 1})
        commit(cluster_a, forth, scene.topic, {PLAIN: 59})
        commit(cluster_b, used, scene.copy, {PLAIN: 58})
        wanted = {group: expected(here, there, {PLAIN: at})[PLAIN] for group, at in ((back, 1), (forth, 59))}
        until(lambda: {group: scene.there(group)[PLAIN] for group in wanted} == wanted, "one goes back, one on")
        mirror.stop_in_time()
        assert f"group {back}" in " ".join(mirror.output.split())
    assert standings(scene.file, used)[PLAIN] == (Standing.FURTHER_THERE, 58)
    check_a_restart(scene, here, there)
    assert scene.there(used)[PLAIN] == 58
    check_the_command(scene, here, there)
