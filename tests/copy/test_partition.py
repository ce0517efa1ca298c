"""A partition and the answers of its target, event by event; in any order of events: `test_partition_orders`."""

from __future__ import annotations

from typing import Any

import pytest

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.distance import IN_FLIGHT_PER_PARTITION
from sparkmirror.copy.load import Load
from sparkmirror.copy.outgoing import Outgoing
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.events import Event, Kind
from sparkmirror.model import LastRecord
from tests.batches.building import CONTROL
from tests.copy.making import LARGE, answer, batch, partition, take
from tests.offsets.segments import points

NOT_LEADER, TIMED_OUT, NETWORK, NO_REPLICAS, OUT_OF_ORDER, DUPLICATE, FENCED, TOO_LARGE = 6, 7, 13, 19, 45, 46, 47, 10


def taken(count: int, *, size: int = LARGE, **more: Any) -> PartitionCopy:
    """A partition in which ``count`` batches of one record wait."""
    copy = partition(**more)
    take(copy, *(batch(n, 1, size=size) for n in range(count)))
    return copy


def send_all(copy: PartitionCopy) -> list[Outgoing]:
    sent = []
    while (outgoing := copy.next_batch()) is not None:
        sent.append(outgoing)
    return sent


def test_five_batches_at_most_are_in_flight():
    copy = taken(7)
    sent = send_all(copy)
    assert len(sent) == IN_FLIGHT_PER_PARTITION
    copy.acknowledged(sent[0], 100)
    assert len(send_all(copy)) == 1


def test_the_first_batch_of_an_epoch_goes_alone():
    copy = taken(3, opened=False)
    (first,) = send_all(copy)
    copy.acknowledged(first, 100)
    assert len(send_all(copy)) == 2


def test_the_first_record_of_an_epoch_is_remembered_and_what_it_came_after():
    before = LastRecord(before_sequence=4, before_source=7, before_target=20)
    copy = partition(opened=False)
    copy.begin(9, 0, before, opened=False)
    arrival = answer([batch(9), batch(12)], copy.place())
    assert [each.after for each in arrival.openings] == [7]
    copy.take(arrival, Ticket(acknowledged=True))
    (first,) = send_all(copy)
    copy.acknowledged(first, 100)
    assert [(each.offset, each.after) for each in copy.ahead.settled] == [(100, 20)]
    assert (copy.last.first, copy.last.before) == ((9, 100), (4, 7, 20))
    for each in send_all(copy):
        copy.acknowledged(each, 110)
    assert (copy.last.first, copy.last.before) == ((9, 100), (4, 7, 20))
    assert copy.last.only_before().before == copy.last[:3]


def test_the_first_record_of_an_epoch_is_put_on_record_also_right_behind_what_is_taken_for_the_last_one():
    copy = partition(opened=False)
    copy.begin(9, 0, LastRecord(source=8, target=49), opened=False)
    take(copy, batch(9), batch(10))
    (first,) = send_all(copy)
    copy.acknowledged(first, 50)
    assert [each[:2] for each in copy.ahead.settled] == [(0, 50)]


def test_position_and_sequence_follow_acknowledgements_only():
    copy = taken(3)
    first, second, third = send_all(copy)
    assert (copy.position, copy.sequence) == (0, 0)
    copy.acknowledged(first, 70)
    assert (copy.position, copy.sequence, copy.last[:3]) == (1, 1, (0, 0, 70))
    copy.acknowledged(third, 72)
    assert copy.position == 1
    copy.acknowledged(second, 71)
    assert (copy.position, copy.sequence, copy.last[:3]) == (3, 3, (2, 2, 72))
    assert copy.idle


