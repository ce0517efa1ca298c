"""The demo: two real clusters, real records, `sparkmirror run`, and the proof that what arrived is what was written.

Order of events: start the clusters; write three quarters of the records and two transactions; start the mirror; once
the first record is on the target, write the last quarter; wait until everything is there; switch over to the target as
planned; let the referee compare every record; go back; stop the mirror with SIGTERM and start it again; kill the source
and the mirror under load, and fail over.

Invariants:
- Nothing is believed that sparkmirror says of itself: progress comes from the target's end offsets, the verdict from
  librdkafka reading both sides, the number of records from what the producers were given.
- Every wait has a deadline, and whatever happens no process is left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sparkmirror.errors import LabError
from sparkmirror.failover.states import Kind
from sparkmirror.lab.cluster import LabCluster, start_all
from sparkmirror.lab.demo_switching import LIVE, DemoSwitching, Switched, create_live
from sparkmirror.lab.demo_topics import RECORDS, TOPICS, DemoTopic
from sparkmirror.lab.demo_writers import DemoWriters
from sparkmirror.lab.jars import KAFKA_VERSION
from sparkmirror.lab.mirror import Mirror
from sparkmirror.lab.referee import Comparison, compare

SOURCE, TARGET = "east", "west"
ANSWER_S, FIRST_COPY_S, CAUGHT_UP_S, STOP_S = 30.0, 120.0, 60.0, 30.0
LOOK_S = 0.05
QUIET = 2

FILE = """\
clusters = {source}, {target}
{source}.bootstrap.servers = {source_servers}
{target}.bootstrap.servers = {target_servers}

{source}->{target}.enabled = true
{source}->{target}.topics = {topics}, {live}
{target}->{source}.enabled = true
{target}->{source}.topics = {live}

