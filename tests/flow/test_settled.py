"""From where a partition goes on without being taken over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.flow.positions import Resumed
from sparkmirror.flow.settled import settled_at, settled_by, settled_in
from sparkmirror.model import NO_OFFSET, NO_RECORD, LastRecord, TopicPartition, Writer
from sparkmirror.offsets.records import Progress

HERE, WRITER = TopicPartition("orders", 3), Writer(producer_id=1, epoch=2)
LAST = LastRecord(76, 499, 620)
WHERE = Resumed(position=500, writer=WRITER, sequence=77, opened=True, last=LAST)
UNOPENED = replace(WHERE, sequence=0, opened=False, last=NO_RECORD)
PROGRESS = Progress(
    partition=HERE,
    writer=WRITER,
    generation=1,
    position=500,
    next_sequence=77,
    sequence=76,
    source=499,
    target=620,
    settled=True,
)
RECEIPT = Receipt(
    source=HERE,
    outcome=Outcome.STOPPED,
    position=500,
    sequence=77,
    writer=WRITER,
    opened=True,
    settled=True,
    last=LAST,
)
PLAN = PartitionPlan(
    source=HERE,
    target_topic="a.orders",
    topic_id="",
    position=500,
    writer=WRITER,
    sequence=77,
    opened=True,
    last=LAST,
)


@pytest.mark.parametrize(
    ("change", "settled"),
    [
        ({}, WHERE),
        ({"settled": False}, None),
        ({"position": NO_OFFSET}, None),
        ({"next_sequence": 0, "sequence": NO_OFFSET}, UNOPENED),
        ({"next_sequence": 0, "sequence": 2**31 - 1}, None),
    ],
)
def test_progress_settles_a_partition_unless_something_was_unacknowledged(change, settled):
    assert settled_in(replace(PROGRESS, **change)) == settled


@pytest.mark.parametrize(
    ("change", "settled"),
    [
        ({}, WHERE),
        ({"settled": False}, None),
        ({"outcome": Outcome.NOT_STARTED}, None),
        ({"outcome": Outcome.DONE}, None),
        ({"position": NO_OFFSET}, None),
    ],
)
def test_a_receipt_settles_a_partition_that_stopped(change, settled):
    assert settled_by(replace(RECEIPT, **change)) == settled


@pytest.mark.parametrize(
    ("change", "settled"),
    [({}, WHERE), ({"after": "lane-0.1", "position": NO_OFFSET}, None), ({"after": "lane-0.1"}, None)],
)
def test_a_plan_that_nobody_began_settles_unless_it_waits_for_another_shift(change, settled):
    assert settled_at(replace(PLAN, **change)) == settled
