"""A lane between two clusters that lie: it ends in time with a receipt for each partition, whatever it was told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from sparkmirror.config import Endpoint, FlowConfig
from sparkmirror.copy.lane import Lane
from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.model import NO_OFFSET, Alias, FlowName, TopicPartition, Writer
from tests.kafka.crashes import Crashes, crashes  # noqa: F401  # a fixture
from tests.kafka.hostile_broker import FETCH, PARTITIONS, PRODUCE, RECORDS, HostileBroker, Lies, settings_of

CASES = int(os.environ.get("SPARKMIRROR_HOSTILE_CASES", "30")) // 2
SECONDS = 4.0
LATEST_S = SECONDS + 8.0


def endpoint(alias: str, broker: HostileBroker) -> Endpoint:
    settings = settings_of(broker)
    return Endpoint(alias=Alias(alias), consumer=settings, producer=settings, admin=settings)


def copy(source: HostileBroker, target: HostileBroker, until: int) -> tuple[Receipt, ...]:
    """One shift for once, as a Spark worker runs it; it is given up after some seconds."""
    ends = endpoint("A", source), endpoint("B", target)
    config = FlowConfig(name=FlowName(source=Alias("A"), target=Alias("B")), source=ends[0], target=ends[1])
    plans = tuple(
        PartitionPlan(
            source=TopicPartition("t", number),
            target_topic="A.t",
            topic_id=source.model.topic_id("t").hex,
            target_id=target.model.topic_id("A.t").hex,
            position=0,
            until=until,
            writer=Writer(producer_id=7, epoch=1),
        )
        for number in range(PARTITIONS)
    )
    shift = ShiftPlan(
        flow="A->B",
        run="run",
        shift="lane-0.0",
        generation=1,
        partitions=plans,
        internal_topic="internal",
        control_topic="control",
        once=True,
    )
    loop = new_loop("hostile")
    clusters = [
        Cluster("A", config.source.consumer, role="hostile", loop=loop),
        Cluster("B", config.target.producer, role="hostile", loop=loop),
    ]
    try:
        lane = Lane(shift, config, *clusters)
        loop.call_later(SECONDS, lambda: lane.lease.end("the test is over"))
        receipts: tuple[Receipt, ...] = loop.run(lane.copy)
    finally:
        for cluster in clusters:
            cluster.close()
        loop.close()
    return receipts


@pytest.fixture
def brokers() -> Iterator[tuple[HostileBroker, HostileBroker]]:
    made = HostileBroker(), HostileBroker()
    made[0].model.fill("t")
    yield made
    for broker in made:
        broker.close()


@pytest.fixture(autouse=True)
def short_throttles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkmirror.kafka.transport.THROTTLE_MS", 20)


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_lane_that_is_lied_to_ends_with_a_receipt_for_each_partition(
    side: int,
    brokers: tuple[HostileBroker, HostileBroker],
    crashes: Crashes,  # noqa: F811  # the fixture
):
    source, target = brokers
    liar, keys = brokers[side], frozenset({PRODUCE, FETCH}) if side else frozenset({FETCH})
    assert {one.outcome for one in copy(source, target, RECORDS)} == {Outcome.DONE}
    for seed in range(CASES):
        liar.lies = Lies(seed, keys if seed % 3 else frozenset(), first=seed % 4, most=1 + 4 * (seed % 5 == 0))
        target.model.forget("A.t")
        began = time.monotonic()
        try:
            receipts = copy(source, target, RECORDS)
        except SparkmirrorError:
            continue  # the job of the lane fails, and its partitions are taken over
        except Exception as failure:
            raise AssertionError(f"seed {seed}, {liar.lies.told}") from failure
        assert len(receipts) == PARTITIONS
        assert all(NO_OFFSET <= one.position <= RECORDS for one in receipts), (seed, liar.lies.told, receipts)
        assert time.monotonic() - began < LATEST_S, (seed, liar.lies.told)
        assert not crashes.seen, (seed, liar.lies.told, crashes.seen)
