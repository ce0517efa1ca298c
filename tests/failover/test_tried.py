"""Commits that were about to be made when a command was broken off: what of them was made, request by request."""

from __future__ import annotations

import pytest

from sparkmirror.failover.states import TRIED, UNSURE, Kind, Step
from sparkmirror.failover.tried import (
    Tried,
    places_in,
    settled,
    tried_in,
    unsure_in,
    unsure_rows,
    with_tried,
)
from sparkmirror.kafka.groups import Committed, Offsets
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.ledger import Operation

P0, P1, P2, P3 = (TopicPartition("orders", number) for number in range(4))
ROWS = (
    Tried("g", P0, NO_OFFSET, 3, 13, 0),
    Tried("g", P1, 1, 3, 13, 0),
    Tried("g", P2, NO_OFFSET, 3, 13, 1),
    Tried("g", P3, 1, 3, 13, 1),
)
MADE = FlowCommit(3, 13)


def at(*offsets: int) -> dict[str, Offsets]:
    found = zip((P0, P1, P2, P3), offsets, strict=True)
    return {"g": {place: Committed(offset) for place, offset in found if offset != NO_OFFSET}}


def operation(**facts: object) -> Operation:
    return Operation(
        token="token",
        number=1,
        id="switchover-1",
        kind=Kind.SWITCHOVER.value,
        step=Step.MOVING.name,
        source="a",
        target="b",
        by="somebody",
        began_ms=1,
        time_ms=1,
        facts=facts,
    )


def test_what_became_of_one_request_says_nothing_of_the_next():
    """The second request was not taken, and a consumer has begun in one of its partitions."""
    found = settled(ROWS, at(3, 3, 5, 1), ())
    assert found.taken == {"g": {P0: MADE, P1: MADE, P2: MADE}}
    assert found.unsure == {("g", P2)}
    assert (found.had, found.open) == ((("g", P1, 1),), ROWS[3:]), "the other one has what it had: it is not moved yet"


def test_what_was_not_taken_stays_open_where_the_group_was_moved_in_part():
    found = settled(ROWS, at(3, 3, NO_OFFSET, 1), ())
    assert (found.taken, found.unsure) == ({"g": {P0: MADE, P1: MADE}}, frozenset())
    assert found.open == ROWS[2:]


@pytest.mark.parametrize(("moved", "still_open"), [((), ()), (("g",), ROWS)])
def test_a_group_of_which_nothing_was_taken_is_as_if_nothing_had_been_tried(moved, still_open):
    found = settled(ROWS, at(NO_OFFSET, 1, NO_OFFSET, 1), moved)
    assert (found.taken, found.unsure, found.had, found.open) == ({}, frozenset(), (), still_open)


def test_a_consumer_that_has_gone_on_from_where_its_group_was_moved_is_no_doubt():
    assert settled(ROWS[:2], at(3, 4, NO_OFFSET, NO_OFFSET), ()).unsure == frozenset()
    assert settled(ROWS[:2], at(4, 4, NO_OFFSET, NO_OFFSET), ()).unsure == {("g", P0), ("g", P1)}


def test_what_is_open_of_other_groups_stays_on_record_when_the_next_are_tried():
    next_ones = (Tried("h", P0, NO_OFFSET, 7, 7, 0), Tried("g", P2, 2, 4, 14, 0))
    assert with_tried(ROWS[:2], {"h"}, next_ones[:1]) == (*ROWS[:2], next_ones[0])
    assert with_tried(ROWS[:2], {"g"}, next_ones[1:]) == next_ones[1:]


def test_rows_come_back_from_the_record():
    rows = [one.row for one in ROWS]
    assert tried_in(operation(**{TRIED: rows})) == ROWS
    assert tried_in(None) == ()
    assert places_in(operation(**{TRIED: rows[:2]})) == {("g", P0): NO_OFFSET, ("g", P1): 1}
    unsure = frozenset({("g", P0), ("h", P1)})
    assert unsure_in(operation(**{UNSURE: unsure_rows(unsure)})) == unsure
