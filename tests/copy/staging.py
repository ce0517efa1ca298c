"""A lane between real brokers, in this process: its topics, its shifts, and what arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.copy.control import drain_key
from sparkmirror.copy.lane import Lane
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.copy.receipt import Receipt
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress, parse
from sparkmirror.offsets.segments import Segments, Targets
from tests.offsets.segments import Segment, told

PARTITIONS = 3
WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Read:
    """A record as librdkafka reads it."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    time: tuple[int, int]

    @property
    def content(self) -> object:
        return self.key, self.value, self.headers, self.time


def read(servers: str, place: TopicPartition) -> list[Read]:
    """All committed records of one partition."""
    keys = {"bootstrap.servers": servers, "group.id": "test", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(keys | {"enable.partition.eof": True})  # a log may end with markers, which are no messages
    try:
        _, end = consumer.get_watermark_offsets(ClientPartition(*place), timeout=WAIT_SECONDS)
        consumer.assign([ClientPartition(*place, 0)])
        found: list[Read] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while end and time.monotonic() < deadline:
            for message in consumer.consume(1_000, 0.2):
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                offset = message.offset()
                assert offset is not None
                headers = tuple(message.headers() or ())
                found.append(Read(offset, message.key(), message.value(), headers, message.timestamp()))  # type: ignore[arg-type]  # headers as bytes
        return found
    finally:
        consumer.close()


@dataclass
class Stage:
    """One topic on its way from A to B, and the lanes that copy it."""

    config: FlowConfig
    topic: str
    clusters: Callable[[str], Cluster]
    writer: Writer
    running: dict[str, Cluster] = field(default_factory=dict)

    @property
    def target_topic(self) -> str:
        return f"A.{self.topic}"

    @property
    def internal(self) -> str:
        return f"{self.topic}.internal"

    @property
    def control(self) -> str:
        return f"{self.topic}.control.internal"

    @property
    def source_servers(self) -> str:
        return self.config.source.admin.bootstrap_servers[0]

    @property
    def target_servers(self) -> str:
        return self.config.target.admin.bootstrap_servers[0]

    def places(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(PARTITIONS)]

    def ends(self, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> dict[TopicPartition, int]:
        return admin.list_offsets(self.clusters("A"), self.places(), OffsetSpec.LATEST, isolation)

    def target_ends(self) -> dict[TopicPartition, int]:
        places = [TopicPartition(self.target_topic, place.partition) for place in self.places()]
        return admin.list_offsets(self.clusters("B"), places, OffsetSpec.LATEST)

    def plans(self, **more: object) -> tuple[PartitionPlan, ...]:
        plan = PartitionPlan(
            source=self.places()[0], target_topic=self.target_topic, topic_id="", position=0, writer=self.writer
        )
        return tuple(replace(plan, source=place, **more) for place in self.places())  # type: ignore[arg-type]  # fields of a plan

    def going_on(self, receipts: tuple[Receipt, ...]) -> tuple[PartitionPlan, ...]:
        return tuple(
            replace(plan, position=left.position, sequence=left.sequence, opened=left.opened)
            for plan, left in zip(self.plans(), receipts, strict=True)
        )

    def shift(self, name: str, plans: tuple[PartitionPlan, ...], *, once: bool = False) -> ShiftPlan:
        return ShiftPlan(
            flow="A->B",
            run="run",
            shift=name,
            generation=1,
            partitions=plans,
            internal_topic=self.internal,
            control_topic=self.control,
            once=once,
        )

    def run(self, shift: ShiftPlan, config: FlowConfig | None = None) -> tuple[Receipt, ...]:
        """A lane from its start to its receipts, as a Spark worker runs it."""
        loop, config = new_loop(shift.shift), config or self.config
        source = Cluster("A", config.source.consumer, role=shift.shift, loop=loop)
        target = Cluster("B", config.target.producer, role=shift.shift, loop=loop)
        try:
            receipts: tuple[Receipt, ...] = loop.run(Lane(shift, config, source, target).copy)
        finally:
            source.close()
            target.close()
            loop.close()
        return receipts

    def drain(self, shift: str = "*") -> None:
        cluster = self.clusters("B")
        cluster.run(Journal(cluster, self.control).append, [(drain_key("run", shift), "{}")])

    def produce(self, count: int, *, size: int = 100, values: Sequence[bytes] = (), **settings: str | int) -> None:
        """Numbered records over all partitions, small batches among them."""
        values = values or [b"x" * size]
        producer = Producer({"bootstrap.servers": self.source_servers, "linger.ms": 2, **settings})
        for number in range(count):
            value = b"%d" % number + values[number % len(values)]
            producer.produce(self.topic, value, b"%d" % number, number % PARTITIONS)
            if number % 500 == 0:
                producer.poll(0)
        assert producer.flush(WAIT_SECONDS) == 0

    def on_record(self) -> tuple[dict[TopicPartition, Progress], dict[TopicPartition, list[Segment]]]:
        """The newest progress and all segments of each partition, as the internal topic has them."""
        cluster = self.clusters("B")
        entries, _ = cluster.run(Journal(cluster, self.internal).read_all)
        progress: dict[TopicPartition, Progress] = {}
        segments: dict[TopicPartition, list[Segments | Targets]] = {}
        for entry in entries.values():
            record = parse(entry.key, entry.value or "")  # tombstones are left out
            if isinstance(record, Progress):
                progress[record.partition] = record
            elif isinstance(record, Segments | Targets):
                segments.setdefault(record.partition, []).append(record)
        return progress, {place: told(records) for place, records in segments.items()}

    def assert_equal(self) -> dict[TopicPartition, list[tuple[int, int]]]:
        """Compares record by record, order, keys, headers and times; gives the (source, target) offsets."""
        offsets = {}
        for place in self.places():
            here = read(self.source_servers, place)
            there = read(self.target_servers, TopicPartition(self.target_topic, place.partition))
            assert [record.content for record in there] == [record.content for record in here]
            offsets[place] = [(a.offset, b.offset) for a, b in zip(here, there, strict=True)]
        return offsets


@pytest.fixture
def stage(lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic_name: str) -> Stage:
    made = Stage(
        config=lab_flow,
        topic=topic_name,
        clusters=lab_cluster,
        writer=acquire_writer(lab_cluster("B"), f"sparkmirror.test.{topic_name}", 60_000),
    )
    compact = (("cleanup.policy", "compact"),)
    for alias, wanted in (
        ("A", [NewTopic(name=topic_name, partitions=PARTITIONS)]),
        (
            "B",
            [
                NewTopic(name=made.target_topic, partitions=PARTITIONS),
                NewTopic(name=made.internal, partitions=1, configs=compact),
                NewTopic(name=made.control, partitions=1, configs=compact),
            ],
        ),
    ):
        admin.create_topics(lab_cluster(alias), wanted).complete()
        admin.wait_for_leaders(lab_cluster(alias), {topic.name: topic.partitions for topic in wanted}).complete()
    return made


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def moved_or_done(stage: Stage, before: dict[TopicPartition, int], job: Future[tuple[Receipt, ...]]) -> bool:
    return job.done() or stage.target_ends() != before
