"""The disk of the cluster that is gone over to is full: that is told of, and made up for as soon as there is room."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror.config import load
from sparkmirror.duties.duty import Sides
from sparkmirror.failover.states import ORDER, Kind, Step
from sparkmirror.flow.sides import connected, record
from sparkmirror.kafka.groups import fetch_offsets
from sparkmirror.lab.broker import Broker
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.offsets.ledger import Operation
from tests.failover.clients import due, next_records
from tests.flow.logs import read
from tests.flow.running import Running, commit, create_topic, reaches, until, write_file
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS, GROUPS, RECORDS = 3, 12, 60
METADATA = "m" * 3_000
BALLAST = 60
ROOM = 3 * PARTITIONS * len(METADATA)
"""For the offsets of not quite three groups."""

TIMEOUT_S = 5.0


@pytest.fixture
def small() -> Iterator[LabCluster]:
    with start("small") as cluster:
        yield cluster


class Scene:
    """A flow that has copied everything, whose mirror died; groups that were seen, with long metadata."""

    def __init__(self, source: LabCluster, target: LabCluster, stem: str, directory: Path) -> None:
        self.source, self.target = source, target
        self.topic, self.copy = f"{stem}-t", f"{stem}.{stem}-t"
        names = [f"{stem}-g{number:02}" for number in range(GROUPS)]
        self.groups = {group: {each: number + each for each in range(PARTITIONS)} for number, group in enumerate(names)}
        settings = {"groups": f"{stem}-.*", "sync.group.offsets.interval.seconds": "1"}
        self.file = write_file(
            directory / "mm2.properties",
            {stem: source, "b": target},
            {f"{stem}->b": self.topic},
            settings | {"admin.timeout.ms": str(int(TIMEOUT_S * 1000))},
        )
        self.words = ("failover", self.file, "--from", stem, "--to", "b", "--force", "--yes", "--report", directory)
        create_topic(source, self.topic, PARTITIONS)
        self._write()
        with Running(self.file, log=directory / "run.log") as mirror:
            reaches(target, self.copy, RECORDS)
            until(lambda: len(self.state().groups) == GROUPS, "groups are on record")
            mirror.kill()

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self.source.bootstrap_servers, "log_level": 0})
        for number in range(RECORDS):
            producer.produce(self.topic, b"%d" % number, b"%d" % number, number % PARTITIONS)
        assert producer.flush(60) == 0
        for group, offsets in self.groups.items():
            commit(self.source, group, self.topic, offsets, METADATA)

    @contextmanager
    def sides(self) -> Iterator[Sides]:
        (flow,) = load([str(self.file)]).flows
        with connected(flow, role="test") as sides:
            yield sides

    def state(self) -> Any:
        with self.sides() as sides:
            return record(sides)

    def moved(self) -> set[str]:
        """The groups with offsets on the target: each has all of them, with their metadata.

        Where librdkafka's Python client writes metadata, it ends with a NUL.
        """
        with self.sides() as sides:
            found = fetch_offsets(sides.target, list(self.groups)).complete()
        for group, offsets in found.items():
            told = {place.partition: (each.offset, each.metadata.rstrip("\0")) for place, each in offsets.items()}
            assert told in ({}, {number: (offset, METADATA) for number, offset in self.groups[group].items()}), group
        return {group for group, offsets in found.items() if offsets}

    def halted(self, step: Step) -> subprocess.Popen[str]:
        """The command, halted before a step."""
        line = [sys.executable, "-m", "tests.failover.halting", step.name, *map(str, self.words)]
        command = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        until(lambda: is_halted(command), f"it halts before {step.name}", 240)
        return command


def is_halted(command: subprocess.Popen[str]) -> bool:
    assert command.poll() is None, command.communicate()
    return Path(f"/proc/{command.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def offsets_log(broker: Broker) -> Path:
    """Where the broker writes what groups commit."""
    (found,) = (broker.directory / "data" / "__consumer_offsets-0").glob("*.log")
    return found


def fill(broker: Broker, room: int) -> None:
    """Lets no file of the broker grow further than the log of committed offsets and so many bytes: writes fail then.

    The kernel says EFBIG and not ENOSPC; a broker does the same for both.
    """
    size = offsets_log(broker).stat().st_size + room if room else 0
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def ballast(cluster: LabCluster, topic: str) -> None:
    """Commits so much that the log of committed offsets is the broker's longest file."""
    known = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "ballast", "log_level": 3}
    consumer = Consumer(known | {"enable.auto.commit": False})
    places = [Place(topic, number, 1, METADATA) for number in range(PARTITIONS)]
    for _ in range(BALLAST):
        consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def goes_on(command: subprocess.Popen[str]) -> str:
    """Has it go on to its end, and gives what it said."""
    command.send_signal(signal.SIGCONT)
    said, _ = command.communicate(timeout=300)  # it ends by itself
    return " ".join(said.split())


def check_told(said: str, step: Step, operation: Operation) -> None:
    """Cluster, likely cause and how to go on are in the last words, and nothing is claimed beyond that."""
    last = said[said.index("sparkmirror: ") :]
    for words in ("cluster b", "see the brokers' logs, and whether a disk is full", "run the", "command again"):
        assert words in last, said
    assert "Traceback" not in said, said
    assert "NodeNotReadyError" not in said, said
    assert " offsets on b, " not in said, said
    assert operation.step == step.name


def not_committed(said: str) -> list[int]:
    """How many groups the command says it could not commit for: those too whose commit was not answered.

    Nothing where the broker has ended before it has heard of the first refusal, and another request fails.
    """
    found = re.findall(r"the offsets of (\d+) of (\d+) groups could not be committed", said)
    assert all(int(every) == GROUPS for _, every in found), said
    return [int(number) for number, _ in found]


@pytest.mark.long
def test_a_failover_onto_a_full_disk_says_so_and_goes_on_when_there_is_room(cluster_a, small, topic, tmp_path):
    scene, (broker,) = Scene(cluster_a, small, topic("full"), tmp_path), small.brokers
    ballast(small, scene.copy)
    moved: set[str] = set()
    for step in ORDER[Kind.FAILOVER][:-1]:
        command = scene.halted(step)
        fill(broker, ROOM if step is Step.MOVING else 0)
        said = goes_on(command)
        until(lambda: not broker.running, "a broker without a disk ends itself", 240)
        if step is Step.MOVING:
            again = sparkmirror(*scene.words)
            assert (again.returncode, "cluster b at" in again.stderr) == (1, True), again.stderr
            assert "Traceback" not in again.stderr, again.stderr
        broker.kill()
        broker.start()
        check_told(said, step, scene.state().ledger.operation)
        before, moved = moved, scene.moved()
        assert before <= moved, "what was committed stays"
        if step is Step.MOVING:
            assert 0 < len(moved) < GROUPS, "it became full in the midst of them"
            assert all(GROUPS - len(moved) <= number < GROUPS for number in not_committed(said)), said
        else:
            assert len(moved) in (0, GROUPS)
    done = sparkmirror(*scene.words)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = f"{GROUPS} of {GROUPS} groups, with {GROUPS * PARTITIONS} offsets"
    assert f"{figures} on b, 0 records known to be missing" in done.stdout, done.stdout
    assert scene.moved() == set(scene.groups)
    here, there = read(cluster_a, scene.topic), read(small, scene.copy)
    for group in (min(scene.groups), max(scene.groups)):
        assert next_records(small, group, scene.copy, there) == due(here, scene.groups[group])
