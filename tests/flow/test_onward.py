"""How a partition goes on in the next shift."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.flow.shift import onward_from
from sparkmirror.model import NO_RECORD, Copied, LastRecord, Reached, Writer
from tests.copy.making import SOURCE, WRITER, plan

LAST = LastRecord(sequence=29, source=139, target=239)
RECEIPT = Receipt(
    source=SOURCE,
    outcome=Outcome.HANDED_ON,
    position=140,
    sequence=30,
    writer=WRITER,
    opened=True,
    leader_epoch=4,
    reached=Reached(leader_epoch=7, end=240),
    last=LAST,
    recovery_ms=55,
    records=30,
    bytes=900,
    dead_letters=1,
    loop_filtered=40,
)


def test_the_next_shift_goes_on_with_everything_that_the_receipt_says():
    before = plan(
        position=110, sequence=0, after="lane-1.4", copied=Copied(records=5, bytes=100, dead_letters=2, loop_filtered=2)
    )
    assert onward_from(before, RECEIPT, {}) == plan(
        position=140,
        sequence=30,
        opened=True,
        leader_epoch=4,
        reached=Reached(leader_epoch=7, end=240),
        last=LAST,
        recovery_ms=55,
        copied=Copied(records=35, bytes=1_000, dead_letters=3, loop_filtered=42),
    )


@pytest.mark.parametrize("after", ["", "lane-1.4"])
def test_a_shift_that_never_started_leaves_the_partition_where_the_one_before_left_it(after: str):
    receipt = replace(RECEIPT, outcome=Outcome.NOT_STARTED)
    before, left = plan(after=after), plan(position=12, last=LAST)
    assert onward_from(before, receipt, {SOURCE: left}) == (left if after else before)


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.STOPPED])
def test_what_is_done_or_stopped_does_not_go_on(outcome: Outcome):
    assert onward_from(plan(), replace(RECEIPT, outcome=outcome), {}) is None


def test_a_new_epoch_has_sent_nothing_and_comes_after_the_last_record_of_the_one_before():
    renewed = plan(position=140, sequence=30, opened=True, last=LAST).with_writer(Writer(producer_id=9, epoch=0))
    assert renewed == plan(position=140, writer=Writer(producer_id=9, epoch=0), last=renewed.last)
    assert renewed.last == NO_RECORD._replace(before_sequence=29, before_source=139, before_target=239)
    assert renewed.with_writer(Writer(producer_id=10, epoch=0)).last == renewed.last
