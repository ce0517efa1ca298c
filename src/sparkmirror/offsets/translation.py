"""What a group's committed offset is on the target: exact, or a reason why there is none. Pure.

A committed offset is that of the next record to read. On the target it is the place from which on everything lies that
the group has not read, and nothing that it has.

Invariant: no translation is a guess. Where the map does not say, the reason is given instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from sparkmirror.offsets.map import OffsetMap


class Place(Enum):
    """What lies where a committed offset leads to."""

    RECORD = "the record itself"
    NEXT = "the next record, since there is none at the offset"
    FIRST = "the first record that was mirrored"
    END = "behind the last record that was mirrored"


class Reason(Enum):
    """Why there is no translation."""

    NOTHING_MIRRORED = "nothing of the partition is mirrored yet"
    AHEAD = "the group is ahead of the mirror"
    UNSETTLED = "the target has not acknowledged the record yet"


@dataclass(frozen=True, slots=True)
class Translated:
    """The offset on the target, and what lies there."""

    offset: int
    place: Place


@dataclass(frozen=True, slots=True)
class NotYet:
    """There is none, until the mirror goes on."""

    reason: Reason


Translation: TypeAlias = Translated | NotYet


def translate(offsets: OffsetMap, committed: int) -> Translation:
    """Translates the offset that a group has committed for a partition.

    A group that is level with the mirror goes behind the last mirrored record and not to the target's end, where
    others may have written. One whose next record was never mirrored, since the mirror began later, goes to the first.

    Args:
        offsets: of the partition.
        committed: on the source.
    """
    first = offsets.first()
    if first is None:
        return NotYet(Reason.NOTHING_MIRRORED)
    if committed < first.source:
        return _at(first.target, Place.FIRST)
    found = offsets.source_to_target(committed)
    if found is None:
        level = committed <= offsets.position or offsets.mirrored(committed)
        return NotYet(Reason.UNSETTLED if level else Reason.AHEAD)
    if offsets.mirrored(committed):
        return Translated(found, Place.RECORD)
    end = offsets.end()
    return Translated(found, Place.END if end is not None and committed > end.source else Place.NEXT)


def _at(target: int, place: Place) -> Translation:
    return Translated(target, place) if target >= 0 else NotYet(Reason.UNSETTLED)
