"""A command whose operation somebody else has writes no report of it: it would be the other's, by its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.failover.states import Kind, Step
from sparkmirror.failover.switching import Desk
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.state import JournalState


@pytest.mark.parametrize(("token", "is_own"), [("mine", True), ("theirs", False)])
def test_only_an_operation_that_a_command_has_itself_is_one_that_it_breaks_off(token: str, is_own: bool, monkeypatch):
    operation = Operation(
        token=token,
        number=1,
        id="failover-1",
        kind=Kind.FAILOVER.value,
        step=Step.MOVING.name,
        source="a",
        target="b",
        by="somebody",
        began_ms=1,
        time_ms=1,
    )
    state = JournalState()
    state.ledger.operation = operation
    sides: Any = SimpleNamespace(store=SimpleNamespace(follow=lambda: None, state=state))
    desk = Desk(sides, "mm2.properties")
    assert (desk.unfinished, desk.broken_off) == (operation, None), "it has begun nothing yet"
    monkeypatch.setattr(desk, "_token", "mine")
    assert desk.broken_off == (operation if is_own else None)