def test_a_retry_sends_the_same_bytes_again_oldest_first_and_nothing_new_before():
    copy = taken(5)
    sent = [copy.next_batch() for _ in range(3)]
    first, second, third = (one for one in sent if one is not None)
    bytes_before = [bytes(one.payload) for one in (first, second, third)]
    copy.refused(first, NOT_LEADER, "")
    assert copy.next_batch() is None, "answers are owed"
    copy.refused(second, OUT_OF_ORDER, "")
    assert copy.next_batch() is None
    copy.refused(third, OUT_OF_ORDER, "")
    assert copy.lost_leader
    again: list[Outgoing] = []
    for _ in range(3):
        one = copy.next_batch()
        assert one is not None
        assert copy.next_batch() is None or len(again) == 2, "one at a time while others wait to be repeated"
        again.append(one)
        copy.acknowledged(one, len(again))
    assert [bytes(one.payload) for one in again] == bytes_before
    assert not copy.retrying


def test_an_acknowledged_batch_behind_a_refused_one_is_not_sent_again():
    copy = taken(3)
    first, second, third = send_all(copy)
    copy.refused(first, TIMED_OUT, "")
    copy.acknowledged(second, 11)
    copy.acknowledged(third, 12)
    assert copy.position == 0
    assert copy.next_batch() is first
    copy.acknowledged(first, 10)
    assert copy.position == 3
    assert copy.next_batch() is None
    assert not copy.retrying


@pytest.mark.parametrize("code", [OUT_OF_ORDER, DUPLICATE, FENCED])
def test_a_refusal_for_its_sequence_stops_the_oldest(code: int):
    copy = taken(2)
    first, second = send_all(copy)
    copy.refused(first, code, "told so")
    assert "source offset 0" in copy.error
    assert "A.orders-2" in copy.error
    assert "[told so]" in copy.error
    copy.refused(second, code, "")
    assert send_all(copy) == []
    assert copy.position == 0


@pytest.mark.parametrize("code", [OUT_OF_ORDER, TOO_LARGE])
def test_a_refusal_behind_the_oldest_tells_nothing_yet(code: int):
    copy = taken(2)
    first, second = send_all(copy)
    copy.refused(second, code, "")
    assert not copy.error
    copy.acknowledged(first, 10)
    assert copy.next_batch() is second
    copy.refused(second, code, "")
    assert copy.error
    assert copy.position == 1


def test_patience_ends():
    copy = taken(1)
    copy.patience_s = -1.0
    (only,) = send_all(copy)
    copy.refused(only, NO_REPLICAS, "")
    assert "NOT_ENOUGH_REPLICAS" in copy.error


def test_what_is_in_flight_when_a_partition_stops_still_counts():
    copy = taken(3)
    first, _, third = send_all(copy)
    copy.stop("enough")
    copy.acknowledged(first, 10)
    assert (copy.position, copy.error) == (1, "enough")
    copy.refused(third, NETWORK, "")
    assert copy.next_batch() is None
    assert [event.text for event in copy.tally.events] == ["enough"]


def test_a_batch_beyond_a_hole_waits_for_its_ticket():
    copy = partition()
    ticket = take(copy, batch(0, 2, size=LARGE), batch(5, 1, size=LARGE), on_record=False)
    assert copy.next_batch() is None
    ticket.acknowledged = True
    assert len(send_all(copy)) == 2


def test_what_came_before_the_hole_does_not_wait():
    copy = partition()
    take(copy, batch(0, 1, size=LARGE))
    take(copy, batch(7, 1, size=LARGE), on_record=False)
    assert len(send_all(copy)) == 1


def test_segments_are_settled_with_the_target_offsets_of_the_answers():
    copy = partition()
    take(copy, batch(0, 2, size=LARGE), batch(10, 2, size=LARGE))
    first, second = send_all(copy)
    copy.acknowledged(first, 100)
    copy.acknowledged(second, 102)
    assert [each[:2] for each in copy.ahead.settled] == [(0, 100)], "the second one lies right behind the first"
    assert copy.unreached() == ((), ())


