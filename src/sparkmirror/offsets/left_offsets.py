"""What groups have left behind on the source, since operations have moved them to the target. Pure.

A failover or a switchover takes a group from the source of its flow to the target, a failback from the source of the
flow back to its target. The group still has an offset where it was. Its consumers have gone on from the translation of
that offset, so the offset says nothing of them any more, however far it is: to translate it again would push the
group over what it has not read.

An operation of the flow back can bring the group here again, as a failback does: a failover or a switchover the other
way. From then on its consumers live here, and what they commit here is theirs.

Invariants: an offset counts as left behind until the group has another one there, or none, or until an operation of the
flow back has moved the group here later; by the clocks of those who ran the two. A record stays when nothing in it
counts any more: it says when the group was moved, which is what the flow back asks. A flow that was held asks
for the offset when it is released, since consumers may have gone on at the source until they were stopped; where the
source does not answer then, the next answer counts (`NO_OFFSET` on record).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import GroupLeft

Left = Mapping[str, Mapping[TopicPartition, int]]
"""By group and partition of the source."""

NOTHING_LEFT: Left = {}

Found = Mapping[str, Mapping[TopicPartition, tuple[int, str]]]
"""What groups have committed on the source now, with its metadata. One that is not named has not answered."""

Moved = Mapping[str, int]
"""When operations moved groups last, by group; milliseconds since 1970."""


def moved_at(records: Iterable[GroupLeft]) -> dict[str, int]:
    """When each of the groups on record was moved away last."""
    found: dict[str, int] = {}
    for one in records:
        found[one.group] = max(one.time_ms, found.get(one.group, 0))
    return found


def came_back(known: Mapping[str, GroupLeft], back: Moved) -> tuple[str, ...]:
    """The keys of what is on record of groups that the flow back has moved here since.

    Args:
        known: what is on record, by key.
        back: when the operations of the flow back have moved groups.
    """
    return tuple(key for key, one in known.items() if back.get(one.group, -1) > one.time_ms)


def left_of(known: Mapping[str, GroupLeft], back: Moved) -> dict[str, dict[TopicPartition, int]]:
    """What counts of that, by group and partition of the source; the arguments are those of `came_back`."""
    found: dict[str, dict[TopicPartition, int]] = {}
    void = set(came_back(known, back))
    for one in (one for key, one in known.items() if key not in void):
        own = found.setdefault(one.group, {})
        own |= {TopicPartition(one.topic, number): offset for number, offset in one.offsets.items()}
    return found


def is_left(left: Left, group: str, place: TopicPartition, committed: int) -> bool:
    """Whether an offset that a group has committed on the source is the one that it has left behind there."""
    return left.get(group, {}).get(place) in (NO_OFFSET, committed)


def with_left(known: Mapping[str, GroupLeft], new: Left, now_ms: int) -> tuple[GroupLeft, ...]:
    """What is to be written so that these offsets are on record.

    Args:
        known: what is on record, by key.
        new: what groups have left behind now.
        now_ms: when they were moved.
    """
    changed: dict[str, GroupLeft] = {}
    for group, own in new.items():
        for place, offset in own.items():
            one = GroupLeft(group=group, topic=place.topic, offsets={}, time_ms=now_ms)
            before = changed.get(one.key) or known.get(one.key) or one
            changed[one.key] = replace(one, offsets={**before.offsets, place.partition: offset})
    return tuple(changed.values())


def renewed(known: Mapping[str, GroupLeft], found: Found) -> tuple[GroupLeft, ...]:
    """The records that change by what the source says.

    Args:
        known: what is on record, by key.
        found: what groups have committed on the source.
    """
    changed = {key: _renewed(one, found[one.group]) for key, one in known.items() if one.group in found}
    return tuple(one for key, one in changed.items() if one != known[key])


def at_release(known: Mapping[str, GroupLeft], found: Found) -> tuple[GroupLeft, ...]:
    """The same when the flow is released: what groups have committed on the source until now is left behind too."""
    unknown = {key: replace(one, offsets=dict.fromkeys(one.offsets, NO_OFFSET)) for key, one in known.items()}
    return tuple((unknown | {one.key: one for one in renewed(unknown, found)}).values())


def _renewed(left: GroupLeft, now: Mapping[TopicPartition, tuple[int, str]]) -> GroupLeft:
    offsets = {}
    for number, offset in left.offsets.items():
        committed, _ = now.get(TopicPartition(left.topic, number), (NO_OFFSET, ""))
        if committed != NO_OFFSET and offset in (NO_OFFSET, committed):
            offsets[number] = committed
    return replace(left, offsets=offsets)
