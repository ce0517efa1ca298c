"""What is held against each other after a change: logs by the ids of records, and where groups stand in them. Pure.

A record is told by its id wherever it lies, so nothing here knows of an offset map. A group that is moved from a place
in one log to a place in another reads twice what it had behind itself there and has before itself here; it misses what
is the other way round. Records that are on one side only count for neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sparkmirror.lab.tally import Tally, tally

SESSION = 1_000_000
"""Ids of one application, begun once, lie between two multiples of it."""


KEYS = 40


class Entry(NamedTuple):
    """A committed record of one partition."""

    offset: int
    id: int


Log: TypeAlias = Sequence[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a group stands in one partition on both sides.

    Attributes:
        here: the offset at the cluster that was left.
        there: that at the cluster that was taken.
    """

    here: int
    there: int


class Moved(NamedTuple):
    """What a move of groups did: counts of records."""

    repeated: int
    missed: int


def session(number: int) -> int:
    """Which application wrote a record, by its id."""
    return number // SESSION


def key_of(number: int) -> tuple[int, int]:
    """The key of a record in a compacted topic, by its id: each application has keys of its own."""
    return session(number), number % KEYS


def moved(here: Log, there: Log, standing: Standing) -> Moved:
    """What a group reads twice and misses in a partition."""
    at = {entry.id: entry.offset for entry in here}
    both = [(at[entry.id], entry.offset) for entry in there if entry.id in at]
    return Moved(
        repeated=sum(old < standing.here and new >= standing.there for old, new in both),
        missed=sum(old >= standing.here and new < standing.there for old, new in both),
    )


def compared(
    here: Log, there: Log, born: Collection[int], *, below: int, left_out: Iterable[range] = (), compacted: bool = False
) -> Tally:
    """Counts what was brought from one log to another.

    Args:
        here: of the cluster that records come from.
        there: of the other one.
        born: the sessions whose records were written here first.
        below: only records before this offset have to be there.
        left_out: offsets that may not be there.
        compacted: whether cleaners may have taken records out of either log: of each key the newest has to be there.
    """
    ranges = list(left_out)
    wanted = [
        entry.id
        for entry in here
        if session(entry.id) in born and entry.offset < below and not any(entry.offset in some for some in ranges)
    ]
    found = [entry.id for entry in there if session(entry.id) in born]
    if not compacted:
        return tally(wanted, found)
    newest = set({key_of(each): each for each in wanted}.values())
    aside = {entry.id for entry in here if any(entry.offset in some for some in ranges)}
    common = set(wanted) & set(found)
    return Tally(
        records=len(wanted),
        lost=len(newest - set(found)),
        repeated=len(found) - len(set(found)),
        reordered=tally(
            [each for each in wanted if each in common], [each for each in found if each in common]
        ).reordered,
        foreign=len(aside & set(found)),
    )
