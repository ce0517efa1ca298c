"""Which commits a target has taken that were about to be made when a command was broken off. Pure.

They are on record before the first request leaves. A group with many offsets needs several requests, so the target may
have taken some of them; of one request a coordinator writes all offsets at once. So what has become of a request says
nothing of the next one of the group, in whose partitions consumers may have begun before they were moved.

Invariants: a place of a request of which no place has what it was to have is not moved yet, as long as it has what it
had before; with another offset nobody knows whether it was moved. What is not moved yet stays on record as tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from sparkmirror.failover.earlier import Row
from sparkmirror.failover.states import TRIED, UNSURE
from sparkmirror.kafka.groups import Committed, Offsets
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.group_commits import Commits
from sparkmirror.offsets.group_records import FlowCommit
from sparkmirror.offsets.ledger import Operation

Unsure: TypeAlias = frozenset[tuple[str, TopicPartition]]
"""Groups and partitions of which nobody knows whether they were moved."""

Open: TypeAlias = Mapping[tuple[str, TopicPartition], int]
"""Groups and partitions that an operation was about to change, and what they had then, or `NO_OFFSET`."""

NONE_OPEN: Open = {}


class Tried(NamedTuple):
    """One commit that was about to be made.

    Attributes:
        group: the group.
        place: the partition of the target.
        before: what it had there, or `NO_OFFSET`.
        offset: what it was to have.
        upstream: the same on the source.
        request: the number of the request among those of the group.
    """

    group: str
    place: TopicPartition
    before: int
    offset: int
    upstream: int
    request: int

    @property
    def row(self) -> list[Any]:
        """For the record."""
        return [self.group, *self.place, self.before, self.offset, self.upstream, self.request]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What is known of commits that were tried.

    Attributes:
        taken: those that count as made. Others may have committed there since, or before: see ``unsure``.
        unsure: the places of which nobody knows whether they were moved.
        had: what the places had before that were moved.
        open: what has not been moved yet, of groups that were moved in part.
    """

    taken: Commits
    unsure: Unsure
    had: tuple[Row, ...]
    open: tuple[Tried, ...]


def tried_in(operation: Operation | None) -> tuple[Tried, ...]:
    """What is on record of an operation."""
    rows = () if operation is None else operation.facts.get(TRIED, ())
    return tuple(
        Tried(group, TopicPartition(topic, number), before, offset, upstream, request)
        for group, topic, number, before, offset, upstream, request in rows
    )


def with_tried(before: Iterable[Tried], groups: Collection[str], new: Iterable[Tried]) -> tuple[Tried, ...]:
    """What is on record when some groups are about to be moved: what is open of others stays.

    Args:
        before: what was on record.
        groups: those that are about to be moved.
        new: what they are to have.
    """
    return (*(one for one in before if one.group not in groups), *new)


def places_in(operation: Operation | None) -> dict[tuple[str, TopicPartition], int]:
    """The places that an operation was about to change."""
    return {(one.group, one.place): one.before for one in tried_in(operation)}


def unsure_in(operation: Operation | None) -> Unsure:
    """The places of which nobody knows whether an operation has moved them."""
    rows = () if operation is None else operation.facts.get(UNSURE, ())
    return frozenset((group, TopicPartition(topic, number)) for group, topic, number in rows)


def unsure_rows(unsure: Unsure) -> list[Any]:
    """The same for the record."""
    return sorted([group, *place] for group, place in unsure)


def settled(tried: Sequence[Tried], now: Mapping[str, Offsets], moved: Iterable[str]) -> Settled:
    """What has become of them.

    Args:
        tried: the commits.
        now: what their groups have on the target.
        moved: groups that the operation has moved already, at least in part.
    """
    has = {(one.group, one.place): _at(now, one) for one in tried}
    landed = {(one.group, one.request) for one in tried if has[one.group, one.place] == one.offset}
    touched = {
        (one.group, one.place)
        for one in tried
        if (one.group, one.request) in landed or has[one.group, one.place] != one.before
    }
    in_part = {group for group, _ in touched}.union(moved)
    taken: dict[str, dict[TopicPartition, FlowCommit]] = {}
    for one in tried:
        if (one.group, one.place) in touched:
            taken.setdefault(one.group, {})[one.place] = FlowCommit(one.offset, one.upstream)
    return Settled(
        taken=taken,
        unsure=frozenset(
            (one.group, one.place)
            for one in tried
            if (one.group, one.place) in touched and (one.group, one.request) not in landed
        ),
        had=tuple(
            (one.group, one.place, one.before)
            for one in tried
            if (one.group, one.request) in landed and one.before != NO_OFFSET
        ),
        open=tuple(one for one in tried if one.group in in_part and (one.group, one.place) not in touched),
    )


def _at(now: Mapping[str, Offsets], one: Tried) -> int:
    return now.get(one.group, {}).get(one.place, Committed(NO_OFFSET)).offset
