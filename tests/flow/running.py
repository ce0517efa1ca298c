"""``sparkmirror run`` as its users run it, and what a test asks of it: files, ends, processes, waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from sparkmirror.lab.broker import Broker
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.mirror import Mirror
from sparkmirror.lab.processes import descendants, is_there, lane_workers, parent, send
from tests.forking import SERVER, Forked

T = TypeVar("T")

LOOK_SECONDS = 0.2
COPY_SECONDS = 300.0
ANSWER_SECONDS = 60.0


class Running(Mirror):
    """A mirror that can also be waited for and killed.

    Args:
        file: the configuration.
        log: where its output goes.
        options: of ``sparkmirror run``.
        spark: whether lanes run in Spark; otherwise they are processes of `tests.forking`.
    """

    def __init__(self, file: Path, *, log: Path, options: tuple[str, ...] = (), spark: bool = False) -> None:
        if spark:
            super().__init__(file, log=log, options=options)
        else:
            self.log = log
            self._watch = SERVER.start(["run", str(file), *options], log)
            self.pid = self._watch.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if error is not None:
            error.add_note(self.tail())

    def wait(self, seconds: float = COPY_SECONDS) -> int:
        """Waits for the end and gives the exit code; for a run with ``--once``."""
        try:
            return self._watch.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s: {self.tail()}") from None

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._watch.wait(COPY_SECONDS)

    def kill_all(self) -> None:
        """The workers too, which would go on for a moment without their driver."""
        workers = self.lane_workers()
        self.kill()
        for worker in workers:
            send(worker, signal.SIGKILL)
        until(lambda: not any(map(is_there, workers)), "the workers are gone", ANSWER_SECONDS)

    def stop_in_time(self) -> None:
        """SIGTERM; drained and ended with 0 within 10 s."""
        began = time.monotonic()
        code = self.stop(seconds=40)
        took = time.monotonic() - began
        assert code == 0, self.tail()
        assert took < 10 * patience(), f"took {took:.1f} s: {self.tail()}"

    @property
    def listens(self) -> bool:
        """Whether it would take SIGTERM by now: Python itself has to come up first."""
        caught = Path(f"/proc/{self.pid}/status").read_text().partition("SigCgt:")[2].split()[0]
        return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def lane_workers(self) -> list[int]:
        """The Python processes that copy: a daemon has forked them."""
        if not isinstance(self._watch, Forked):
            return lane_workers(self.pid)
        children = [each for each in descendants(self.pid) if parent(each) == self.pid]
        return [each for each in descendants(self.pid) if parent(each) in children]


def patience() -> float:
    """How much slower than an idle machine this one may be now: tests share it."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def until(condition: Callable[[], T], what: str, seconds: float = COPY_SECONDS) -> T:
    """Polls until ``condition`` gives something true, and gives it."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(LOOK_SECONDS)


def write_file(
    path: Path,
    clusters: Mapping[str, LabCluster | Mapping[str, str]],
    flows: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Writes a MirrorMaker 2 file.

    Args:
        path: of the file.
        clusters: alias to cluster, or to its client properties.
        flows: ``a->b`` to its topics.
        settings: further keys, which win.
    """
    keys = {
        "clusters": ",".join(clusters),
        "replication.factor": "1",
        "tasks.max": "2",
        "refresh.topics.interval.seconds": "2",
        "stop.timeout.ms": "30000",  # tests share the machine
        "emit.heartbeats.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "sync.topic.configs.enabled": "false",  # tests give copies other limits than their sources, on purpose
        "checkpoints.topic.replication.factor": "1",
    }
    for alias, cluster in clusters.items():
        own = {"bootstrap.servers": cluster.bootstrap_servers} if isinstance(cluster, LabCluster) else cluster
        keys |= {f"{alias}.{key}": value for key, value in own.items()}
    for flow, topics in flows.items():
        keys |= {f"{flow}.enabled": "true", f"{flow}.topics": topics}
    keys |= settings or {}
    path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return path


def admin_of(cluster: LabCluster) -> AdminClient:
    """A client for all who ask about a cluster: opening one for each question would cost more than the question."""
    return _admin(cluster.bootstrap_servers)


