"""Somebody who may write to a copy forges a batch by the mirror's writer right before the mirror's own: nothing counts.

The broker is real: it takes the forged batch, and answers the mirror's own as one that it has already.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.copy.lane import Lane
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.producing import BatchesRequest
from sparkmirror.model import TopicPartition
from tests.batches.building import Rec, Written
from tests.copy.staging import Stage, read
from tests.copy.test_lost_answers import fill, now_ms
from tests.flow.running import set_property
from tests.raw_batches import produce

pytestmark = pytest.mark.kafka


class Preceded(Cluster):
    """A target to which something is done right before a request with batches leaves, by its number."""

    number: int
    before: Callable[[], object]
    sent = 0

    def send(self, request: Any, node: int, done: Callable[[Any], None], timeout_ms: int | None = None) -> None:
        if isinstance(request, BatchesRequest):
            if self.sent == self.number:
                self.before()
            self.sent += 1
        super().send(request, node, done, timeout_ms)


def copy_preceded(stage: Stage, number: int, before: Callable[[], object]) -> Receipt:
    """Copies partition 0, and does something right before a request with batches leaves."""
    plan = replace(stage.plans()[0], until=stage.ends()[stage.places()[0]])
    shift = stage.shift("lane-0.0", (plan,), once=True)
    loop = new_loop(shift.shift)
    source = Cluster("A", stage.config.source.consumer, role="test", loop=loop)
    target = Preceded("B", stage.config.target.producer, role="test", loop=loop)
    target.number, target.before = number, before
    try:
        receipts: tuple[Receipt, ...] = loop.run(Lane(shift, stage.config, source, target).copy)
    finally:
        source.close()
        target.close()
        loop.close()
    return receipts[0]


@pytest.mark.parametrize("sequence", [0, 3])
def test_a_batch_that_the_broker_takes_for_a_forged_one_does_not_count(stage: Stage, sequence: int):
    """The first batch of an epoch goes alone; later ones do, since these records are too old to be remembered."""
    fill(stage, now_ms() - 30 * 86_400_000, 6)
    forged = Written(
        records=(Rec(0, int(time.time() * 1000), b"forged", b"forged"),),
        producer=(stage.writer.producer_id, stage.writer.epoch, sequence),
    )
    receipt = copy_preceded(stage, sequence, lambda: produce(stage.clusters("B"), stage.target_topic, forged.encode()))
    assert (receipt.outcome, receipt.settled, receipt.position) == (Outcome.STOPPED, False, sequence)
    assert f"the sequence numbers of source offsets {sequence} to {sequence} before this flow sent it" in receipt.error
    assert "given back: the target's log has to tell what is there" in receipt.error
    there = read(stage.target_servers, TopicPartition(stage.target_topic, 0))
    assert [record.key for record in there] == [*(b"%d" % number for number in range(sequence)), b"forged"]


def test_a_topic_that_sets_times_now_has_the_target_tell_what_is_there(stage: Stage, cluster_b):
    fill(stage, now_ms() - 30 * 86_400_000, 6)
    set_property(cluster_b, stage.target_topic, "message.timestamp.type", "LogAppendTime")
    receipt = copy_preceded(stage, -1, lambda: None)
    assert (receipt.outcome, receipt.settled, receipt.position) == (Outcome.STOPPED, False, 0)
    assert "message.timestamp.type from CreateTime to LogAppendTime; or the target had a batch" in receipt.error
    there = read(stage.target_servers, TopicPartition(stage.target_topic, 0))
    assert [record.key for record in there] == [b"0"]
