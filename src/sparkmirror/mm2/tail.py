"""How much of a source partition a target partition has already, where MirrorMaker 2 stored less than it copied. Pure.

MirrorMaker 2 stores positions now and then, and for good when it is stopped cleanly. After a crash the target may have
records that lie behind the stored position. Both logs are compared, record by record, in one of two ways:

    from an offset sync    it says of one record where it lies on both sides: from there on both logs must agree up to
                           the target's end
    from the end           the target's last records must be what the source has around the stored position; the one way
                           in which they fit says how many of them lie behind it

Invariants: a position is taken from a comparison only where every record agrees and nothing else would fit; else there
is none, and the caller repeats from the stored position. A position is never below the stored one.

Reference: ``MirrorSourceTask.convertRecord`` (key, value, headers and timestamp are kept).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sparkmirror.mm2.offset_syncs import OffsetSync


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
    """The target has everything below ``position``; ``last`` is its last record as (source, target) offset."""

    position: int
    last: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Undecided:
    """The comparison says nothing, and why."""

    reason: str


Match: TypeAlias = Matched | Undecided

NOT_EQUAL = Undecided("the end of the target is not what the source has there")
NO_ANCHOR = Undecided("the source no longer has the record that was copied before")
AMBIGUOUS = Undecided("records that are equal fit in several ways")


def match_from_sync(sync: OffsetSync, source: Sequence[Seen], target: Sequence[Seen], stored: int) -> Match:
    """Compares from the record of an offset sync on.

    Args:
        sync: of the partition.
        source: its records from the one of the sync on; more than the target has, unless the source ends.
        target: its records from the one of the sync to the end.
        stored: the position that is on record, the next source offset to copy.
    """
    begins = source and target and (source[0].offset, target[0].offset) == (sync.upstream, sync.downstream)
    if not begins or len(target) > len(source):
        return NOT_EQUAL
    if not all(map(_equal, source, target)):
        return NOT_EQUAL
    last = source[len(target) - 1].offset
    if last + 1 < stored:
        return NOT_EQUAL
    return Matched(position=last + 1, last=(last, target[-1].offset))


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
    if count:
        last = after[count - 1].offset
        return Matched(position=last + 1, last=(last, target[-1].offset))
    return Matched(position=stored, last=(before[-1].offset, target[-1].offset) if before else None)


def _equal(source: Seen, target: Seen) -> bool:
    return source.digest == target.digest and target.timestamp in (None, source.timestamp)
