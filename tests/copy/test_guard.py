"""Old batches: which they are, what is put on record before they go, and that they go one by one."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.guard import FORGOTTEN, LEAD_MS, Guard
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.offsets.segments import Segments
from tests.batches.building import Written
from tests.copy.making import LARGE, NOW_MS, batch, partition, take
from tests.offsets.segments import points

DAY_MS = 86_400_000
NETWORK, NO_REPLICAS, TOO_LARGE = 13, 19, 10


def guard(leeway_ms: int) -> Guard:
    """Holds for times from `NOW_MS` less the leeway on."""
    return Guard(age_ms=int(time.time() * 1000) - NOW_MS + leeway_ms)


def old(written: Written) -> Written:
    month = 30 * DAY_MS
    return replace(written, records=tuple(replace(record, time=record.time - month) for record in written.records))


def guarded(**more: object) -> PartitionCopy:
    copy = partition(**more)  # type: ignore[arg-type]  # fields of a plan
    copy.guard = guard(DAY_MS)
    return copy


def flags(copy: PartitionCopy) -> list[tuple[int, bool]]:
    return [(opening.offset, ahead.unguarded) for ahead in copy.ahead._waiting for opening in ahead.openings]


@pytest.mark.parametrize("newest_ms", [-1, FORGOTTEN, NOW_MS - 30 * DAY_MS])
def test_old_times_and_no_time_are_not_guarded_unless_the_broker_sets_its_own(newest_ms: int):
    assert not guard(DAY_MS).holds(newest_ms)
    assert replace(guard(DAY_MS), broker_time=True).holds(newest_ms)
    assert guard(DAY_MS).holds(NOW_MS)


def test_the_broker_remembers_by_its_own_clock_where_it_sets_the_times():
    by_broker = replace(guard(DAY_MS), broker_time=True)
    assert by_broker.remembers(by_broker.state_ms(-1))
    assert not by_broker.remembers(FORGOTTEN)
    assert guard(DAY_MS).state_ms(-1) == -1


def test_an_old_batch_opens_a_segment_that_says_so_and_the_young_ones_behind_it_need_none():
    copy = guarded()
    take(copy, batch(0, 2, size=LARGE))
    take(copy, old(batch(2, 2, size=LARGE)))
    take(copy, old(batch(4, 2, size=LARGE)))
    take(copy, batch(6, 1, size=LARGE))
    assert flags(copy) == [(0, False), (2, True)]


def test_holes_in_old_data_open_segments_that_say_so_too():
    copy = guarded()
    take(copy, old(batch(0, 2, size=LARGE)), old(batch(5, 2, size=LARGE)))
    assert flags(copy) == [(0, True), (5, True)]
    take(copy, batch(9, 2, size=LARGE))
    assert flags(copy)[-1] == (9, False)


def test_a_partition_that_begins_sends_one_batch_until_the_broker_knows_the_writer():
    copy = guarded(opened=False)
    take(copy, *(batch(n, 1, size=LARGE) for n in range(3)))
    first = copy.next_batch()
    assert first is not None
    assert copy.next_batch() is None
    copy.acknowledged(first, 0)
    assert (copy.next_batch() is not None, copy.next_batch() is not None) == (True, True)


def test_an_old_batch_goes_alone_and_so_does_the_one_behind_it():
    copy = guarded()
    take(copy, *(old(batch(n, 1, size=LARGE)) for n in range(3)))
    first = copy.next_batch()
    assert first is not None
    assert copy.next_batch() is None
    copy.acknowledged(first, 0)
    assert copy.next_batch() is not None
    assert copy.next_batch() is None


def test_behind_an_old_batch_a_young_one_goes_alone_until_it_is_acknowledged():
    """The broker's memory of the writer is as old as the last batch, however young those before it were."""
    copy = guarded()
    take(copy, batch(0, 1, size=LARGE), old(batch(1, 1, size=LARGE)), *(batch(n, 1, size=LARGE) for n in (2, 3, 4)))
    first, second = copy.next_batch(), copy.next_batch()
    assert first is not None
    assert second is not None
    copy.acknowledged(first, 0)
    copy.acknowledged(second, 1)
    young = copy.next_batch()
    assert young is not None
    assert copy.next_batch() is None, "the broker may not know the writer"
    copy.acknowledged(young, 2)
    assert copy.next_batch() is not None
    assert copy.next_batch() is not None


