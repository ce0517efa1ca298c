"""What a group's committed offset is on the other side of a flow: exact, or a reason why there is none. Pure.

A committed offset is that of the next record to read. On the target it is the place from which on everything lies that
the group has not read, and nothing that it has; `translate_back` answers the same for the source.

Where MirrorMaker 2 copied before the flow took over, its offset syncs say how far the target has come at least: such a
translation is marked as approximate, since some records before it may be read once more.

The same holds where the offset map was thinned, but for the offsets that groups were seen at, which it keeps.

Invariant: no translation is a guess, and none is too far. Where nothing says it, the reason is given instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, overload

from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.group_records import ExactTarget
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap


class Place(Enum):
    """What lies where a committed offset leads to."""

    RECORD = "the record itself"
    NEXT = "the next record, since there is none at the offset"
    FIRST = "the first record that was mirrored"
    END = "behind the last record that was mirrored"
    TAKEN_OVER = "where the target ended when the flow took over from MirrorMaker 2"
    APPROXIMATE = "approximate, by MirrorMaker 2's offset syncs: some records before it may be read once more"
    EMPTY = "the end of the target partition, which has no record: nothing of it was ever mirrored"
    THINNED = "approximate, the offset map is thinned there: some records before it may be read once more"
    OLDEST = "the first record that is left: what lay before it is gone"
    INTERLEAVED = (
        "the earlier of the next records of both clusters, which have them in another order: some records behind it "
        "may be read once more"
    )
    LOST = "the first record whose copy was lost: some records behind it may be read once more"
    STOOD = "where the group stood before it left, since what was copied for it was lost: nobody has used it since"
    AS_IT_LEFT = "where the group stood before it left: nobody has used it since"
    TORN = (
        "where the target's own log has lost its end since: what lies from there on now was not there when the flow "
        "the other way had read it"
    )
    BEGIN = "the begin of the target's own topic, which was deleted and created again since"
    PARTED = "where the source has lost the end of its log: what lay behind was copied, what lies there now was not"
    UNSETTLED = (
        "as far as the flow is on record, which may have copied more: some records behind it may be read once more"
    )
    BACK_BEHIND = "as far as the flow the other way is on record: some records behind it may be read once more"
    OF_OTHERS = (
        "the first record there that others wrote and the group has not read: some records behind it may be read once "
        "more"
    )
    CAME_SINCE = (
        "the first record that came there when groups had been moved: some records behind it may be read once more"
    )

    @property
    def exact(self) -> bool:
        """Whether nothing is read twice from there."""
        return self not in (
            Place.APPROXIMATE,
            Place.THINNED,
            Place.INTERLEAVED,
            Place.LOST,
            Place.UNSETTLED,
            Place.BACK_BEHIND,
            Place.CAME_SINCE,
            Place.OF_OTHERS,
            Place.TORN,
            Place.BEGIN,
        )


class Reason(Enum):
    """Why there is no translation."""

    NOTHING_MIRRORED = "nothing of the partition is mirrored yet"
    AHEAD = "the group is ahead of the mirror"
    UNSETTLED = "the target has not acknowledged the record yet"
    BEFORE_SYNCS = "MirrorMaker 2 copied it, and no offset sync of it that is on record reaches back so far"
    PLACED = "the flow the other way has put the group there, and nobody has used it there since"
    PLACING = "an operation that has not ended is placing the groups"
    CHANGING = "the flow the other way has committed for the group meanwhile: the next round tells whose offset this is"
    RECREATED = "the topic was deleted and created again on the source, which has not been mirrored since"
    COPY_RECREATED = "the copy was deleted and created again on the target, and nothing has been mirrored to it since"
    PARTED = "the source has lost the end of its log, and what the group has read there since is not mirrored"
    RING = (
        "the topic goes around a ring: the target's own records come to the source through other clusters, and nothing "
        "tells which of them the group has read"
    )
    BACK_UNREADABLE = "the record of the flow the other way cannot be read, which may have put the next record there"
    UNCHECKED = "a leader of the partition does not say whether its log has lost what a flow had put there"
    UNDER_WAY = (
        "the target may have copies that are not on record yet, and where the group goes on behind them is not known"
    )
    LOG_START_UNKNOWN = "the leader of the copy does not say where its log starts"


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


def translate(offsets: OffsetMap, committed: int, inherited: Inherited | None = None) -> Translation:
    """Translates the offset that a group has committed for a partition.

    A group that is level with the mirror goes behind the last mirrored record and not to the target's end, where
    others may have written. One whose next record was never mirrored, since the mirror began later, goes to the first.

    Args:
        offsets: of the partition.
        committed: on the source.
        inherited: what MirrorMaker 2 copied before the flow took over.
    """
    if inherited is not None and not offsets.mirrored(committed):
        if inherited.covers(committed):
            return _inherited(inherited, committed)
        if committed == inherited.until and _begins_behind(offsets, committed) and inherited.end != NO_OFFSET:
            return Translated(inherited.end, Place.TAKEN_OVER)
    first = offsets.first()
    if first is None:  # what lies before the position is no record, or came by the flow the other way
        return NotYet(Reason.NOTHING_MIRRORED if committed <= max(offsets.position, 0) else Reason.AHEAD)
    if committed < first.source:
        return Translated(0, Place.THINNED) if offsets.lacks_begin else _at(first.target, Place.FIRST)
    found = offsets.source_to_target(committed)
    if found is None:
        level = committed <= offsets.position or offsets.mirrored(committed)
        return NotYet(Reason.UNSETTLED if level else Reason.AHEAD)
    if not offsets.is_exact(committed):
        return Translated(found, Place.THINNED)
    if offsets.mirrored(committed):
        return Translated(found, Place.RECORD)
    end = offsets.end()
    return Translated(found, Place.END if end is not None and committed > end.source else Place.NEXT)


def in_what_is_left(found: Translation, committed: int, parting: int | None) -> Translation:
    """A translation to the target, of a source that has lost the end of its log.

    A group at the parting goes on with what was lost: what came in its place will lie behind that on the target.

    Args:
        found: by the offset map, which knows what was copied before.
        committed: on the source.
        parting: the first offset that the source has lost; None where it has lost none.
    """
    if parting is None or committed < parting or isinstance(found, NotYet):
        return found
    if committed > parting:
        return NotYet(Reason.PARTED)
    return Translated(found.offset, Place.PARTED) if found.place.exact else found


def back_to_what_is_left(found: Translation, parting: int | None) -> Translation:
    """A translation to a source that has lost the end of its log: no further than where that was.

    Args:
        found: by the offset map.
        parting: the first offset that the source has lost; None where it has lost none.
    """
    if parting is None or isinstance(found, NotYet) or found.offset < parting:
        return found
    return Translated(parting, Place.PARTED if found.place.exact else found.place)


def behind_what_was_lost(found: Translation) -> Translation:
    """A translation of the offset at which a log has lost its end, for a group that stands behind that.

    What lies at the group's own offset now is not what it had read there.

    Args:
        found: by the offset map.
    """
    return Translated(found.offset, Place.LOST) if isinstance(found, Translated) and found.place.exact else found


def exact(offsets: OffsetMap, committed: int) -> ExactTarget | None:
    """What a committed offset is on the target, where a record that is mirrored tells, and exactly; else None."""
    found, writer = translate(offsets, committed), offsets.writer_of(committed)
    if not isinstance(found, Translated) or found.place not in (Place.RECORD, Place.NEXT) or writer is None:
        return None
    return ExactTarget(found.offset, writer)


def translate_at_the_end(offsets: OffsetMap, committed: int, inherited: Inherited | None = None) -> Translation:
    """Like `translate`, where nothing more will be copied: a group ahead of the mirror goes behind what there is.

    Args:
        offsets: of the partition, settled.
        committed: on the source.
        inherited: what MirrorMaker 2 copied before the flow took over.
    """
    found = translate(offsets, committed, inherited)
    if found == NotYet(Reason.AHEAD) and offsets.position < committed:
        return translate(offsets, offsets.position, inherited)
    return found


def translate_back(offsets: OffsetMap, committed: int, inherited: Inherited | None = None) -> Translation:
    """Translates the offset that a group has committed for a copy to its place on the source.

    What others wrote into the copy has no place there: an offset within it leads to the next mirrored record.

    Args:
        offsets: of the partition.
        committed: on the target.
        inherited: what MirrorMaker 2 copied before the flow took over.
    """
    if inherited is not None and committed < inherited.end:
        known = offsets.target_to_source(committed)
        own = known is not None and offsets.mirrored(known) and offsets.source_to_target(known) == committed
        if known is not None and own:
            return Translated(known, Place.RECORD)
        return Translated(inherited.translate_back(committed), Place.APPROXIMATE)
    first = next(offsets.settled(), None)
    if first is None:
        return NotYet(Reason.UNSETTLED if len(offsets) else Reason.NOTHING_MIRRORED)
    if committed < first.target:
        return Translated(0, Place.THINNED) if offsets.lacks_begin else Translated(first.source, Place.FIRST)
    found = offsets.target_to_source(committed)
    if found is None:
        return NotYet(Reason.UNSETTLED)
    if not offsets.is_exact_back(committed):
        return Translated(found, Place.THINNED)
    if offsets.mirrored(found) and offsets.source_to_target(found) == committed:
        return Translated(found, Place.RECORD)
    end = offsets.end()
    return Translated(found, Place.END if end is not None and committed > end.target else Place.NEXT)


@overload
def still_there(found: Translated, oldest: int | None) -> Translated: ...


@overload
def still_there(found: NotYet, oldest: int | None) -> NotYet: ...


def still_there(found: Translation, oldest: int | None) -> Translation:
    """The same, but never a record that the other side no longer has: there its readers would begin anew somewhere.

    Args:
        found: a translation.
        oldest: the first offset that the log there still has; None where that is not known.
    """
    if isinstance(found, Translated) and oldest is not None and found.offset < oldest:
        return Translated(oldest, Place.OLDEST)
    return found


def in_empty(found: Translation, end: int | None) -> Translation:
    """The same, but the end of a target partition without a record where nothing was ever mirrored.

    Args:
        found: a translation.
        end: of the target partition if it has no record, else None.
    """
    return Translated(end, Place.EMPTY) if found == NotYet(Reason.NOTHING_MIRRORED) and end is not None else found


def _inherited(inherited: Inherited, committed: int) -> Translation:
    found = inherited.translate(committed)
    return NotYet(Reason.BEFORE_SYNCS) if found is None else Translated(found, Place.APPROXIMATE)


def _begins_behind(offsets: OffsetMap, committed: int) -> bool:
    """Whether nothing from ``committed`` on is mirrored yet, so that the map cannot say where it will lie."""
    end = offsets.end()
    return end is None or end.source < committed


def _at(target: int, place: Place) -> Translation:
    return Translated(target, place) if target >= 0 else NotYet(Reason.UNSETTLED)
