"""A source that is restored from an older copy of its disk gives out leader epochs again, for other records."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.running import Running, commit, create_topic, ends, until
from tests.flow.test_died_unheard import newest
from tests.flow.test_events import delete_records, of_kind
from tests.flow.test_source_after_takeover import once
from tests.flow.test_source_histories import flow_file, numbered
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def stored(source: LabCluster, disk: Path, copy: Path) -> None:
    """A copy of the disk while the broker is down."""
    source.brokers[0].stop()
    shutil.copytree(disk / "broker-1" / "data", copy)
    source.brokers[0].start()


def restored(source: LabCluster, disk: Path, copy: Path) -> None:
    source.brokers[0].kill()
    shutil.rmtree(disk / "broker-1" / "data")
    shutil.copytree(copy, disk / "broker-1" / "data")
    source.brokers[0].start()


def write_events(source: LabCluster, name: str, kind: str, numbers: range) -> None:
    """Records with the times of the events: one that is sent again is the same."""
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "log_level": 0})
    since = int(time.time() / 86_400) * 86_400_000 - 86_400_000
    for number in numbers:
        producer.produce(name, b"%s-%d" % (kind.encode(), number), partition=0, timestamp=since + number)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("running", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_first_epoch_after_it_may_have_begun_at_the_same_offset_before(cluster_b, topic, tmp_path, running):
    """The broker was down for the copy, so that its end is where the next epoch begins, in both histories."""
    name, disk, old = topic("cold"), tmp_path / "disk", tmp_path / "copy"
    copy, replayed, stamped = f"{name}.{name}", f"{name}-replayed", f"{name}-stamped"
    others = (replayed, stamped)
    with start("s", directory=disk) as source:
        create_topic(source, name)
        create_topic(source, replayed)
        create_topic(source, stamped, config={"message.timestamp.type": "LogAppendTime"})
        write(source, name, numbered("old", 100))
        write_events(source, replayed, "old", range(100))
        write(source, stamped, [b"up"] * 100)
        file = flow_file(tmp_path, source, cluster_b, name)
        stored(source, disk, old)
        write(source, name, numbered("old", 50, 100))
        write_events(source, replayed, "old", range(100, 150))
        write(source, stamped, [b"up"] * 50)
        with Running(file, log=tmp_path / "first.log") as mirror:
            for each in (copy, *(f"{name}.{other}" for other in others)):
                until(lambda: len(mirrored(cluster_b, each)) == 150, "copied")  # noqa: B023 - at once
            source.brokers[0].stop()
            source.brokers[0].start()
            write(source, name, numbered("old", 50, 150))
            write_events(source, replayed, "old", range(150, 200))
            write(source, stamped, [b"up"] * 50)
            for each in (name, *others):
                until(lambda: newest(cluster_b, name, each).get("position") == 200, "on record", PATIENCE_SECONDS)  # noqa: B023 - at once
            if running:
                for pid in (mirror.pid, *mirror.lane_workers()):
                    os.kill(pid, signal.SIGSTOP)
            else:
                mirror.stop_in_time()
            restored(source, disk, old)
            write(source, name, numbered("new", 300))
            write_events(source, replayed, "old", range(100, 130))
            write_events(source, replayed, "new", range(130, 400))
            write(source, stamped, [b"up"] * 300)
            if running:
                for pid in (*mirror.lane_workers(), mirror.pid):
                    os.kill(pid, signal.SIGCONT)
                until(lambda: mirrored(cluster_b, copy)[-1:] == [b"new-299"], "the newest", PATIENCE_SECONDS)
                mirror.stop_in_time()
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
    assert mirrored(cluster_b, copy) == [*numbered("old", 200), *numbered("new", 300)]
    assert mirrored(cluster_b, f"{name}.{replayed}") == [*numbered("old", 200), *numbered("new", 270, 130)]
    assert len(mirrored(cluster_b, f"{name}.{stamped}")) == 500
    for each, first in ((name, 100), (replayed, 130), (stamped, 100)):
        (event,) = of_kind(file, each, "source-tail-lost")
        assert (event.first, event.last) == (first, 199)


def test_a_position_that_is_set_while_the_flow_is_stopped_ends_what_is_on_record_of_the_old_history(
    cluster_b, topic, tmp_path
):
    """Groups are not translated by it, and a later loss is compared with the new one."""
    name, disk, old, group = topic("set"), tmp_path / "disk", tmp_path / "copy", topic("group")
    copy, left_out = f"{name}.{name}", f"{name}-left-out"
    with start("s", directory=disk) as source:
        (broker,) = source.brokers
        for each in (name, left_out):
            create_topic(source, each)
            write(source, each, numbered("old", 100))
        file = flow_file(tmp_path, source, cluster_b, name)
        stored(source, disk, old)
        for each in (name, left_out):
            write(source, each, numbered("old", 100, 100))
        once(file, tmp_path / "first.log")
        restored(source, disk, old)
        until(lambda: ends(source, name).get(0) == ends(source, left_out).get(0) == 100, "it is there again")
        for number in range(5):
            write(source, name, numbered("new", 20, 100 + 20 * number))
        write(source, left_out, numbered("new", 150, 100))
        commit(source, group, left_out, {0: 120})
        set_position(file, name, "100")
        said = set_position(file, left_out, "latest")
        assert "150 offsets are left out" in said
        once(file, tmp_path / "second.log")
        assert mirrored(cluster_b, copy) == [*numbered("old", 200), *numbered("new", 100, 100)]
        (event,) = of_kind(file, name, "source-tail-lost")
        assert (event.first, event.last) == (100, 199)
        (event,) = of_kind(file, left_out, "moved")
        assert (event.first, event.last) == (100, 249)
        assert "offsets 100 to 199 is not in its log any more" in event.text
        (row,) = json.loads(sparkmirror("offsets", file, "--group", group, "--json").stdout)["partitions"]
        assert row["offset"] == 200, "behind all that its cluster does not have"
        broker.kill()
        cut_log(broker, name, 140)
        broker.start()
        until(lambda: ends(source, name).get(0) == 140, "records are really lost")
        write(source, name, numbered("later", 20))
        once(file, tmp_path / "last.log")
    assert mirrored(cluster_b, copy) == [*numbered("old", 200), *numbered("new", 100, 100), *numbered("later", 20)]
    (event,) = of_kind(file, name, "source-tail-lost")
    assert (event.first, event.last) == (140, 199)


def set_position(file: Path, name: str, to: str) -> str:
    """What the command says."""
    done = sparkmirror("positions", "set", file, "--topic", name, "--to", to)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_retention_and_a_flow_that_began_late_make_nothing_of_it_other_records(cluster_b, topic, tmp_path):
    """Of a partition whose first leader epoch is not 0, and of which the first records are gone."""
    name, disk, old = topic("late"), tmp_path / "disk", tmp_path / "copy"
    copy, other = f"{name}.{name}", f"{name}-retained"
    with start("s", directory=disk) as source:
        for each in (name, other):
            create_topic(source, each)
        source.brokers[0].stop()
        source.brokers[0].start()
        for each in (name, other):
            write(source, each, numbered("old", 60))
        file = flow_file(tmp_path, source, cluster_b, name, start_positions=f"{name}:latest")
        with Running(file, log=tmp_path / "first.log") as mirror:
            until(lambda: newest(cluster_b, name, name).get("lane"), "it has begun")
            for each in (name, other):
                write(source, each, numbered("old", 40, 60))
            until(lambda: len(mirrored(cluster_b, copy)) == 40, "copied")
            delete_records(source, other, 30)
            stored(source, disk, old)
            source.brokers[0].stop()
            source.brokers[0].start()
            for each in (name, other):
                write(source, each, numbered("old", 50, 100))
            until(
                lambda: [newest(cluster_b, name, each).get("position") for each in (name, other)] == [150, 150], "there"
            )
            mirror.stop_in_time()
        restored(source, disk, old)
        for each in (name, other):
            write(source, each, numbered("new", 200))
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
    assert mirrored(cluster_b, copy) == [*numbered("old", 90, 60), *numbered("new", 200)]
    assert mirrored(cluster_b, f"{name}.{other}") == [*numbered("old", 150), *numbered("new", 200)]
    for each in (name, other):
        (event,) = of_kind(file, each, "source-tail-lost")
        assert (event.first, event.last) == (100, 149)
    assert of_kind(file, other, "source-retention") == []


def in_transactions(source: LabCluster, name: str, kind: str, first: int, count: int) -> None:
    """One record each, so that every other offset is a marker's."""
    producer = transactional(source, name)
    for number in range(count):
        producer.begin_transaction()
        producer.produce(name, b"%s-%d" % (kind.encode(), first + 2 * number), partition=0)
        producer.commit_transaction(60)


