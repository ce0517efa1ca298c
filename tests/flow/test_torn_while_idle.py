"""A target that loses the end of a log to which nothing is being written: nobody is told, and nothing may stay lost."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, Producer, TopicPartition

from sparkmirror.lab.broker import Broker
from sparkmirror.lab.cluster import LabCluster, start
from tests.flow import offset_map
from tests.flow.elections import PATIENCE_SECONDS, create, elect_the_unclean, leader
from tests.flow.running import Running, admin_of, create_topic, ends, until, write_file
from tests.flow.test_events import of_kind, read_all, records
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
OTHERS = [b"born on the target %d" % number for number in range(60)]


def write(cluster: LabCluster, name: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for value in values:
        producer.produce(name, value, partition=0)
    assert producer.flush(60) == 0


def mirrored(cluster: LabCluster, copy: str) -> list[bytes]:
    """What lies in a copy, without what others wrote there."""
    return [value for value in read_all(cluster, copy).get(0, []) if value is not None and value not in OTHERS]


def has_begun(target: LabCluster, internal: str, generation: int) -> bool:
    """Whether a lane of that start has published."""
    entries = offset_map.journal(target, internal)
    return any(key[0] == "progress" and value["generation"] == generation for key, value in entries.items() if value)


@pytest.fixture(scope="module")
def three() -> Iterator[LabCluster]:
    settings = {"unclean.leader.election.enable": "true", "auto.leader.rebalance.enable": "false"}
    with start("idle", brokers=3, config=settings) as running:
        yield running


@pytest.mark.parametrize("kept", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_former_leader_that_leads_again_with_less_keeps_nothing_lost(cluster_a, three, kept, topic, tmp_path):
    """One unclean election and a preferred one, while the lane is idle; under kept names others write meanwhile."""
    alias, name = ("k" if kept else "d"), topic("idle")
    copy = name if kept else f"{alias}.{name}"
    internal = f"sparkmirror.{alias}.t.internal"
    create_topic(cluster_a, name, 1)
    for own in (internal, f"sparkmirror.{alias}.t.control"):
        create(three, own, [[1]], {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"})
    create(three, copy, [[2, 3]])
    admin, (_, second, third) = admin_of(three), three.brokers

    def led_by(node: int, in_step: list[int]) -> None:
        until(lambda: leader(admin, copy) == (node, in_step), f"{node} leads", PATIENCE_SECONDS)

    settings = {"replication.factor": "1", "tasks.max": "1"} | ({"replication.policy.class": IDENTITY} if kept else {})
    file = write_file(tmp_path / "mm2.properties", {alias: cluster_a, "t": three}, {f"{alias}->t": name}, settings)
    third.kill()
    led_by(2, [2])
    write(cluster_a, name, records(100))
    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: mirrored(three, copy) == records(100), "100 copied", PATIENCE_SECONDS)
        mirror.stop_in_time()
    with Running(file, log=tmp_path / "second.log") as mirror:
        until(lambda: has_begun(three, internal, 2), "the second run has begun", PATIENCE_SECONDS)
        second.kill()
        third.start()
        elect_the_unclean(three, copy, 3)
        until(lambda: ends(three, copy) == {0: 0}, "records are really lost", PATIENCE_SECONDS)
        if kept:
            write(three, copy, OTHERS)
        second.start()
        led_by(3, [2, 3])
        for future in [admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(copy, 0)])]:
            future.result(60)
        led_by(2, [2, 3])
        write(cluster_a, name, records(5, 100))
        until(lambda: mirrored(three, copy) == records(105), "all is there, once", PATIENCE_SECONDS)
        told = until(lambda: of_kind(file, name, "target-tail-lost"), "the loss is told of", PATIENCE_SECONDS)
        mirror.stop_in_time()
    assert (told[0].first, told[0].last) == (0, 99)


def log_of(broker: Broker, topic: str) -> Path:
    """The only segment of a topic's only partition."""
    (place,) = broker.directory.rglob(f"{topic}-0")
    (log,) = Path(place).glob("*.log")
    return log


