"""What a committed offset is on the other cluster, where two flows write to one topic on each side. Pure.

Where names are kept, or what others wrote to copies is brought home, the log that a group reads has records of two
kinds: those born there, which the flow copies to the other cluster, and those born on the other cluster, which the flow
back has put there. A committed offset names the next record of that log, whatever its kind. The map of each flow knows
one kind, and says where the next record of that kind lies on the other cluster.

Each cluster has the records of one kind in one order, so nothing is skipped from the lesser of the two places on.
Between the two kinds the order may differ, as writers on both sides write at the same time: then the group reads some
records again.

Invariants: a translation lies beyond no record at or behind the committed offset, of either kind, and beyond no record
of the other cluster that the flow back has not brought yet. At or behind one that is told as exact lies no record that
the group has before its committed offset. Both need maps that were read after the offset. What the flow back had put
into the log, and the log has lost, is unread, and lies on the other cluster.

The part of the flow back is an `UpstreamOffset`, a plain value: it is put on record while the cluster of the group can
be asked, and a failover goes by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sparkmirror.model import NO_OFFSET
from sparkmirror.offsets.group_records import MOST_EPOCHS, UNKNOWN_LOG, FlowCommit, LogBefore, UpstreamOffset
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.ordered_out import Span
from sparkmirror.offsets.source_history import Begun
from sparkmirror.offsets.translation import NotYet, Place, Reason, Translated, Translation, translate_back

_NOTHING = NotYet(Reason.NOTHING_MIRRORED)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowBack:
    """What the flow back has put into the partition that a group has committed.

    Attributes:
        offsets: its map: its sources lie on the other cluster, its targets in the partition.
        copies_end: the offset of the other cluster behind the last copy that its lane has met there, or `NO_OFFSET`: of
            the flow whose offsets are translated, which may not have it on its map yet.
        reached: the partition's end when the flow back's last record was acknowledged, or `NO_OFFSET`.
        inherited: what MirrorMaker 2 copied before the flow back took over.
        passed: up to this offset of the other cluster nothing but copies and markers lies behind the position.
        ended: whether the other cluster has nothing that the flow back would still bring.
        lost: from this offset on the partition's log has lost what the flow back had put there, or None. Whoever
            stands behind it has not read that, as far as anybody knows.
        topic_id: of the topic of the other cluster that it has copied; "" where that is not known.
        epochs: the leader epochs of that topic's log that it has met, in order.
        leader_epoch: that of the batch left of its position, or a later one; -1 where that is not known.
        read: up to where it has read that log, where an order has it go on further on; else `NO_OFFSET`.
    """

    offsets: OffsetMap
    reached: int = NO_OFFSET
    copies_end: int = NO_OFFSET
    inherited: Inherited | None = None
    passed: int = NO_OFFSET
    ended: bool = False
    lost: int | None = None
    topic_id: str = ""
    epochs: tuple[Begun, ...] = ()
    leader_epoch: int = -1
    read: int = NO_OFFSET

    def log_before(self, offset: int) -> LogBefore:
        """Of which log the records before an offset of the other cluster are; before the first one there are none.

        The offset may lie behind what the flow back has read: between the two are copies of the flow and markers, in
        leader epochs that the flow back need not have met.
        """
        if offset <= 0:
            return UNKNOWN_LOG
        read = self.offsets.position if self.read == NO_OFFSET else self.read
        until = offset if read == NO_OFFSET else min(offset, read)
        begun = [one for one in self.epochs if one.offset < until]
        newest = begun[-1].epoch if begun else -1
        if offset >= read and until and self.leader_epoch > newest:
            begun.append(Begun(self.leader_epoch, NO_OFFSET))  # of which the begin is not on record
        return LogBefore(self.topic_id, tuple(begun[-MOST_EPOCHS:]), until if until < offset else NO_OFFSET)


def upstream_of(
    back: FlowBack,
    committed: int,
    offsets: OffsetMap | None = None,
    found: Translation = _NOTHING,
) -> UpstreamOffset:
    """Where an offset leads to by the map of the flow back.

    Args:
        back: what the flow back has put there.
        committed: the offset.
        offsets: the flow's map of the partition; None where the flow does not copy it.
        found: what the offset is by that map. How exact the two are together is only known where both are.
    """
    left_out = _left_out(offsets, committed, found, back.offsets)
    result = _by_map(back, committed)
    if isinstance(result, NotYet):
        return UpstreamOffset(NO_OFFSET, result.reason.name, exact=False, left_out=left_out)
    exact, until = result.place.exact, result.offset
    if result.place is Place.END:
        exact = back.ended or _holds_only_own(back, committed, offsets)
        until = _behind_copies(offsets, max(until, back.passed))
    if isinstance(found, Translated) and found.place is not Place.END and found.offset < until:
        exact = exact and not back.offsets.count(found.offset, result.offset)
        if result.place is Place.END:
            until = found.offset  # the position goes on while the group rests; what is on record need not
    return UpstreamOffset(until, result.place.name, exact=exact, left_out=left_out)


def not_beyond(upstream: UpstreamOffset, committed: int, placed: FlowCommit | None) -> UpstreamOffset:
    """The same, but not beyond the offset that the flow back has brought here, where nobody has used it here since.

    Args:
        upstream: where the offset leads to by the map of the flow back.
        committed: the offset.
        placed: what the flow back itself has committed here last.
    """
    if placed is None or placed.downstream != committed or NO_OFFSET < upstream.offset <= placed.upstream:
        return upstream
    return replace(upstream, offset=placed.upstream, name=Place.RECORD.name, exact=True)


def meet(
    found: Translation,
    upstream: UpstreamOffset | None,
    offsets: OffsetMap | None,
    committed: int,
    *,
    settled: bool = True,
) -> Translation:
    """The offset on the other cluster from which on nothing is skipped: the lesser of the two places.

    Args:
        found: what the offset is by the flow's own map.
        upstream: by the map of the flow back; None where that has nothing to do with the partition.
        offsets: the flow's own map; None where it does not copy the partition.
        committed: the offset.
        settled: whether the flow's map has all that the flow has put on the other cluster. The flow back may have gone
            over what it has not.
    """
    if upstream is None or upstream.name == Reason.NOTHING_MIRRORED.name:
        return found
    if isinstance(found, NotYet) and found.reason is not Reason.NOTHING_MIRRORED:
        return found
    if upstream.offset == NO_OFFSET:
        return NotYet(Reason[upstream.name])
    place, until = Place[upstream.name], upstream.offset
    if place is Place.END:
        until = _behind_copies(offsets, until)
    if isinstance(found, Translated) and found.place is not Place.END and found.offset <= until:
        return found if upstream.exact or not found.place.exact else Translated(found.offset, Place.INTERLEAVED)
    if not settled and _may_go_over(found, until):
        return NotYet(Reason.UNDER_WAY)
    if _copied_behind(offsets, until, committed):
        return Translated(until, Place.INTERLEAVED)
    if place is Place.FIRST and offsets is not None:
        place = Place.NEXT  # before it lie records that the flow itself has copied
    if upstream.exact or not place.exact:
        return Translated(until, place)
    return Translated(until, Place.BACK_BEHIND if place is Place.END else Place.INTERLEAVED)


def _may_go_over(found: Translation, until: int) -> bool:
    """Whether copies that are not on the flow's map may lie before ``until``: they lie behind all that are."""
    return not isinstance(found, Translated) or (found.place is Place.END and found.offset < until)


