"""What others wrote to copies goes home, exactly once, with real clients: over there, back again, and on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkmirror.config import load
from sparkmirror.duties.duty import Sides
from sparkmirror.events import now_ms
from sparkmirror.flow.sides import connected, record
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.inherited import ELSEWHERE_KEY, Elsewhere, Inherited
from tests.failover.clients import due, next_records
from tests.failover.test_switching import Scene, contents
from tests.flow.logs import Log, read
from tests.flow.running import Running, commit, create_topic, ends, reaches, until, write_file
from tests.invoking import sparkmirror

PARTITIONS = 3
FIRST, FOREIGN = 12, 25
"""Places in a partition of the copy: among the records that were copied, and among those that others wrote."""

BORN_THERE = (b"early", b"plain", b"exact", b"last")


def produce(cluster: LabCluster, topic: str, mark: str, count: int, **settings: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **settings})
    for number in range(count):
        producer.produce(topic, f"{mark}-{number}".encode(), f"key-{number}".encode(), number % PARTITIONS)
    assert producer.flush(60) == 0


def transact(cluster: LabCluster, topic: str, mark: str, count: int, name: str) -> None:
    """Writes in transactions, the second of which is aborted."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "transactional.id": name})
    producer.init_transactions(60)
    for part, kept in (("one", True), ("aborted", False), ("two", True)):
        producer.begin_transaction()
        for number in range(count):
            producer.produce(topic, f"{mark}-{part}-{number}".encode(), b"key", number % PARTITIONS)
        producer.flush(60)
        if kept:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def values(cluster: LabCluster, topic: str) -> dict[int, list[bytes]]:
    """The values of each partition, as a reader of committed records sees them."""
    return {number: [each.value or b"" for each in records] for number, records in read(cluster, topic).items()}


def marked(found: Mapping[int, Sequence[bytes]], *marks: bytes) -> dict[int, list[bytes]]:
    return {number: [one for one in some if one.startswith(marks)] for number, some in found.items()}


def once_each(found: Mapping[int, Sequence[bytes]]) -> bool:
    every = [value for some in found.values() for value in some]
    return len(every) == len(set(every))


def home(scene: Scene, *marks: str) -> bool:
    """Whether values are there; the last ones of all partitions, where all that was written is meant."""
    there = {value for some in values(scene.source, scene.topic).values() for value in some}
    return all(mark.encode() in there for mark in marks)


def last_three(mark: str, count: int) -> tuple[str, ...]:
    """The last value of each partition, of ``count`` in all."""
    return tuple(f"{mark}-{number}" for number in range(count - PARTITIONS, count))


def scene_of(source: LabCluster, target: LabCluster, stem: str, directory: Path, **settings: str) -> Scene:
    """A flow of one topic with a flow back."""
    scene = Scene(source, target, stem, directory)
    scene.file = write_file(
        directory / "mm2.properties",
        {stem: source, "b": target},
        {f"{stem}->b": f"{stem}-.*", f"b->{stem}": f"{stem}-.*"},
        {
            "groups": f"{stem}-.*",
            "sync.group.offsets.interval.seconds": "1",
            **settings,
        },
    )
    return scene


def write_over_there(scene: Scene, local: str) -> tuple[Log, Log]:
    """What applications do where they are now; gives the logs of the copy and of a topic born there."""
    stem, cluster, copy = scene.stem, scene.target, scene.copy
    produce(scene.source, scene.topic, "only-here", 9)  # a producer that had not heard of it
    produce(cluster, copy, "plain", 30)
    transact(cluster, copy, "exact", 12, f"{stem}-transactions")
    produce(cluster, copy, "last", 3)
    produce(cluster, local, "meanwhile", 30)
    written, own = read(cluster, copy), read(cluster, local)
    for group, place in ((f"{stem}-first", FIRST), (f"{stem}-foreign", FOREIGN)):
        commit(cluster, group, copy, {number: records[place].offset for number, records in written.items()}, "kept")
    commit(cluster, f"{stem}-foreign", local, {number: records[4].offset for number, records in own.items()}, "kept")
    commit(cluster, f"{stem}-end", copy, ends(cluster, copy))
    return written, own


