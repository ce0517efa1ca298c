"""A source whose log is another one than was copied, by leader epochs; what it deletes, and what comes late."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset
from sparkmirror.model import Alias
from sparkmirror.model import TopicPartition as Place
from tests.flow import offset_map
from tests.flow.elections import PATIENCE_SECONDS, create, elect_the_unclean, leader
from tests.flow.running import Running, add_partitions, admin_of, create_topic, ends, until, write_file
from tests.flow.test_died_unheard import killed_at_its_first_records, newest
from tests.flow.test_events import delete_records, of_kind, read_all
from tests.flow.test_torn_while_idle import cut_log, mirrored, write

FETCH_WAIT_S = 0.5
"""Of a follower: Kafka's default of ``replica.fetch.wait.max.ms``."""

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def numbered(kind: str, number: int, first: int = 0) -> list[bytes]:
    return [b"%s-%d" % (kind.encode(), each) for each in range(first, first + number)]


def flow_file(directory: Path, source: LabCluster, target: LabCluster, name: str, **more: str) -> Path:
    """A flow of the topics that begin with a name, which is the source's alias too."""
    settings = {"tasks.max": "1"} | {key.replace("_", "."): value for key, value in more.items()}
    return write_file(directory / "mm2.properties", {name: source, "t": target}, {f"{name}->t": f"{name}.*"}, settings)


