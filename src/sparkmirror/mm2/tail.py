"""How much of a source partition a target partition has already, where MirrorMaker 2 stored less than it copied. Pure.

MirrorMaker 2 stores positions now and then, and for good when it is stopped cleanly. After a crash the target may have
records that lie behind the stored position; and a target that has lost the end of its log since has less than it says.
Both logs are compared, record by record, in one of three ways:

    from an offset sync    it says of one record where it lies on both sides: from there on both logs must agree up to
                           the target's end
    from the end           the target's last records must be what the source has around the stored position; the one way
                           in which they fit says how many of them lie behind it
    below the position     the target's last records must be what the source has at one place before it

Invariants: a position is taken from a comparison only where every record agrees and nothing else would fit; else there
is none. A position is below the stored one only where the source has a record between the two.

Reference: ``MirrorSourceTask.convertRecord`` (key, value, headers and timestamp are kept).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

ENOUGH = 10
"""So many records have to agree at least, where the target has as many."""


class Seen(NamedTuple):
    """One record: where it lies, when it was written by its own account, and a digest of all else.

    Attributes:
        offset: in its log.
        timestamp: milliseconds; None where the broker set it, so that it tells nothing of the producer's.
        digest: of key, value and headers.
    """

    offset: int
    timestamp: int | None
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The target has everything below a position, and nothing from there on.

    Attributes:
        position: the next source offset to copy.
        last: the target's last record as (source, target) offset.
        sure: whether all records agree that both sides have; else some did not that lie further back.
    """

    position: int
    last: tuple[int, int] | None = None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class Undecided:
    """The comparison says nothing, and why."""

    reason: str


Match: TypeAlias = Matched | Undecided

NOT_EQUAL = Undecided("the end of the target is not what the source has there")
NO_ANCHOR = Undecided("the source no longer has the record that was copied before")
AMBIGUOUS = Undecided("records that are equal fit in several ways")


def match_from_sync(
    sync: tuple[int, int], source: Sequence[Seen], target: Sequence[Seen], stored: int, *, reaches: bool
) -> Match:
    """Compares from the record of an offset sync on.

    Args:
        sync: where it lies on both sides.
        source: its records from the one of the sync on; more than the target has, unless the source ends.
        target: its records from the one of the sync to the end.
        stored: the position that is on record, the next source offset to copy.
        reaches: whether ``source`` has all records up to that.
    """
    begins = source and target and (source[0].offset, target[0].offset) == sync
    if not begins or len(target) > len(source):
        return NOT_EQUAL
    if not all(map(_equal, source, target)):
        return NOT_EQUAL
    return _behind(source, len(target), target, stored, reaches=reaches)


def match_below(source: Sequence[Seen], target: Sequence[Seen], stored: int, *, whole: bool, reaches: bool) -> Match:
    """Looks for the target's last record before the stored position, at the one place where all records agree.

    Args:
        source: records before the stored position.
        target: its last records.
        stored: the position that is on record, the next source offset to copy.
        whole: as in `match_from_end`.
        reaches: whether ``source`` has all records up to the stored position.
    """
    if not target:
        return NOT_EQUAL
    fitting = [count for count in range(1, len(source) + 1) if _agrees(source, count, target)]
    if whole:
        fitting = [count for count in fitting if count == len(target)]
    if len(fitting) != 1:
        return AMBIGUOUS if fitting else NOT_EQUAL
    if fitting[0] < min(len(target), ENOUGH):
        return NOT_EQUAL
    return _behind(source, fitting[0], target, stored, reaches=reaches)


def _behind(source: Sequence[Seen], count: int, target: Sequence[Seen], stored: int, *, reaches: bool) -> Matched:
    """The target ends with the record before the ``count``-th; markers before the stored position are none."""
    last = source[count - 1].offset
    following = source[count].offset if count < len(source) else stored if reaches else last + 1
    position = max(last + 1, stored) if following >= stored else last + 1
    return Matched(position=position, last=(last, target[-1].offset))


def _agrees(source: Sequence[Seen], count: int, target: Sequence[Seen]) -> bool:
    """Whether the target ends with the first ``count`` records of the source, as far as both go back."""
    return all(_equal(source[count - back], target[-back]) for back in range(1, min(count, len(target)) + 1))


def match_from_end(source: Sequence[Seen], target: Sequence[Seen], stored: int, *, whole: bool) -> Match:
    """Compares the end of the target with what lies around the stored position.

    Args:
        source: some records before the stored position, as far as there are any, and those from it on.
        target: its last records.
        stored: the position that is on record, the next source offset to copy.
        whole: whether ``source`` and ``target`` begin where their logs began, so that nothing ever lay before.
    """
    before = [one for one in source if one.offset < stored]
    after = source[len(before) :]
    if not target:
        return Matched(position=stored) if whole else Undecided("the target has no records to compare with")
    most = min(len(after), len(target))
    fitting = [count for count in range(most + 1) if _ends_with(target, after, count)]
    if not before:
        if not whole:
            return NO_ANCHOR
        fitting = [count for count in fitting if count == len(target)]
        return _one(fitting, before, after, target, stored)
    for back in range(1, len(before) + 1):
        closer = [count for count in fitting if _has_before(target, before, count, back)]
        if back == 1 or closer:
            fitting = closer
        if len(fitting) <= 1 or not closer:
            break
    if whole and len(fitting) > 1:
        fitting = [count for count in fitting if len(before) + count == len(target)]
    return _one(fitting, before, after, target, stored)


def _ends_with(target: Sequence[Seen], after: Sequence[Seen], count: int) -> bool:
    """Whether the target ends with the first ``count`` records behind the stored position."""
    return all(_equal(after[count - back], target[-back]) for back in range(1, count + 1))


def _has_before(target: Sequence[Seen], before: Sequence[Seen], count: int, back: int) -> bool:
    """Whether the target agrees where it reaches so far back; where it does not, it says nothing against."""
    at = count + back
    return at > len(target) or _equal(before[-back], target[-at])


def _one(
    fitting: Sequence[int], before: Sequence[Seen], after: Sequence[Seen], target: Sequence[Seen], stored: int
) -> Match:
    if len(fitting) != 1:
        return AMBIGUOUS if fitting else NOT_EQUAL
    count = fitting[0]
    sure = _agrees([*before, *after], len(before) + count, target)
    if count:
        last = after[count - 1].offset
        return Matched(position=last + 1, last=(last, target[-1].offset), sure=sure)
    return Matched(position=stored, last=(before[-1].offset, target[-1].offset) if before else None, sure=sure)


def _equal(source: Seen, target: Seen) -> bool:
    return source.digest == target.digest and target.timestamp in (None, source.timestamp)
