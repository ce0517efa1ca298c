"""What is told of events, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.flow.telling import AGAIN_MS, KEPT_MS, SURE_MS, Telling, lines, of_others, outlived, unrecorded
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.foreign import Broken, Flaw
from sparkmirror.offsets.records import FLOW, Happened, Progress
from sparkmirror.offsets.state import JournalState

HERE = TopicPartition("orders", 3)
GAP = Event(kind=Kind.SOURCE_RETENTION, text="offsets 5 to 9 are gone", first=5, last=9)


def telling(*known: Happened) -> tuple[Telling, list[str]]:
    told: list[str] = []
    return Telling(told.append, {happened.key: happened for happened in known}), told


def spoken(subject: Telling) -> tuple[Happened, ...]:
    """What it gives to be put on record, which is done."""
    new = subject.speak()
    subject.recorded(new)
    return new


def test_an_event_that_comes_back_each_second_is_told_once_and_put_on_record_once():
    subject, told = telling()
    recorded: list[Happened] = []
    for _ in range(1_000):
        subject.tell(HERE, [GAP])
        recorded += spoken(subject)
    assert told == ["orders-3: offsets 5 to 9 are gone"]
    assert recorded == [Happened(partition=HERE, event=GAP)]


def test_what_happens_again_after_an_hour_is_told_again_also_after_a_restart():
    once = replace(GAP, kind=Kind.UNAUTHORIZED)
    subject, told = telling(Happened(partition=HERE, event=once))
    subject.tell(HERE, [replace(once, time_ms=once.time_ms + AGAIN_MS - 1)])
    assert not spoken(subject)
    subject.tell(HERE, [replace(once, time_ms=once.time_ms + AGAIN_MS)])
    assert spoken(subject)
    assert len(told) == 1


def test_what_could_not_be_put_on_record_is_kept_for_the_next_time_and_told_once():
    subject, told = telling()
    subject.tell(HERE, [GAP])
    refused = subject.speak()
    assert subject.speak() == refused
    subject.recorded(refused)
    assert subject.speak() == ()
    assert len(told) == 1


@pytest.mark.parametrize(
    ("known", "since_ms", "found"),
    [(None, 1_000, True), (None, KEPT_MS + 1_000, False), (2_000, 1_000, True), (1_000, 1_000, False)],
)
def test_events_of_progress_are_not_on_record_where_those_of_their_kind_there_are_older(known, since_ms, found):
    now = now_ms()
    left = replace(GAP, time_ms=now - since_ms)
    there = [Happened(partition=HERE, event=replace(GAP, text="earlier", time_ms=now - known))] if known else []
    progress = Progress(
        partition=HERE,
        writer=Writer(producer_id=7, epoch=0),
        generation=3,
        position=10,
        next_sequence=0,
        events=(left,),
    )
    told = list(unrecorded([progress], {one.key: one for one in there}))
    assert told == ([Happened(partition=HERE, event=left)] if found else [])


def test_two_stops_that_take_turns_are_each_told_once():
    subject, told = telling()
    for number in range(100):
        subject.tell(HERE, [Event(kind=Kind.STOPPED, text=f"reason {number % 2}")])
        spoken(subject)
    assert told == ["orders-3: reason 0", "orders-3: reason 1"]


def test_what_lasts_is_told_once_an_hour_whatever_its_figures():
    subject, told = telling()
    for number in range(100):
        subject.tell(HERE, [Event(kind=Kind.THROTTLED, text=f"held back for {number} s")])
    assert len(spoken(subject)) == len(told) == 1


def test_why_a_partition_stands_still_goes_on_record_and_is_said_by_whoever_lets_it_rest():
    subject, told = telling()
    stop = Event(kind=Kind.UNAUTHORIZED, text="may not")
    subject.tell(HERE, [GAP, stop], "may not")
    assert [happened.event.kind for happened in spoken(subject)] == [Kind.SOURCE_RETENTION, Kind.UNAUTHORIZED]
    assert told == ["orders-3: offsets 5 to 9 are gone"]


def test_a_changed_target_topic_is_told_though_its_partition_stopped_for_it():
    subject, told = telling()
    subject.tell(HERE, [Event(kind=Kind.TARGET_CHANGED, text="a.orders was changed")], "a.orders was changed")
    assert len(spoken(subject)) == 1
    assert told == ["orders-3: a.orders was changed"]


def test_many_partitions_of_a_topic_with_the_same_kind_are_one_line():
    happened = [Happened(partition=TopicPartition("orders", number), event=GAP) for number in range(1_000)]
    other = Happened(partition=TopicPartition("payments", 0), event=GAP)
    assert lines([*happened, other]) == [
        "orders-0: offsets 5 to 9 are gone (and the same kind in 999 more partitions of orders)",
        "payments-0: offsets 5 to 9 are gone",
    ]
    assert len(lines(happened[:3])) == 3


def test_a_partition_that_goes_on_is_told_of_when_it_moves_or_was_idle_without_an_error():
    subject, told = telling()
    subject.flows(HERE, 70, 0)
    subject.stands(HERE, 70)
    subject.flows(HERE, 70, now_ms())
    assert not spoken(subject), "it has not moved, and may stop again at once"
    subject.flows(HERE, 71, now_ms())
    (moved,) = spoken(subject)
    assert (moved.event.kind, moved.event.first) == (Kind.GOES_ON, 71)
    assert told[0].startswith("orders-3: goes on by itself at offset 71")
    subject.flows(HERE, 80, now_ms())
    assert not spoken(subject), "it did not stand still"
    subject.stands(HERE, 80)
    subject.flows(HERE, 80, now_ms() - SURE_MS)
    assert spoken(subject)


def test_an_event_of_the_whole_flow_names_no_partition():
    subject, told = telling()
    subject.tell(FLOW, [Event(kind=Kind.RPO_PASSED, text="the recovery point is old")])
    (recorded,) = spoken(subject)
    assert told == ["the recovery point is old"]
    assert recorded.key == '["event","",-1,"rpo-passed"]'


def test_events_leave_the_record_after_a_week():
    old = Happened(partition=HERE, event=replace(GAP, time_ms=now_ms() - KEPT_MS - 1))
    new = Happened(partition=TopicPartition("orders", 4), event=GAP)
    assert outlived({happened.key: happened for happened in (old, new)}) == (old.key,)


def test_the_same_loss_a_second_time_is_told_and_a_partition_that_only_stands_still_before_it_is_not():
    lines: list[str] = []
    telling = Telling(lines.append, {})
    first, second = (
        Event(kind=Kind.SOURCE_RETENTION, text="lost 10 to 49", first=10, last=49, time_ms=time) for time in (1, 2)
    )
    for events in ([first], [first], [first, second], [second]):
        telling.tell(HERE, events)
        telling.speak()
    assert len(lines) == 2
    for time in (3, 4):
        event = Event(kind=Kind.SOURCE_TAIL_LOST, text="stands still", time_ms=time)
        telling.tell(HERE, [event], error="stands still")
        telling.speak()
        telling.tell(HERE, [event])
        telling.speak()
    assert len(lines) == 2, "who lets it rest says so"


def test_records_of_others_are_one_event_an_hour_however_many_come():
    subject, said = telling()
    known = JournalState()
    assert of_others(known, "cluster b, t-0") == []
    for offset in range(3):
        known.foreign.note(f"garbage {offset}", offset, Flaw.KEY)
        subject.tell(FLOW, of_others(known, "cluster b, t-0", ["cluster b, c-0 holds more"]))
        spoken(subject)
    (line,) = said
    assert line.startswith(
        "cluster b, t-0 holds a record with keys that no mirror writes, the last at offset 0, key garbage 0"
    )
    assert line.endswith("; cluster b, c-0 holds more")


def test_a_record_of_ours_that_cannot_be_read_is_an_event_of_its_own():
    known = JournalState()
    known.broken['["stopped"]'] = Broken(9, "no JSON")
    (event,) = of_others(known, "cluster b, t-0")
    assert (event.kind, "cluster b, t-0 at offset 9: no JSON" in event.text) == (Kind.STOPPED, True)
