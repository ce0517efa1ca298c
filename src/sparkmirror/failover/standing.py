"""How far operators are with a flow, as its record says: what a plan was made from, and may not have changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkmirror.failover.states import RETURNED, TAKEN_BACK, Step
from sparkmirror.offsets.state import JournalState


class Standing(NamedTuple):
    """Which operation is the newest, how far it is, and what stops the flow."""

    operation: str
    number: int
    held_by: str
    held_ms: int


def standing(state: JournalState) -> Standing:
    """Of a flow, by its record."""
    newest, held = state.ledger.operation, state.held
    return Standing(
        operation="" if newest is None else newest.id,
        number=0 if newest is None else newest.number,
        held_by="" if held is None else held.operation,
        held_ms=0 if held is None else held.time_ms,
    )


def has_changed(before: Standing | None, now: JournalState | None) -> bool:
    """Whether operators have done anything; not known, so no, where one of the two could not be read."""
    return before is not None and now is not None and standing(now) != before


def told_of_change(flow: str, now: JournalState, since: str) -> str:
    """What is said of an operator who has done something.

    Args:
        flow: its name.
        now: what its record says.
        since: since when.
    """
    newest = now.ledger.operation
    done = "" if newest is None else f", the newest is {newest.id} by {newest.by} ({Step[newest.step].value})"
    held = "released" if now.held is None else f"stopped by {now.held.reason}"
    return f"{flow}: an operation has gone on since {since}{done}; the flow is {held} now"


def order_of(state: JournalState) -> int:
    """The greatest order on record of a flow: of its operations, and of those of the flow back that it has seen."""
    newest, held, seen = state.ledger.operation, state.held, state.groups_seen
    brought = () if newest is None else (*newest.facts.get(RETURNED, ()), *newest.facts.get(TAKEN_BACK, ()))
    return max(
        0 if newest is None else newest.order,
        0 if held is None else held.order,
        0 if seen is None else seen.back_ms,
        max((one.time_ms for one in state.left.values()), default=0),
        max((order for _, order, _ in brought), default=0),
    )


def row_of(one: Standing | None) -> list[Any]:
    """For the record."""
    return [] if one is None else list(one)


def of_row(row: Sequence[Any]) -> Standing | None:
    """From the record."""
    return Standing(*row) if row else None
