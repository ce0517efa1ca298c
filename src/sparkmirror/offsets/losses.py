"""Where the map has lost what lay between two writer epochs: pure.

Within an epoch the blocks of its lines tell (``offsets.track``). Between two, the newer one says which record of an
older one it came after: by its first records on the map, or by its progress, which comes every second.

Invariants:
    * What was on record, and is not lost, leads to that record: it was acknowledged, or a takeover has found it.
    * An epoch of which no end is on record holds no further than its last point, and the record that its progress
      names, where it does not lead there.
    * What was removed since neither log has it is not lost.
    * Where an order had the copy go back, and what came next shows that copies are lost, nothing tells whether older
      ones count on from there. Nor does anything where the end of that copy is lost, and what came next does not name
      the record that it came after.
    * An offset alone does not name a record of an epoch whose end is lost: another one may have copied it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.parts import Part, source_of, target_of
from sparkmirror.offsets.pieces import Before, Bounds


class Back(NamedTuple):
    """An epoch that may have copied again what older ones had.

    Attributes:
        newer: how many parts came after it.
        source: from which source offset on.
        sure: whether what is on record of it is whole.
    """

    newer: int
    source: int
    sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What is known of a partition beside its parts.

    Attributes:
        bounds: up to where the map was removed with both logs.
        behind: the record behind which an epoch goes on that has none yet; None where none is known.
        passed: parts of epochs that hold no more, though a newer one may have come after one of their records.
        back: epochs that went back and are passed over, and those that began anew and lack their begin.
    """

    bounds: Bounds
    behind: Before | None = None
    passed: Sequence[Part] = ()
    back: Sequence[Back] = ()

    def told(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """The same parts, in order, of which each says whether something before it is lost; or less of them."""
        found: list[Part] = []
        unsure = {len(parts) - one.newer for one in self.back if not one.sure}
        for number, part in enumerate(parts):
            begins = not found or found[-1].pieces is not part.pieces
            lacking = part.known and begins and (number in unsure or self._lacks(part, found))
            if lacking and found:
                found[-1] = _as_far_as_known(found[-1])
            found.append(part._replace(lacking=lacking))
        if self.lacks_end(found):
            found[-1] = _as_far_as_known(found[-1])
        for one in self.back:
            older = len(found) - one.newer
            if not one.sure or (found[older].lacking if one.newer else self.lacks_end(found)):
                found[:older] = [part._replace(certain=min(part.certain, one.source)) for part in found[:older]]
        return tuple(found)

    def lacks_end(self, parts: Sequence[Part]) -> bool:
        """Whether what was copied behind all ``parts`` is lost."""
        if any(not one.newer and not one.sure for one in self.back):
            return bool(parts)
        return bool(parts) and self.behind is not None and not self._lead_to(parts, self.behind)

    def _lacks(self, part: Part, older: Sequence[Part]) -> bool:
        """Whether something is lost between the first known part of an epoch and what is older."""
        pieces, before = part.pieces, part.pieces.before
        source, target = source_of(part, part.first), target_of(part, part.first)
        if source <= self.bounds.source and target <= self.bounds.target:
            return False
        if before is None:
            return pieces.lacks_begin
        if part.first > pieces.first.count:
            return True
        return (before.source < source or not before.known) and not self._lead_to(older, before)

    def _lead_to(self, parts: Sequence[Part], record: Before) -> bool:
        return _leads_to(parts, record) or any(_leads_to((part,), record) for part in self.passed)


def _leads_to(parts: Sequence[Part], record: Before) -> bool:
    """Whether one of the parts has the record, or may have it where the map is thinned."""
    if not record.known:
        return False
    near = (part for part in reversed(parts) if part.known and source_of(part, part.first) <= record.source)
    part = next(near, None)
    if part is None:
        return False
    sources, targets = part.pieces.sources, part.pieces.targets
    count = sources.count_at(record.source)
    assert count is not None  # the part begins at or before it
    if record.sequence != NO_OFFSET:
        count = part.pieces.count_of(record.sequence, count)
    elif not part.ended and count > part.pieces.certain:
        return False
    if not part.first <= count < part.stop:
        return False
    here, there = sources.piece_of(count), targets.piece_of(count)
    assert here is not None  # as for the first of a known part
    assert there is not None
    on_target = record.target == NO_OFFSET or there.may_have(count, record.target)
    return on_target and here.may_have(count, record.source)


def _as_far_as_known(part: Part) -> Part:
    """The same part up to its last point, or what its progress tells: what lies behind that is lost.

    Progress alone tells no end: it may be older than the end that is lost. Nor does an end on record tell of segments
    before it.
    """
    pieces = part.pieces
    if not part.known:
        return part
    return part._replace(stop=min(part.stop, max(part.first, pieces.certain) + 1))