def test_the_first_batch_of_a_shift_goes_alone_whatever_is_on_record():
    copy = guarded()
    copy.remembered_ms = FORGOTTEN
    take(copy, *(batch(n, 1, size=LARGE) for n in range(3)))
    first = copy.next_batch()
    assert first is not None
    assert copy.next_batch() is None
    copy.acknowledged(first, 0)
    assert copy.next_batch() is not None
    assert copy.next_batch() is not None


def test_a_batch_that_was_refused_for_sure_is_sent_again_however_old():
    copy = guarded()
    take(copy, old(batch(0, 1, size=LARGE)))
    first = copy.next_batch()
    assert first is not None
    copy.refused(first, NO_REPLICAS, "")
    assert copy.all_acknowledged, "the target does not have it, for sure"
    assert copy.next_batch() is first


def test_a_refusal_for_good_leaves_the_partition_settled_and_a_lost_answer_does_not():
    copy = guarded()
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE))
    first, second = copy.next_batch(), copy.next_batch()
    assert first is not None
    assert second is not None
    copy.refused(first, TOO_LARGE, "")
    assert not copy.all_acknowledged, "an answer is owed"
    copy.refused(second, 45, "")
    assert copy.all_acknowledged
    lost = guarded()
    take(lost, batch(0, 1, size=LARGE))
    only = lost.next_batch()
    assert only is not None
    lost.refused(only, NETWORK, "")
    assert lost.next_batch() is only
    lost.refused(only, TOO_LARGE, "")
    assert lost.error
    assert not lost.all_acknowledged


def waited(copy: PartitionCopy) -> list[tuple[list[Segments], Ticket]]:
    """The partition stood still for so long that its batches are old now; what it then puts on record."""
    written: list[tuple[list[Segments], Ticket]] = []
    copy.guard = guard(-DAY_MS)
    copy.write_ahead = lambda records, ticket: written.append(
        ([record for record in records if isinstance(record, Segments)], ticket)
    )
    return written


def test_what_turned_old_while_it_waited_is_put_on_record_first():
    copy = guarded()
    take(copy, batch(0, 2), batch(5, 2))
    written = waited(copy)
    assert copy.next_batch() is None
    assert not copy.has_more(), "it waits"
    ((segments, ticket),) = written
    assert [(points(one, one.source), one.unguarded) for one in segments] == [([(0, 0), (2, 5)], True)]
    assert flags(copy) == [(0, True), (5, True)]
    ticket.acknowledged = True
    sent = copy.next_batch()
    assert sent is not None
    assert sent.count == 4
    copy.acknowledged(sent, 7)
    assert [each[:2] for each in copy.ahead.settled] == [(0, 7)]


def test_what_turned_old_in_the_middle_of_a_segment_opens_another_one():
    copy = guarded()
    take(copy, batch(0, 1, size=LARGE), batch(1, 1, size=LARGE), batch(8, 1, size=LARGE))
    first = copy.next_batch()
    assert first is not None
    copy.acknowledged(first, 0)
    written = waited(copy)
    assert copy.next_batch() is None
    ((segments, _),) = written
    assert [(one.sequence, one.source, one.unguarded) for one in segments] == [
        (2, 8, False),
        (1, 1, True),
        (0, 0, False),
    ]
    assert flags(copy) == [(0, False), (1, True), (8, False)]


def test_what_turned_old_since_its_answer_was_lost_gives_the_partition_back():
    copy = guarded()
    take(copy, batch(0, 1, size=LARGE))
    only = copy.next_batch()
    assert only is not None
    copy.refused(only, NETWORK, "")
    assert not copy.error
    assert waited(copy) == []
    assert copy.next_batch() is None
    assert "given back" in copy.error
    assert not copy.all_acknowledged


def test_what_will_turn_old_soon_is_put_on_record_as_old_at_once():
    copy = partition()
    copy.guard = guard(LEAD_MS // 2)
    take(copy, batch(0, 1))
    assert flags(copy) == [(0, True)]
    assert copy.guard.holds(NOW_MS)