refresh.topics.interval.seconds = 5
tasks.max = 2
replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
sync.group.offsets.interval.seconds = 1
"""


class Watcher(Protocol):
    """Who is told how the demo goes on."""

    def step(self, text: str) -> None:
        """Something begins that takes a while."""

    def done(self, text: str) -> None:
        """It is done."""

    def copied(self, records: int, of: int) -> None:
        """So many records are on the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOutcome:
    """What came of one topic.

    Attributes:
        topic: as it was written.
        written: committed records that the producers were given.
        comparison: the referee's verdict.
        rate: records per second from the first copied record of the demo to the last waiting one of this topic.
    """

    topic: DemoTopic
    written: int
    comparison: Comparison
    rate: float

    @property
    def lag(self) -> int:
        """Committed records that are not on the target."""
        return self.written - self.comparison.target_records

    @property
    def passed(self) -> bool:
        """True when every record that was written is on the target, unchanged."""
        return self.comparison.equal and self.comparison.records == self.written


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of the demo.

    Attributes:
        topics: topic by topic.
        switched: what came of the switchover and of the failover.
        exit_code: of ``sparkmirror run`` after SIGTERM.
        mirror_log: the end of what it wrote.
        start_s: from starting it to the first copied record.
        stop_s: from SIGTERM to its end.
    """

    topics: tuple[TopicOutcome, ...]
    switched: tuple[Switched, ...]
    exit_code: int
    mirror_log: str
    start_s: float
    stop_s: float

    @property
    def passed(self) -> bool:
        """True when every topic and both operations have passed and the mirror has ended cleanly."""
        arrived = all(topic.passed for topic in self.topics)
        return self.exit_code == 0 and arrived and all(each.passed for each in self.switched)


def run_demo(watcher: Watcher, *, records: int = RECORDS) -> Outcome:
    """Runs the demo.

    Args:
        watcher: is told how it goes on.
        records: committed records in all, about.

    Raises:
        LabError: clusters, producers or mirror failed, or something was not done in time.
        JavaError: there is no Java.
    """
    with ExitStack() as stack:
        watcher.step(f"starting two clusters, Kafka {KAFKA_VERSION}")
        source, target = (stack.enter_context(cluster) for cluster in start_all((SOURCE, TARGET)))
        directory = source.directory / "demo"  # goes with the cluster, however this process ends
        directory.mkdir()
        watcher.done(f"two clusters, Kafka {KAFKA_VERSION}: {source.bootstrap_servers}, {target.bootstrap_servers}")
        for cluster in (source, target):
            create_live(cluster)
        writers = stack.enter_context(DemoWriters(source.bootstrap_servers, records))
        return _Demo(source, target, directory, watcher).run(writers)


class _Demo:
    def __init__(self, source: LabCluster, target: LabCluster, directory: Path, watcher: Watcher) -> None:
        self.source, self.target, self.directory, self.watcher = source, target, directory, watcher
        self.admin = AdminClient({"bootstrap.servers": target.bootstrap_servers, "log_level": QUIET})
        self.arrived: dict[str, float] = {}

    def run(self, writers: DemoWriters) -> Outcome:
        """Everything after the clusters are there."""
        self.watcher.step("writing records with Kafka's own producer and with librdkafka")
        began = time.monotonic()
        writers.write_waiting()
        total, waiting = sum(writers.committed.values()), sum(writers.waiting.values())
        self.watcher.done(f"{waiting:,} records wait on {SOURCE}, written in {time.monotonic() - began:.1f} s")
        file = self._file()
        with Mirror(file, log=self.directory / "mirror.log") as mirror, ThreadPoolExecutor(1) as pool:
            began = time.monotonic()
            self.watcher.step("sparkmirror run demo.properties")
            first = self._until(mirror, writers, {})
            self.watcher.done(f"sparkmirror run demo.properties: first copied record after {first - began:.1f} s")
            self.watcher.step(f"writing {total - waiting:,} more records while it runs")
            writing = pool.submit(writers.write_live)
            last = self._until(mirror, writers, writers.committed, writing)
            self.watcher.done(
                f"{total - waiting:,} more records written while it ran; all {total:,} on {TARGET} "
                f"{last - first:.1f} s after the first"
            )
            writers.close()
            switching = DemoSwitching(self.source, self.target, file, [topic.name for topic in TOPICS])
            over = self._switch_over(switching)
            topics = self._judge(writers, first)
            home = self._go_back(switching)
            exit_code, stop_s = self._stop(mirror)
            log = mirror.tail()
        with Mirror(file, log=self.directory / "again.log") as mirror:
            unplanned = self._fail_over(switching, mirror)
        return Outcome(
            topics=topics,
            switched=(over, home, unplanned),
            exit_code=exit_code,
            mirror_log=log,
            start_s=first - began,
            stop_s=stop_s,
        )

    def _file(self) -> Path:
        file = self.directory / "demo.properties"
        text = FILE.format(
            source=SOURCE,
            target=TARGET,
            source_servers=self.source.bootstrap_servers,
            target_servers=self.target.bootstrap_servers,
            topics=", ".join(topic.name for topic in TOPICS),
            live=LIVE,
        )
        file.write_text(text)
        return file

    def _switch_over(self, switching: DemoSwitching) -> Switched:
        self.watcher.step(f"sparkmirror switchover demo.properties --from {SOURCE} --to {TARGET}, under load")
        found = switching.switchover()
        self.watcher.done(f"switchover to {TARGET} in {found.seconds:.1f} s: {_told(found)}")
        return found

    def _go_back(self, switching: DemoSwitching) -> Switched:
        self.watcher.step(f"sparkmirror failback demo.properties --to {SOURCE}, under load")
        found = switching.failback()
        self.watcher.done(f"back to {SOURCE} in {found.seconds:.1f} s: {_told(found)}")
        return found

    def _fail_over(self, switching: DemoSwitching, mirror: Mirror) -> Switched:
        self.watcher.step(f"killing {SOURCE} and the mirror while it is written to, and sparkmirror failover")
        found = switching.failover(mirror)
        self.watcher.done(
            f"{SOURCE} and mirror killed after {found.late:,} more records, failover to {TARGET} in "
            f"{found.seconds:.1f} s: {_told(found)}; {found.missing:,} had not been copied, "
            f"{found.report['lost_records']:,} of them known"
        )
        return found

    def _stop(self, mirror: Mirror) -> tuple[int, float]:
        self.watcher.step("stopping it with SIGTERM")
        began = time.monotonic()
        exit_code = mirror.stop(seconds=STOP_S)
        took = time.monotonic() - began
        self.watcher.done(f"stopped with SIGTERM: exit code {exit_code} after {took:.1f} s")
        return exit_code, took

    def _until(
        self, mirror: Mirror, writers: DemoWriters, wanted: Mapping[str, int], writing: Future[None] | None = None
    ) -> float:
        """Waits until nobody writes and the target holds the wanted records, or any when none are wanted; returns when.

        Raises:
            LabError: the mirror ended, or nothing arrived in time, counted from the last record that did.
        """
        seen, last_sign = 0, time.monotonic()
        while True:
            counts, now = self._on_the_target(), time.monotonic()
            total = sum(counts.values())
            for name, count in counts.items():
                if count >= writers.waiting[name]:
                    self.arrived.setdefault(name, now)
            self.watcher.copied(total, sum(writers.committed.values()))
            if writing is not None and writing.done():
                writing = writing.result()
            if total and writing is None and all(counts.get(name, 0) >= wanted[name] for name in wanted):
                return now
            if total > seen or writing is not None:
                seen, last_sign = total, now
            if not mirror.running:
                raise LabError(f"sparkmirror run ended by itself, {total:,} records are on {TARGET}: {mirror.tail()}")
            if now - last_sign > (FIRST_COPY_S if not seen else CAUGHT_UP_S):
                raise LabError(f"{total:,} records are on {TARGET} and no more arrive: {mirror.tail()}")
            time.sleep(LOOK_S)

    def _on_the_target(self) -> dict[str, int]:
        """End offsets by the source's topic name; a topic that is not there yet is left out."""
        places = {f"{SOURCE}.{topic.name}": topic for topic in TOPICS}
        try:
            known = self.admin.list_topics(timeout=ANSWER_S).topics.keys() & places.keys()
            wanted = {
                TopicPartition(name, number): _LATEST for name in known for number in range(places[name].partitions)
            }
            answers = self.admin.list_offsets(wanted, request_timeout=ANSWER_S) if wanted else {}
            counts: dict[str, int] = {}
            for place, answer in answers.items():
                name = places[place.topic].name
                counts[name] = counts.get(name, 0) + answer.result(ANSWER_S).offset
        except KafkaException:  # a new topic has no leader for a moment; whoever waits has a deadline
            return {}
        return counts

    def _judge(self, writers: DemoWriters, first: float) -> tuple[TopicOutcome, ...]:
        self.watcher.step("comparing record by record with librdkafka")
        began = time.monotonic()
        names = {topic.name: f"{SOURCE}.{topic.name}" for topic in TOPICS}
        verdicts = compare(self.source.bootstrap_servers, self.target.bootstrap_servers, names)
        records = sum(verdict.records for verdict in verdicts)
        self.watcher.done(f"{records:,} records compared with librdkafka in {time.monotonic() - began:.1f} s")
        return tuple(
            TopicOutcome(
                topic=topic,
                written=writers.committed[topic.name],
                comparison=verdict,
                rate=writers.waiting[topic.name] / max(LOOK_S, self.arrived[topic.name] - first),
            )
            for topic, verdict in zip(TOPICS, verdicts, strict=True)
        )


def _told(found: Switched) -> str:
    lost = f"{found.report['lost_records']:,} lost, " if found.kind != Kind.FAILOVER.value else ""
    twice = found.report["repeated_records"]
    return f"{lost}{twice} read twice, the group goes on in {found.same} of {found.partitions} partitions"


_LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka left its type out