def check_groups(scene: Scene, written: Log, local: str) -> None:
    """Each group starts with the record that it would have read next, by both maps."""
    stem, home_again, here = scene.stem, scene.source, read(scene.source, scene.topic)
    for group, place in ((f"{stem}-first", FIRST), (f"{stem}-foreign", FOREIGN)):
        wanted = {number: records[place].value for number, records in written.items()}
        assert next_records(home_again, group, scene.topic, here) == wanted
    assert next_records(home_again, f"{stem}-end", scene.topic, here) == dict.fromkeys(range(PARTITIONS))
    brought = read(home_again, f"b.{local}")
    assert next_records(home_again, f"{stem}-foreign", f"b.{local}", brought) == due(
        brought, dict.fromkeys(range(PARTITIONS), 4)
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_what_others_wrote_to_copies_goes_home_once_and_nothing_else_does(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("homeward")
    scene = scene_of(cluster_a, cluster_b, stem, tmp_path, **{f"b->{stem}.homeward.enabled": "true"})
    local = f"{stem}-u"
    create_topic(cluster_b, local, PARTITIONS)
    with Running(scene.file, log=tmp_path / "run.log") as mirror:
        produce(cluster_a, scene.topic, "first", 60)
        reaches(cluster_b, scene.copy, 60)
        produce(cluster_b, scene.copy, "early", 6)  # while the flow forth copies
        until(lambda: home(scene, *last_three("early", 6)), "what others wrote goes home while both flows run")
        over = scene.command("failover", "--force")
        said, _ = over.communicate(timeout=300)
        assert over.returncode == 0, said
        written, own = write_over_there(scene, local)
        reaches(cluster_a, f"b.{local}", 30)
        until(lambda: home(scene, *last_three("last", 3)), "what others wrote goes home")

        dry = sparkmirror("failback", scene.file, "--to", stem, "--dry-run")
        assert dry.returncode == 0, dry.stdout + dry.stderr
        assert "9 offsets of 3 partitions are on" in dry.stdout
        assert "others wrote to copies" not in dry.stdout
        words = ("--to", stem, "--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
        done = sparkmirror("failback", scene.file, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        came, there = values(cluster_a, scene.topic), values(cluster_b, scene.copy)
        assert marked(came, *BORN_THERE) == marked(there, *BORN_THERE), "once and in order"
        assert marked(came, b"exact-aborted") == {number: [] for number in range(PARTITIONS)}
        assert once_each(came)
        assert contents(read(cluster_a, f"b.{local}")) == contents(own)
        check_groups(scene, written, local)

        produce(cluster_a, scene.topic, "onward", 30)
        onward = {mark.encode() for mark in last_three("onward", 30)}
        until(
            lambda: onward <= {one for some in values(cluster_b, scene.copy).values() for one in some}, "forth goes on"
        )
        produce(cluster_b, scene.copy, "again", 3)
        until(lambda: home(scene, *last_three("again", 3)), "and back")
        came, there = values(cluster_a, scene.topic), values(cluster_b, scene.copy)
        assert once_each(came)
        assert once_each(there)
        assert marked(there, b"onward") == marked(came, b"onward")
        assert marked(there, b"only-here") == {number: [] for number in range(PARTITIONS)}, "it was put aside"
        assert scene_is_released(scene)
        assert mirror.stop(seconds=60) == 0


def scene_is_released(scene: Scene) -> bool:
    forth, _ = load([str(scene.file)]).flows
    with connected(forth, role="test") as sides:
        state = record(sides)
        return state is not None and state.held is None and not state.moves


def starts_of(sides: Sides) -> int:
    """How often a flow has been opened."""
    state = record(sides)
    return 0 if state is None or state.flow is None else state.flow.generation


def pass_through_mirror_maker_2(scene: Scene, mirror: Running) -> None:
    """Puts on record that MirrorMaker 2 had the flow for a while, and writes as it would have."""
    forth, back = load([str(scene.file)]).flows
    with connected(forth, role="test") as sides, connected(back, role="test") as other:
        assert sides.store is not None
        began = starts_of(other)
        sides.store.write([Elsewhere(topic="mm2-offsets", time_ms=now_ms())])
        until(lambda: starts_of(other) > began, "the flow back hears of it, and begins anew without the copies")
        until(lambda: "was handed over to MirrorMaker 2" in mirror.output, "and says why")
        produce(scene.target, scene.copy, "in-between", 6)
        taken_over = [
            Inherited(partition=TopicPartition(scene.topic, number), spans=((0, 10),), end=end, time_ms=now_ms())
            for number, end in ends(scene.target, scene.copy).items()
        ]
        sides.store.write(taken_over, tombstones=[ELSEWHERE_KEY])
    produce(scene.target, scene.copy, "after", 3)
    until(lambda: home(scene, *last_three("after", 3)), "what others wrote after the takeover goes home")
    until(lambda: "as the record of" in mirror.output, "that a part stays is told")


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_a_flow_that_is_stopped_says_that_it_will_tell_writers_and_nothing_older_goes_home(
    cluster_a, cluster_b, topic, tmp_path
):
    stem = topic("later")
    scene = scene_of(cluster_a, cluster_b, stem, tmp_path, **{"topics.append": ".*"})
    create_topic(cluster_b, scene.copy, PARTITIONS)
    produce(cluster_b, scene.copy, "unregistered", 6)  # as MirrorMaker 2 would have, before
    with Running(scene.file, log=tmp_path / "off.log") as mirror:
        produce(cluster_a, scene.topic, "first", 30)
        reaches(cluster_b, scene.copy, 36)
        over = scene.command("failover", "--force")
        said, _ = over.communicate(timeout=300)
        assert over.returncode == 0, said
        produce(cluster_b, scene.copy, "plain", 9)
        dry = sparkmirror("failback", scene.file, "--to", stem, "--dry-run")
        assert "others wrote to copies" in dry.stdout
        assert f"b->{stem}.homeward.enabled = true has it brought home" in " ".join(dry.stdout.split())
        assert mirror.stop(seconds=60) == 0
    with scene.file.open("a") as file:
        file.write(f"b->{stem}.homeward.enabled = true\n")
    plan = sparkmirror("plan", scene.file)
    assert f"{stem}->b would copy it once more" in plan.stdout, plan.stdout + plan.stderr
    told = json.loads(sparkmirror("explain", scene.file, "--topic", scene.copy, "--json").stdout)
    (back,) = [one for one in told["flows"] if one["flow"] == f"b->{stem}"]
    assert (back["copied"], "what others wrote to it goes home" in back["rule"]) == (False, True)
    with Running(scene.file, log=tmp_path / "on.log") as mirror:
        until(lambda: home(scene, *last_three("plain", 9)), "what others wrote goes home while the flow forth is held")
        pass_through_mirror_maker_2(scene, mirror)
        assert mirror.stop(seconds=60) == 0
    came = values(cluster_a, scene.topic)
    assert marked(came, b"plain") == marked(values(cluster_b, scene.copy), b"plain")
    assert marked(came, b"unregistered", b"in-between") == {number: [] for number in range(PARTITIONS)}
    assert once_each(came)
    dry = sparkmirror("failback", scene.file, "--to", stem, "--dry-run")
    assert "others wrote to copies" not in dry.stdout
