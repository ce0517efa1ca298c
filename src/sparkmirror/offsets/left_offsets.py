"""What groups have left behind on the source, since operations have moved them to the target. Pure.

A failover or a switchover takes a group from the source of its flow to the target, a failback from the source of the
flow back to its target. The group still has an offset where it was. Its consumers have gone on from the translation of
that offset, so the offset says nothing of them any more, however far it is: to translate it again would push the
group over what it has not read.

Invariants: an offset counts as left behind until the group has another one there, or none. A flow that was held asks
for it when it is released, since consumers may have gone on at the source until they were stopped; where the source
does not answer then, the next answer counts (`NO_OFFSET` on record).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import GroupLeft

Left = Mapping[str, Mapping[TopicPartition, int]]
"""By group and partition of the source."""

NOTHING_LEFT: Left = {}

Found = Mapping[str, Mapping[TopicPartition, tuple[int, str]]]
"""What groups have committed on the source now, with its metadata. One that is not named has not answered."""


def left_of(records: Iterable[GroupLeft]) -> dict[str, dict[TopicPartition, int]]:
    """What is on record, by group and partition of the source."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for one in records:
        own = found.setdefault(one.group, {})
        own |= {TopicPartition(one.topic, number): offset for number, offset in one.offsets.items()}
    return found


def is_left(left: Left, group: str, place: TopicPartition, committed: int) -> bool:
    """Whether an offset that a group has committed on the source is the one that it has left behind there."""
    return left.get(group, {}).get(place) in (NO_OFFSET, committed)


def with_left(known: Mapping[str, GroupLeft], new: Left) -> tuple[GroupLeft, ...]:
    """What is to be written so that these offsets are on record.

    Args:
        known: what is on record, by key.
        new: what groups have left behind now.
    """
    changed: dict[str, GroupLeft] = {}
    for group, own in new.items():
        for place, offset in own.items():
            one = GroupLeft(group=group, topic=place.topic, offsets={})
            before = changed.get(one.key) or known.get(one.key) or one
            offsets = {**before.offsets, place.partition: offset}
            changed[one.key] = GroupLeft(group=group, topic=place.topic, offsets=offsets)
    return tuple(one for key, one in changed.items() if one != known.get(key))


def renewed(known: Mapping[str, GroupLeft], found: Found) -> tuple[tuple[GroupLeft, ...], tuple[str, ...]]:
    """What the source says of them: the records that change by it, and the keys of those that say nothing any more.

    Args:
        known: what is on record, by key.
        found: what groups have committed on the source.
    """
    changed = {key: _renewed(one, found[one.group]) for key, one in known.items() if one.group in found}
    kept = tuple(one for key, one in changed.items() if one.offsets and one != known[key])
    return kept, tuple(key for key, one in changed.items() if not one.offsets)


def at_release(known: Mapping[str, GroupLeft], found: Found) -> tuple[tuple[GroupLeft, ...], tuple[str, ...]]:
    """The same when the flow is released: what groups have committed on the source until now is left behind too."""
    unknown = {
        key: GroupLeft(group=one.group, topic=one.topic, offsets=dict.fromkeys(one.offsets, NO_OFFSET))
        for key, one in known.items()
    }
    kept, gone = renewed(unknown, found)
    return tuple(one for key, one in (unknown | {one.key: one for one in kept}).items() if key not in gone), gone


def _renewed(left: GroupLeft, now: Mapping[TopicPartition, tuple[int, str]]) -> GroupLeft:
    offsets = {}
    for number, offset in left.offsets.items():
        committed, _ = now.get(TopicPartition(left.topic, number), (NO_OFFSET, ""))
        if committed != NO_OFFSET and offset in (NO_OFFSET, committed):
            offsets[number] = committed
    return GroupLeft(group=left.group, topic=left.topic, offsets=offsets)
