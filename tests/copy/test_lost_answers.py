"""Answers that are lost at every kind of moment, before and after the broker appended: nothing is lost, nothing twice.

The broker is real, and so is every request that is sent; what is lost is lost between the lane and the connection.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

import pytest

from sparkmirror.copy.lane import Lane
from sparkmirror.copy.lease import LEASE_SECONDS
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.producing import BatchesRequest
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.link import Link, Way
from sparkmirror.model import TopicPartition
from tests.batches.building import Rec, Written
from tests.copy.staging import WAIT_SECONDS, Stage, moved_or_done, read, wait_until
from tests.raw_batches import produce

pytestmark = pytest.mark.kafka

LARGE = 600_000
"""A record of this size makes a batch that is never merged."""
MONTH_MS = 30 * 86_400_000
BATCHES = 14


class Fate(Enum):
    """What becomes of a request with batches."""

    BEFORE = "lost on its way to the broker"
    AFTER = "appended, and the answer lost"


class Losing(Cluster):
    """A target that loses some requests with batches, by their number.

    Attributes:
        fates: request number → what becomes of it; all others go well.
        sent: how many there were.
    """

    fates: Mapping[int, Fate]
    sent = 0

    def send(self, request: Any, node: int, done: Callable[[Any], None], timeout_ms: int | None = None) -> None:
        if isinstance(request, BatchesRequest):
            fate, self.sent = self.fates.get(self.sent), self.sent + 1
            lost = self.link_error(ConnectionError("lost, as the test wants it"))
            if fate is Fate.BEFORE:
                self.loop.call_soon(lambda: done(lost))
                return
            if fate is Fate.AFTER:
                answer = done

                def done(_: Any) -> None:
                    answer(lost)

        super().send(request, node, done, timeout_ms)


def copy_losing(stage: Stage, fates: Mapping[int, Fate]) -> tuple[Receipt, int]:
    """Copies partition 0; the receipt, and how many requests with batches were sent."""
    ends = stage.ends()
    plan = replace(stage.plans()[0], until=ends[stage.places()[0]])
    shift = stage.shift("lane-0.0", (plan,), once=True)
    loop = new_loop(shift.shift)
    source = Cluster("A", stage.config.source.consumer, role="test", loop=loop)
    target = Losing("B", stage.config.target.producer, role="test", loop=loop)
    target.fates = fates
    try:
        (receipt,) = loop.run(Lane(shift, stage.config, source, target).copy)
    finally:
        source.close()
        target.close()
        loop.close()
    return receipt, target.sent


def fill(stage: Stage, time_ms: int, count: int = BATCHES) -> None:
    """Batches of one large record each."""
    stage.ends()  # returns when the leaders know their partitions
    for number in range(count):
        record = Rec(0, time_ms, b"%d" % number, b"v" * LARGE)
        produce(stage.clusters("A"), stage.topic, Written(records=(record,)).encode())


def now_ms() -> int:
    return int(time.time() * 1000)


GUARDED_LOSSES = {
    "the first before": {0: Fate.BEFORE},
    "the first after": {0: Fate.AFTER},
    "the oldest before": {1: Fate.BEFORE},
    "the oldest after": {1: Fate.AFTER},
    "the middle of five before": {3: Fate.BEFORE},
    "the middle of five after": {3: Fate.AFTER},
    "all five after": dict.fromkeys(range(1, 6), Fate.AFTER),
    "twice in a row": {1: Fate.AFTER, 6: Fate.AFTER, 7: Fate.BEFORE},
    "before and after": {1: Fate.AFTER, 2: Fate.BEFORE, 4: Fate.AFTER},
    "by chance": {n: random.Random(n).choice(list(Fate)) for n in range(60) if random.Random(n).random() < 0.3},
}


@pytest.mark.parametrize("losses", GUARDED_LOSSES.values(), ids=GUARDED_LOSSES)
def test_guarded_batches_are_sent_again_and_arrive_once(stage: Stage, losses: Mapping[int, Fate]):
    fill(stage, now_ms())
    receipt, sent = copy_losing(stage, losses)
    assert (receipt.outcome, receipt.error, receipt.settled) == (Outcome.DONE, "", True)
    assert sent > BATCHES
    stage.assert_equal()
    (segment,) = stage.on_record()[1][receipt.source]
    assert not segment.unguarded


@pytest.mark.parametrize("time_ms", [now_ms() - MONTH_MS, -1], ids=["a month old", "without a time"])
@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.parametrize("fate", Fate)
def test_an_unguarded_batch_is_never_sent_again(stage: Stage, fate: Fate, number: int, time_ms: int):
    """It stops, and says that only the target's log can tell."""
    fill(stage, time_ms)
    receipt, sent = copy_losing(stage, {number: fate})
    assert (receipt.outcome, receipt.settled, sent) == (Outcome.STOPPED, False, number + 1)
    assert "given back" in receipt.error
    assert (receipt.position, receipt.sequence, receipt.records) == (number, number, number)
    there = read(stage.target_servers, TopicPartition(stage.target_topic, 0))
    assert [record.key for record in there] == [b"%d" % n for n in range(number + (fate is Fate.AFTER))]
    progress, segments = stage.on_record()
    assert [segment.unguarded for segment in segments[receipt.source]] == [True]
    assert not progress[receipt.source].settled


