"""Groups that the flow has not followed on its source since an operation stopped it. Pure.

What is on record of a group is as old as the hold: a flow that is held asks no group on its source. Operations of the
flow back may have brought groups there since, and others may never have left it. The record of the flow back says so,
but it lies on the source. Once that is gone, nobody knows whether the hold is still the newest thing that happened.

Invariants: a hold counts when its operation has ended; that of an operation which is under way, or whose place another
one takes, was set moments after the groups were followed. It counts until the groups have been asked on the source
again, by the flow once it is released, or by an operation. That they were asked is told by another moment on record,
and not by a later one: drivers and operators may have different clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sparkmirror.failover.states import UNFOLLOWED, Step, holders
from sparkmirror.offsets.group_records import GroupsSeen
from sparkmirror.offsets.ledger import Operation
from sparkmirror.offsets.orders import HoldOrder
from sparkmirror.offsets.state import JournalState

Since = Sequence[Any]
"""Why the flow was held, since when, and when groups had been asked last by then; [] where nothing counts."""


def since(state: JournalState) -> list[Any]:
    """What has kept the flow from following groups before an operation is begun.

    Args:
        state: of the flow's internal topic.
    """
    newest, held = state.ledger.operation, state.held
    if held is not None and not _is_under_way(held, newest):
        return [held.reason, held.time_ms, _seen_ms(state.groups_seen)]
    before = list(newest.facts.get(UNFOLLOWED, ())) if newest is not None else []
    return before if before and before[-1] == _seen_ms(state.groups_seen) else []


def since_in(operation: Operation | None) -> Since:
    """The same, as an operation has found it when it was begun."""
    return [] if operation is None else operation.facts.get(UNFOLLOWED, [])


def not_asked_since(found: Since, seen: GroupsSeen | None, groups: Iterable[str]) -> frozenset[str]:
    """Those of the groups on record that have not been asked since.

    Args:
        found: as `since` gives it.
        seen: when groups were asked last, as it is on record now.
        groups: their names.
    """
    if not found:
        return frozenset()
    asked_ms, unread = found[-1], {} if seen is None else seen.unread
    if _seen_ms(seen) == asked_ms:
        return frozenset(groups)
    return frozenset(name for name in groups if name in unread and unread[name] <= asked_ms)


def _is_under_way(held: HoldOrder, newest: Operation | None) -> bool:
    return newest is not None and newest.step != Step.DONE.name and held.operation in holders(newest)


def _seen_ms(seen: GroupsSeen | None) -> int:
    return 0 if seen is None else seen.time_ms
