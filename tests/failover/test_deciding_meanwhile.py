"""A plan does what it can while the source is waited for."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover import look, moves, switching
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.states import Kind
from sparkmirror.offsets.state import JournalState

SECONDS = 10.0


def test_where_groups_go_on_is_decided_while_a_source_that_is_gone_is_waited_for(monkeypatch):
    decided = threading.Event()

    def ask(_sides: object) -> None:
        found = decided.wait(SECONDS)
        raise SparkmirrorError("the source is gone, " + ("and groups were decided on" if found else "and nothing was"))

    def decide(_sight: object) -> tuple[()]:
        decided.set()
        return ()

    monkeypatch.setattr(switching, "_ask_the_source", ask)
    monkeypatch.setattr(look, "sight", lambda *_given, **_named: None)
    monkeypatch.setattr(moves, "decide", decide)
    monkeypatch.setattr(switching, "KnownMaps", lambda _sides: None)
    state = JournalState()
    sides: Any = SimpleNamespace(store=SimpleNamespace(follow=lambda: None, state=state), flow=None)
    with pytest.raises(SparkmirrorError, match="groups were decided on"):
        switching.Desk(sides, "mm2.properties").plan(Kind.FAILOVER, Options())
