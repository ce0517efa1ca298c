"""A lane between real brokers, in this process: what arrives, what is on record, and how one lane follows another."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.progress import Publisher
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.segments import Segments
from tests.copy.staging import PARTITIONS, WAIT_SECONDS, Stage, moved_or_done, read, wait_until
from tests.offsets.segments import Segment

pytestmark = pytest.mark.kafka


def write_transactions(stage: Stage) -> None:
    """Committed and aborted transactions, interleaved with records outside of any, with keys, headers and nulls."""
    plain = Producer({"bootstrap.servers": stage.source_servers, "linger.ms": 0, "compression.type": "lz4"})
    settings = {"bootstrap.servers": stage.source_servers, "transactional.id": f"{stage.topic}-t", "linger.ms": 0}
    inside = Producer(settings)
    inside.init_transactions(WAIT_SECONDS)
    for number in range(12):
        inside.begin_transaction()
        for partition in range(PARTITIONS):
            for record in range(5):
                value = None if record == 3 else b"t%d-%d" % (number, record)
                inside.produce(stage.topic, value, b"k%d" % record, partition, headers=[("h", b"1"), ("n", None)])
            plain.produce(stage.topic, b"p%d" % number, None, partition)
        assert plain.flush(WAIT_SECONDS) == 0
        inside.flush(WAIT_SECONDS)
        if number % 3 == 1:
            inside.abort_transaction(WAIT_SECONDS)
        else:
            inside.commit_transaction(WAIT_SECONDS)
    until_ended(stage)


def until_ended(stage: Stage) -> None:
    """A commit is answered when it is decided: the coordinator writes the markers, which belong to the log, later."""
    deadline = time.monotonic() + WAIT_SECONDS
    while stage.ends(Isolation.READ_COMMITTED) != stage.ends():
        assert time.monotonic() < deadline, "a transaction is still open"
        time.sleep(0.05)


def assert_segments_translate(
    segments: dict[TopicPartition, list[Segment]], offsets: dict[TopicPartition, list[tuple[int, int]]]
) -> None:
    """At every mirrored offset the map is exact, in both directions."""
    for place, pairs in offsets.items():
        known = sorted(segments[place], key=lambda segment: segment.source)
        assert all(segment.target != NO_OFFSET for segment in known)
        for source, target in pairs:
            segment = max((s for s in known if s.source <= source), key=lambda s: s.source)
            assert target == segment.target + source - segment.source
            assert segment == max((s for s in known if s.target <= target), key=lambda s: s.target)


def test_transactions_arrive_as_their_committed_records_with_an_exact_map(stage: Stage):
    write_transactions(stage)
    ends = stage.ends()
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    receipts = stage.run(stage.shift("lane-0.0", plans, once=True))
    offsets = stage.assert_equal()
    progress, segments = stage.on_record()
    assert_segments_translate(segments, offsets)
    for receipt in receipts:
        pairs = offsets[receipt.source]
        assert (receipt.outcome, receipt.error, receipt.events) == (Outcome.DONE, "", ())
        assert receipt.position == ends[receipt.source]
        assert (receipt.records, receipt.sequence, receipt.opened) == (len(pairs), len(pairs), True)
        assert (receipt.first_source, receipt.first_target) == pairs[0]
        assert (receipt.last_source, receipt.last_target) == pairs[-1]
        assert receipt.dropped >= 12 + 4, "markers, and batches of aborted transactions"
        assert receipt.latency_ms[1] > 0
        here = progress[receipt.source]
        assert (here.position, here.next_sequence, here.end) == (receipt.position, receipt.sequence, receipt.end)
        assert (here.source, here.target) == pairs[-1]
        assert (here.records, here.writer, here.lane) == (len(pairs), stage.writer, "lane-0.0")


def test_a_drain_in_the_middle_leaves_no_gap_and_no_repeat(
    stage: Stage, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
):
    """Again and again, while batches wait in the lane and others are in flight; small answers make it last."""
    monkeypatch.setattr("sparkmirror.copy.watch.CONTROL_SECONDS", 0.05)
    consumer = replace(stage.config.source.consumer, fetch_max_bytes=200_000)
    slow = replace(stage.config, source=replace(stage.config.source, consumer=consumer))
    stage.produce(90_000, size=300)
    plans, ends, shifts = stage.plans(), stage.ends(), 0
    while any(plan.position < ends[plan.source] for plan in plans):
        name = f"lane-0.{shifts}"
        before = stage.target_ends()
        job = threads.submit(stage.run, stage.shift(name, plans), slow)
        wait_until(partial(moved_or_done, stage, before, job))
        stage.drain(name)
        receipts = job.result(WAIT_SECONDS)
        assert {receipt.outcome for receipt in receipts} == {Outcome.HANDED_ON}
        plans, shifts = stage.going_on(receipts), shifts + 1
        assert shifts < 300
    assert shifts > 1
    offsets = stage.assert_equal()
    assert_segments_translate(stage.on_record()[1], offsets)


def test_what_comes_while_a_copy_for_once_runs_is_left_to_the_next(stage: Stage):
    stage.produce(3_000)
    ends = stage.ends()
    stage.produce(3_000)
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    receipts = stage.run(stage.shift("lane-0.0", plans, once=True))
    assert all(r.outcome is Outcome.DONE for r in receipts)
    assert all(ends[r.source] <= r.position for r in receipts)
    rest = tuple(replace(plan, until=stage.ends()[plan.source]) for plan in stage.going_on(receipts))
    stage.run(stage.shift("lane-0.1", rest, once=True))
    stage.assert_equal()


def test_a_successor_takes_over_while_records_come(stage: Stage, threads: ThreadPoolExecutor):
    """Three shifts in a row, each started while the one before still copies."""
    stop = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": stage.source_servers, "linger.ms": 1})
        number = 0
        while not stop.is_set():
            producer.produce(stage.topic, b"%d" % number, None, number % PARTITIONS)
            number += 1
            producer.poll(0.001)
        assert producer.flush(WAIT_SECONDS) == 0

    writing = threads.submit(write)
    jobs: list[Future[tuple[Receipt, ...]]] = [threads.submit(stage.run, stage.shift("lane-0.0", stage.plans()))]
    for number in (1, 2):
        plans = stage.plans(position=NO_OFFSET, after=f"lane-0.{number - 1}")
        jobs.append(threads.submit(stage.run, stage.shift(f"lane-0.{number}", plans)))
        earlier = jobs[-2].result(WAIT_SECONDS)
        assert {receipt.outcome for receipt in earlier} == {Outcome.HANDED_ON}
    time.sleep(0.3)
    stop.set()
    writing.result(WAIT_SECONDS)
    ends = stage.ends()
    deadline = time.monotonic() + WAIT_SECONDS
    while any(p.position < ends[place] for place, p in stage.on_record()[0].items()) and time.monotonic() < deadline:
        time.sleep(0.2)
    stage.drain()
    receipts = jobs[-1].result(WAIT_SECONDS)
    assert [r.position for r in receipts] == [ends[r.source] for r in receipts]
    offsets = stage.assert_equal()
    assert_segments_translate(stage.on_record()[1], offsets)
    assert all(len(kept) == 1 for kept in stage.on_record()[1].values()), "going on without a hole needs no segment"


def test_a_partition_that_cannot_be_written_stops_alone(stage: Stage):
    """One target topic takes small batches only; a record above its limit cannot be split."""
    stage.produce(300)
    stage.produce(1, size=50_000)
    small = f"{stage.topic}-small"
    wanted = NewTopic(name=small, partitions=PARTITIONS, configs=(("max.message.bytes", "10000"),))
    admin.create_topics(stage.clusters("B"), [wanted]).complete()
    ends = stage.ends()
    first, *others = (replace(plan, until=ends[plan.source]) for plan in stage.plans())
    plans = (replace(first, target_topic=small, max_message_bytes=10_000), *others)
    stopped, *done = stage.run(stage.shift("lane-0.0", plans, once=True))
    assert stopped.outcome is Outcome.STOPPED
    assert stopped.position == 100
    assert f"{stage.topic}-0 at offset 100" in stopped.error
    assert "max.message.bytes" in stopped.error
    assert {receipt.outcome for receipt in done} == {Outcome.DONE}
    assert [record.offset for record in read(stage.target_servers, TopicPartition(small, 0))] == list(range(100))
    assert stage.on_record()[0][stopped.source].error == stopped.error


def test_a_fenced_writer_gives_its_partitions_back(stage: Stage):
    """Another driver raised the epoch and wrote with it: an old lane must not write a record more."""
    stage.produce(300)
    ends = stage.ends()
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    newer = acquire_writer(stage.clusters("B"), f"sparkmirror.test.{stage.topic}", 60_000)
    stage.run(stage.shift("new", tuple(replace(plan, writer=newer) for plan in plans), once=True))
    before = admin.list_offsets(
        stage.clusters("B"), [TopicPartition(stage.target_topic, n) for n in range(PARTITIONS)], OffsetSpec.LATEST
    )
    receipts = stage.run(stage.shift("zombie", plans, once=True))
    assert {receipt.outcome for receipt in receipts} == {Outcome.STOPPED}
    assert all("INVALID_PRODUCER_EPOCH" in receipt.error for receipt in receipts)
    assert all((receipt.position, receipt.records) == (0, 0) for receipt in receipts)
    assert admin.list_offsets(stage.clusters("B"), list(before), OffsetSpec.LATEST) == before


@pytest.fixture
def far(stage: Stage, cluster_b: LabCluster) -> FlowConfig:
    """The flow with its target behind the link: 100 ms to get there and back."""
    producer = replace(stage.config.target.producer, bootstrap_servers=(cluster_b.listener("LINK"),))
    return replace(stage.config, target=replace(stage.config.target, producer=producer))


def test_how_far_a_broker_is_is_known_before_anything_is_sent(far: FlowConfig):
    cluster = Cluster("B", far.target.producer, role="test")
    try:
        assert cluster.round_trip(1) == 0.0
        cluster.run(cluster.ping, 1)
        assert cluster.round_trip(1) >= 0.1
        assert cluster.round_trip(2) == cluster.round_trip(1), "one that never answered may be as far away"
    finally:
        cluster.close()


@pytest.mark.parametrize(
    ("count", "settings"),
    [
        (6_000, {"linger.ms": 0, "batch.num.messages": 1}),
        (12_000, {"linger.ms": 50, "batch.num.messages": 60, "compression.type": "lz4"}),
    ],
    ids=["one record", "16 KiB of lz4"],
)
def test_over_a_far_line_small_batches_are_merged(
    stage: Stage, far: FlowConfig, count: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    """The compressed ones are too large to be worth it for a near target: five in each round trip are too few here.

    Batches of 50,000 bytes are full ones here, so that many of them are needed: some are made while answers are owed.
    """
    made_ahead: list[bool] = []
    make_ahead = PartitionCopy.make_ahead

    def counted(self: PartitionCopy) -> None:
        made_ahead.append(self.may_make_ahead)
        make_ahead(self)

    monkeypatch.setattr(PartitionCopy, "make_ahead", counted)
    producer = replace(far.target.producer, batch_size=50_000)
    far = replace(far, target=replace(far.target, producer=producer))
    chance = random.Random(3)
    values = [b"a text that all of them hold, " * 8 + chance.randbytes(90).hex().encode() for _ in range(500)]
    stage.produce(count, values=values, **settings)
    ends = stage.ends()
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    receipts = stage.run(stage.shift("lane-0.0", plans, once=True), far)
    assert [(r.outcome, r.records) for r in receipts] == [(Outcome.DONE, count // PARTITIONS)] * PARTITIONS
    assert all(receipt.merged >= 60 and receipt.passed <= 3 for receipt in receipts)
    assert any(made_ahead)
    stage.assert_equal()


def test_over_a_far_line_holes_of_several_partitions_go_on_record_together(
    stage: Stage, far: FlowConfig, monkeypatch: pytest.MonkeyPatch
):
    """Each write takes a round trip, and a connection carries few requests at a time."""
    writes: list[list[Segments]] = []
    write_ahead = Publisher.write_ahead

    async def counted(self: Publisher, segments: Iterable[Segments], timeout_ms: int) -> None:
        writes.append(list(segments))
        await write_ahead(self, writes[-1], timeout_ms)

    monkeypatch.setattr(Publisher, "write_ahead", counted)
    write_transactions(stage)
    ends = stage.ends()
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    consumer = replace(stage.config.source.consumer, fetch_max_bytes=500)  # an answer for each few batches
    small = replace(far, source=replace(far.source, consumer=consumer))
    receipts = stage.run(stage.shift("lane-0.0", plans, once=True), small)
    assert {receipt.outcome for receipt in receipts} == {Outcome.DONE}
    assert_segments_translate(stage.on_record()[1], stage.assert_equal())
    assert any(len({segment.partition for segment in write}) > 1 for write in writes)