def meet_at_the_end(
    found: Translation, back: FlowBack | None, offsets: OffsetMap | None, committed: int, beyond: int = 0
) -> Translation:
    """Like `meet`, where all that the other cluster has is on the map of the flow back, or was put aside.

    Args:
        found: what the offset is by the flow's own map.
        back: what the flow back has put there; it has ended.
        offsets: the flow's own map.
        committed: the offset.
        beyond: the end of what was put aside on the other cluster.
    """
    if back is None:
        return found
    upstream = upstream_of(back, committed, offsets, found)
    if upstream.name != Place.END.name:
        return meet(found, upstream, offsets, committed)
    if not isinstance(found, Translated):
        return Translated(max(upstream.offset, beyond), Place.END) if found == _NOTHING else found
    if found.place is Place.END:
        return Translated(max(found.offset, upstream.offset, beyond), Place.END)
    return found if upstream.exact or not found.place.exact else Translated(found.offset, Place.INTERLEAVED)


def left_out(offsets: OffsetMap | None, committed: int, found: Translation, upstream: UpstreamOffset | None) -> int:
    """How many offsets at most a group skips: an order left them out, the flow began behind them, or they were gone.

    What lies before all that was copied is not told where records of the other cluster lie among it, as no map tells
    what else does.

    Args:
        offsets: the flow's own map.
        committed: the offset.
        found: what it is by that map.
        upstream: by the map of the flow back, if that has put records there.
    """
    return _left_out(offsets, committed, found, None) if upstream is None else upstream.left_out


