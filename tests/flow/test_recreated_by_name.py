"""A source topic that is deleted and made anew while no Fetch is at the broker, on brokers that fetch by name.

Brokers before 3.1 answer such a Fetch from the new topic as if it were the old one: only its topic id tells (2.8 on).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import OLDEST_KAFKA_VERSION
from tests.flow.running import Running, create_topic, until, write_file
from tests.flow.test_events import delete_topic, of_kind
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OLD = [b"old-%d" % number for number in range(50)]
NEW = [b"new-%d" % number for number in range(120)]
"""More than the old topic had: the position lies inside."""

QUIET_SECONDS = 3.0
"""An order is obeyed within two; what comes in spite of it is right as well."""


@pytest.fixture(scope="module")
def old() -> Iterator[LabCluster]:
    """A source that has topic ids, and fetches by name."""
    with start("old", version=OLDEST_KAFKA_VERSION) as cluster:
        yield cluster


def make_anew(cluster: LabCluster, name: str) -> None:
    """Deletes a topic and creates it again as soon as the cluster has forgotten it."""

    def created() -> bool:
        with suppress(KafkaException):
            create_topic(cluster, name)
            return True
        return False

    delete_topic(cluster, name)
    until(created, f"{name} is there again", 60)


@contextmanager
def paused(_mirror: Running, _source: LabCluster, file: Path, name: str) -> Iterator[None]:
    """The topic is paused by its operator."""
    assert sparkmirror("pause", file, "--topic", name).returncode == 0
    time.sleep(QUIET_SECONDS)
    yield
    assert sparkmirror("resume", file, "--topic", name).returncode == 0


@contextmanager
def stopped(mirror: Running, source: LabCluster, _file: Path, name: str) -> Iterator[None]:
    """The lane's process is stopped for a moment; its Fetch was answered meanwhile, with a record of the old topic."""
    workers = mirror.lane_workers()
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    try:
        write(source, name, [b"gone with its topic"])
        yield
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGCONT)


Gap = Callable[[Running, LabCluster, Path, str], AbstractContextManager[None]]


@pytest.mark.parametrize("gap", [paused, stopped])
def test_a_topic_made_anew_while_it_is_not_fetched_is_told_and_copied_from_its_oldest_record(
    old, cluster_b, topic, tmp_path, gap: Gap
):
    name = topic("anew")
    copy = f"{name}.{name}"
    create_topic(old, name)
    write(old, name, OLD)
    clusters = {name: old, "b": cluster_b}
    file = write_file(tmp_path / "mm2.properties", clusters, {f"{name}->b": name}, {"tasks.max": "1"})
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: mirrored(cluster_b, copy) == OLD, "the old topic is copied")
        with gap(mirror, old, file, name):
            make_anew(old, name)
            write(old, name, NEW)
        until(lambda: NEW[-1] in mirrored(cluster_b, copy), "the newest record is copied")
        assert mirrored(cluster_b, copy) == [*OLD, *NEW]
        told = of_kind(file, name, "source-recreated")
        assert {(event.first, event.last) for event in told} == {(len(OLD), len(OLD))}
        mirror.stop_in_time()
    with Running(file, log=tmp_path / "again.log", options=("--once",)) as again:
        assert again.wait() == 0, again.tail()
    assert mirrored(cluster_b, copy) == [*OLD, *NEW], "nothing is repeated"
    later = of_kind(file, name, "source-recreated")
    assert {event.time_ms for event in later} <= {event.time_ms for event in told}, "nothing is told again"
