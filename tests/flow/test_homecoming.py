"""What a flow does while what may go home changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.duties.forth import AT_END, Forth, Verdict
from sparkmirror.errors import SparkmirrorError
from sparkmirror.flow import homecoming
from sparkmirror.flow.homecoming import Homecoming
from sparkmirror.flow.planner import homeward_orders, homeward_starts
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import FlowRecord, Progress
from tests.duties.groups import FLOW

COPIES = [TopicPartition("B.orders", number) for number in range(2)]
PAIRS = tuple((copy, TopicPartition("orders", copy.partition)) for copy in COPIES)
ALL = Verdict(begins=dict.fromkeys(COPIES, 4), since_ms=1)
BACK = replace(FLOW, homeward=True)
TOLD = FlowRecord(source_alias="A", source_id="a", target_alias="B", target_id="b", naming="x", generation=5)


class Record:
    """What the record of the flow forth says, as a test wants it."""

    def __init__(self) -> None:
        self.verdict = ALL

    def look(self, _copies: Iterable[TopicPartition]) -> Verdict:
        if self.verdict.doubt == "away":
            raise SparkmirrorError("away")
        return self.verdict


@pytest.fixture
def record(monkeypatch) -> Record:
    found = Record()
    monkeypatch.setattr(homecoming, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(Forth, "look", lambda _self, copies: found.look(copies))
    return found


WRITTEN: list[Any] = []
"""What the flow that `coming` made last has put on record."""


def coming(flow=BACK, flow_record: FlowRecord | None = None, **progress: Any) -> Homecoming:
    WRITTEN.clear()
    store = SimpleNamespace(state=SimpleNamespace(flow=flow_record, **progress), write=WRITTEN.extend)
    opened: Any = SimpleNamespace(source_id="a", target_id="b", generation=5, store=store)
    source: Any = None
    return Homecoming(flow, opened, source)


def test_what_the_record_has_is_admitted_and_the_rest_waits_for_it(record: Record):
    home = coming(progress={})
    record.verdict = replace(ALL, begins={COPIES[0]: 4})
    assert home.admit(PAIRS) == PAIRS[:1]
    assert home.watch() == (False, False)
    record.verdict = ALL
    assert home.watch() == (False, True)
    assert home.admit(PAIRS) == PAIRS
    assert (home.watch(), home.problem) == ((False, False), "")


@pytest.mark.parametrize(
    "later",
    [Verdict(doubt="handed over"), replace(ALL, floors={COPIES[0]: 9}), replace(ALL, since_ms=2)],
    ids=["a doubt", "MirrorMaker 2 wrote meanwhile", "another record"],
)
def test_what_was_admitted_under_other_circumstances_ends_the_copying(record: Record, later: Verdict):
    home = coming(progress={})
    home.admit(PAIRS)
    record.verdict = later
    assert home.watch() == (True, False)
    seen_first_by_a_look_for_topics = coming(progress={})
    record.verdict = ALL
    seen_first_by_a_look_for_topics.admit(PAIRS)
    record.verdict = later
    seen_first_by_a_look_for_topics.admit(PAIRS)
    assert seen_first_by_a_look_for_topics.watch() == (True, False)


def test_a_cluster_that_is_away_changes_nothing_and_admits_nothing(record: Record):
    home = coming(progress={})
    home.admit(PAIRS)
    record.verdict = Verdict(doubt="away")
    assert home.watch() == (False, False)
    assert (home.admit(PAIRS), home.watch(), home.problem) == (PAIRS, (False, False), "")
    later = coming(progress={})
    assert (later.admit(PAIRS), later.problem) == ((), "away")


@pytest.mark.parametrize(
    ("before", "written"),
    [((0, 0), [(1, 0)]), ((1, 3), []), pytest.param((7, 3), [(1, 5)], id="forth has another record by now")],
)
def test_under_which_record_something_goes_home_is_put_on_record(record: Record, before, written):
    since_ms, generation = before
    told = replace(TOLD, home_since_ms=since_ms, home_generation=generation)
    home = coming(progress={}, flow_record=told)
    home.admit(PAIRS)
    assert [(one.home_since_ms, one.home_generation) for one in WRITTEN] == written


def test_a_flow_without_the_key_admits_nothing(record: Record):
    assert coming(FLOW, progress={}).admit(PAIRS) == ()


def test_partitions_begin_behind_what_cannot_be_told_apart():
    ends = {COPIES[0]: 20, COPIES[1]: 7}
    home = Verdict(begins={COPIES[0]: AT_END, COPIES[1]: 9}, floors={COPIES[0]: 9, COPIES[1]: 9})
    assert homeward_starts(home, ends) == {COPIES[0]: 20, COPIES[1]: 7}
    writer = Writer(producer_id=1, epoch=0)
    progress = {
        copy: Progress(partition=copy, writer=writer, generation=1, position=5, next_sequence=0) for copy in COPIES
    }
    orders = homeward_orders(BACK, home, progress, {}, ends)
    assert {copy: order.to for copy, order in orders.items()} == {COPIES[0]: 9}, "the other was made anew since"
    assert homeward_orders(BACK, home, {COPIES[0]: replace(progress[COPIES[0]], position=9)}, {}, ends) == {}
