"""Groups that a flow has not followed since an operation stopped it, and a failover after that."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparkmirror.failover import switching
from sparkmirror.failover.moves import NOT_FOLLOWED, decide
from sparkmirror.failover.old_groups import said_of_unfollowed
from sparkmirror.failover.states import GIVEN_UP, MOVED, RETURNED, TAKEN_BACK, UNFOLLOWED, Kind, Step
from sparkmirror.failover.unfollowed import not_asked_since, since, since_in
from sparkmirror.model import NO_OFFSET, Alias, FlowName
from sparkmirror.offsets.group_records import GroupsSeen
from sparkmirror.offsets.orders import HOLD_KEY, HoldOrder
from sparkmirror.offsets.state import JournalState
from tests.failover.test_moves import THERE, sight, with_commit
from tests.failover.test_report import operation

FLOW = FlowName(source=Alias("a"), target=Alias("b"))
SEEN_MS = 9_000
GROUPS = frozenset({"g", "h"})


class Record:
    """What is on record of a->b, as one operation after another leaves it."""

    def __init__(self) -> None:
        self.state = JournalState()
        self.asked()
        self.count = 0

    def asked(self, at_ms: int = SEEN_MS, unread: Mapping[str, int] | None = None) -> None:
        """The flow, or an operation, asks all groups on a."""
        self.state.groups_seen = GroupsSeen(time_ms=at_ms, unread=unread or {})

    def begin(self, kind: Kind, step: Step = Step.DONE, *, asks: bool = False, **facts: Any) -> None:
        """An operation is begun, and comes to a step; from STOPPING on it holds the flow."""
        self.count += 1
        facts = {UNFOLLOWED: since(self.state), MOVED: ["g"], **facts}
        newest = replace(operation(kind, step, facts=facts), id=f"{kind.value}-{self.count}")
        self.state.ledger.operation = newest
        if kind is not Kind.FAILBACK and step not in (Step.FENCING, Step.CATCHING_UP, Step.IDLING, Step.ABANDONED):
            self.state.held = HoldOrder(
                operation=newest.id, reason=f"{kind.value} to b", time_ms=10_000 * self.count, by="me"
            )
        if asks:
            self.asked(10_000 * self.count)

    def note(self, **facts: Any) -> None:
        newest = self.state.ledger.operation
        assert newest is not None
        self.state.ledger.operation = replace(newest, facts={**newest.facts, **facts})

    def ends(self, step: Step) -> None:
        newest = self.state.ledger.operation
        assert newest is not None
        self.state.ledger.operation = replace(newest, step=step.name)

    def release(self) -> None:
        """As `sparkmirror release` does it."""
        self.note(**{UNFOLLOWED: since(self.state)})
        self.state.held = None

    def failover(self) -> frozenset[str]:
        """A failover without its source, up to where groups are decided; gives those that nobody has followed."""
        self.begin(Kind.FAILOVER, Step.MOVING)
        return not_asked_since(since_in(self.state.ledger.operation), self.state.groups_seen, GROUPS)


@pytest.fixture
def record() -> Record:
    return Record()


def test_the_first_failover_knows_groups_as_they_were_seen_last(record):
    assert record.failover() == frozenset()


@pytest.mark.parametrize("kind", [Kind.FAILOVER, Kind.SWITCHOVER])
@pytest.mark.parametrize("asks", [False, True])
def test_an_operation_back_may_have_taken_groups_home_where_nothing_on_record_says_so(record, kind, asks):
    """Its record lay on the source. With the fault a failover called all places exact."""
    record.begin(kind, asks=asks)
    assert record.failover() == GROUPS, "those too that it had not moved"
    record.ends(Step.DONE)
    assert since(record.state), "and a later one knows no more"


@pytest.mark.parametrize("step", [Step.COMPARING, Step.IDLING, Step.MOVING, Step.ABANDONED])
def test_a_failback_that_has_not_come_to_its_end_tells_nothing_of_what_came_after_it(record, step):
    record.begin(Kind.SWITCHOVER, asks=True)
    record.begin(Kind.FAILBACK, step)
    assert record.failover() == GROUPS


def test_what_was_brought_back_before_and_what_was_taken_back_says_nothing_of_what_came_after_it(record):
    record.begin(Kind.FAILOVER, **{TAKEN_BACK: [], RETURNED: [["switchover-2", 20_000, ["g"]]]})
    assert record.failover() == GROUPS


def test_groups_count_until_they_are_asked_on_the_source_after_the_release(record):
    record.begin(Kind.FAILOVER)
    record.release()
    assert since(record.state) == ["failover to b", 10_000, SEEN_MS]
    assert record.failover() == GROUPS, "the flow has not gone on"


class Noting:
    """An operator that keeps what is noted of the newest operation."""

    def __init__(self, record: Record) -> None:
        self.note = record.note


def test_a_release_puts_that_on_record_before_the_hold_is_gone(record, monkeypatch):
    """With the fault a failover right after it called exact what had been seen before the hold."""
    record.begin(Kind.FAILOVER)

    def write(_records: list[Any], *, tombstones: list[str]) -> None:
        newest = record.state.ledger.operation
        assert HOLD_KEY in tombstones
        assert newest.facts[UNFOLLOWED] == ["failover to b", 10_000, SEEN_MS]
        record.state.held = None

    store = SimpleNamespace(state=record.state, write=write, follow=lambda: None)
    sides = SimpleNamespace(flow=SimpleNamespace(name=FLOW), store=store)
    monkeypatch.setattr(switching, "operating", lambda *_: nullcontext(Noting(record)))
    monkeypatch.setattr(switching.Desk, "_let_in", lambda *_, **__: ())
    monkeypatch.setattr(switching.Desk, "_left_behind", lambda *_: ({}, (), ()))
    switching.Desk(cast("Any", sides), "mm2.properties").release(lambda _text: None)
    assert record.failover() == GROUPS


@pytest.mark.parametrize("at_ms", [SEEN_MS + 1, SEEN_MS - 1])
def test_a_flow_that_has_gone_on_has_followed_them_whatever_its_clock_says(record, at_ms):
    record.begin(Kind.FAILOVER)
    record.release()
    record.asked(at_ms)
    assert since(record.state) == []
    assert record.failover() == frozenset()


def test_a_round_that_comes_while_the_failover_stops_the_flow_counts(record):
    record.begin(Kind.FAILOVER)
    record.release()
    record.begin(Kind.FAILOVER, Step.MOVING)
    record.asked(SEEN_MS + 1)
    assert not_asked_since(since_in(record.state.ledger.operation), record.state.groups_seen, GROUPS) == frozenset()


def test_a_group_that_could_not_be_read_since_counts_alone(record):
    record.begin(Kind.FAILOVER)
    record.begin(Kind.FAILOVER, Step.MOVING)
    record.asked(30_000, unread={"h": SEEN_MS, "other": 5})
    assert not_asked_since(since_in(record.state.ledger.operation), record.state.groups_seen, GROUPS) == {"h"}
    record.asked(30_000, unread={"h": 20_000})
    assert not_asked_since(since_in(record.state.ledger.operation), record.state.groups_seen, GROUPS) == frozenset()


def test_a_failback_that_has_released_the_flow_leaves_them_to_be_asked(record):
    record.begin(Kind.FAILOVER)
    record.begin(Kind.FAILBACK)
    record.state.held = None
    assert since(record.state) == ["failover to b", 10_000, SEEN_MS]
    record.asked(SEEN_MS + 1)
    assert since(record.state) == []


def test_the_hold_of_an_operation_whose_place_a_failover_takes_is_its_own(record):
    """The switchover has moved no group, and its source died on the way."""
    record.begin(Kind.SWITCHOVER, Step.STOPPING)
    assert since(record.state) == []
    record.ends(Step.ABANDONED)
    assert record.failover() == frozenset()


def test_what_such_an_operation_has_found_is_handed_on_unless_it_has_asked(record):
    record.begin(Kind.FAILOVER)
    record.release()
    record.begin(Kind.SWITCHOVER, Step.STOPPING)
    assert since(record.state) == ["failover to b", 10_000, SEEN_MS]
    record.note(**{GIVEN_UP: "failback-9"})
    assert since(record.state) == ["failover to b", 10_000, SEEN_MS]
    record.asked(30_000)
    assert since(record.state) == []


def test_a_flow_of_which_no_group_was_ever_asked_has_followed_none(record):
    record.state.groups_seen = None
    record.begin(Kind.FAILOVER)
    assert record.failover() == GROUPS


@pytest.mark.parametrize("there", [101, 105, 112, NO_OFFSET])
@pytest.mark.parametrize("moved", [frozenset(), frozenset({"g"})])
def test_such_a_group_goes_on_where_it_would_and_no_place_of_it_is_exact(there, moved):
    known = with_commit(101, 11, replace(sight(15, there=there), moved=moved))
    (before,), (move,) = decide(known), decide(replace(known, unfollowed=frozenset({"g"})))
    assert move.wanted == before.wanted
    assert [place.exact for place in move.places] == [False]
    assert all(place.text.endswith(NOT_FOLLOWED) for place in move.places)
    assert move.inexact or move.further
    assert THERE in move.wanted


def test_what_follows_is_told_with_the_operation_that_stopped_the_flow():
    (said,) = said_of_unfollowed(["failover to b (failover-1)", 1_700_000_000_000, 0], {"h", "g"}, FLOW)
    assert said.startswith("a->b was stopped at 2023-11-1")
    assert "by failover to b (failover-1), and what 2 groups have done on a since is not on record" in said
    assert "since an operation of b->a has brought them back or they had never left" in said
    assert "skip what they have set back; what a took is not on b" in said
    assert said.endswith("groups that are new there are not known: g, h")
    assert said_of_unfollowed([], (), FLOW) == ()


def test_a_flow_that_no_operation_has_stopped_has_followed_its_groups():
    assert (since(JournalState()), since_in(None)) == ([], [])
