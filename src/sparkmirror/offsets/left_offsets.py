"""What groups have left behind on the source, since operations have moved them to the target. Pure.

A failover or a switchover takes a group from the source of its flow to the target, a failback from the source of the
flow back to its target. The group still has an offset where it was. Its consumers have gone on from the translation of
that offset, so the offset says nothing of them any more, however far it is: to translate it again would push the
group over what it has not read.

An operation of the flow back can bring the group here again, as a failback does: a failover or a switchover the other
way. From then on its consumers live here, and what they commit here is theirs.

Invariants: an offset counts as left behind until the group has another one there, or none, or until an operation of the
flow back has moved the group here later, by the order of the two (`ledger.Operation.order_ms`). A record stays when
nothing in it counts any more: it says when the group was moved, which is what the flow back asks. A flow that was held
asks for all offsets of all groups that live on the target when it is released, since consumers may have gone on at the
source until they were stopped, in partitions too that they had not read when they were moved. Where the source does not
answer then, all counts that it answers next (a record without a topic). A group that nobody has used on the target has
never lived there: it has left nothing behind. Offsets that the source does not show are not gone: this user may not
see their topic. Nor are those that it has lost with the end of ``__consumer_offsets``: the group has not used them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import NewType

from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import Commits
from sparkmirror.offsets.group_records import GroupLeft


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What counts as left behind.

    Attributes:
        offsets: by group and partition of the source.
        open: the groups of which that is what the source answers next, whatever it is.
    """

    offsets: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    open: frozenset[str] = frozenset()

    def has(self, group: str, place: TopicPartition, committed: int, lost: Lost) -> bool:
        """Whether an offset that a group has committed on the source is the one that it has left behind there.

        One that the source has lost is that one still, whatever is known of it: the group has not committed since.
        """
        own = self.offsets.get(group, {})
        return group in self.open or (place in own and (own[place] == committed or (group, place) in lost))


NOTHING_LEFT = Left()

Found = Mapping[str, Mapping[TopicPartition, tuple[int, str]]]
"""What groups have committed on the source now, with its metadata. One that is not named has not answered."""

KnownOffsets = NewType("KnownOffsets", Found)
"""The same with what groups had where the source has lost it: only ``duties.lost_groups`` makes it."""

Lost = AbstractSet[tuple[str, TopicPartition]]
"""Groups and partitions where the source has lost what was committed."""

NOTHING_LOST: Lost = frozenset()

Moved = Mapping[str, int]
"""The order of the operations that moved groups last, by group."""


def moved_at(records: Iterable[GroupLeft]) -> dict[str, int]:
    """When each of the groups on record was moved away last."""
    found: dict[str, int] = {}
    for one in records:
        found[one.group] = max(one.time_ms, found.get(one.group, 0))
    return found


def moved_here(own: Iterable[GroupLeft], back: Moved) -> frozenset[str]:
    """The groups that operations of the flow back have moved to the source, and none of this flow's away since.

    Args:
        own: what is on record of groups that operations of this flow have moved away.
        back: when the operations of the flow back have moved groups.
    """
    away = moved_at(own)
    return frozenset(group for group, at in back.items() if at > away.get(group, -1))


def came_back(known: Mapping[str, GroupLeft], back: Moved) -> tuple[str, ...]:
    """The keys of what is on record of groups that the flow back has moved here since.

    Args:
        known: what is on record, by key.
        back: when the operations of the flow back have moved groups.
    """
    return tuple(key for key, one in known.items() if back.get(one.group, -1) > one.time_ms)


def left_of(known: Mapping[str, GroupLeft], back: Moved) -> Left:
    """What counts of that; the arguments are those of `came_back`."""
    found: dict[str, dict[TopicPartition, int]] = {}
    void = set(came_back(known, back))
    counts = [one for key, one in known.items() if key not in void]
    for one in counts:
        own = found.setdefault(one.group, {})
        own |= {TopicPartition(one.topic, number): offset for number, offset in one.offsets.items()}
    return Left(offsets=found, open=frozenset(one.group for one in counts if one.is_open))