def cut_log(broker: Broker, copy: str, offset: int) -> None:
    """What a power failure does to a log of which the end was not flushed: it ends before ``offset``."""
    log = log_of(broker, copy)
    data, at = log.read_bytes(), 0
    while struct.unpack_from(">q", data, at)[0] < offset:
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    with log.open("r+b") as file:
        file.truncate(at)


def test_the_only_broker_loses_what_was_not_flushed(cluster_a, topic, tmp_path):
    """Replication factor 1, and no election: the same broker leads again, with a shorter log."""
    name = topic("unflushed")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, {"tasks.max": "1"})
        with Running(file, log=tmp_path / "first.log") as mirror:
            for number in (0, 50):
                write(cluster_a, name, records(50, number))
                until(lambda: mirrored(one, copy) == records(number + 50), "50 more", PATIENCE_SECONDS)  # noqa: B023 - at once
            mirror.stop_in_time()
        with Running(file, log=tmp_path / "second.log") as mirror:
            until(lambda: has_begun(one, "sparkmirror.a.o.internal", 2), "the second run has begun", PATIENCE_SECONDS)
            broker.kill()
            cut_log(broker, copy, 50)
            broker.start()
            until(lambda: ends(one, copy) == {0: 50}, "records are really lost")
            write(cluster_a, name, records(5, 100))
            until(lambda: mirrored(one, copy) == records(105), "all is there, once", PATIENCE_SECONDS)
            told = until(lambda: of_kind(file, name, "target-tail-lost"), "the loss is told of", PATIENCE_SECONDS)
            mirror.stop_in_time()
        assert (told[0].first, told[0].last) == (50, 99)


def test_a_broker_that_starts_again_before_the_first_batch_has_lost_nothing(cluster_a, topic, tmp_path):
    """Its leader epoch has gone up unnoticed; the topic of others is longer than that epoch was."""
    names = [topic("empty"), topic("others")]
    for name in names:
        create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copies = one.brokers, {name: f"a.{name}" for name in names}
        settings = {"tasks.max": "1", "topics.append": names[1]}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": "|".join(names)}, settings)
        create_topic(one, copies[names[1]], 1)
        write(one, copies[names[1]], OTHERS)
        with Running(file, log=tmp_path / "run.log") as mirror:
            until(lambda: all(progress_of(one, "sparkmirror.a.o.internal", name) for name in names), "found")
            time.sleep(3)  # a lane has both and has nothing to do
            broker.kill()
            broker.start()
            for turn in range(2):
                for name in names:
                    write(cluster_a, name, records(5, 5 * turn))
                last = records(5 * turn + 5)[-1]
                for copy in copies.values():
                    until(lambda: last in mirrored(one, copy), "copied", PATIENCE_SECONDS)  # noqa: B023 - at once
                time.sleep(3)  # the leader is asked again before the first batch after a pause
            for name, copy in copies.items():
                assert mirrored(one, copy) == records(10)
                assert of_kind(file, name, "target-tail-lost") == []
            mirror.stop_in_time()


