"""What others wrote to copies goes home, exactly once, with real clients: over there, back again, and on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from sparkmirror.config import load
from sparkmirror.flow.sides import connected, record
from sparkmirror.lab.cluster import LabCluster
from tests.failover.clients import due, next_records
from tests.failover.test_switching import Scene, contents
from tests.flow.logs import read
from tests.flow.running import Running, commit, create_topic, ends, reaches, until, write_file
from tests.invoking import sparkmirror

PARTITIONS = 3


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
    there = {value for some in values(scene.source, scene.topic).values() for value in some}
    return all(mark.encode() in there for mark in marks)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_what_others_wrote_to_copies_goes_home_once_and_nothing_else_does(cluster_a, cluster_b, topic, tmp_path):
    scene = Scene(cluster_a, cluster_b, topic("homeward"), tmp_path)
    scene.source = cluster_a
    stem, local = scene.stem, f"{scene.stem}-u"
    scene.file = write_file(
        tmp_path / "mm2.properties",
        {stem: cluster_a, "b": cluster_b},
        {f"{stem}->b": f"{stem}-.*", f"b->{stem}": f"{stem}-.*"},
        {
            "groups": f"{stem}-.*",
            "sync.group.offsets.interval.seconds": "1",
            "topics.exclude": ".*divergent.*",
            f"b->{stem}.homeward.enabled": "true",
        },
    )
    create_topic(cluster_b, local, PARTITIONS)
    first, foreign, end = f"{stem}-first", f"{stem}-foreign", f"{stem}-end"
    with ExitStack() as stack:
        mirror = stack.enter_context(Running(scene.file, log=tmp_path / "run.log"))
        produce(cluster_a, scene.topic, "first", 60)
        reaches(cluster_b, scene.copy, 60)
        produce(cluster_b, scene.copy, "early", 6)  # while the flow forth copies
        until(lambda: home(scene, "early-5"), "what others wrote goes home while both flows run")
        over = scene.command("failover", "--force")
        said, _ = over.communicate(timeout=150)
        assert over.returncode == 0, said
        produce(cluster_a, scene.topic, "only-here", 9)  # a producer that had not heard of it
        produce(cluster_b, scene.copy, "plain", 30)
        transact(cluster_b, scene.copy, "exact", 12, f"{stem}-transactions")
        produce(cluster_b, scene.copy, "last", 3)
        produce(cluster_b, local, "meanwhile", 30)
        copy, own = read(cluster_b, scene.copy), read(cluster_b, local)
        in_copy = {number: records[12].offset for number, records in copy.items()}
        in_foreign = {number: records[25].offset for number, records in copy.items()}
        commit(cluster_b, first, scene.copy, in_copy, "kept")
        commit(cluster_b, foreign, scene.copy, in_foreign, "kept")
        commit(cluster_b, foreign, local, {number: records[4].offset for number, records in own.items()}, "kept")
        commit(cluster_b, end, scene.copy, ends(cluster_b, scene.copy))
        reaches(cluster_a, f"b.{local}", 30)
        until(lambda: home(scene, "last-2"), "what others wrote goes home")

        dry = sparkmirror("failback", scene.file, "--to", stem, "--dry-run")
        assert dry.returncode == 0, dry.stdout + dry.stderr
        assert "9 offsets of 3 partitions are on" in dry.stdout
        assert "others wrote to copies" not in dry.stdout
        words = ("--to", stem, "--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
        done = sparkmirror("failback", scene.file, *words)
        assert done.returncode == 0, done.stdout + done.stderr

        here, there = read(cluster_a, scene.topic), values(cluster_b, scene.copy)
        born_there = (b"early", b"plain", b"exact", b"last")
        assert marked(values(cluster_a, scene.topic), *born_there) == marked(there, *born_there), "once and in order"
        assert not any(b"aborted" in value for some in values(cluster_a, scene.topic).values() for value in some)
        assert once_each(values(cluster_a, scene.topic))
        assert contents(read(cluster_a, f"b.{local}")) == contents(own)
        assert next_records(cluster_a, first, scene.topic, here) == {
            number: copy[number][12].value for number in range(PARTITIONS)
        }
        assert next_records(cluster_a, foreign, scene.topic, here) == {
            number: copy[number][25].value for number in range(PARTITIONS)
        }
        assert next_records(cluster_a, end, scene.topic, here) == dict.fromkeys(range(PARTITIONS))
        brought = read(cluster_a, f"b.{local}")
        assert next_records(cluster_a, foreign, f"b.{local}", brought) == due(brought, dict.fromkeys(range(3), 4))

        produce(cluster_a, scene.topic, "onward", 30)
        until(lambda: any(b"onward-29" in some for some in values(cluster_b, scene.copy).values()), "forth goes on")
        produce(cluster_b, scene.copy, "again", 3)
        until(lambda: home(scene, "again-2"), "and back")
        ended = values(cluster_b, scene.copy)
        assert once_each(ended)
        assert marked(ended, b"onward") == marked(values(cluster_a, scene.topic), b"onward")
        assert marked(ended, b"only-here") == {number: [] for number in range(PARTITIONS)}, "it was put aside"
        assert once_each(values(cluster_a, scene.topic))
        (forth, _) = load([str(scene.file)]).flows
        with connected(forth, role="test") as sides:
            state = record(sides)
        assert state is not None
        assert state.held is None
        assert mirror.stop(seconds=60) == 0