def test_segments_inside_a_merged_batch_are_settled_where_they_lie():
    copy = partition()
    take(copy, batch(0, 2), batch(10, 2))
    (merged,) = send_all(copy)
    copy.acknowledged(merged, 50)
    assert [each[:2] for each in copy.ahead.settled] == [(0, 50)]


def test_a_foreign_writer_on_the_target_opens_a_segment():
    copy = taken(3)
    first, second, third = send_all(copy)
    copy.acknowledged(first, 10)
    copy.acknowledged(second, 15)
    copy.acknowledged(third, 16)
    assert [each[:2] for each in copy.ahead.settled] == [(0, 10), (1, 15)]


def test_a_partition_that_goes_on_writes_no_segment_where_nothing_changed():
    copy = partition()
    copy.begin(20, 7, LastRecord(6, 19, 119), opened=True)
    take(copy, batch(20, 1))
    (only,) = send_all(copy)
    assert only.sequence == 7
    copy.acknowledged(only, 120)
    assert copy.ahead.settled == []


def test_offsets_that_were_dropped_move_the_position_when_nothing_waits():
    copy = partition()
    take(copy, batch(0, 2), batch(2, 1, bits=CONTROL, producer=(9, 0, -1)))
    (only,) = send_all(copy)
    assert copy.position == 0
    copy.acknowledged(only, 0)
    assert copy.position == 3
    take(copy, batch(3, 1, bits=CONTROL, producer=(9, 0, -1)))
    assert copy.position == 4
    assert copy.tally.dropped == 2


def test_what_came_from_the_target_counts_once_though_a_shift_ends_before_the_position_has_passed_it():
    copy = partition()
    mirrored = [(3, 1), (8, 5), (9, 1)]
    copy.leave_out(mirrored)
    take(copy, batch(0, 2, size=LARGE), batch(2, 1, bits=CONTROL, producer=(9, 0, -1)), batch(9, 1, size=LARGE))
    first = copy.next_batch()
    assert first is not None
    assert copy.tally.loop_filtered == 0
    copy.abandon()
    copy.acknowledged(first, 0)
    assert (copy.position, copy.tally.loop_filtered) == (2, 0)
    copy.leave_out(mirrored)
    take(copy, batch(9, 1, size=LARGE))
    (last,) = send_all(copy)
    copy.acknowledged(last, 2)
    assert (copy.position, copy.tally.loop_filtered) == (10, 7)


def test_what_was_abandoned_is_not_behind_the_position():
    copy = taken(8)
    sent = send_all(copy)
    copy.abandon()
    assert copy.held == copy.load.bytes > 0
    for number, one in enumerate(sent):
        copy.acknowledged(one, number)
    assert copy.idle
    assert (copy.position, copy.sequence) == (5, 5)
    assert copy.fetch_offset == 5
    assert copy.held == copy.load.bytes == 0


def test_abandoning_what_nothing_was_sent_of_leaves_the_position():
    copy = taken(2)
    copy.abandon()
    assert (copy.position, copy.fetch_offset, copy.held) == (0, 0, 0)


def test_a_stopped_partition_holds_nothing_once_its_answers_are_in():
    copy = taken(7)
    first, second, *rest = send_all(copy)
    copy.refused(second, OUT_OF_ORDER, "")
    copy.refused(first, TOO_LARGE, "")
    assert copy.error
    assert copy.held == copy.load.bytes == sum(one.held for one in rest) > 0
    for one in rest:
        copy.refused(one, OUT_OF_ORDER, "")
    assert copy.held == copy.load.bytes == 0


def test_an_obstacle_stops_only_when_what_came_before_is_acknowledged():
    copy = taken(2)
    copy.fail_after_sending("corrupt")
    first, second = send_all(copy)
    copy.acknowledged(first, 0)
    errors = [copy.error]
    copy.acknowledged(second, 1)
    assert [*errors, copy.error] == ["", "corrupt"]
    assert copy.position == 2


