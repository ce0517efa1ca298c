"""What a lane believes of the target's log across elections, and what it does not send."""

from __future__ import annotations

import pytest

from sparkmirror.copy.footing import PAUSE_SECONDS, Footing
from sparkmirror.copy.lease import now
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.model import NO_OFFSET, UNKNOWN, Reached
from tests.copy.lanes import OneLane, Topic, loop
from tests.copy.making import LARGE, batch, partition, take

__all__ = ["loop"]  # a fixture

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
    assert known.holds(known.question(), epoch, end, 0.0) is holds
    assert known.doubted is not holds


@pytest.mark.parametrize(
    ("leader_epoch", "epoch", "end", "more"),
    [
        (4, 4, 100, False),
        (4, 4, 101, True),
        (5, 4, 100, True),
        (4, 4, 99, False),
        (5, 3, 100, False),
        (5, 4, 99, False),
    ],
)
def test_a_log_that_has_all_may_go_on_behind_that(leader_epoch: int, epoch: int, end: int, more: bool):
    assert footing(Reached(4, 100), leader_epoch).question().may_hide(epoch, end) is more
    assert footing(UNKNOWN, leader_epoch).question().may_hide(-1, -1)


def test_each_further_election_is_doubted_anew():
    known = footing(Reached(4, 100), 5)
    assert known.holds(known.question(), 4, 100, 0.0)
    known.leader_epoch = 6
    assert known.doubted


def test_an_answer_that_comes_late_counts_for_the_leader_that_gave_it():
    known = footing(Reached(4, 100), 5)
    assert known.holds(known.question(), 4, 100, 0.0)
    known.acknowledged(4, 120, 0.0)
    assert known.reached == Reached(4, 120)
    assert known.doubted, "that the new leader has what was acknowledged meanwhile is not known"
    known.acknowledged(5, 140, 0.0)
    assert not known.doubted


def sent_before_an_election() -> PartitionCopy:
    """A partition with one batch acknowledged in epoch 4, one that waits, and a leader of epoch 5."""
    copy = partition(sequence=10)
    copy.footing.leader_epoch = 4
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    copy.check(copy.footing.question(), -1, -1, now())
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
    copy.check(copy.footing.question(), 4, 71, now())
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
    copy.check(copy.footing.question(), 4, 80, now())
    assert copy.next_batch() is lost
    assert lost.leader_epoch == 5


def test_a_leader_that_lacks_what_was_acknowledged_gets_nothing_and_the_partition_is_given_back():
    copy = sent_before_an_election()
    copy.check(copy.footing.question(), 4, 70, now())
    assert copy.next_batch() is None
    assert copy.unsettled
    assert "had offset 70 in leader epoch 4, and now epoch 4 ends at 70" in copy.error
    assert (copy.position, copy.cut) == (1, 70)


def test_an_answer_below_what_was_acknowledged_gives_the_partition_back_and_counts_for_nothing():
    copy = sent_before_an_election()
    copy.footing.leader_epoch = 4
    batch = copy.next_batch()
    assert batch is not None
    copy.acknowledged(batch, 60)
    assert copy.unsettled
    assert not copy.all_acknowledged
    assert "it came to lie at offset 60 of a log that had acknowledged all below 71" in copy.error
    assert (copy.position, copy.footing.reached.end, copy.cut) == (1, 71, 60)


# ------------------------------------------------------------------------------------------------------ after a pause


def test_a_leader_is_asked_again_when_it_was_not_heard_for_a_while():
    known = footing(Reached(4, 100), 4)
    assert known.stale(0.0)
    assert known.holds(known.question(), 4, 130, 50.0)
    assert not known.stale(50.0 + PAUSE_SECONDS)
    assert known.stale(50.1 + PAUSE_SECONDS)
    known.acknowledged(4, 140, 60.0)
    assert (known.stale(60.5), known.stale(61.5)) == (False, True)
    known.acknowledged(4, 150, 55.0)
    assert not known.stale(60.5), "an answer to what was sent before tells nothing newer"


@pytest.mark.parametrize("reached", [UNKNOWN, Reached(4, 100)])
def test_nobody_is_asked_where_there_is_nothing_to_ask(reached):
    assert not footing(reached, -1).stale(1e9)


