"""What groups had committed is on record, for the day when the source is gone."""

from __future__ import annotations

import pytest

from sparkmirror.duties.group_records import Remember, decide, records_of
from sparkmirror.duties.groups import Unreadable
from sparkmirror.kafka.groups import Committed, Offsets
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.group_records import GroupSeen, GroupsSeen
from sparkmirror.offsets.records import parse
from sparkmirror.offsets.state import JournalState, state_of

OFFSETS: Offsets = {
    TopicPartition("orders", 1): Committed(7, "note"),
    TopicPartition("orders", 0): Committed(5),
    TopicPartition("payments", 0): Committed(0),
}


def known(*seen: GroupSeen) -> dict[str, GroupSeen]:
    return {one.key: one for one in seen}


def test_a_group_has_a_record_for_each_topic():
    orders, payments = records_of("g", OFFSETS, 9)
    assert orders == GroupSeen(group="g", topic="orders", offsets={0: (5, ""), 1: (7, "note")}, time_ms=9)
    assert payments == GroupSeen(group="g", topic="payments", offsets={0: (0, "")}, time_ms=9)


@pytest.mark.parametrize("one", [*records_of("größe", OFFSETS, 9), GroupsSeen(time_ms=4)])
def test_records_are_read_as_they_were_written(one):
    assert parse(one.key, one.value()) == one


def test_only_what_is_new_is_written_and_what_is_gone_leaves():
    orders, payments = records_of("g", OFFSETS, 9)
    old = records_of("left", OFFSETS, 1)
    moved = {**OFFSETS, TopicPartition("orders", 0): Committed(6)}
    (remember,) = decide(known(orders, payments, *old), {"g": moved}, {}, 20)
    assert isinstance(remember, Remember)
    assert [one.topic for one in remember.seen] == ["orders"]
    assert remember.seen[0].time_ms == 20
    assert remember.gone == tuple(sorted(one.key for one in old))
    assert remember.at == GroupsSeen(time_ms=20)


def test_what_is_known_of_a_group_that_cannot_be_read_is_kept():
    kept = known(*records_of("g", OFFSETS, 9))
    remember, unreadable = decide(kept, {}, {"g": "no right"}, 20)
    assert isinstance(remember, Remember)
    assert (remember.seen, remember.gone) == ((), ())
    assert unreadable == Unreadable(group="g", reason="no right")


def test_the_state_has_the_newest_of_each_and_forgets_what_is_gone():
    orders, payments = records_of("g", OFFSETS, 9)
    state: JournalState = state_of([orders, payments, GroupsSeen(time_ms=9)])
    assert list(state.groups.values()) == [orders, payments]
    state.forget(payments.key)
    assert list(state.groups.values()) == [orders]
    assert state.groups_seen == GroupsSeen(time_ms=9)