def _left_out(offsets: OffsetMap | None, committed: int, found: Translation, back: OffsetMap | None) -> int:
    first = None if offsets is None else offsets.first()
    if offsets is None or first is None or not isinstance(found, Translated):
        return 0
    if found.place is not Place.FIRST:
        return ordered_out(offsets, committed, back)
    brought = back is not None and back.has(committed, first.source - 1)
    return 0 if brought else first.source - committed


def ordered_out(offsets: OffsetMap, committed: int, back: OffsetMap | None) -> int:
    """How many offsets at most orders left out between a committed offset and the next record that was copied.

    Args:
        offsets: the flow's own map.
        committed: the offset.
        back: the map of the flow back, whose copies are on the other cluster anyway; None where it has put none there.
    """
    return _not_brought(offsets.ordered_out(committed), back)


def ordered_out_before(offsets: OffsetMap, start: int | None, until: int, back: OffsetMap | None) -> int:
    """How many source offsets at most orders left out before one.

    Args:
        offsets: the flow's own map.
        start: the first that counts; None where that is not known: only what lies behind the last that was copied.
        until: the first that counts no more.
        back: as in `ordered_out`.
    """
    return _not_brought(offsets.ordered_out_before(start or 0, until, at_the_end=start is None), back)


def _not_brought(spans: Iterable[Span], back: OffsetMap | None) -> int:
    return sum(span.stop - span.first - _brought(back, span.first, span.stop) for span in spans)


def _brought(back: OffsetMap | None, start: int, stop: int) -> int:
    """How many records the flow back has put from one offset on to before another."""
    first = None if back is None else back.first()
    if back is None or first is None:
        return 0
    since, until = back.target_to_source(start), back.target_to_source(stop)
    return 0 if until is None else back.count(first.source if since is None else since, until)


def _by_map(back: FlowBack, committed: int) -> Translation:
    if not len(back.offsets) and back.offsets.position != NO_OFFSET and back.inherited is None:
        return Translated(back.offsets.position, Place.END)  # where nothing was put nothing of it can have been read
    if back.lost is not None and committed >= back.lost:
        first = translate_back(back.offsets, back.lost, back.inherited)
        if not isinstance(first, Translated) or first.place is not Place.END:
            return first if committed == back.lost else _at_most(first)
    return translate_back(back.offsets, committed, back.inherited)


def _at_most(found: Translation) -> Translation:
    """The same place, where it is not known whether what lies behind it was read."""
    return Translated(found.offset, Place.INTERLEAVED) if isinstance(found, Translated) else found


def _holds_only_own(back: FlowBack, committed: int, offsets: OffsetMap | None) -> bool:
    """Whether nothing lies below the offset that the flow back has put there and that is not on its record yet."""
    last = back.offsets.end()
    if last is None and not len(back.offsets):
        return True
    reached = max(-1 if last is None else last.target + 1, back.reached)
    own = 0 if offsets is None else offsets.count(reached, committed)
    return committed <= reached or own == committed - reached


def _behind_copies(offsets: OffsetMap | None, position: int) -> int:
    """The first offset of the other cluster, from the position of the flow back on, that has none of the flow's copies.

    The flow back never brings copies, so a position that stands before them, since that flow was stopped, moves over.
    """
    return position if offsets is None else offsets.first_without_copy(position)


def _copied_behind(offsets: OffsetMap | None, until: int, committed: int) -> int:
    """How many records from before the committed offset the flow has put at ``until`` over there or behind.

    Where the map is thinned there may be one, though none is counted.
    """
    if offsets is None:
        return 0
    source = offsets.target_to_source(until)
    first = offsets.first()
    if source is None:
        source = NO_OFFSET if first is None else first.source
    counted = offsets.count(source, committed)
    sure = offsets.is_exact_back(until) and offsets.is_exact(committed)
    return counted if sure else max(counted, int(source < committed))
