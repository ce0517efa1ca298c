"""Where one partition goes on that MirrorMaker 2 copied before, given both logs: what must be compared, what follows.

Pure. MirrorMaker 2's stored position is the least that the target has had; what it has beyond, or has lost since, is
found by comparing (`sparkmirror.mm2.tail`).

Invariants: where the comparison says nothing, the copy goes on behind the newest offset sync that the target still has,
if a newer one tells that it has lost its end; else at the stored position, or at the source's oldest record where none
is stored. What may then be there twice is named in an event with exact offsets, and so is what was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkmirror.events import Event, Kind
from sparkmirror.kafka.reading import Span
from sparkmirror.mm2.tail import NOT_EQUAL, Match, Matched, Undecided
from sparkmirror.model import NO_OFFSET, Reached, TopicPartition
from sparkmirror.offsets.inherited import Point
from sparkmirror.offsets.map import OffsetMap, Stretch
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.source_history import Begun

TAIL = 5_000
"""So many records of a target partition are compared at most."""

BEFORE = 200
"""So many source offsets before the stored position are looked at, to know the right place among equal records."""

LAST = 20
"""So many offsets of the target are looked at where MirrorMaker 2 had copied all."""

HOLES = 1_000
"""So many source offsets more than records are read: markers of transactions, and what compaction took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """One partition as MirrorMaker 2 left it.

    Attributes:
        here, there: the partition on the source and on the target.
        stored: the last source offset that MirrorMaker 2 has on record as copied, or `NO_OFFSET`.
        first, end: what the source has.
        target_first, target_end: what the target has; no transaction is open there.
        syncs: MirrorMaker 2's offset syncs, as (source, target) offsets, in order.
        source_id, target_id: of the topics that have these offsets, "" where brokers are too old.
        leader_epoch: the newest of the source's log when it had these offsets, or -1.
        target_epochs: the leader epochs of the target's log below its end, where its leader tells them.
    """

    here: TopicPartition
    there: TopicPartition
    stored: int
    first: int
    end: int
    target_first: int
    target_end: int
    syncs: tuple[Point, ...] = ()
    source_id: str = ""
    target_id: str = ""
    leader_epoch: int = -1
    target_epochs: tuple[Begun, ...] = ()

    @property
    def position(self) -> int:
        """The next source offset to copy, as far as it is on record."""
        return self.first if self.stored == NO_OFFSET else self.stored + 1

    @property
    def begun(self) -> bool:
        """Whether MirrorMaker 2 ever copied something."""
        return self.stored != NO_OFFSET or self.target_end > 0

    def kept(self, reached: Reached) -> int:
        """Up to which target offset the log has what it had when it went so far, as its leader epochs tell."""
        later = [begin for epoch, begin in self.target_epochs if epoch > reached.leader_epoch >= 0]
        return min([reached.end, self.target_end, *later])

    @property
    def strange(self) -> bool:
        """Whether the stored position is not one of this source log: it has been deleted and made anew, or cut."""
        return self.position > self.end

    @property
    def open(self) -> bool:
        """Whether the target may have more than the stored position says."""
        return self.begun and not self.strange and max(self.position, self.first) < self.end

    @property
    def level(self) -> bool:
        """Whether by the stored position the target has all, which its last records can show."""
        return not self.strange and self.first < self.position == self.end and self.target_first < self.target_end

    @property
    def anchor(self) -> Point | None:
        """The newest offset sync whose copy the target has."""
        return next((point for point in reversed(self.syncs) if point[1] < self.target_end), None)

    @property
    def torn(self) -> bool:
        """Whether an offset sync tells that the target has had more; one without any record was emptied."""
        return bool(self.syncs) and 0 < self.target_end <= self.syncs[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the flow had copied of a partition before it was handed over, as far as that is still there.

    Attributes:
        end: its last record; None if there is none.
        kept: up to which target offset the log has it; `NO_OFFSET` where nothing is lost, or nothing is known of it.
        parted: the source offset from which on the flow's map holds no more, or `NO_OFFSET`.
    """

    end: Stretch | None = None
    kept: int = NO_OFFSET
    parted: int = NO_OFFSET


def own(offsets: OffsetMap, progress: Progress | None, copied: Copied) -> Own:
    """Holds the flow's map against the topics as they are now: MirrorMaker 2 had them meanwhile.

    Args:
        offsets: the flow's own map.
        progress: its newest, of the same partition.
        copied: as MirrorMaker 2 left it.
    """
    if progress is None:
        return Own(end=offsets.end())
    ids = (progress.topic_id, copied.source_id), (progress.target_id, copied.target_id)
    if any("" not in pair and pair[0] != pair[1] for pair in ids):
        return Own(kept=0, parted=0)
    kept, end = copied.kept(progress.reached), offsets.end()
    if progress.reached.end == NO_OFFSET or kept >= progress.reached.end:
        return Own(end=end)
    if end is None or end.target < kept:
        return Own(end=end, kept=kept)
    source = offsets.target_to_source(kept)
    left = offsets.before_target(kept)
    return Own(end=left.end(), kept=kept, parted=next(iter(offsets)).source if source is None else source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What to read on both sides."""

    source: Span
    target: Span

    @property
    def whole(self) -> bool:
        """Whether both begin where the logs began."""
        return self.source.first == 0 and self.target.first == 0


def from_sync(one: Copied) -> Comparison | None:
    """What to read to compare from the newest offset sync on that the target has; None where it lies out of reach."""
    source, target = one.anchor or (NO_OFFSET, NO_OFFSET)
    if not one.first <= source < one.end or target < max(one.target_first, one.target_end - TAIL):
        return None
    there = Span(target, one.target_end)
    reach = 2 * (there.end - there.first) + HOLES
    return Comparison(source=Span(source, min(one.end, source + reach)), target=there)


def from_end(one: Copied) -> Comparison:
    """What to read to compare the target's end with what lies around the stored position."""
    source = Span(max(one.first, one.position - BEFORE), min(one.end, max(one.position, one.first) + TAIL + HOLES))
    target = Span(max(one.target_first, one.target_end - TAIL), one.target_end)
    return Comparison(source=source, target=target)


def from_last(one: Copied) -> Comparison:
    """What to read to see that the target has all: many partitions are, and little is read of each."""
    source = Span(max(one.first, one.position - BEFORE), one.position)
    return Comparison(source=source, target=Span(max(one.target_first, one.target_end - LAST), one.target_end))


def from_below(one: Copied) -> Comparison | None:
    """What to read to find the target's last record before the stored position; None where there is nothing.

    An offset sync of a record that the target has lost tells about where that is, however much was lost.
    """
    if one.target_first >= one.target_end:
        return None
    first, end = one.position - TAIL - HOLES, one.position
    if one.torn:
        source, target = one.syncs[-1]
        near = source - (target - one.target_end)
        first, end = near - BEFORE - HOLES, min(near + HOLES, one.end)
    here = Span(max(one.first, first), end)
    there = Span(max(one.target_first, one.target_end - BEFORE), one.target_end)
    return Comparison(source=here, target=there) if here.first < here.end else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """Where a partition goes on.

    Attributes:
        copied: the partition as it was found.
        position: the next source offset to copy.
        last: the target's last record as (source, target) offset, where that is known.
        event: what may be there twice, or was lost, or cannot be told; None where nothing is.
    """

    copied: Copied
    position: int
    last: tuple[int, int] | None = None
    event: Event | None = None

    @property
    def beyond(self) -> int:
        """How many source offsets the target had beyond MirrorMaker 2's position."""
        return max(0, self.position - max(self.copied.position, self.copied.first))


def arrive(one: Copied, match: Match | None) -> Arrived:
    """Decides where a partition goes on.

    Args:
        one: the partition.
        match: what the comparison said; None where there was nothing to compare.
    """
    if one.strange:
        reason = (
            f"MirrorMaker 2 stood at source offset {one.position}, and the source ends at {one.end}: its topic was "
            "deleted and made anew, or lost its tail"
        )
        return Arrived(copied=one, position=one.first, event=_may_repeat(one.first, one.end, reason))
    if isinstance(match, Matched):
        return Arrived(copied=one, position=match.position, last=match.last, event=_lost(one, match.position))
    if one.torn:
        return _behind_the_newest_sync(one, match)
    if match is None:
        return Arrived(copied=one, position=one.position)
    first = max(one.position, one.first)
    reason = match.reason
    if match is NOT_EQUAL and one.first < first:
        reason += (
            f"; if the topic was deleted and created again meanwhile, or the target has lost the end of its log, of "
            f"offsets {one.first} to {first - 1} some were never copied, or are gone: positions set --to earliest "
            "copies them"
        )
    event = _may_repeat(first, one.end, reason)
    if event is None and match is NOT_EQUAL:
        event = Event(kind=Kind.NOTE, text=f"taken over from MirrorMaker 2 at source offset {first}, its end: {reason}")
    return Arrived(copied=one, position=one.position, event=event)


def _behind_the_newest_sync(one: Copied, match: Undecided | None) -> Arrived:
    """Goes on behind the newest offset sync whose copy is left, which may lie beyond the stored position."""
    sync = one.anchor
    if sync is not None and sync[0] < one.end:
        position = max(one.first, sync[0] + 1)
    else:
        position = min(one.first if sync is None else sync[0] + 1, one.position)
    event = _lost(one, position, match)
    if event is None:
        reason = "nothing was left to compare" if match is None else match.reason
        reason = f"it has lost the end of its log, from offset {one.target_end} on: {reason}"
        event = _may_repeat(position, one.end, reason)
    return Arrived(copied=one, position=position, event=event)


def not_below(one: Arrived, least: int) -> Arrived:
    """The same, where from before a source offset nothing is copied again: the target has that, as the flow knows."""
    if one.position >= least:
        return one
    return replace(one, position=least, event=_lost(one.copied, least))


def _lost(one: Copied, position: int, match: Match | None = None) -> Event | None:
    """What is told of what the target had lost before.

    Args:
        one: the partition.
        position: from where on it is copied again.
        match: where no comparison has said that.
    """
    if position >= one.position:
        return None
    text = (
        f"the target lost the end of its log, from offset {one.target_end} on, before the flow took over from "
        f"MirrorMaker 2, which had copied source offsets up to {one.position - 1}: source offsets {position} to "
        f"{one.position - 1} are copied again, {one.position - position} in all"
    )
    if isinstance(match, Undecided):
        text += f"; how many of them it still has cannot be told ({match.reason}): some may be there twice"
    return Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=one.target_end)


def _may_repeat(first: int, end: int, reason: str) -> Event | None:
    if first >= end:
        return None
    text = (
        f"taken over from MirrorMaker 2 at source offset {first}: how much of what follows the target has already "
        f"cannot be told ({reason}); of source offsets {first} to {end - 1} some may be there twice"
    )
    return Event(kind=Kind.MAY_REPEAT, text=text, first=first, last=end - 1)