def test_unguarded_batches_arrive_when_nothing_is_lost(stage: Stage):
    fill(stage, now_ms() - MONTH_MS)
    receipt, sent = copy_losing(stage, {})
    assert (receipt.outcome, receipt.settled, sent) == (Outcome.DONE, True, BATCHES)
    stage.assert_equal()


def test_where_data_turns_old_a_segment_says_so(stage: Stage):
    fill(stage, now_ms(), 3)
    fill(stage, now_ms() - MONTH_MS, 3)
    consumer = replace(stage.config.source.consumer, fetch_max_bytes=1, max_partition_fetch_bytes=1)
    stage.config = replace(stage.config, source=replace(stage.config.source, consumer=consumer))
    receipt, _ = copy_losing(stage, {})
    assert receipt.outcome is Outcome.DONE
    stage.assert_equal()
    segments = sorted(stage.on_record()[1][receipt.source], key=lambda segment: segment.source)
    assert [(s.source, s.sequence, s.target, s.unguarded) for s in segments] == [(0, 0, 0, False), (3, 3, 3, True)]


@pytest.fixture
def line(stage: Stage, cluster_b: LabCluster) -> Iterator[Link]:
    """The line that the flow's target is behind, as short as lines are; whole again afterwards."""
    producer = replace(stage.config.target.producer, bootstrap_servers=(cluster_b.listener("LINK"),))
    stage.config = replace(stage.config, target=replace(stage.config.target, producer=producer))
    (link,) = cluster_b.links.values()
    link.slow(1.0)
    yield link
    link.mend()


def test_a_line_that_breaks_again_and_again_loses_and_repeats_nothing(
    stage: Stage, line: Link, threads: ThreadPoolExecutor
):
    """The connections themselves break, in the middle of requests and of answers; once for longer than a lease."""
    settings: dict[str, Any] = {"batch.num.messages": 10}
    stage.produce(6_000, size=2_000, **settings)
    ends, chance = stage.ends(), random.Random(7)
    plans = tuple(replace(plan, until=ends[plan.source]) for plan in stage.plans())
    consumer = replace(stage.config.source.consumer, fetch_max_bytes=50_000)
    slow = replace(stage.config, source=replace(stage.config.source, consumer=consumer))
    job = threads.submit(stage.run, stage.shift("lane-0.0", plans, once=True), slow)
    for outage_s in (0.1, 0.3, LEASE_SECONDS + 2, 0.2, 0.1):
        before = stage.target_ends()
        wait_until(partial(moved_or_done, stage, before, job))
        if chance.random() < 0.5:
            line.cut()
        else:
            line.lose(Way.FROM_BROKER)
        time.sleep(outage_s)
        line.mend()
        line.slow(1.0)
    receipts = job.result(WAIT_SECONDS)
    assert {(r.outcome, r.error, r.settled) for r in receipts} == {(Outcome.DONE, "", True)}
    stage.assert_equal()
