"""What a lane believes of the target's log across elections, and what it does not send."""

from __future__ import annotations

import pytest

from sparkmirror.copy.footing import Footing
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.model import UNKNOWN, Reached
from tests.copy.making import LARGE, batch, partition, take

TIMED_OUT, NOT_LEADER = 7, 6


def footing(reached: Reached, leader_epoch: int) -> Footing:
    return Footing(reached=reached, leader_epoch=leader_epoch)


@pytest.mark.parametrize(
    ("reached", "leader_epoch", "doubted"),
    [
        (UNKNOWN, 4, False),
        (Reached(4, 100), 4, False),
        (Reached(4, 100), 5, True),
        (Reached(4, 100), 3, True),
        (Reached(4, 100), -1, False),
        (Reached(-1, 100), 5, False),
    ],
)
def test_a_leader_of_another_epoch_is_doubted_where_both_are_known(reached, leader_epoch, doubted):
    assert footing(reached, leader_epoch).doubted is doubted


@pytest.mark.parametrize(
    ("epoch", "end", "holds"), [(4, 100, True), (4, 130, True), (4, 99, False), (3, 100, False), (-1, -1, False)]
)
def test_only_a_log_with_that_epoch_and_all_of_it_holds(epoch, end, holds):
    known = footing(Reached(4, 100), 5)
    assert known.holds(epoch, end) is holds
    assert known.doubted is not holds


def test_each_further_election_is_doubted_anew():
    known = footing(Reached(4, 100), 5)
    assert known.holds(4, 100)
    known.leader_epoch = 6
    assert known.doubted


def test_an_answer_that_comes_late_counts_for_the_leader_that_gave_it():
    known = footing(Reached(4, 100), 5)
    assert known.holds(4, 100)
    known.acknowledged(4, 120)
    assert known.reached == Reached(4, 120)
    assert known.doubted, "that the new leader has what was acknowledged meanwhile is not known"
    known.acknowledged(5, 140)
    assert not known.doubted


def sent_before_an_election() -> PartitionCopy:
    """A partition with one batch acknowledged in epoch 4, one that waits, and a leader of epoch 5."""
    copy = partition(sequence=10)
    copy.footing.leader_epoch = 4
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    first = copy.next_batch()
    assert first is not None
    copy.acknowledged(first, 70)
    assert copy.footing.reached == Reached(4, 71)
    copy.footing.leader_epoch = 5
    return copy


def test_nothing_is_sent_to_a_leader_in_doubt():
    copy = sent_before_an_election()
    assert not copy.has_more()
    assert copy.next_batch() is None
    copy.check(4, 71)
    following = copy.next_batch()
    assert following is not None
    assert (following.source, following.leader_epoch) == (1, 5)


def test_nothing_is_sent_again_to_a_leader_in_doubt():
    copy = sent_before_an_election()
    copy.footing.leader_epoch = 4
    lost = copy.next_batch()
    assert lost is not None
    copy.footing.leader_epoch = 5
    copy.refused(lost, NOT_LEADER, "")
    assert copy.next_batch() is None
    copy.check(4, 80)
    assert copy.next_batch() is lost
    assert lost.leader_epoch == 5


def test_a_leader_that_lacks_what_was_acknowledged_gets_nothing_and_the_partition_is_given_back():
    copy = sent_before_an_election()
    copy.check(4, 70)
    assert copy.next_batch() is None
    assert copy.unsettled
    assert "had offset 70 in leader epoch 4, and now epoch 4 ends at 70" in copy.error
    assert copy.position == 1


def test_an_answer_below_what_was_acknowledged_gives_the_partition_back_and_counts_for_nothing():
    copy = sent_before_an_election()
    copy.footing.leader_epoch = 4
    batch = copy.next_batch()
    assert batch is not None
    copy.acknowledged(batch, 60)
    assert copy.unsettled
    assert not copy.all_acknowledged
    assert "it came to lie at offset 60 of a log that had acknowledged all below 71" in copy.error
    assert (copy.position, copy.footing.reached.end) == (1, 71)
