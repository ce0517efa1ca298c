"""A source that is restored from an older copy of its disk gives out leader epochs again, for other records."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.running import Running, create_topic, until
from tests.flow.test_died_unheard import newest
from tests.flow.test_events import delete_records, of_kind
from tests.flow.test_source_histories import flow_file, numbered
from tests.flow.test_torn_while_idle import mirrored, write

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


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


@pytest.mark.parametrize("running", [False, True])
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
