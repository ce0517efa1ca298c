"""One event tells of all producers that the registry names and their cluster does not confirm."""

from __future__ import annotations

from sparkmirror.copy.doubted_writers import NAMED
from sparkmirror.copy.origins import LeftOut
from sparkmirror.copy.tally import EVENTS_KEPT, Tally
from sparkmirror.events import Event, Kind


def left_out(producer_id: int, offset: int, count: int = 1) -> LeftOut:
    behind = offset + count
    return LeftOut(producer_id, ((behind, count),), offset, behind - 1, doubt=f"records of {producer_id} are left out")


def told(tally: Tally) -> list[tuple[str, int, int]]:
    return [(event.text, event.first, event.last) for event in tally.events if event.kind is Kind.UNCONFIRMED_WRITER]


def test_the_newest_event_names_the_first_producers_and_counts_all_of_them_and_their_records():
    tally = Tally()
    for number in range(60):
        tally.doubted.add(left_out(1_000 + number, number))
        tally.tell_of_writers()
    assert len(tally.events) < EVENTS_KEPT / 2, "few events, however many producers"
    tally.tell_of_writers(last=True)
    text, first, last = told(tally)[-1]
    assert (first, last) == (0, 59)
    assert text.startswith("records of 1000 are left out; so are those of 59 more producers that it names: 1001, 1002")
    assert f" {1_000 + NAMED - 1} and {60 - NAMED} more; 60 records so far, of offsets 0 to 59" in text


def test_what_comes_twice_counts_once_and_what_was_told_is_not_told_again():
    tally = Tally()
    for _ in range(2):
        tally.doubted.add(left_out(7, 20, 100))
        tally.tell_of_writers()
    tally.tell_of_writers(last=True)
    assert told(tally) == [("records of 7 are left out; 100 records so far, of offsets 20 to 119", 20, 119)]

    tally.doubted.add(left_out(7, 120, 50))
    tally.tell_of_writers()
    assert len(told(tally)) == 1
    tally.tell_of_writers(last=True)
    assert told(tally)[-1] == ("records of 7 are left out; 150 records so far, of offsets 20 to 169", 20, 169)


def test_those_that_were_named_too_late_are_told_of_by_themselves():
    tally = Tally()
    tally.tell_of_writers(last=True)
    assert tally.events == []
    tally.late.add(left_out(7, 3))
    tally.tell_of_writers()
    (event,) = tally.events
    assert isinstance(event, Event)
    assert event.kind is Kind.LATE_WRITER