@pytest.mark.long
def test_the_only_broker_loses_what_was_not_flushed_of_a_partition_that_an_operator_has_moved_on(
    cluster_a, topic, tmp_path
):
    """The record in the way is left out; where the copy goes on does not change how far the target's log went."""
    name = topic("moved")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy, internal = one.brokers, f"a.{name}", "sparkmirror.a.o.internal"
        create_topic(one, copy, 1, {"max.message.bytes": "2000"})
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, {"tasks.max": "1"})
        with Running(file, log=tmp_path / "run.log") as mirror:
            for number in (0, 50):
                write(cluster_a, name, records(50, number))
                until(lambda: mirrored(one, copy) == records(number + 50), "50 more", PATIENCE_SECONDS)  # noqa: B023 - at once
            write(cluster_a, name, [b"x" * 50_000])
            until(lambda: progress_of(one, internal, name).get("error"), "a record is too large", PATIENCE_SECONDS)
            ordered = sparkmirror("positions", "set", file, "--topic", name, "--to", "101")
            assert ordered.returncode == 0, ordered.stderr
            until(lambda: goes_on_at(101, progress_of(one, internal, name)), "it goes on", PATIENCE_SECONDS)
            broker.kill()
            cut_log(broker, copy, 50)
            broker.start()
            until(lambda: ends(one, copy) == {0: 50}, "records are really lost", PATIENCE_SECONDS)
            write(cluster_a, name, records(5, 100))
            # What was left out is behind the loss, and so in the way again.
            until(lambda: mirrored(one, copy) == records(100), "what was lost is there again", PATIENCE_SECONDS)
            told = until(lambda: of_kind(file, name, "target-tail-lost"), "the loss is told of", PATIENCE_SECONDS)
            again = sparkmirror("positions", "set", file, "--topic", name, "--to", "101")
            assert again.returncode == 0, again.stderr
            until(lambda: mirrored(one, copy) == records(105), "all is there, once", PATIENCE_SECONDS)
            mirror.stop_in_time()
        assert told[0].first == 50


@pytest.mark.long
def test_drivers_that_die_right_after_they_have_found_the_loss_leave_it_to_the_next(cluster_a, topic, tmp_path):
    """The epoch that has lost records is not the newest: one that has sent nothing came after it."""
    name = topic("dying")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, {"tasks.max": "1"})
        for run, ends_it in enumerate((Running.stop_in_time, Running.kill, Running.kill)):
            write(cluster_a, name, records(50, 50 * run) if run < 2 else [])
            with Running(file, log=tmp_path / f"{run}.log") as mirror:
                until(lambda: mirrored(one, copy) == records(50 * min(run + 1, 2)), "copied", PATIENCE_SECONDS)  # noqa: B023 - at once
                newest = until(lambda: lane_of(one, name, run), "a lane of this run has begun", PATIENCE_SECONDS)  # noqa: B023 - at once
                ends_it(mirror)
        assert newest["position"] == 100
        assert newest["last"][0] == -1, "it has sent nothing"
        broker.kill()
        cut_log(broker, copy, 50)
        broker.start()
        for _ in range(2):
            command = [sys.executable, "-m", "tests.flow.dying", "run", str(file)]
            died = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
            assert died.returncode == -signal.SIGKILL, died.stdout + died.stderr
        with Running(file, log=tmp_path / "last.log") as mirror:
            until(lambda: mirrored(one, copy) == records(100), "all is there, once", PATIENCE_SECONDS)
            until(lambda: lane_of(one, name, 5), "its lane has published, which knows nothing of it", PATIENCE_SECONDS)
            mirror.stop_in_time()
        (told,) = of_kind(file, name, "target-tail-lost")
        assert told.first == 50


def lane_of(target: LabCluster, name: str, run: int) -> dict[str, Any]:
    """The newest progress of partition 0, if a lane of that run, counted from 0, has written it."""
    found = progress_of(target, "sparkmirror.a.o.internal", name)
    return found if found.get("lane") and found["generation"] > run else {}


def progress_of(target: LabCluster, internal: str, name: str) -> dict[str, Any]:
    """The newest progress of a topic's partition 0, as its value says."""
    found = [
        (value["generation"], key[4], value)
        for key, value in offset_map.journal(target, internal).items()
        if key[0] == "progress" and key[1:3] == (name, 0) and value
    ]
    return max(found, key=lambda each: each[:2], default=(0, 0, {}))[2]


def goes_on_at(position: int, progress: dict[str, Any]) -> bool:
    return progress.get("position") == position and not progress["error"] and bool(progress["lane"])
