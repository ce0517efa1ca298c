"""The duties of a flow, in the order in which they are done."""

from __future__ import annotations

from collections.abc import Callable

from sparkmirror.duties.acls import TopicAcls
from sparkmirror.duties.checkpoints import Checkpoints
from sparkmirror.duties.configs import TopicConfigs
from sparkmirror.duties.deletions import TopicDeletions
from sparkmirror.duties.duty import Duty, Sides
from sparkmirror.duties.group_offsets import GroupOffsets
from sparkmirror.duties.group_records import GroupRecords
from sparkmirror.duties.heartbeats import Heartbeats
from sparkmirror.duties.offset_syncs import OffsetSyncs

_UPKEEP: tuple[Callable[[Sides], Duty], ...] = (
    TopicConfigs,
    TopicDeletions,
    TopicAcls,
    GroupRecords,
    GroupOffsets,
    Checkpoints,
    OffsetSyncs,
)
_PULSE: tuple[Callable[[Sides], Duty], ...] = (Heartbeats,)


def upkeep(sides: Sides) -> tuple[Duty, ...]:
    """What keeps the target like the source: each at an interval of its own, from one thread.

    A failback rests on the one thread: when groups were put on record, no commit of group offsets is under way.
    """
    return _switched_on(_UPKEEP, sides)


def pulse(sides: Sides) -> tuple[Duty, ...]:
    """What must not wait for the rest, such as heartbeats: from a thread of its own."""
    return _switched_on(_PULSE, sides)


def heartbeats(sides: Sides) -> tuple[Duty, ...]:
    """All that a pair of clusters gets whose flow is not enabled."""
    return _switched_on((Heartbeats,), sides)


def _switched_on(makers: tuple[Callable[[Sides], Duty], ...], sides: Sides) -> tuple[Duty, ...]:
    duties = (make(sides) for make in makers)
    return tuple(duty for duty in duties if duty.interval_s is not None)