def transactional(source: LabCluster, name: str) -> Producer:
    """A producer that is there again: what an earlier one has left open is aborted."""
    settings: dict[str, str | int | float | bool] = {"transaction.timeout.ms": 600_000, "log_level": 0}
    producer = Producer(settings | {"bootstrap.servers": source.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(60)
    return producer


@pytest.mark.long
def test_records_that_lie_where_the_copy_has_markers_are_other_records(cluster_b, topic, tmp_path):
    """In both histories every other offset is a marker's: of one they are the even ones, of the other the odd ones."""
    name, disk, old = topic("markers"), tmp_path / "disk", tmp_path / "copy"
    copy = f"{name}.{name}"
    with start("s", directory=disk) as source:
        create_topic(source, name)
        write(source, name, numbered("old", 99))
        opened = transactional(source, name)
        opened.begin_transaction()
        opened.produce(name, b"old-99", partition=0)
        assert opened.flush(60) == 0
        file = flow_file(tmp_path, source, cluster_b, name)
        stored(source, disk, old)
        opened.produce(name, b"old-100", partition=0)
        opened.commit_transaction(60)
        in_transactions(source, name, "old", 102, 49)
        with Running(file, log=tmp_path / "first.log") as mirror:
            until(lambda: newest(cluster_b, name, name).get("position") == 200, "on record", PATIENCE_SECONDS)
            source.brokers[0].stop()
            source.brokers[0].start()
            write(source, name, numbered("old", 50, 200))
            until(lambda: newest(cluster_b, name, name).get("position") == 250, "on record", PATIENCE_SECONDS)
            mirror.stop_in_time()
        whole = mirrored(cluster_b, copy)
        restored(source, disk, old)
        in_transactions(source, name, "new", 101, 100)
        once(file, tmp_path / "last.log")
    assert mirrored(cluster_b, copy) == [*whole, *(b"new-%d" % (101 + 2 * number) for number in range(100))]
    (event,) = of_kind(file, name, "source-tail-lost")
    assert (event.first, event.last) == (100, 249)