def test_an_obstacle_stops_an_idle_partition_at_once():
    copy = partition()
    copy.fail_after_sending("corrupt")
    assert copy.error == "corrupt"


def test_an_abandoned_obstacle_is_left_to_whoever_goes_on():
    copy = taken(7)
    copy.fail_after_sending("corrupt")
    sent = send_all(copy)
    copy.abandon()
    for number, one in enumerate(sent):
        copy.acknowledged(one, number)
    assert not copy.error
    assert copy.position == 5


def test_segments_of_batches_without_an_answer_are_kept():
    copy = partition(opened=False)
    take(copy, batch(0, 1, size=LARGE), batch(5, 1, size=LARGE), batch(9, 1, size=LARGE))
    (first,) = send_all(copy)
    copy.acknowledged(first, 0)
    second = copy.next_batch()
    assert second is not None
    copy.stop("the link is gone")
    for _ in range(2):
        (shortened,), void = copy.unreached()
        assert void == ()
        assert points(shortened, shortened.source) == [(0, 0), (1, 5)]
        copy.refused(second, NETWORK, "")


def test_done_means_until_is_reached_or_an_error():
    copy = taken(2, until=2)
    assert not copy.done
    for number, one in enumerate(send_all(copy)):
        copy.acknowledged(one, number)
    assert copy.done


def test_a_batch_that_goes_on_elsewhere_says_so():
    copy = partition()
    gap = Event(kind=Kind.SOURCE_RETENTION, text="offsets 0 to 39 were not copied", first=0, last=39)
    copy.go_to(40, gap)
    assert (copy.position, copy.fetch_offset) == (40, 40)
    take(copy, batch(40, 1))
    (only,) = send_all(copy)
    copy.acknowledged(only, 3)
    assert copy.tally.events == [gap]
    assert [each[:2] for each in copy.ahead.settled] == [(0, 3)]


def test_what_is_small_depends_on_how_far_the_target_is():
    copy = taken(0)
    near = copy.place()
    assert (near.small, near.small_compressed) == (32 << 10, 8 << 10)
    copy.round_trip = 0.1
    far = copy.place()
    assert (far.small, far.small_compressed) == (1 << 19, 1 << 19)


def test_partitions_that_are_limited_together_share_the_lanes_time():
    """Each of them counts while five of its batches are in flight, and no longer, also when it stops."""
    load = Load()
    copies = [taken(7), taken(7), taken(1)]
    for copy in copies:
        copy.load, copy.round_trip = load, 0.1
    alone = copies[2].place().small_compressed
    sent = [send_all(copy) for copy in copies]
    assert load.limited == 2
    assert copies[2].place().small_compressed < alone
    assert copies[0].place().small_compressed > copies[2].place().small_compressed, "one of the two is itself"
    copies[0].acknowledged(sent[0][0], 100)
    assert load.limited == 1
    copies[0].next_batch()
    assert load.limited == 2
    copies[0].stop("the target is full")
    copies[1].acknowledged(sent[1][0], 100)
    assert load.limited == 0


def test_a_stopped_partition_keeps_no_memory_for_what_is_acknowledged_behind_a_refused_batch():
    copy = taken(3)
    first, *others = send_all(copy)
    copy.refused(first, 29, "no WRITE")
    for number, one in enumerate(others):
        copy.acknowledged(one, 100 + number)
    assert copy.error
    assert (copy.held, copy.load.bytes, [len(one.payload) for one in (first, *others)]) == (0, 0, [0, 0, 0])
    assert copy.position == 0, "the first one is missing"


def far_and_limited(answers: int = 6) -> tuple[PartitionCopy, list[Outgoing]]:
    """Each answer is more than a batch; five batches are in flight, and the others wait."""
    copy = partition()
    copy.round_trip = 0.1
    for number in range(answers):
        take(copy, *(batch(40 * number + n, 1, size=30_000) for n in range(40)))
    return copy, send_all(copy)


