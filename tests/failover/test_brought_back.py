"""Groups that an operation of the flow back brings to the source while the flow is held, and a failover after that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover import brought_back, switching
from sparkmirror.failover.brought_back import order_of, returned, returned_in, rows_of, with_row
from sparkmirror.failover.living_there import Living
from sparkmirror.failover.look import moved_while_held
from sparkmirror.failover.moves import decide
from sparkmirror.failover.old_groups import said_of_returned
from sparkmirror.failover.standing import has_changed, of_row
from sparkmirror.failover.standing import order_of as order_on_record
from sparkmirror.failover.states import (
    BACK,
    COMMITTING,
    MOVED,
    MOVED_BEFORE,
    RETURNED,
    TAKEN_BACK,
    UNASKED,
    UNTOLD,
    Kind,
    Step,
)
from sparkmirror.failover.switching import Desk
from sparkmirror.kafka.groups import Committed
from sparkmirror.model import Alias, FlowName
from sparkmirror.offsets.group_records import GroupsSeen
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import FLOW
from tests.failover.test_moves import THERE, sight, with_commit
from tests.failover.test_report import operation

HOLD = HoldOrder(operation="failover-1", reason="failover to b (failover-1)", time_ms=1_700_000_000_000, by="me")
HELD = ["failover-1", 4, "failover-1", 1_700_000_000_000]
ROW = ["switchover-2", 20_000, ["g"]]
EARLIER, OWN = ["switchover-1", 9_000, ["g"]], ["failback-2", 10_000, ["g"]]


def record(facts: Mapping[str, Any], *, held: bool = True) -> JournalState:
    """Of a->b, as an operation has left it that was begun at 10,000 ms."""
    state = JournalState()
    state.flow = cast("Any", SimpleNamespace(source_id="id of a", target_id="id of b"))
    state.held = HOLD if held else None
    state.ledger.operation = operation(facts=facts)
    return state


def test_what_was_brought_back_is_on_record_once_for_each_operation():
    done = replace(operation(Kind.SWITCHOVER, facts={MOVED: ["h", "g"]}), id="switchover-2", order_ms=20_000)
    rows = with_row([], done, {"h", "g"})
    assert rows == [["switchover-2", 20_000, ["g", "h"]]]
    assert with_row(rows, done, {"h", "g"}) == rows
    later = replace(done, id="switchover-3", order_ms=30_000)
    assert order_of(with_row(rows, later, {"g"})) == {"g": 30_000, "h": 20_000}
    assert returned(with_row(rows, later, {"g"})) == {"g": "switchover-3", "h": "switchover-2"}
    assert with_row(rows, later, ()) == rows, "it has moved none"
    assert with_row(rows, done, ()) == [], "it was taken back"


def test_a_group_that_was_brought_back_does_not_count_as_moved_since_the_hold_though_the_source_is_gone():
    """With the fault, what it has on the target was taken for what its owners want, and called exact."""
    state = record({MOVED: ["g", "h"], MOVED_BEFORE: ["i"], TAKEN_BACK: [ROW]})
    assert moved_while_held(state) == {"h", "i"}
    assert rows_of(state) == [ROW]
    assert switching._moved_back(state, None) == {"g": 20_000}
    assert order_on_record(state) == HOLD.order, "the greatest"
    state.held = None
    assert rows_of(state) == [ROW], "it is released, and has not seen them since"
    state.groups_seen = GroupsSeen(time_ms=30_000, back_ms=20_000, moved_ms=19_999)
    assert rows_of(state) == [ROW], "an operation that had not ended was seen"
    state.groups_seen = GroupsSeen(time_ms=30_000, back_ms=20_000, moved_ms=20_000)
    assert rows_of(state) == [], "it follows the source again"
    assert order_on_record(state) == 20_000, "an operation that follows comes after it"


@pytest.mark.parametrize(
    ("kind", "step", "facts", "groups"),
    [
        (Kind.FAILBACK, Step.MOVING, {MOVED: ["g"], TAKEN_BACK: [["failback-2", 10_000, ["g", "h"]]]}, ["g", "h"]),
        (Kind.FAILBACK, Step.RELEASING, {MOVED: ["g"], TAKEN_BACK: [OWN], RETURNED: [EARLIER]}, ["g"]),
        (Kind.FAILBACK, Step.ABANDONED, {MOVED: ["g"], TAKEN_BACK: [OWN]}, ["g"]),
        (Kind.FAILBACK, Step.ABANDONED, {TAKEN_BACK: []}, []),
        (Kind.FAILOVER, Step.MOVING, {MOVED: ["g"], RETURNED: [OWN]}, []),
    ],
)
def test_what_a_failback_has_moved_that_did_not_come_to_its_end_was_brought_back(
    kind: Kind, step: Step, facts: dict[str, Any], groups: list[str]
):
    """With the fault, a failover that gave it up called the places exact at which groups had stood before."""
    state = record({})
    state.ledger.operation = replace(operation(kind, step, facts=facts), order_ms=10_000)
    assert [row[2] for row in rows_of(state)] == ([groups] if groups else [])
    assert moved_while_held(state) == (frozenset() if kind is Kind.FAILBACK else {"g"})
    state.held, state.groups_seen = None, GroupsSeen(time_ms=30_000, moved_ms=10_000)
    assert rows_of(state) == [], "it was released, and the flow has seen them there"


@pytest.mark.parametrize(
    ("facts", "rows"),
    [
        ({RETURNED: [ROW], MOVED: ["g"]}, []),
        ({RETURNED: [ROW], MOVED: []}, [ROW]),
        (
            {RETURNED: [ROW], MOVED: ["g"], TAKEN_BACK: [["switchover-4", 40_000, ["g"]]]},
            [["switchover-4", 40_000, ["g"]]],
        ),
    ],
)
def test_a_group_counts_until_an_operation_has_moved_it_again(facts: dict[str, Any], rows: list[Any]):
    assert rows_of(record(facts)) == rows


def test_a_second_failover_right_after_the_first_keeps_what_was_moved():
    state = record({RETURNED: [ROW], MOVED: ["g"]})
    assert moved_while_held(state) == {"g"}


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({}, {"g": "switchover-2"}),
        ({"answers": True}, {}),
        ({"answers": True, UNASKED: ["g"]}, {"g": "switchover-2"}),
        ({MOVED: ["g"]}, {"g": "switchover-2"}),
    ],
)
def test_only_a_source_that_answers_knows_what_they_have_read_there(more: dict[str, Any], found: dict[str, str]):
    """Also when the operation has moved them: a command that is resumed, and the report, say the same."""
    assert returned_in(operation(facts={RETURNED: [ROW], **more})) == found


@pytest.mark.parametrize("there", [101, 105, 112, -1])
@pytest.mark.parametrize("moved", [frozenset(), frozenset({"g"})])
def test_no_place_of_a_group_that_was_brought_back_is_exact(there: int, moved: frozenset[str]):
    seen = with_commit(101, 11, replace(sight(15, there=there), moved=moved, returned={"g": "switchover-2"}))
    (move,) = decide(seen)
    (place,) = move.places
    assert (place.offset, place.exact, place.further) == (105 if there == -1 else there, False, 0)
    assert "it was brought back to where it left since the flow is held" in place.text
    assert move.inexact
    after = replace(seen.there, offsets={"g": {THERE: Committed(place.offset)}})
    (again,) = decide(replace(seen, there=after, moved=frozenset({"g"})))
    assert (again.missing, again.places[0].exact) == ({}, False), "when it was moved, too"


def test_what_follows_is_told_with_the_operation_that_has_brought_them_back():
    (said,) = said_of_returned({"g": "switchover-2", "h": "switchover-2"}, "a", "b")
    assert said.startswith("2 groups were brought back to a by switchover-2 while a->b was held")
    assert "what they have read on a since is read again, what they have set back is skipped" in said
    assert "what a took since the hold is not on b: g, h" in said
    assert said_of_returned({}, "a", "b") == ()


def test_a_release_does_not_take_groups_for_brought_back_that_were_only_about_to_be(monkeypatch):
    """The source does not answer: whatever it says next of groups that are used on the target was left behind."""
    of, state = desk(), record({TAKEN_BACK: [ROW]})
    state.held = replace(HOLD, order_ms=10_000)
    monkeypatch.setattr(switching, "living_there", lambda *_: Living(groups=frozenset({"g"})))
    monkeypatch.setattr(of, "_source_answers", lambda: False)
    left, gone, lost = of._left_behind(state)
    assert [(one.group, one.is_open) for one in left.values()] == [("g", True)]
    assert (gone, lost) == ((), ())


class Noting:
    """An operator that keeps what is noted."""

    def __init__(self, done: Operation) -> None:
        self.operation = done

    def note(self, **facts: Any) -> None:
        self.operation = replace(self.operation, facts={**self.operation.facts, **facts})


def desk(*, configured: bool = True) -> Desk:
    """Of b->a, whose flow back is a->b."""
    flow = SimpleNamespace(name=FlowName(source=Alias("b"), target=Alias("a")))
    state = JournalState()
    state.flow = cast("Any", SimpleNamespace(source_id="id of b", target_id="id of a"))
    sides = cast("Any", SimpleNamespace(flow=flow, store=SimpleNamespace(state=state)))
    return Desk(sides, "mm2.properties", FLOW if configured else None)


def carried(of: Desk, before: Sequence[Any], kind: Kind = Kind.SWITCHOVER) -> Operation:
    """The operation of b->a when the step that moves groups was done."""
    operator = Noting(operation(kind, Step.MOVING, facts={MOVED: ["g"], BACK: before, COMMITTING: True}))
    of._checked(cast("Any", operator), lambda _step, _operation: None, told_nobody)(Step.MOVING, operator.operation)
    return operator.operation


def told_nobody(_text: str) -> None:
    """What an operation tells."""


class Elsewhere:
    """The record of a->b, as `put_on_record` finds it."""

    def __init__(self, state: JournalState, monkeypatch: pytest.MonkeyPatch) -> None:
        assert state.ledger.operation is not None
        self.state = state
        self.operator = Noting(state.ledger.operation)

        @contextmanager
        def sides(*_: Any, **__: Any) -> Any:
            yield SimpleNamespace(store=SimpleNamespace(state=state, follow=self.follow))

        @contextmanager
        def operating(*_: Any) -> Any:
            yield self.operator

        monkeypatch.setattr(brought_back, "connected", sides)
        monkeypatch.setattr(brought_back, "record", lambda _sides: state)
        monkeypatch.setattr(brought_back, "operating", operating)

    def follow(self) -> None:
        """What was noted is on record."""
        noted = self.operator.operation
        self.state.ledger.operation = replace(noted, number=noted.number + 1)


def test_an_operation_puts_on_record_of_a_flow_back_that_is_held_what_it_has_moved(monkeypatch):
    there = Elsewhere(record({MOVED: ["g"]}), monkeypatch)
    done = carried(desk(), HELD)
    assert there.operator.operation.facts[TAKEN_BACK] == [[done.id, done.order, ["g"]]]
    assert UNTOLD not in done.facts


def test_what_may_be_moved_is_on_record_before_the_first_offset_is_committed(monkeypatch):
    """With the fault, an operation that died in between left nothing there, and old places were called exact."""
    there = Elsewhere(record({MOVED: ["g", "h", "i"]}), monkeypatch)
    operator = Noting(operation(Kind.SWITCHOVER, Step.MOVING, facts={BACK: HELD}))
    of, of_it = desk(), cast("Any", operator)
    of._announce(of_it, ["g", "h"], told_nobody)
    begun = operator.operation
    assert there.operator.operation.facts[TAKEN_BACK] == [[begun.id, begun.order, ["g", "h"]]]
    assert not has_changed(of_row(begun.facts[BACK]), there.state), "its own record is no operation that came between"
    operator.note(**{MOVED: ["g"], COMMITTING: True})
    of._checked(of_it, lambda _step, _operation: None, told_nobody)(Step.MOVING, operator.operation)
    assert there.operator.operation.facts[TAKEN_BACK] == [[begun.id, begun.order, ["g"]]]
    of._withdraw(of_it, told_nobody)
    assert there.operator.operation.facts[TAKEN_BACK] == [], "it was taken back: the groups have stayed"


@pytest.mark.parametrize(
    ("kind", "facts", "configured", "refuses"),
    [
        (Kind.SWITCHOVER, {}, True, True),
        (Kind.SWITCHOVER, {}, False, False),
        (Kind.SWITCHOVER, {COMMITTING: True}, True, False),
        (Kind.FAILOVER, {}, True, False),
    ],
)
def test_a_switchover_moves_no_group_before_that_is_on_record(monkeypatch, kind, facts, configured, refuses):
    monkeypatch.setattr(brought_back, "connected", fails)
    operator = cast("Any", Noting(operation(kind, Step.MOVING, facts={BACK: HELD, **facts})))
    of = desk(configured=configured)
    if refuses:
        with pytest.raises(SparkmirrorError, match="No group was moved: run the command again, or take it back"):
            of._announce(operator, ["g"], told_nobody)
        return
    of._announce(operator, ["g"], told_nobody)
    operator.note(**{MOVED: ["g"], COMMITTING: True})
    of._checked(operator, lambda _step, _operation: None, told_nobody)(Step.MOVING, operator.operation)
    assert len(operator.operation.facts[UNTOLD]) == 1


def test_what_is_on_record_as_about_to_be_moved_is_enough_where_the_cluster_is_gone_since(monkeypatch):
    there = Elsewhere(record({MOVED: ["g"]}), monkeypatch)
    operator = cast("Any", Noting(operation(Kind.SWITCHOVER, Step.MOVING, facts={BACK: HELD})))
    of = desk()
    of._announce(operator, ["g", "h"], told_nobody)
    operator.note(**{MOVED: ["g"], COMMITTING: True})
    monkeypatch.setattr(brought_back, "connected", fails)
    of._checked(operator, lambda _step, _operation: None, told_nobody)(Step.MOVING, operator.operation)
    assert UNTOLD not in operator.operation.facts
    assert there.operator.operation.facts[TAKEN_BACK][0][2] == ["g", "h"]


def test_nothing_is_put_on_record_of_other_clusters_or_of_a_flow_that_was_released(monkeypatch):
    others = record({MOVED: ["g"]})
    others.flow = cast("Any", SimpleNamespace(source_id="id of another", target_id="id of b"))
    for state in (others, record({MOVED: ["g"]}, held=False)):
        there = Elsewhere(state, monkeypatch)
        assert UNTOLD not in carried(desk(), HELD).facts
        assert TAKEN_BACK not in there.operator.operation.facts
    assert UNTOLD not in carried(desk(configured=False), []).facts, "it was not held"


def fails(*_: Any, **__: Any) -> Any:
    """A cluster that does not answer."""
    raise SparkmirrorError("no connection")


def test_what_could_not_be_put_on_record_is_trouble_and_ends_no_operation(monkeypatch):
    monkeypatch.setattr(brought_back, "connected", fails)
    for one in (desk(), desk(configured=False)):
        (said,) = carried(one, HELD).facts[UNTOLD]
        assert "sparkmirror release mm2.properties --flow 'a->b'" in said