@lru_cache(maxsize=8)
def _admin(servers: str) -> AdminClient:
    quick: dict[str, str | int | float | bool] = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500}
    return AdminClient(quick | {"bootstrap.servers": servers, "log_level": 0})


def create_topic(
    cluster: LabCluster, name: str, partitions: int = 1, config: dict[str, str] | None = None, replicas: int = 1
) -> None:
    admin = admin_of(cluster)
    for future in admin.create_topics([NewTopic(name, partitions, replicas, config=config or {})]).values():
        future.result(ANSWER_SECONDS)
    until(lambda: len(ends(cluster, name)) == partitions, f"leaders of {name}")


def add_partitions(cluster: LabCluster, name: str, total: int) -> None:
    admin = admin_of(cluster)
    for future in admin.create_partitions([NewPartitions(name, total)]).values():
        future.result(ANSWER_SECONDS)


@contextmanager
def halted(broker: Broker) -> Iterator[None]:
    """A broker that is stopped for a while, and starts again whatever happens: other tests need it too."""
    broker.stop()
    try:
        yield
    finally:
        broker.start()


@contextmanager
def stopped(mirror: Running) -> Iterator[None]:
    """A mirror whose driver and lanes stand still for a while."""
    processes = (mirror.pid, *mirror.lane_workers())
    for each in processes:
        send(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            send(each, signal.SIGCONT)


def set_limit(cluster: LabCluster, topic: str, size: int) -> None:
    """Sets a topic's ``max.message.bytes``."""
    set_property(cluster, topic, "max.message.bytes", str(size))


def set_property(cluster: LabCluster, topic: str, name: str, value: str) -> None:
    """Sets a property of a topic."""
    wanted = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[wanted])
    admin = admin_of(cluster)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(ANSWER_SECONDS)


def ends(cluster: LabCluster, topic: str) -> dict[int, int]:
    """End offsets by partition; empty where there is no such topic, or not everywhere a leader."""
    admin = admin_of(cluster)
    try:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=30)
        places = [TopicPartition(topic, each.id) for each in described[topic].result(30).partitions]
        offsets = admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()), request_timeout=30)
        return {place.partition: int(future.result(30).offset) for place, future in offsets.items()}
    except Exception:  # noqa: BLE001 - a broker that is away, or a leader that is not elected yet: asked again
        return {}


def reaches(cluster: LabCluster, topic: str, least: int) -> None:
    """Waits until a topic that nothing but a mirror writes holds ``least`` records."""
    until(lambda: count(cluster, topic) >= least, f"{least} records in {topic} of cluster {cluster.name}")


def count(cluster: LabCluster, *topics: str) -> int:
    """Offsets in topics that nothing but a mirror writes: it leaves no holes, so they are records."""
    return sum(sum(ends(cluster, topic).values()) for topic in topics)


@contextmanager
def client_of(cluster: LabCluster, group: str) -> Iterator[Consumer]:
    """A consumer that is not a member.

    An administrator's client would do, but librdkafka's ends the whole process where it asks for offsets while the
    group has no coordinator yet (https://github.com/confluentinc/librdkafka/issues/5040).
    """
    known = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "log_level": 3}
    consumer = Consumer(known | {"enable.auto.commit": False})
    try:
        yield consumer
    finally:
        consumer.close()


def commit(cluster: LabCluster, group: str, topic: str, offsets: Mapping[int, int], metadata: str = "") -> None:
    """Commits for a group without being a member."""
    places = [TopicPartition(topic, number, offset, metadata) for number, offset in offsets.items()]
    with client_of(cluster, group) as consumer:
        for place in consumer.commit(offsets=places, asynchronous=False):
            assert place.error is None, place.error


def committed(cluster: LabCluster, group: str, topic: str) -> dict[int, int]:
    """Committed offsets by partition; empty where there are none, or where nobody can tell yet."""
    places = [TopicPartition(topic, number) for number in ends(cluster, topic)]
    with client_of(cluster, group) as consumer:
        try:
            found = consumer.committed(places, ANSWER_SECONDS) if places else []
        except KafkaException:  # a coordinator that is being made: asked again
            return {}
    return {place.partition: place.offset for place in found if place.offset >= 0}
