"""What groups had committed is on record, for the day when the source is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.duties.group_records import (
    GroupRecords,
    LeftBehind,
    MetadataLeftOut,
    OffsetsLost,
    Remember,
    Seen,
    decide,
    left_behind,
    news,
    records_of,
)
from sparkmirror.duties.groups import Unreadable
from sparkmirror.duties.lost_groups import (
    UNREADABLE,
    UNTOLD,
    Asked,
    Merged,
    OffsetsLog,
    parted_in,
    partition_of,
    placed_since,
    seen_before,
    with_lost,
)
from sparkmirror.duties.notes import Notes
from sparkmirror.duties.upstream_offsets import upstream_on_record
from sparkmirror.events import Event, Kind
from sparkmirror.kafka.codes import MESSAGE_TOO_LARGE, broker_error
from sparkmirror.kafka.groups import Committed, Offsets
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.group_records import (
    UNKNOWN_ORIGIN,
    ExactTarget,
    FlowCommit,
    GroupCommitted,
    GroupLeft,
    GroupSeen,
    GroupsSeen,
    LogEnd,
    Origin,
    UpstreamOffset,
)
from sparkmirror.offsets.records import Happened, parse
from sparkmirror.offsets.state import JournalState, state_of

WRITER = Writer(producer_id=7, epoch=1)
BEFORE = GroupsSeen(time_ms=3)
OFFSETS: Offsets = {
    TopicPartition("orders", 1): Committed(7, "note"),
    TopicPartition("orders", 0): Committed(5),
    TopicPartition("payments", 0): Committed(0),
}


UPSTREAM = {
    TopicPartition("orders", 0): UpstreamOffset(50, "RECORD"),
    TopicPartition("orders", 1): UpstreamOffset(-1, "UNSETTLED", exact=False),
}


def known(*records: GroupSeen) -> dict[str, GroupSeen]:
    return {one.key: one for one in records}


HOME = Origin(cluster_id="one", offsets_id="id")
EVERYWHERE = frozenset({"orders", "payments"})


def seen(found: Mapping[str, Offsets], at_ms: int, asked: Asked | None = None, **why: str) -> Seen:
    """What the source has answered, and why not of some groups."""
    return Seen(found=found, unreadable=why, at_ms=at_ms, asked=asked or Asked(topics=EVERYWHERE))


def test_a_group_has_a_record_for_each_topic():
    orders, payments = records_of("g", OFFSETS, 9)
    assert orders == GroupSeen(group="g", topic="orders", offsets={0: (5, ""), 1: (7, "note")}, time_ms=9)
    assert payments == GroupSeen(group="g", topic="payments", offsets={0: (0, "")}, time_ms=9)


def of_many(metadata: str, partitions: int, topic: str = "many") -> Offsets:
    return {TopicPartition(topic, number): Committed(number, metadata) for number in range(partitions)}


def test_much_metadata_of_a_group_and_a_topic_is_not_put_on_record_and_that_is_told():
    """Any client of the source may commit 4,096 characters for each partition of a topic."""
    found = {"g": {**of_many("m" * 4_096, 200), **OFFSETS}, "h": of_many("m" * 100, 200)}
    remember, *told = decide({}, BEFORE, replace(seen(found, 20), ids={"many": "id"}))
    assert isinstance(remember, Remember)
    records = {(one.group, one.topic): one for one in remember.seen}
    assert records["g", "many"].offsets == {number: (number, "") for number in range(200)}
    assert records["g", "orders"].offsets[1] == (7, "note")
    assert records["h", "many"].offsets[7] == (7, "m" * 100)
    assert told == [MetadataLeftOut(group="g", topic="many")]
    again, *_ = decide(known(*remember.seen), BEFORE, replace(seen(found, 21), ids={"many": "id"}))
    assert isinstance(again, Remember)
    assert again.seen == (), "what was left out is no news"


def test_much_metadata_of_a_topic_that_is_not_copied_is_left_out_without_a_word():
    (remember,) = decide({}, BEFORE, seen({"g": of_many("m" * 4_096, 200)}, 20))
    assert isinstance(remember, Remember)
    assert remember.seen[0].offsets[0] == (0, "")


class SmallStore:
    """A store whose topic takes no records of more than some bytes."""

    def __init__(self, limit: int) -> None:
        self.state = JournalState()
        self.written: list[list[str]] = []
        self._limit = limit

    def write(self, records: Sequence[GroupSeen | GroupsSeen], tombstones: Sequence[str] = ()) -> None:
        if max(len(one.value()) for one in records) > self._limit:
            raise broker_error(MESSAGE_TOO_LARGE, "B")
        self.written.append([*(one.key for one in records), *tombstones])
        for one in records:
            self.state.take(one)


def duty_with(store: SmallStore) -> GroupRecords:
    duty = GroupRecords.__new__(GroupRecords)
    duty._notes = Notes()
    sides: Any = SimpleNamespace(store=store)
    duty._sides = sides
    return duty


@pytest.mark.parametrize("limit", [20_000, 1 << 30])
def test_a_record_that_is_too_large_keeps_no_others_from_being_written(monkeypatch: pytest.MonkeyPatch, limit: int):
    """Whether the topic refuses it, or it is larger than what is ever written."""
    monkeypatch.setattr("sparkmirror.duties.group_records.LARGEST_BYTES", 20_000 if limit > 20_000 else 1 << 30)
    found = {"a": of_many("", 1), "m": of_many("", 1_500), "z": of_many("", 1)}
    store = SmallStore(limit)
    duty = duty_with(store)
    results = duty.apply(decide({}, GroupsSeen(time_ms=0), seen(found, 20)))
    assert [one.failure.startswith("group m is not on record for many: ") for one in results] == [True, False]
    assert {one.group for one in store.state.groups.values()} == {"a", "z"}
    assert store.state.groups_seen == GroupsSeen(time_ms=20, unread={"m": 0})


def test_a_record_of_many_partitions_that_fits_is_written_before_the_others():
    store = SmallStore(1 << 30)
    (result,) = duty_with(store).apply(decide({}, BEFORE, seen({"m": of_many("", 1_500), "z": of_many("", 1)}, 20)))
    assert result.done
    assert store.written == [['["group","m","many"]'], ['["group","z","many"]', '["groups"]']]


def test_metadata_that_is_left_out_is_told_once_while_it_lasts():
    duty, left_out = duty_with(SmallStore(0)), MetadataLeftOut(group="g", topic="many")
    assert [len(duty.apply(actions)) for actions in ([left_out], [left_out], [], [left_out])] == [1, 0, 0, 1]


COMMITTED = GroupCommitted(group="größe", topic="a.orders", commits={0: FlowCommit(7, 5), 3: FlowCommit(9, 8)})


SOME_UNREAD = GroupsSeen(time_ms=9, unread={"g": 4, "größe": 0})


@pytest.mark.parametrize(
    "one",
    [
        *records_of("größe", OFFSETS, 9, UPSTREAM),
        *(replace(one, lost={0: 3, 1: -1}) for one in records_of("g", OFFSETS, 9)),
        GroupsSeen(time_ms=4),
        GroupsSeen(time_ms=4, back_ms=9),
        GroupsSeen(time_ms=4, back_ms=9, moved_ms=9),
        GroupsSeen(time_ms=4, back_ms=9, moved_ms=7),
        GroupsSeen(time_ms=4, log={0: LogEnd(3, 17), 49: LogEnd(0, 0)}),
        SOME_UNREAD,
        COMMITTED,
    ],
)
def test_records_are_read_as_they_were_written(one):
    assert parse(one.key, one.value()) == one


def test_a_record_without_the_operation_that_has_moved_its_groups_is_taken_as_it_was_meant():
    one = GroupsSeen(time_ms=4, back_ms=9, moved_ms=9)
    assert "moved_ms" not in one.value()
    assert parse(one.key, one.value()) == one


def test_only_what_is_new_is_written_and_what_is_gone_leaves():
    orders, payments = records_of("g", OFFSETS, 9)
    old = records_of("left", OFFSETS, 1)
    moved = {**OFFSETS, TopicPartition("orders", 0): Committed(6)}
    (remember,) = decide(known(orders, payments, *old), BEFORE, seen({"g": moved}, 20))
    assert isinstance(remember, Remember)
    assert [one.topic for one in remember.seen] == ["orders"]
    assert remember.seen[0].time_ms == 20
    assert remember.gone == tuple(sorted(one.key for one in old))
    assert remember.at == GroupsSeen(time_ms=20)


def test_what_a_group_has_left_behind_is_looked_at_in_each_round_and_written_only_when_it_changes():
    one = GroupLeft(group="g", topic="orders", offsets={0: 5, 1: 7}, time_ms=9)
    same = Merged(offsets={"g": OFFSETS})
    assert left_behind({one.key: one}, same, {"g": 9}) == ()
    moved = Merged(offsets={"g": {**OFFSETS, TopicPartition("orders", 0): Committed(6)}})
    assert left_behind({one.key: one}, moved, {}) == (LeftBehind(known={one.key: one}, found=moved.known, back={}),)
    lost = replace(moved, lost=frozenset({("g", TopicPartition("orders", 0))}))
    assert left_behind({one.key: one}, lost, {}) == ()
    back = {"g": 10}  # the group has been moved here later
    assert left_behind({one.key: one}, same, back) == (LeftBehind(known={one.key: one}, found=same.known, back=back),)


def test_a_topic_of_a_group_and_a_group_that_the_source_has_no_more_leave():
    orders, payments = records_of("g", OFFSETS, 9)
    (away,) = records_of("away", {TopicPartition("orders", 0): Committed(3)}, 9)
    (deleted,) = records_of("deleted", {TopicPartition("orders", 0): Committed(3)}, 9)
    left = {place: one for place, one in OFFSETS.items() if place.topic == "payments"}
    found = news(known(orders, payments, away, deleted), BEFORE, seen({"g": left, "deleted": {}}, 20, away="no right"))
    assert found == Remember(
        seen=(), gone=tuple(sorted([orders.key, deleted.key])), at=GroupsSeen(time_ms=20, unread={"away": 3})
    )


HIDDEN = HOME._replace(offsets_id="")
OTHER = HOME._replace(cluster_id="other")
REMADE = HOME._replace(offsets_id="new")


@pytest.mark.parametrize(
    ("before", "asked", "stays", "is_told"),
    [
        pytest.param(HOME, Asked(origin=HOME, topics=EVERYWHERE), False, False, id="deleted"),
        pytest.param(HOME, Asked(origin=HOME, absent=EVERYWHERE), False, False, id="deleted with its topics"),
        pytest.param(HOME, Asked(origin=HOME), True, False, id="its topics may not be seen"),
        pytest.param(HOME, Asked(origin=OTHER, topics=EVERYWHERE), True, True, id="another cluster"),
        pytest.param(HOME, Asked(origin=REMADE, topics=EVERYWHERE), True, True, id="its disks are lost"),
        pytest.param(
            HOME, Asked(origin=HIDDEN, absent=EVERYWHERE), True, True, id="no group has committed there since"
        ),
        pytest.param(HIDDEN, Asked(origin=HOME, topics=EVERYWHERE), False, False, id="the right to see it is new"),
        pytest.param(HIDDEN, Asked(origin=HIDDEN, topics=EVERYWHERE), False, False, id="deleted where little is seen"),
        pytest.param(
            HIDDEN, Asked(origin=HIDDEN, absent=EVERYWHERE), True, False, id="topics gone where little is seen"
        ),
        pytest.param(UNKNOWN_ORIGIN, Asked(origin=HOME, topics=EVERYWHERE), False, False, id="never asked"),
    ],
)
def test_a_source_that_has_lost_the_offsets_of_groups_does_not_say_that_they_are_gone(before, asked, stays, is_told):
    on_record = known(*records_of("g", OFFSETS, 9))
    remember, *reported = decide(on_record, GroupsSeen(time_ms=9, origin=before), seen({}, 20, asked))
    assert isinstance(remember, Remember)
    assert remember.gone == (() if stays else tuple(sorted(on_record)))
    assert reported == ([OffsetsLost(groups=("g",), time_ms=9)] if is_told else [])
    origin = before if is_told else asked.origin
    assert remember.at == GroupsSeen(time_ms=9 if is_told else 20, origin=origin)


def test_a_group_that_commits_on_the_cluster_that_was_set_up_again_is_on_record_as_it_is_there():
    orders, payments = records_of("g", OFFSETS, 9)
    now = Asked(origin=Origin(cluster_id="other"), topics=EVERYWHERE)
    again = {TopicPartition("orders", 0): Committed(1)}
    remember, lost = decide(known(orders, payments), GroupsSeen(time_ms=9, origin=HOME), seen({"g": again}, 20, now))
    assert isinstance(remember, Remember)
    assert [dict(one.offsets) for one in remember.seen] == [{0: (1, "")}]
    assert remember.gone == ()
    assert lost == OffsetsLost(groups=("g",), time_ms=9)
    (remember,) = decide(known(*remember.seen), remember.at, seen({"g": again}, 30, now))
    assert isinstance(remember, Remember)
    assert remember.at.origin == now.origin, "nothing of before is left"


def test_an_offset_of_an_older_topic_of_the_name_is_known_as_such():
    (first,) = news(
        {}, BEFORE, replace(seen({"g": {TopicPartition("orders", 0): Committed(5)}}, 9), ids={"orders": "1"})
    ).seen
    assert first.topic_id == "1"
    assert parse(first.key, first.value()) == first


def test_what_is_known_of_a_group_that_cannot_be_read_is_kept():
    kept = known(*records_of("g", OFFSETS, 9))
    remember, unreadable = decide(kept, BEFORE, seen({}, 20, g="no right"))
    assert isinstance(remember, Remember)
    assert (remember.seen, remember.gone) == ((), ())
    assert unreadable == Unreadable(group="g", reason="no right")
    assert remember.at == GroupsSeen(time_ms=20, unread={"g": 3})
    again, _ = decide(kept, remember.at, seen({}, 30, g="no right"))
    assert isinstance(again, Remember)
    assert again.at == GroupsSeen(time_ms=30, unread={"g": 3}), "it was read last at 3"
    assert (again.at.read_ms("g"), again.at.read_ms("other")) == (3, 30)
    (read,) = decide(kept, again.at, seen({"g": OFFSETS}, 40))
    assert isinstance(read, Remember)
    assert read.at == GroupsSeen(time_ms=40)


def test_the_state_has_the_newest_of_each_and_forgets_what_is_gone():
    orders, payments = records_of("g", OFFSETS, 9)
    state: JournalState = state_of([orders, payments, GroupsSeen(time_ms=9)])
    assert list(state.groups.values()) == [orders, payments]
    state.forget(payments.key)
    assert list(state.groups.values()) == [orders]
    assert state.groups_seen == GroupsSeen(time_ms=9)


def test_the_state_has_the_commits_of_the_flow_until_they_are_taken_away():
    state = state_of([COMMITTED])
    assert state.committed == {COMMITTED.key: COMMITTED}
    state.forget(COMMITTED.key)
    assert state.committed == {}


def test_a_target_without_its_writer_epoch_does_not_count():
    """Where the record lies is right only as long as it lies there under that epoch."""
    (orders, _) = records_of("g", OFFSETS, 9)
    value = orders.value().replace('[0,5,""]', '[0,5,"",50]')
    found = parse(orders.key, value)
    assert value != orders.value()
    assert found == orders


def test_a_group_whose_offset_leads_elsewhere_on_the_target_now_is_written_anew():
    first = known(*records_of("g", OFFSETS, 9))
    (remember,) = decide(first, BEFORE, seen({"g": OFFSETS}, 20), {"g": UPSTREAM})
    assert isinstance(remember, Remember)
    assert [(one.topic, dict(one.upstream)) for one in remember.seen] == [
        ("orders", {0: UpstreamOffset(50, "RECORD"), 1: UpstreamOffset(-1, "UNSETTLED", exact=False)})
    ]


@pytest.mark.parametrize(
    ("now", "kept"),
    [(5, UpstreamOffset(50, "RECORD")), (6, UpstreamOffset(50, "RECORD", exact=False)), (4, UNREADABLE)],
)
def test_what_is_on_record_of_the_flow_back_holds_for_a_group_that_went_on_but_not_for_one_that_was_set_back(now, kept):
    place = TopicPartition("orders", 0)
    found = upstream_on_record(known(*records_of("g", OFFSETS, 9, UPSTREAM)), {"g": {place: Committed(now)}})
    assert found.get("g", {}).get(place) == kept


def test_where_the_map_may_be_thinned_the_place_on_the_target_is_put_on_record_and_kept():
    places = {("orders", 0): 50, ("orders", 1): 70}

    def translate(place: TopicPartition, offset: int) -> ExactTarget | None:
        target = places.get((place.topic, place.partition))
        return None if target is None else ExactTarget(target, WRITER)

    (first,) = decide({}, BEFORE, seen({"g": OFFSETS}, 9), {}, translate)
    assert isinstance(first, Remember)
    orders, payments = first.seen
    assert (orders.targets, payments.targets) == ({0: ExactTarget(50, WRITER), 1: ExactTarget(70, WRITER)}, {})
    assert parse(orders.key, orders.value()) == orders
    places.clear()
    moved = {**OFFSETS, TopicPartition("orders", 0): Committed(6)}
    (later,) = decide(known(orders, payments), BEFORE, seen({"g": moved}, 20), {}, translate)
    assert isinstance(later, Remember)
    (further,) = later.seen
    assert further.targets == {1: ExactTarget(70, WRITER)}, "that of the offset that it still stands at"
    (nothing,) = decide(known(orders, payments), BEFORE, seen({"g": OFFSETS}, 30), {}, translate)
    assert isinstance(nothing, Remember)
    assert nothing.seen == ()


@pytest.mark.parametrize(("left_out", "placed"), [(7, False), (0, True), (7, True), (0, False)])
def test_what_neither_flow_has_copied_is_on_record_with_the_offset(left_out, placed):
    place = TopicPartition("orders", 0)
    upstream = {place: UpstreamOffset(50, "FIRST", left_out=left_out, placed=placed)}
    (one,) = records_of("g", {place: Committed(5)}, 9, upstream)
    assert parse(one.key, one.value()) == one


def test_of_a_group_that_is_new_in_a_partition_that_two_flows_write_nothing_is_known():
    place, other = TopicPartition("orders", 0), TopicPartition("payments", 0)
    recorded = known(*records_of("g", OFFSETS, 9, UPSTREAM))
    assert upstream_on_record(recorded, {"new": {place: Committed(5), other: Committed(5)}}) == {
        "new": {place: UNREADABLE}
    }


@pytest.mark.parametrize(
    ("group", "partitions", "number"),
    [("my-group", 50, 12), ("g", 50, 3), ("größe", 50, 7), ("polygenelubricants", 50, 0), ("𝄞", 7, 1), ("", 50, 0)],
)
def test_a_group_lies_in_the_partition_that_its_coordinator_computes(group, partitions, number):
    assert partition_of(group, partitions) == number


WHOLE = OffsetsLog(ends={0: LogEnd(3, 90)}, partitions=1)
TORN = replace(WHOLE, torn=frozenset({0}))
ORDERS_1, ORDERS_0, PAYMENTS = OFFSETS


def rounds(*answers: tuple[OffsetsLog, Mapping[str, Offsets]]) -> tuple[dict[str, GroupSeen], GroupsSeen]:
    """What is on record when the source has answered so, one round after the other, from 10 on."""
    kept, at = known(*records_of("g", OFFSETS, 9)), BEFORE
    for now, (log, found) in enumerate(answers, 10):
        remember = news(kept, at, seen(found, now, Asked(origin=HOME, topics=EVERYWHERE, log=log)))
        kept = {key: one for key, one in kept.items() if key not in remember.gone} | known(*remember.seen)
        at = remember.at
    return kept, at


BACKWARDS: Offsets = {ORDERS_1: Committed(7, "note"), ORDERS_0: Committed(2)}


def test_offsets_that_go_back_while_their_log_loses_its_end_stay_on_record_until_the_group_commits_again():
    kept, at = rounds((TORN, {"g": BACKWARDS}), (WHOLE, {"g": BACKWARDS}))
    orders, payments = (kept[one.key] for one in records_of("g", OFFSETS, 9))
    assert (orders.offsets, orders.lost, orders.time_ms) == ({0: (5, ""), 1: (7, "note")}, {0: 2}, 9)
    assert (payments.offsets, payments.lost) == ({0: (0, "")}, {0: -1})
    assert at == GroupsSeen(time_ms=11, unread={"g": 3}, origin=HOME, log=WHOLE.ends)
    again = {**BACKWARDS, ORDERS_0: Committed(3), PAYMENTS: Committed(0)}
    kept, at = rounds((TORN, {"g": BACKWARDS}), (WHOLE, {"g": BACKWARDS}), (WHOLE, {"g": again}))
    assert {one.topic: (dict(one.offsets), dict(one.lost)) for one in kept.values()} == {
        "orders": ({0: (3, ""), 1: (7, "note")}, {}),
        "payments": ({0: (0, "")}, {}),
    }
    assert at.unread == {}


def test_a_loss_that_takes_an_owners_set_back_along_brings_no_older_offset_back():
    """The older one is further on: the group would skip what it was set back to read."""
    further: Offsets = {**OFFSETS, ORDERS_0: Committed(9)}
    kept, _ = rounds((TORN, {"g": further}), (WHOLE, {"g": further}))
    orders = kept[records_of("g", OFFSETS, 9)[0].key]
    assert (orders.offsets[0], dict(orders.lost)) == ((5, ""), {0: 9})
    kept, _ = rounds((TORN, {"g": further}), (WHOLE, {"g": {**OFFSETS, ORDERS_0: Committed(10)}}))
    assert kept[orders.key].offsets[0] == (10, "")


def test_offsets_that_go_back_where_nothing_is_lost_are_their_owners():
    kept, _ = rounds((WHOLE, {"g": BACKWARDS}))
    assert {one.topic: dict(one.offsets) for one in kept.values()} == {"orders": {0: (2, ""), 1: (7, "note")}}
    other = replace(TORN, partitions=50, torn=frozenset({4}))  # the group lies in partition 3
    assert rounds((other, {"g": BACKWARDS}))[0] == kept


def test_groups_whose_offsets_are_lost_are_told_of_in_each_round():
    kept, at = rounds((TORN, {"g": BACKWARDS}))
    found = decide(kept, at, seen({"g": BACKWARDS}, 20, Asked(origin=HOME, topics=EVERYWHERE, log=WHOLE)))
    (lost,) = (one for one in found if isinstance(one, OffsetsLost))
    assert lost.text("a").startswith(
        "a has lost the end of __consumer_offsets: 1 groups (g) stay on record as they were seen at 1970-01-01 00:00:00"
    )


def test_the_newest_operation_of_the_flow_back_that_was_seen_stays_on_record():
    before = replace(BEFORE, back_ms=7)
    assert news({}, before, replace(seen({}, 10), back_ms=8)).at.back_ms == 8
    assert news({}, before, seen({}, 10)).at.back_ms == 7, "it could not be read"


def test_what_the_source_has_lost_counts_as_it_was_seen_only_while_the_source_answers_the_same():
    kept, _ = rounds((TORN, {"g": BACKWARDS}))
    merged = with_lost(kept.values(), {"g": BACKWARDS, "other": {}}, WHOLE)
    lost = frozenset({("g", ORDERS_0), ("g", PAYMENTS)})
    assert merged == Merged(offsets={"g": OFFSETS, "other": {}}, lost=lost)
    again = {**BACKWARDS, ORDERS_0: Committed(3), PAYMENTS: Committed(0)}
    assert with_lost(kept.values(), {"g": again}, WHOLE) == Merged(offsets={"g": again})


def test_a_loss_that_no_round_has_seen_yet_is_seen_by_how_far_the_log_went_on_record():
    kept = known(*records_of("g", OFFSETS, 9))
    assert with_lost(kept.values(), {"g": BACKWARDS}, TORN).offsets == {"g": OFFSETS}
    assert with_lost(kept.values(), {"g": BACKWARDS}, WHOLE) == Merged(offsets={"g": BACKWARDS})


def test_what_a_group_has_left_behind_is_so_too_when_the_source_has_lost_it():
    """It has not used the older offset that the source has again: that would lead it over what it has not read."""
    one = GroupLeft(group="g", topic="orders", offsets={0: 5, 1: 7}, time_ms=9)
    kept, _ = rounds((TORN, {"g": BACKWARDS}))
    for log in (WHOLE, TORN):
        lost = with_lost(kept.values(), {"g": BACKWARDS}, log)
        assert left_behind({one.key: one}, lost, {}) == ()
    used = with_lost(kept.values(), {"g": {**BACKWARDS, ORDERS_0: Committed(3)}}, WHOLE)
    (written,) = left_behind({one.key: one}, used, {})
    assert isinstance(written, LeftBehind)


def test_a_group_that_did_not_answer_in_the_round_that_found_the_loss_is_asked_later_what_it_has_lost():
    at_first = seen({}, 10, Asked(origin=HOME, topics=EVERYWHERE, log=TORN), g="no coordinator")
    remember = news(known(*records_of("g", OFFSETS, 9)), BEFORE, at_first)
    kept = known(*remember.seen)
    assert {one.topic: (dict(one.lost), one.time_ms) for one in kept.values()} == {
        "orders": ({0: UNTOLD, 1: UNTOLD}, 9),
        "payments": ({0: UNTOLD}, 9),
    }
    assert all(parse(key, one.value()) == one for key, one in kept.items())
    later = news(kept, remember.at, seen({"g": BACKWARDS}, 11, Asked(origin=HOME, topics=EVERYWHERE, log=WHOLE)))
    assert {one.topic: (dict(one.offsets), dict(one.lost)) for one in later.seen} == {
        "orders": ({0: (5, ""), 1: (7, "note")}, {0: 2}),
        "payments": ({0: (0, "")}, {0: -1}),
    }
    whole = news(kept, remember.at, seen({"g": OFFSETS}, 11, Asked(origin=HOME, topics=EVERYWHERE, log=WHOLE)))
    assert [dict(one.lost) for one in whole.seen] == [{}, {}]


@pytest.mark.parametrize(("moved_ms", "offset", "lost"), [(8, 2, False), (7, 2, True), (8, 3, True)])
def test_a_group_that_the_flow_back_has_put_there_since_has_lost_nothing(moved_ms, offset, lost):
    """An operation has moved it while nobody put groups on record; one that was moved before that may have lost it."""
    placed = placed_since({"g": {ORDERS_0: FlowCommit(offset, 50)}}, {"g": moved_ms}, 7)
    answer: Offsets = {**OFFSETS, ORDERS_0: Committed(2)}
    kept = known(*records_of("g", OFFSETS, 9))
    asked = Asked(origin=HOME, topics=EVERYWHERE, log=TORN)
    remember = news(kept, BEFORE, replace(seen({"g": answer}, 10, asked), placed=placed))
    orders = next(one for one in remember.seen if one.topic == "orders")
    assert (dict(orders.lost), orders.offsets[0][0]) == (({0: 2}, 5) if lost else ({}, 2))
    assert (("g", ORDERS_0) in with_lost(kept.values(), {"g": answer}, TORN, placed).lost) is lost


@pytest.mark.parametrize(("loss_first", "offset"), [(False, 4), (True, 5)])
def test_what_came_on_record_later_is_later_whatever_the_clock_of_its_lane_says(loss_first, offset):
    """The lane's clock is an hour behind that of the driver that has seen the group."""
    orders, _ = records_of("g", OFFSETS, 3_700_000, {})
    told = Happened(partition=ORDERS_0, event=parts(Kind.SOURCE_TAIL_LOST, 4, 100_000))
    state = state_of([told, orders] if loss_first else [orders, told])
    merged = with_lost(state.groups.values(), {"g": BACKWARDS}, TORN, parted=parted_in(state))
    assert merged.offsets["g"][ORDERS_0].offset == offset


