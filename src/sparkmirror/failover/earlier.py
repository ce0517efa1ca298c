"""Where groups stood on the cluster that they were moved to, before an operation moved them. Pure.

A cluster that loses the end of ``__consumer_offsets`` (a power failure with replication factor 1, an unclean election)
gives a group the offset back that it had before, or none. While the operation has not ended, a moved group that stands
there again is moved once more. A consumer may have committed that very offset too, so such a place is never exact.

On record the offsets are kept by topic and group, as partition and offset in turn: thousands of groups share the name
of a topic. No more than `AT_MOST` places are kept, since the record is one message: 10,000 take some 60 kB, compressed.
What is not kept counts as a consumer's commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from sparkmirror.failover.states import AGAIN, EARLIER, MOVED
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.ledger import Operation

AT_MOST = 50_000

Row = tuple[str, TopicPartition, int]
"""A group, a partition of the cluster that it is moved to, and its offset there."""

Kept = Mapping[str, Mapping[str, Sequence[int]]]
"""As it is on record: by topic and group, partition and offset in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What an operation knows of the groups that it has moved.

    Attributes:
        moved: these groups.
        before: what each place had before the operation changed it, an offset or several.
        again: the places that were moved once more, since they had that again, or nothing; with what they had.
    """

    moved: frozenset[str] = frozenset()
    before: Mapping[tuple[str, TopicPartition], frozenset[int]] = field(default_factory=dict)
    again: Mapping[tuple[str, TopicPartition], frozenset[int]] = field(default_factory=dict)

    def is_back(self, group: str, place: TopicPartition, there: int, wanted: int, commit: FlowCommit | None) -> bool:
        """Whether a place that was moved has what it had before, or nothing.

        Args:
            group: the group.
            place: the partition.
            there: what it has, or `NO_OFFSET`.
            wanted: what it would get.
            commit: what the flow itself has committed there last.
        """
        if there == NO_OFFSET:
            return group in self.moved and commit is not None
        others = there != wanted and (commit is None or commit.downstream != there)
        return others and there in self.before.get((group, place), ())


NOTHING_EARLIER = Earlier()


def earlier_in(operation: Operation | None) -> Earlier:
    """What is on record of an operation."""
    if operation is None:
        return NOTHING_EARLIER
    facts = operation.facts
    return Earlier(
        moved=frozenset(facts.get(MOVED, ())), before=_read(facts.get(EARLIER, {})), again=_read(facts.get(AGAIN, {}))
    )


def with_before(kept: Kept, rows: Iterable[Row]) -> dict[str, dict[str, list[int]]]:
    """What places had before, with these rows, as far as there is room; for the record."""
    room = AT_MOST - sum(len(pairs) // 2 for own in kept.values() for pairs in own.values())
    return added(kept, islice(rows, max(0, room)))


def added(kept: Kept, rows: Iterable[Row]) -> dict[str, dict[str, list[int]]]:
    """The same with these rows, for the record; one that is there already is not kept twice."""
    found = {topic: {group: list(pairs) for group, pairs in own.items()} for topic, own in kept.items()}
    for group, place, offset in rows:
        pairs = found.setdefault(place.topic, {}).setdefault(group, [])
        if (place.partition, offset) not in zip(pairs[::2], pairs[1::2], strict=True):
            pairs += [place.partition, offset]
    return found


def told_of_again(earlier: Earlier, there: str) -> tuple[str, ...]:
    """What is said of the places that were moved once more, a line for all."""
    if not earlier.again:
        return ()
    names = [
        f"{group} at {place} ({', '.join('none' if at == NO_OFFSET else str(at) for at in sorted(offsets))})"
        for (group, place), offsets in sorted(earlier.again.items())
    ]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    why = f"{there} has lost what was committed, or others have committed that"
    return (
        (
            f"groups had the offsets on {there} again that they had before they were moved, or none, and were moved "
            f"once more: {', '.join(names[:_SHOWN])}{more}. {why}: what they have read there since is not known"
        ),
    )


_SHOWN = 3


def _read(kept: Kept) -> dict[tuple[str, TopicPartition], frozenset[int]]:
    found: dict[tuple[str, TopicPartition], set[int]] = {}
    for topic, own in kept.items():
        for group, pairs in own.items():
            for number, offset in zip(pairs[::2], pairs[1::2], strict=True):
                found.setdefault((group, TopicPartition(topic, number)), set()).add(offset)
    return {place: frozenset(offsets) for place, offsets in found.items()}
