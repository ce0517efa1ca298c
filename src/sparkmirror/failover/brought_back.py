"""Groups that operations have brought back to the source while the flow is held: what is on record of that.

A flow that is held follows no group on its source. So an operation of the flow back, which has both clusters, puts on
the record of the held flow which groups it brings to the source: the record lies on the target, where a failover
finds it when the source is gone. A failback lies there itself, and has the same fact. Pure, but for `put_on_record`.

Invariants: the facts are those of the newest operation on record. A group is on record before the first of its offsets
is committed on the source. It counts until an operation of the flow has moved it to the target again, or until the flow
has been released and has seen on the source where the group has come to since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sparkmirror.config import FlowConfig, Side
from sparkmirror.failover.operator import operating
from sparkmirror.failover.standing import Standing, standing
from sparkmirror.failover.states import MOVED, RETURNED, TAKEN_BACK, UNASKED
from sparkmirror.flow.sides import connected, record
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.left_offsets import Moved
from sparkmirror.offsets.records import FlowRecord
from sparkmirror.offsets.state import JournalState

Rows = Sequence[Sequence[Any]]
"""A row for each operation that brings groups to the source: its id, its order, and the groups."""


def rows_of(state: JournalState) -> list[list[Any]]:
    """The operations on record that may have brought groups to the source, and what it has of them there is older.

    That is so while the flow is held, and then until it has seen all of them there.
    """
    newest, seen = state.ledger.operation, state.groups_seen
    if newest is None:
        return []
    moved, since_ms = set(newest.facts.get(MOVED, ())), 0 if seen is None else seen.moved_ms
    before = ([by, order, sorted(set(names) - moved)] for by, order, names in newest.facts.get(RETURNED, ()))
    rows = [*before, *map(list, newest.facts.get(TAKEN_BACK, ()))]
    return [row for row in rows if row[2] and (state.held is not None or row[1] > since_ms)]


def with_row(rows: Rows, operation: Operation, groups: Collection[str]) -> list[list[Any]]:
    """The same, with the groups that an operation brings to the source; once, however often its step is done."""
    others = [list(row) for row in rows if row[0] != operation.id]
    return [*others, *([[operation.id, operation.order, sorted(groups)]] if groups else [])]


def order_of(rows: Rows) -> Moved:
    """When each group was brought to the source last."""
    found: dict[str, int] = {}
    for _, order, names in rows:
        found |= {name: max(order, found.get(name, 0)) for name in names}
    return found


def returned(rows: Rows) -> dict[str, str]:
    """The groups, and the operation that has brought each of them to the source last."""
    return {name: by for by, _, names in sorted(rows, key=lambda row: row[1]) for name in names}


def returned_in(operation: Operation | None) -> dict[str, str]:
    """Those of which an operation has found that, and that it could not ask on the source."""
    if operation is None:
        return {}
    found, facts = returned(operation.facts.get(RETURNED, ())), operation.facts
    unasked = set(facts.get(UNASKED, ())) if facts.get("answers") else set(found)
    return {name: by for name, by in found.items() if name in unasked}


def latest(one: Moved, other: Moved) -> dict[str, int]:
    """When groups were brought to the source last, by two records."""
    return {name: max(one.get(name, -1), other.get(name, -1)) for name in {*one, *other}}


def put_on_record(
    back: FlowConfig, own: FlowRecord, operation: Operation, groups: Collection[str], tell: Callable[[str], None]
) -> Standing | None:
    """Puts on record of the flow back, if that is held, which groups an operation brings to its source.

    Args:
        back: the flow that is held; its record lies on the cluster that the groups leave.
        own: what is on record of the flow whose operation it is; the flow back may be one of other clusters.
        operation: that moves the groups, of the flow the other way.
        groups: that it has moved or is about to move; without any it has brought none.
        tell: is given what one waits for.

    Returns:
        how far operators are with the flow back after that; None where nothing was put on record.

    Raises:
        SparkmirrorError: the record cannot be read or written, or another operator is at work there.
    """
    with connected(back, role="operator", needs=(Side.TARGET,)) as sides:
        state = record(sides)
        if state is None or state.held is None or not (_is_back_of(state, own) and _is_new(state, operation, groups)):
            return None  # what is on record of a flow that is released is not old
        assert sides.store is not None  # it has a record
        with operating(back, sides.store, tell) as operator:
            newest = operator.operation
            assert newest is not None  # it was there before
            operator.note(**{TAKEN_BACK: with_row(newest.facts.get(TAKEN_BACK, ()), operation, groups)})
        sides.store.follow()
        return standing(sides.store.state)


def _is_back_of(state: JournalState, own: FlowRecord) -> bool:
    flow = state.flow
    return flow is not None and (flow.source_id, flow.target_id) == (own.target_id, own.source_id)


def _is_new(state: JournalState, operation: Operation, groups: Collection[str]) -> bool:
    """Whether other groups than these are on record as brought back by the operation."""
    newest = state.ledger.operation
    if newest is None:
        return False
    known = {name for by, _, names in newest.facts.get(TAKEN_BACK, ()) if by == operation.id for name in names}
    return known != set(groups)
