"""Receipts say how each partition left its shift."""

from __future__ import annotations

import pickle

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.receipt import Outcome, Receipt, receipts
from sparkmirror.events import Event, Kind
from sparkmirror.model import NO_OFFSET
from tests.copy.making import WRITER, answer, batch, partition


def copied(until: int = NO_OFFSET) -> PartitionCopy:
    copy = partition(until=until)
    copy.take(answer([batch(0, 3)], copy.place()), Ticket(acknowledged=True))
    sent = copy.next_batch()
    assert sent is not None
    copy.acknowledged(sent, 50)
    return copy


def test_a_receipt_holds_where_the_next_shift_goes_on():
    (receipt,) = receipts([copied()], started=True)
    assert receipt.outcome is Outcome.HANDED_ON
    assert (receipt.position, receipt.sequence, receipt.writer, receipt.opened) == (3, 3, WRITER, True)
    assert (receipt.first_source, receipt.last_source, receipt.first_target, receipt.last_target) == (0, 2, 50, 52)
    assert (receipt.records, receipt.passed, receipt.merged, receipt.reencoded) == (3, 1, 0, 0)
    assert receipt.latency_ms[0] >= 0


def test_a_receipt_counts_what_was_put_aside():
    copy = copied()
    copy.put_aside(7, "offset 7 went elsewhere")
    (receipt,) = receipts([copy], started=True)
    assert (receipt.records, receipt.dead_letters, [str(event) for event in receipt.events]) == (
        3,
        1,
        ["offset 7 went elsewhere"],
    )


def test_a_partition_at_its_end_is_done():
    assert receipts([copied(until=3)], started=True)[0].outcome is Outcome.DONE


def test_a_stopped_partition_says_why():
    copy = copied(until=3)
    copy.stop("no disk")
    (receipt,) = receipts([copy], started=True)
    assert (receipt.outcome, receipt.error) == (Outcome.STOPPED, "no disk")
    assert receipt.events == (Event(kind=Kind.STOPPED, text="no disk", first=3, last=3),)
    assert receipt.position == 3


def test_what_is_unacknowledged_is_not_settled():
    """Sent and not answered, or refused: the target may have it all the same."""
    copy = copied()
    assert receipts([copy], started=True)[0].settled
    copy.take(answer([batch(3, 1)], copy.place()), Ticket(acknowledged=True))
    assert receipts([copy], started=True)[0].settled, "what was never sent is not there"
    sent = copy.next_batch()
    assert sent is not None
    assert not receipts([copy], started=True)[0].settled
    copy.stop("the link is gone")
    copy.refused(sent, 13, "")
    assert not receipts([copy], started=True)[0].settled


def test_a_shift_that_found_nothing_to_take_over_started_nothing():
    assert receipts([partition()], started=False)[0].outcome is Outcome.NOT_STARTED


def test_a_receipt_survives_pickling():
    (receipt,) = receipts([copied()], started=True)
    again = pickle.loads(pickle.dumps(receipt))
    assert isinstance(again, Receipt)
    assert again == receipt