def with_left(
    known: Mapping[str, GroupLeft], new: Mapping[str, Mapping[TopicPartition, int]], now_ms: int
) -> tuple[GroupLeft, ...]:
    """What is to be written so that these offsets are on record.

    Args:
        known: what is on record, by key.
        new: what groups have left behind now, by group and partition of the source; `NO_OFFSET` for nothing, where the
            record is to say when the group was moved all the same.
        now_ms: when they were moved.
    """
    changed: dict[str, GroupLeft] = {}
    for group, own in new.items():
        for place, offset in own.items():
            one = GroupLeft(group=group, topic=place.topic, offsets={}, time_ms=now_ms)
            before = changed.get(one.key) or known.get(one.key) or one
            offsets = {**before.offsets, place.partition: offset}
            changed[one.key] = replace(one, offsets={at: each for at, each in offsets.items() if each != NO_OFFSET})
    return tuple(changed.values())


def renewed(
    known: Mapping[str, GroupLeft], found: KnownOffsets, lost: Lost = NOTHING_LOST
) -> tuple[tuple[GroupLeft, ...], tuple[str, ...]]:
    """What the source says of them: the records that change by it, and the keys of those that say nothing any more.

    Args:
        known: what is on record, by key.
        found: what groups have committed on the source.
        lost: where that is what was seen before; what was left behind there stays.
    """
    settled = {one.group: key for key, one in known.items() if one.is_open and one.group in found}
    changed = {key: _renewed(one, found[one.group], lost) for key, one in known.items() if one.group in found}
    for group, key in settled.items():
        changed |= _all_of(known, group, found[group], known[key].time_ms, lost)
    kept = tuple(one for key, one in changed.items() if not one.is_open and one != known.get(key))
    return kept, tuple(settled.values())


def used(there: Found, commits: Commits) -> frozenset[str]:
    """The groups that consumers have used on the target, since the flow or an operation has committed for them last.

    An earlier commit of the flow's counts as theirs: a group that its owner has set back to there lives there, and one
    of which the target has lost the last commit is translated again as soon as it is used on the source.

    Args:
        there: what groups have committed on the target.
        commits: what the flow has committed there last.
    """
    return frozenset(
        group
        for group, own in there.items()
        for place, (offset, _) in own.items()
        if (commit := commits.get(group, {}).get(place)) is None or commit.downstream != offset
    )


def at_release(
    known: Mapping[str, GroupLeft],
    groups: Iterable[str],
    found: KnownOffsets,
    held_ms: int,
    lost: Lost = NOTHING_LOST,
) -> dict[str, GroupLeft]:
    """What is on record when the flow is released: what groups have on the source until now is left behind too.

    Args:
        known: what was on record, by key.
        groups: that live on the target.
        found: what groups have committed on the source; one that has not answered is asked later.
        held_ms: when the flow was stopped, milliseconds since 1970.
        lost: as for `renewed`.
    """
    names = set(groups)
    all_of = {key: one for key, one in known.items() if one.group in names}
    for group in sorted(names):
        if group in found:
            all_of |= _all_of(known, group, found[group], held_ms, lost)
        else:
            one = GroupLeft(group=group, topic="", offsets={}, time_ms=held_ms)
            all_of[one.key] = one
    return all_of


def _all_of(
    known: Mapping[str, GroupLeft],
    group: str,
    now: Mapping[TopicPartition, tuple[int, str]],
    time_ms: int,
    lost: Lost,
) -> dict[str, GroupLeft]:
    """All that a group has committed, as what it has left behind."""
    before = {one.topic: one.offsets for one in known.values() if one.group == group and one.topic}
    offsets: dict[str, dict[int, int]] = {topic: {} for topic in before}
    for place, (offset, _) in now.items():
        left = before.get(place.topic, {}).get(place.partition, offset)
        offsets.setdefault(place.topic, {})[place.partition] = left if (group, place) in lost else offset
    records = [
        GroupLeft(group=group, topic=topic, offsets=own, time_ms=time_ms) for topic, own in sorted(offsets.items())
    ]
    return {one.key: replace(one, time_ms=known[one.key].time_ms if one.key in known else time_ms) for one in records}


def _renewed(left: GroupLeft, now: Mapping[TopicPartition, tuple[int, str]], lost: Lost) -> GroupLeft:
    places = {number: TopicPartition(left.topic, number) for number in left.offsets}
    offsets = {
        number: offset
        for number, offset in left.offsets.items()
        if (left.group, places[number]) in lost or now.get(places[number], (offset, ""))[0] == offset
    }
    return replace(left, offsets=offsets)
