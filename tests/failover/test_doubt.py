"""Of which partitions a flow back may have brought more than is on record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from sparkmirror.failover.doubt import candidates, decide, note_lacks, said_of
from sparkmirror.failover.look import PartitionState, with_doubt
from sparkmirror.failover.operator import Operator
from sparkmirror.failover.states import MAP_LACKS
from sparkmirror.model import Reached, TopicPartition
from sparkmirror.offsets.records import Stopped
from sparkmirror.offsets.state import state_of
from tests.offsets.test_state import FLOW, PLACE, progress

OTHER = TopicPartition("t", 9)
ONE = replace(progress(1, 0, 10), reached=Reached(0, 20))


@pytest.mark.parametrize(
    ("end", "copied", "doubtful"),
    [
        pytest.param(14, 24, True, id="there is more here, and more lies there than was on record"),
        pytest.param(10, 24, False, id="the position is at the end: nothing more could come"),
        pytest.param(14, 20, False, id="nothing came since"),
        pytest.param(0, 24, False, id="the topic was deleted"),
        pytest.param(14, 0, False, id="the copy was deleted"),
    ],
)
def test_only_where_more_can_have_come_is_there_a_doubt(end, copied, doubtful):
    assert decide({PLACE: ONE}, {PLACE: end}, {PLACE: copied}) == (frozenset({PLACE}) if doubtful else frozenset())


def test_a_partition_of_which_nothing_was_ever_acknowledged_is_in_doubt_if_its_copy_has_something():
    assert decide({PLACE: progress(1, 0, 0)}, {PLACE: 4}, {PLACE: 4}) == {PLACE}


@pytest.mark.parametrize("alive", [True, False])
def test_a_run_that_lives_is_in_no_doubt_about_what_it_has(alive):
    """Its own partition is of generation 2; the other one is of a run that died, or of one that ended in order."""
    own, left = progress(2, 0, 5), progress(1, 0, 5, OTHER)
    died = state_of([replace(FLOW, exact_after=1), own, left])
    assert candidates(died, alive=alive).keys() == ({OTHER} if alive else {PLACE, OTHER})
    clean = state_of([FLOW, own, left])
    assert candidates(clean, alive=True) == {}
    stopped = state_of([replace(FLOW, exact_after=1), own, left, Stopped(generation=2, time_ms=9, exact_after=1)])
    assert candidates(stopped, alive=False).keys() == {OTHER}


def test_what_is_in_doubt_is_not_called_missing():
    known = PartitionState(partition=PLACE, target=PLACE, position=10, end=14, seen_ms=1)
    assert [one.missing for one in with_doubt((known,), ())] == [4]
    assert [one.missing for one in with_doubt((known,), {PLACE})] == [0]


def test_a_topic_in_doubt_is_named_once():
    places = [TopicPartition("t", number) for number in (1, 0)]
    (text,) = said_of(places, "b->a")
    assert text.startswith("t, partitions 0, 1: a run of b->a did not end cleanly")


class Notes:
    """An operator of which only the facts are looked at."""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def note(self, **facts: Any) -> None:
        self.facts |= facts


def test_what_an_internal_topic_lacks_when_a_flow_is_settled_is_told_and_on_record():
    operator, told = Notes(), list[str]()
    note_lacks(cast("Operator", operator), [], told.append)
    assert (operator.facts, told) == ({}, [])
    note_lacks(cast("Operator", operator), ["the topic lacks something"], told.append)
    assert told == ["the topic lacks something. So it is for groups that this operation moves"]
    assert operator.facts == {MAP_LACKS: told}