def parts(kind: Kind, first: int, time_ms: int) -> Event:
    return Event(kind=kind, text="", first=first, last=9, time_ms=time_ms)


@pytest.mark.parametrize(
    ("event", "offset"),
    [
        (parts(Kind.SOURCE_TAIL_LOST, 4, 60_000), 4),
        (parts(Kind.SOURCE_TAIL_LOST, 6, 60_000), 5),
        (parts(Kind.SOURCE_RECREATED, 9, 60_000), 0),
        (parts(Kind.SOURCE_TAIL_LOST, 4, 40_000), 5),
        (parts(Kind.SOURCE_TAIL_LOST, -1, 60_000), 5),
        (parts(Kind.TARGET_TAIL_LOST, 4, 60_000), 5),
    ],
)
def test_what_was_seen_of_a_group_counts_no_further_than_its_log_is_still_the_one_that_it_was(event, offset):
    """The group was seen at 50 s. Behind that place lie other records, which nobody has read."""
    (orders, payments) = records_of("g", OFFSETS, 55_000, {ORDERS_0: UpstreamOffset(50, "RECORD")})
    told = Happened(partition=ORDERS_0, event=event)
    parted = parted_in(JournalState(events={told.key: told}))
    answer = replace(seen({"g": BACKWARDS}, 70_000, Asked(origin=HOME, topics=EVERYWHERE, log=TORN)), parted=parted)
    remember = news(known(orders, payments), BEFORE, answer, {"g": {ORDERS_0: UpstreamOffset(40, "RECORD")}})
    found = next(one for one in remember.seen if one.topic == "orders")
    assert (found.offsets[0][0], dict(found.lost)) == (offset, {0: 2})
    assert found.upstream[0].offset == (50 if offset == 5 else 40), "translated where it goes on"
    merged = with_lost(known(orders).values(), {"g": BACKWARDS}, TORN, parted=parted)
    assert merged.offsets["g"][ORDERS_0].offset == offset
    nothing = seen_before(orders, None, torn=True, parted=parted)
    assert nothing is not None
    assert nothing.upstream[0] == (UpstreamOffset(50, "RECORD") if offset == 5 else UNREADABLE)