@pytest.mark.parametrize("running", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_source_that_is_restored_from_an_older_copy_of_its_disk(cluster_b, topic, tmp_path, running):
    """It has grown beyond the position when the mirror looks again: only its leader epochs tell."""
    name, disk = topic("restored"), tmp_path / "disk"
    copy = f"{name}.{name}"
    with start("s", directory=disk) as source:
        (broker,) = source.brokers
        create_topic(source, name)
        write(source, name, numbered("old", 100))
        broker.stop()
        shutil.copytree(disk / "broker-1" / "data", tmp_path / "copy")
        for _ in range(3):
            broker.start()
            broker.stop()
        broker.start()
        write(source, name, numbered("old", 50, 100))
        file = flow_file(tmp_path, source, cluster_b, name)
        with Running(file, log=tmp_path / "first.log") as mirror:
            until(lambda: len(mirrored(cluster_b, copy)) == 150, "copied")
            until(lambda: newest(cluster_b, name, name).get("position") == 150, "on record")
            if running:
                for pid in (mirror.pid, *mirror.lane_workers()):
                    os.kill(pid, signal.SIGSTOP)
            else:
                mirror.stop_in_time()
            broker.kill()
            shutil.rmtree(disk / "broker-1" / "data")
            shutil.copytree(tmp_path / "copy", disk / "broker-1" / "data")
            broker.start()
            write(source, name, numbered("new", 100))  # by a new client: others know a later leader epoch
            if running:
                for pid in (*mirror.lane_workers(), mirror.pid):
                    os.kill(pid, signal.SIGCONT)
                until(lambda: mirrored(cluster_b, copy)[-1:] == [b"new-99"], "the newest")
                mirror.stop_in_time()
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
    assert mirrored(cluster_b, copy) == [*numbered("old", 150), *numbered("new", 100)]
    (event,) = of_kind(file, name, "source-tail-lost")
    assert (event.first, event.last) == (100, 149)


def test_a_deposed_leader_of_the_source_comes_back_with_records_that_were_never_copied(cluster_b, topic, tmp_path):
    """Its epoch ends in its log behind where the copy had left it."""
    name = topic("deposed")
    copy = f"{name}.{name}"
    settings = {"unclean.leader.election.enable": "true", "auto.leader.rebalance.enable": "false"}
    with start("s", brokers=3, config=settings) as source:
        admin, (_, second, third) = admin_of(source), source.brokers
        create(source, name, [[2, 3]])
        write(source, name, numbered("old", 10))
        file = flow_file(tmp_path, source, cluster_b, name)
        with Running(file, log=tmp_path / "run.log") as mirror:
            until(lambda: len(mirrored(cluster_b, copy)) == 10, "copied")
            producer = Producer({"bootstrap.servers": source.bootstrap_servers, "acks": "1", "log_level": 0})
            producer.list_topics(name, timeout=60)
            os.kill(third.pid, signal.SIGSTOP)
            time.sleep(4 * FETCH_WAIT_S)  # its fetch that waits at the second one is answered, without a record
            for value in numbered("deposed", 20):
                producer.produce(name, value, partition=0)
            assert producer.flush(60) == 0
            second.kill()
            os.kill(third.pid, signal.SIGCONT)
            until(lambda: leader(admin, name) == (3, [3]), "the third leads", PATIENCE_SECONDS)
            assert ends(source, name) == {0: 10}, "the second one's are not there"
            write(source, name, numbered("mid", 50))
            until(lambda: len(mirrored(cluster_b, copy)) == 60, "copied")
            third.kill()
            second.start()
            elect_the_unclean(source, name, 2)
            write(source, name, numbered("last", 5))
            until(lambda: mirrored(cluster_b, copy)[-1:] == [b"last-4"], "the newest", PATIENCE_SECONDS)
            whole = [*numbered("old", 10), *numbered("mid", 50), *numbered("deposed", 20), *numbered("last", 5)]
            assert mirrored(cluster_b, copy) == whole
            mirror.stop_in_time()
        assert begins(cluster_b, f"sparkmirror.{name}.t.internal", name) == [0, 30], "the lost epoch is forgotten"
        (event,) = of_kind(file, name, "source-tail-lost")
        assert (event.first, event.last) == (10, 59)


def test_what_the_source_deleted_before_it_was_copied_is_told_though_the_run_dies_at_once(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("deleted")
    alias, copy = name, f"{name}.{name}"
    create_topic(cluster_a, name)
    write(cluster_a, name, numbered("old", 100))
    file = write_file(tmp_path / "mm2.properties", {alias: cluster_a, "t": cluster_b}, {f"{alias}->t": name})
    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: len(mirrored(cluster_b, copy)) == 100, "copied")
        mirror.stop_in_time()
    write(cluster_a, name, numbered("old", 100, 100))
    delete_records(cluster_a, name, 180)
    with Running(file, log=tmp_path / "second.log") as mirror:
        killed_at_its_first_records(mirror, cluster_b, copy, ends(cluster_b, copy)[0])
    with Running(file, log=tmp_path / "third.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    assert mirrored(cluster_b, copy) == [*numbered("old", 100), *numbered("old", 20, 180)]
    (event,) = of_kind(file, name, "source-retention")
    assert (event.first, event.last) == (100, 179)


def test_what_comes_to_a_flow_that_begins_at_the_end_of_logs_is_told(cluster_a, cluster_b, topic, tmp_path):
    """A partition that is added, and a topic that is created, while it runs."""
    name = topic("late")
    other = f"{name}-2"
    create_topic(cluster_a, name)
    write(cluster_a, name, numbered("before", 5))
    clusters, settings = {name: cluster_a, "t": cluster_b}, {"start.position": "latest"}
    file = write_file(tmp_path / "mm2.properties", clusters, {f"{name}->t": f"{name}.*"}, settings)
    with Running(file, log=tmp_path / "run.log") as mirror:
        until(lambda: newest(cluster_b, name, name).get("lane"), "it has begun")
        write(cluster_a, name, numbered("first", 5))
        until(lambda: mirrored(cluster_b, f"{name}.{name}") == numbered("first", 5), "copied from the end on")
        assert of_kind(file, name, "note") == []
        create_topic(cluster_a, other)
        write(cluster_a, other, numbered("other", 20))
        add_partitions(cluster_a, name, 2)
        (told,) = until(lambda: of_kind(file, other, "note"), "it is told")
        assert (told.first, told.last) == (0, 19)
        assert read_all(cluster_b, f"{name}.{other}").get(0, []) == []
        mirror.stop_in_time()


def test_a_tail_that_the_source_loses_after_a_takeover_from_mirror_maker_2(cluster_b, topic, tmp_path):
    """Nothing was copied since: its position is all that is known."""
    name = topic("moved")
    copy, positions = f"{name}.{name}", f"mm2-offsets.{name}.internal"
    with start("s") as source:
        create_topic(source, name)
        create_topic(cluster_b, copy)
        for value in numbered("old", 20):
            write(source, name, [value])
            write(cluster_b, copy, [value])
        create_topic(cluster_b, positions, 5)
        owner = Owner(connector="MirrorSourceConnector", cluster=Alias(name))
        stored = StoredOffset(owner=owner, partition=Place(name, 0), offset=19)
        producer = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "partitioner": "murmur2"})
        producer.produce(positions, stored.value, stored.key)
        assert producer.flush(60) == 0
        file = flow_file(tmp_path, source, cluster_b, name, mm2_takeover_enabled="true")
        with Running(file, log=tmp_path / "first.log") as mirror:
            known: dict[str, Any] = until(lambda: lane_of(cluster_b, name), "it goes on behind it")
            mirror.stop_in_time()
        assert known["position"] == 20, known
        (broker,) = source.brokers
        broker.kill()
        cut_log(broker, name, 10)
        broker.start()
        until(lambda: ends(source, name) == {0: 10}, "records are really lost")
        write(source, name, numbered("new", 20))
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
    assert mirrored(cluster_b, copy) == [*numbered("old", 20), *numbered("new", 20)]
    (event,) = of_kind(file, name, "source-tail-lost")
    assert (event.first, event.last) == (10, 19)


def begins(target: LabCluster, internal: str, name: str) -> list[int]:
    """Where the leader epochs of a topic's partition 0 begin, as is on record."""
    known = offset_map.journal(target, internal)
    return sorted(value["offset"] for key, value in known.items() if key[:3] == ("source-epoch", name, 0) and value)


def lane_of(target: LabCluster, name: str) -> dict[str, Any]:
    found = newest(target, name, name)
    return found if found.get("lane") else {}
