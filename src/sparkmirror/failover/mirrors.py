"""Whose records on the cluster that came back are on another cluster too, and which of them the flow forth copies on.

Under renaming, flows from third clusters write to topics that the flow forth copies: copies of their own topics, and
originals to which they bring home what others wrote. Where names are kept, a chain goes through the very topics. All
these records are none that only this cluster has. They are not on the other one either, as long as the flow forth is
held. So nothing has it go on behind the first of them.

Invariant: what the comparison finds, what is put aside, and behind what the flow forth goes on, is told by the same
producers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sparkmirror.copy.registrations import Registration


class Mirrors(NamedTuple):
    """Producer ids of flows that write to the cluster that came back.

    Attributes:
        every: whose records are none that only this cluster has.
        onward: those of them whose records the flow forth copies.
    """

    every: frozenset[int] = frozenset()
    onward: frozenset[int] = frozenset()


def mirrors_of(known: Iterable[Registration], target_id: str, *, drops_returned: bool) -> Mirrors:
    """Tells them apart. Pure.

    What comes from the flow's target through further clusters counts as copied: the flow decides about each record.

    Args:
        known: the flows that write to the cluster that came back.
        target_id: the cluster to which the flow forth copies.
        drops_returned: whether it drops what flows have brought from there.
    """
    known = tuple(known)
    dropped = {one.producer_id for one in known if drops_returned and target_id in one.origin}
    every = frozenset(one.producer_id for one in known)
    return Mirrors(every, every - dropped)
