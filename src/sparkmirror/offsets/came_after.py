"""Which record of an older epoch a new writer epoch comes after, that does not go on right behind the last one: pure.

Invariants:
    * The record lies below where the new epoch begins, and counts on: nothing that was mirrored lies between.
    * Where something may have been mirrored there and nothing says which record is the last, that is said. Where the
      map is lost later, a group there is led no further than to what is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.model import NO_RECORD, UNKNOWN_RECORD, LastRecord
from sparkmirror.offsets.map import Begins, PartitionMap
from sparkmirror.offsets.records import Progress


def came_after(
    known: PartitionMap, progress: Progress | None, ids: Sequence[int], position: int, limit: int, *, anew: bool
) -> LastRecord:
    """The record, as `LastRecord.only_before` has it.

    Args:
        known: the map of the partition.
        progress: the newest on record, or None.
        ids: the flow's producer ids in the order in which they were registered.
        position: where the new epoch begins.
        limit: from which source offset on older epochs hold no more: there, or before.
        anew: whether it begins anew, see `Segments`.
    """
    told = NO_RECORD if progress is None else progress.last.only_before()
    mapped = known.offsets(progress, ids, begins=Begins(position, limit) if anew else None)
    found = mapped.last_below(limit)
    passed = (
        progress is not None and known.pieces(progress.writer) is not None and progress.writer not in mapped.writers
    )
    if not passed and mapped.below(limit).last_source < told.before_source < limit:
        return told  # the map has not got as far
    if found is None:
        return UNKNOWN_RECORD if told != NO_RECORD and not len(known.offsets(progress, ids)) else NO_RECORD
    return NO_RECORD._replace(before_sequence=found.sequence, before_source=found.source, before_target=found.target)