def test_the_next_batch_is_made_while_answers_are_owed():
    copy, sent = far_and_limited(answers=10)
    held = copy.held
    assert copy.may_make_ahead
    copy.make_ahead()
    assert not copy.may_make_ahead, "one is enough"
    copy.make_ahead()
    assert (copy.next_batch(), copy.held, copy.load.bytes) == (None, held, held)
    copy.acknowledged(sent[0], 0)
    ahead = copy.next_batch()
    assert ahead is not None
    assert ahead.poured
    assert (ahead.source, ahead.sequence) == (sent[-1].last_source + 1, sent[-1].sequence + sent[-1].count)
    sources = [one.source for one in sent] + [ahead.source]
    for before, after in zip(sent[1:], [*sent[2:], ahead], strict=True):
        copy.acknowledged(before, before.source)
        assert after.source == before.end
    copy.acknowledged(ahead, ahead.source)
    assert (copy.position, sources) == (ahead.end, sorted(sources))


def test_nothing_is_made_ahead_of_a_near_target_or_of_too_little():
    copy, _ = far_and_limited(answers=10)
    copy.round_trip = 0.001
    assert not copy.may_make_ahead
    few, _ = far_and_limited(answers=6)
    assert not few.may_make_ahead, "what comes meanwhile would go into it"


def test_a_batch_made_ahead_is_forgotten_with_what_waits():
    copy, sent = far_and_limited(answers=10)
    copy.make_ahead()
    copy.abandon()
    assert (copy.fetch_offset, copy.held) == (sent[-1].end, sum(one.held for one in sent))
    for one in sent:
        copy.acknowledged(one, one.source)
    assert (copy.idle, copy.held, copy.load.bytes, copy.position) == (True, 0, 0, sent[-1].end)


def test_a_batch_made_ahead_waits_for_what_was_refused():
    copy, sent = far_and_limited(answers=10)
    copy.make_ahead()
    for one in sent:
        copy.refused(one, NETWORK, "")
    for one in sent:
        assert copy.next_batch() is one
        copy.acknowledged(one, one.source)
    following = copy.next_batch()
    assert following is not None
    assert following.source == sent[-1].end


def test_a_target_that_only_seemed_far_away_changes_nothing_for_what_waits():
    """What was cut as small then is looked at again when it is sent; what is small anyway is merged."""
    copy = partition()
    copy.round_trip = 0.1
    take(copy, *(batch(n, 1, size=100_000) for n in range(3)))
    take(copy, *(batch(3 + n, 1, size=100) for n in range(3)))
    copy.round_trip = 0.001
    assert [one.batches for one in send_all(copy)] == [1, 1, 1, 3]


def test_another_producer_in_the_mirrors_topic_is_noticed_once_with_its_offsets():
    copy = taken(4)
    first, second, third, fourth = send_all(copy)
    copy.acknowledged(first, 100)
    copy.acknowledged(second, 101)
    assert not copy.tally.events
    copy.acknowledged(third, 105)
    copy.acknowledged(fourth, 120)
    (event,) = copy.tally.events
    assert (event.kind, event.first, event.last) == (Kind.FOREIGN_WRITER, 102, 104)


def test_where_others_may_write_nothing_is_told_of_them():
    copy = taken(2)
    copy.shared = True
    first, second = send_all(copy)
    copy.acknowledged(first, 100)
    copy.acknowledged(second, 150)
    assert not copy.tally.events


@pytest.mark.parametrize(
    ("code", "kind"), [(TOO_LARGE, Kind.TARGET_CHANGED), (29, Kind.UNAUTHORIZED), (87, Kind.STOPPED)]
)
def test_a_stop_tells_what_it_is_about(code: int, kind: Kind):
    copy = taken(1)
    (sent,) = send_all(copy)
    copy.refused(sent, code, "")
    assert [event.kind for event in copy.tally.events] == [kind]
