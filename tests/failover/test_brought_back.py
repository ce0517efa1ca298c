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
from sparkmirror.failover.look import moved_while_held
from sparkmirror.failover.moves import decide
from sparkmirror.failover.old_groups import said_of_returned
from sparkmirror.failover.standing import order_of as order_on_record
from sparkmirror.failover.states import BACK, MOVED, MOVED_BEFORE, RETURNED, TAKEN_BACK, UNASKED, UNTOLD, Kind, Step
from sparkmirror.failover.switching import Desk
from sparkmirror.kafka.groups import Committed
from sparkmirror.model import Alias, FlowName
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.state import JournalState
from tests.failover.test_moves import THERE, sight, with_commit
from tests.failover.test_report import operation

HOLD = HoldOrder(operation="failover-1", reason="failover to b (failover-1)", time_ms=1_700_000_000_000, by="me")
HELD = ["failover-1", 4, "failover-1", 1_700_000_000_000]
ROW = ["switchover-2", 20_000, ["g"]]


def record(facts: Mapping[str, Any], *, held: bool = True) -> JournalState:
    """Of a->b, as an operation has left it that was begun at 10,000 ms."""
    state = JournalState()
    state.flow = cast("Any", SimpleNamespace(source_id="id of a", target_id="id of b"))
    state.held = HOLD if held else None
    state.ledger.operation = operation(facts=facts)
    return state


def test_what_was_brought_back_is_on_record_once_for_each_operation():
    done = replace(operation(Kind.SWITCHOVER, facts={MOVED: ["h", "g"]}), id="switchover-2", order_ms=20_000)
    rows = with_row([], done)
    assert rows == [["switchover-2", 20_000, ["g", "h"]]]
    assert with_row(rows, done) == rows
    later = replace(done, id="switchover-3", order_ms=30_000, facts={MOVED: ["g"]})
    assert order_of(with_row(rows, later)) == {"g": 30_000, "h": 20_000}
    assert returned(with_row(rows, later)) == {"g": "switchover-3", "h": "switchover-2"}
    assert with_row(rows, replace(later, facts={})) == rows, "it has moved none"


def test_a_group_that_was_brought_back_does_not_count_as_moved_since_the_hold_though_the_source_is_gone():
    """With the fault, what it has on the target was taken for what its owners want, and called exact."""
    state = record({MOVED: ["g", "h"], MOVED_BEFORE: ["i"], TAKEN_BACK: [ROW]})
    assert moved_while_held(state) == {"h", "i"}
    assert rows_of(state) == [ROW]
    assert switching._moved_back(state, None) == {"g": 20_000}
    assert order_on_record(state) == HOLD.order, "the greatest"
    state.held = None
    assert rows_of(state) == [], "it follows the source again"
    assert order_on_record(state) == 20_000, "an operation that follows comes after it"


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
    return Desk(sides, "mm2.properties", cast("Any", SimpleNamespace()) if configured else None)


def carried(of: Desk, before: Sequence[Any]) -> Operation:
    """The operation of b->a when the step that moves groups was done."""
    operator = Noting(operation(Kind.SWITCHOVER, Step.MOVING, facts={MOVED: ["g"], BACK: before, "committing": True}))
    of._checked(cast("Any", operator), lambda _step, _operation: None, lambda _text: None)(
        Step.MOVING, operator.operation
    )
    return operator.operation


class Elsewhere:
    """The record of a->b, as `put_on_record` finds it."""

    def __init__(self, state: JournalState, monkeypatch: pytest.MonkeyPatch) -> None:
        assert state.ledger.operation is not None
        self.operator = Noting(state.ledger.operation)

        @contextmanager
        def sides(*_: Any, **__: Any) -> Any:
            yield SimpleNamespace(store=object())

        @contextmanager
        def operating(*_: Any) -> Any:
            yield self.operator

        monkeypatch.setattr(brought_back, "connected", sides)
        monkeypatch.setattr(brought_back, "record", lambda _sides: state)
        monkeypatch.setattr(brought_back, "operating", operating)


def test_an_operation_puts_on_record_of_a_flow_back_that_is_held_what_it_has_moved(monkeypatch):
    there = Elsewhere(record({MOVED: ["g"]}), monkeypatch)
    done = carried(desk(), HELD)
    assert there.operator.operation.facts[TAKEN_BACK] == [[done.id, done.order, ["g"]]]
    assert UNTOLD not in done.facts


def test_nothing_is_put_on_record_of_other_clusters_or_of_a_flow_that_was_released(monkeypatch):
    others = record({MOVED: ["g"]})
    others.flow = cast("Any", SimpleNamespace(source_id="id of another", target_id="id of b"))
    for state in (others, record({MOVED: ["g"]}, held=False)):
        there = Elsewhere(state, monkeypatch)
        assert UNTOLD not in carried(desk(), HELD).facts
        assert TAKEN_BACK not in there.operator.operation.facts
    assert UNTOLD not in carried(desk(configured=False), []).facts, "it was not held"


def test_what_could_not_be_put_on_record_is_trouble_and_ends_no_operation(monkeypatch):
    def fails(*_: Any, **__: Any) -> Any:
        raise SparkmirrorError("no connection")

    monkeypatch.setattr(brought_back, "connected", fails)
    for one in (desk(), desk(configured=False)):
        (said,) = carried(one, HELD).facts[UNTOLD]
        assert "sparkmirror release mm2.properties --flow 'a->b'" in said