@pytest.mark.parametrize("reached", [UNKNOWN, Reached(-1, 100)])
def test_before_the_very_first_batch_a_leader_is_asked_whether_it_still_leads(reached):
    """What is put on record is the epoch that the lane believes in, and an answer to a batch does not tell it."""
    known = footing(reached, 4)
    assert not known.doubted
    assert known.stale(50.0)
    assert known.holds(known.question(), -1, -1, 50.0)
    assert not known.stale(50.5)
    assert known.stale(60.0)


def test_the_first_batch_after_a_pause_waits_for_the_leaders_answer():
    copy = partition(sequence=10)
    copy.footing = footing(Reached(4, 71), 4)
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    assert copy.must_verify
    assert copy.next_batch() is None
    copy.check(copy.footing.question(), 4, 71, now())
    first = copy.next_batch()
    assert first is not None
    copy.acknowledged(first, 71)
    assert not copy.must_verify, "its acknowledgement has told that the leader has all"
    assert copy.next_batch() is not None


def test_a_batch_that_is_sent_again_tells_how_the_leader_stands_at_that_time(monkeypatch: pytest.MonkeyPatch):
    clock = [now()]
    monkeypatch.setattr("sparkmirror.copy.partition.now", lambda: clock[0])
    copy = partition(sequence=10)
    copy.footing = footing(Reached(4, 71), 4)
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    copy.check(copy.footing.question(), 4, 71, clock[0])
    first = copy.next_batch()
    assert first is not None
    clock[0] += 0.9 * PAUSE_SECONDS
    copy.refused(first, TIMED_OUT, "")
    assert copy.next_batch() is first
    copy.acknowledged(first, 71)
    clock[0] += 0.9 * PAUSE_SECONDS
    assert not copy.must_verify
    clock[0] += 0.2 * PAUSE_SECONDS
    assert copy.must_verify


def test_an_answer_is_held_against_what_was_known_when_the_leader_was_asked():
    """At a start the leaders are asked while records are fetched: a slow answer comes behind acknowledgements."""
    known = footing(Reached(4, 71), 4)
    asked = known.question()
    known.acknowledged(4, 500, 10.0)
    assert known.holds(asked, 4, 90, 11.0)
    assert not known.doubted
    assert not known.holds(asked, 4, 70, 11.0)


def test_an_answer_of_a_former_leader_tells_nothing_of_the_one_that_came_after_it():
    known = footing(Reached(4, 71), 4)
    asked = known.question()
    known.leader_epoch = 5
    assert known.holds(asked, 4, 71, 50.0)
    assert known.doubted
    known.acknowledged(5, 80, 10.0)
    assert known.stale(50.0)


def test_while_batches_are_in_flight_nobody_is_asked():
    copy = partition(sequence=10)
    copy.footing = footing(Reached(4, 71), 4)
    assert copy.footing.holds(copy.footing.question(), 4, 71, now())
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    assert copy.next_batch() is not None
    copy.footing._known_at = 0.0
    assert copy.next_batch() is not None


def test_before_a_batch_goes_again_the_leader_is_asked_if_it_was_not_heard_for_a_while():
    copy = partition(sequence=10)
    copy.footing = footing(Reached(4, 71), 4)
    assert copy.footing.holds(copy.footing.question(), 4, 71, now())
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    first, second = copy.next_batch(), copy.next_batch()
    assert first is not None
    assert second is not None
    copy.refused(first, TIMED_OUT, "")
    copy.footing._known_at = 0.0
    assert not copy.must_verify, "the answer to the second tells"
    copy.refused(second, TIMED_OUT, "")
    copy._retry_at = 0.0
    assert copy.must_verify
    assert copy.next_batch() is None
    copy.check(copy.footing.question(), 4, 73, now())
    assert copy.next_batch() is first
    assert not copy.must_verify


def test_a_cut_is_on_record_when_the_partition_is_given_back(loop):
    topic = Topic(loop)
    lane = OneLane(topic, "lane-1", sent_before_an_election())
    lane.publish()
    assert topic.progress.cut == NO_OFFSET
    lane.copy.check(lane.copy.footing.question(), 4, 70, now())
    lane.publish()
    assert (topic.progress.released, topic.progress.cut) == (True, 70)


def test_an_idle_partition_asks_nobody():
    copy = partition(sequence=10)
    copy.footing = footing(Reached(4, 71), 4)
    assert not copy.must_verify
