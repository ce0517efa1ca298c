"""Taking a partition over: from the target's own log to the position, and nothing else.

The fence is up: nobody writes with an older epoch. The log's last batch of the flow then says which record the target
has last (L), and the segments say which source offset that is. Pure: whoever calls reads headers as `ReadFrom` asks,
adds them, and decides again, until there is another answer.

Invariants:
    * L counts, not the progress on record: it may lie before it (the target lost its tail) or behind it (answers were
      lost). Only where L is the record of the progress, its position counts, since it knows what was dropped behind.
    * A position is never beyond what the log shows, nor beyond where a newer writer epoch began anew. Where one began
      that did not, the log did not have what it has now: an unclean election has brought a former leader back. Then L
      counts, and the newer epoch's records are those that are lost.
    * The newest epoch in the log counts only if the log still has what older epochs had acknowledged: any leader takes
      the first batch of an epoch. See ``offsets.truncation``.
    * Where nothing lies at the offset of an acknowledged record, the log cleaner has removed it; unless leader epochs
      say that the log was cut off below it, or something lies where records before it were.
    * A leader that never had the leader epoch of the progress has another log than the map tells of. Its batches tell
      which records it has; where it has none of the flow, nothing tells, and all that the map has is copied again.
    * What MirrorMaker 2 copied before the flow took over is none of its batches: whether the log still has that is held
      against the leader epochs of that time, or against where the log ended. See ``offsets.inherited``.
    * Where the log cannot tell, records are repeated rather than lost, and the event says so.

Whether the source is still the one that the position means is another question, see ``flow.positions``.
References: KIP-98 (sequences), KIP-360 (epochs); see ``offsets.pieces`` for sequences modulo 2**31.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from sparkmirror.events import Event, Kind
from sparkmirror.model import NO_OFFSET, NO_RECORD, LastRecord, TopicPartition, Writer
from sparkmirror.offsets import thinned
from sparkmirror.offsets.gaps import Gap, find_gap
from sparkmirror.offsets.holes import cut
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.lineage import Lineage
from sparkmirror.offsets.map import PartitionMap, Stretch
from sparkmirror.offsets.pieces import Pieces
from sparkmirror.offsets.placing import Found, Known, Placed, Unseen, end_of, place
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.segments import SEQUENCES, Targets, TargetsKey
from sparkmirror.offsets.source_history import UNDEFINED, EpochEnd
from sparkmirror.offsets.tail import Tail, TailBatch
from sparkmirror.offsets.track import FAR
from sparkmirror.offsets.truncation import (
    Copied,
    has_record,
    is_missing,
    last_acknowledged,
    last_record,
    mirrored_from,
    missing_from,
)
from sparkmirror.offsets.writers import came_since

FURTHER = 4
"""How many times as far back each reading goes when the one before it showed nothing."""
LEAST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is known of one partition that is taken over.

    Attributes:
        partition: of the source.
        progress: the newest on record, or None.
        map: its segments, by writer.
        ids: producer ids of the flow, all that ever wrote, in the order in which they were registered.
        tail: the end of the target's log.
        start: where a partition without a position begins, by the configuration; it is given back as it is, so
            `NO_OFFSET` may stand for a start that is looked up later.
        target_id: of the target topic now, or "" where brokers are too old to say.
        sole_writer: whether nobody but the flow writes the target topic.
        fence: who fenced, or None where there was no one to fence.
        log: where the leader epoch of ``progress.reached`` ends in the target's log now; None where that is not known.
        inherited: what MirrorMaker 2 copied before the flow took over.
        inherited_log: where the leader epoch of that ends in the target's log now; None where that is not known.
        before: the newest writer of each producer id before the flow's first start on record, see `FlowRecord`.
    """

    partition: TopicPartition
    progress: Progress | None
    map: PartitionMap
    ids: tuple[int, ...]
    tail: Tail
    start: int
    target_id: str = ""
    sole_writer: bool = True
    fence: Writer | None = None
    log: EpochEnd | None = None
    inherited: Inherited | None = None
    inherited_log: EpochEnd | None = None
    before: tuple[Writer, ...] = ()

    @property
    def is_another_topic(self) -> bool:
        """Whether the target topic is not the one that the progress is of."""
        known = "" if self.progress is None else self.progress.target_id
        return known != "" and self.target_id not in ("", known)

    @property
    def cut(self) -> int:
        """Up to which target offset the log is surely the one that the progress is of, by its leader; or `NO_OFFSET`.

        Nothing is known of the log of a leader that never had the leader epoch.
        """
        if self.progress is None or self.log is None or self.is_another_topic:
            return NO_OFFSET
        return self.log.end if self.log.epoch == self.progress.reached.leader_epoch else NO_OFFSET

    @property
    def is_another_log(self) -> bool:
        """Whether the leader never had the leader epoch of the progress: a former one, or an older copy of its disk."""
        if self.progress is None or self.log is None or self.is_another_topic:
            return False
        return self.log.epoch not in (UNDEFINED, self.progress.reached.leader_epoch)

    def may_be_cleaned(self, target: int) -> bool:
        """Whether the log cleaner may have removed an acknowledged record at whose target offset nothing lies.

        Not where the log may have been cut off below it, nor in the log of a leader that never had the leader epoch: it
        has come back by an unclean election, or its disk is an older copy. Where no leader epoch is on record, only of
        what the progress knows.
        """
        if self.log is None:
            return self.progress is not None and target <= self.progress.target
        return target < self.cut

    @property
    def lineage(self) -> Lineage:
        """The writers on record, by age."""
        return Lineage(self.progress, self.map, self.ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Last:
    """The last record that the target has: its sequence number, source offset and target offset."""

    sequence: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Go on.

    Attributes:
        position: the next source offset to copy.
        last: the last record that the target has, or None if none is left there.
        targets: where records came to lie, and where the epoch ended: to be put on record.
        void: keys of target offsets that hold no more: to be removed.
        event: what the operator should know, or None.
        anew: whether the epoch that goes on here is, see `Segments`.
        inherited: what is left of what MirrorMaker 2 copied, to be put on record; None where nothing of it is lost.
    """

    position: int
    last: Last | None
    targets: tuple[Targets, ...] = ()
    void: tuple[str, ...] = ()
    event: Event | None = None
    anew: bool = False
    inherited: Inherited | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFrom:
    """Read the headers of the target's log from this offset on, and decide again."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The target has nothing of this partition: begin at this source offset; ``anew`` as for `Resume`."""

    position: int
    event: Event | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """Stand still: no position can be told. ``error`` says why and what helps."""

    error: str


Decision: TypeAlias = Resume | ReadFrom | Begin | Stuck


def decide(observed: Observed) -> Decision:
    """Decides where the copy of a partition goes on."""
    decision = _with_inherited(observed, _decide(observed))
    event = decision.event if isinstance(decision, Resume) else None
    if not isinstance(decision, Resume) or event is None or event.kind is not Kind.TARGET_TAIL_LOST:
        return decision
    lost = event.first if decision.last is None else max(event.first, decision.last.target + 1)
    shorter, void = _lost_places(observed, lost, frozenset(decision.void))
    ended = {one.writer for one in decision.targets if one.target == NO_OFFSET}
    ends = (one for one in _ends_at(observed, lost, frozenset(decision.void)) if one.writer not in ended)
    written = {one.key: one for one in (*shorter, *ends, *decision.targets)}
    gone = dict.fromkeys((*decision.void, *void))
    return replace(decision, targets=tuple(written.values()), void=tuple(key for key in gone if key not in written))


def behind_the_record(observed: Observed, found: Last, *, cleaned: bool = False, start: int = NO_OFFSET) -> Resume:
    """Where to go on if ``found``, as the map has it, is another record: the map has lost its newest segments.

    All behind the last record whose place is on record is copied again, as far as the source has it: its log begins at
    ``start``. So it is where nothing tells any more whether it is another one, since log cleaners have ``cleaned``
    that, or the source has deleted it.
    """
    progress, newest = observed.progress, observed.map.writers(observed.ids)[-1]
    position, sound = _opening(observed, newest), None
    if progress is not None and progress.writer == newest and progress.sequence != NO_OFFSET:
        position = progress.position
        sound = Copied(writer=newest, sequence=progress.sequence, source=progress.source, target=progress.target)
    text = (
        "the flow's internal topic has lost the newest entries of the offset map: by what is left of it the record at "
        f"target offset {found.target} would be that at source offset {found.source}, and is another one"
    )
    if cleaned:
        text = (
            "the flow's internal topic may have lost the newest entries of the offset map: the record at target offset "
            f"{found.target} cannot be compared with that at source offset {found.source}, since log cleaners have "
            "removed what lay there and near it"
        )
    elif found.source < start:
        text = (
            "the flow's internal topic may have lost the newest entries of the offset map: the record at target offset "
            f"{found.target} cannot be compared with that at source offset {found.source}, which the source has deleted"
        )
    first, position = position, max(position, start)
    text = (
        f"{text}; everything from source offset {position} on is copied again, and what the target has of it will be "
        "there twice"
    )
    if first < position:
        text = (
            f"{text}; of offsets {first} to {position - 1}, which the source has deleted, nothing tells any more "
            "whether and where the target has them"
        )
    return _copied_again(observed, position, Event(kind=Kind.MAY_REPEAT, text=text, first=position), sound)


def behind_the_forged(observed: Observed, found: Last) -> Resume:
    """Where to go on if records up to ``found`` are others than the whole map has there: somebody has forged them.

    All behind the last record that was acknowledged is copied again: the log does not tell which of them are copies.
    """
    writer = _writer_of(observed, found)
    sound = _last_on_record(observed, writer)
    position = _opening(observed, writer) if sound is None else sound.source + 1
    progress = observed.progress
    if progress is not None and progress.writer == writer:
        position = max(position, progress.position)
    elif progress is not None and observed.lineage.sent_nothing(writer) and progress.position != NO_OFFSET:
        position = progress.position
    text = (
        f"target offsets up to {found.target} hold records that {_name(writer)} of this flow has written by their "
        f"headers, and that are others than those of the source up to offset {found.source}: somebody who may write "
        "to the copy has forged batches of this flow, or the source has others there since; everything from source "
        f"offset {position} on is to be copied again, behind these: see who has WRITE on the target topic"
    )
    event = Event(kind=Kind.FORGED_BATCH, text=text, first=position, last=max(position, found.source))
    return _copied_again(observed, position, event, sound)


def _last_on_record(observed: Observed, writer: Writer) -> Copied | None:
    """The last record of a writer that is on record as acknowledged, or None.

    By its own progress, by that of a newer one that has sent nothing, which names the record before, or by the map.
    """
    progress, pieces = observed.progress, observed.map.pieces(writer)
    if pieces is None:
        return None
    named = [] if progress is None else [(progress.sequence, progress.source, progress.target)]
    if progress is not None and progress.writer != writer:
        named = [progress.before] if observed.lineage.sent_nothing(writer) else []
    for sequence, source, target in named:
        count = None if NO_OFFSET in (sequence, target) else pieces.count_of_last(sequence, source)
        if count is not None and (count % SEQUENCES, pieces.source_of(count)) == (sequence, source):
            return Copied(writer=writer, sequence=sequence, source=source, target=target)
    settled = pieces.last_settled()
    source_of = None if settled is None else pieces.source_of(settled.count)
    if settled is None or source_of is None:
        return None
    return Copied(writer=writer, sequence=settled.count % SEQUENCES, source=source_of, target=settled.offset)


def _writer_of(observed: Observed, last: Last) -> Writer:
    """Who wrote the last record, by the log."""
    return next(_writer(batch) for batch in reversed(observed.tail.batches) if batch.last_offset == last.target)


def not_on_record(observed: Observed, last: Last, most: int) -> tuple[tuple[int, int], ...]:
    """Source and target offsets of records behind the last one on record, up to the last one in what was read.

    Only the log tells of them. The oldest come first, and ``most`` at most are given.
    """
    batches = [b for b in observed.tail.batches if not b.control and b.sequence >= 0 and b.last_offset <= last.target]
    writer = _writer(batches[-1]) if batches else None
    pieces = None if writer is None else observed.map.pieces(writer)
    count = None if pieces is None else pieces.count_at(last.source)
    if writer is None or pieces is None or count is None or batches[-1].last_offset != last.target:
        return ()
    known = _last_on_record(observed, writer)
    near = None if known is None else pieces.count_of(known.sequence, count)
    begin = pieces.first.count if near is None else near + 1
    places: Iterable[tuple[int, int]]
    if near is not None and known is not None and last.target - known.target == count - near:
        places = ((each, known.target + each - near) for each in range(begin, count + 1))
    else:
        own = ((pieces.count_of(b.sequence, count), b) for b in batches if _writer(b) == writer)
        places = (
            (first + each, b.base_offset + each)
            for first, b in own
            for each in range(b.last_offset - b.base_offset + 1)
        )
    exact = ((each, target) for each, target in places if begin <= each <= count and pieces.is_exact(each))
    held = ((pieces.source_of(each), target) for each, target in exact)
    return tuple((source, target) for source, target in islice(held, most) if source is not None)


def before_the_last(observed: Observed, last: Last, most: int) -> tuple[tuple[int, int], ...]:
    """Source and target offsets of records that lie before the last one in what was read, the newest first."""
    batches = [b for b in observed.tail.batches if not b.control and b.sequence >= 0 and b.last_offset <= last.target]
    pieces = observed.map.pieces(_writer(batches[-1])) if batches else None
    count = None if pieces is None else pieces.count_at(last.source)
    if pieces is None or count is None or batches[-1].last_offset != last.target:
        return ()
    found = list[tuple[int, int]]()
    for batch in reversed([b for b in batches if _writer(b) == _writer(batches[-1])]):
        end = pieces.count_of(batch.sequence, count) + batch.last_offset - batch.base_offset
        for back in range(batch.last_offset - batch.base_offset + 1):
            source = pieces.source_of(end - back)
            if source is None or len(found) == most:
                return tuple(found)
            if end - back < count:
                found.append((source, batch.last_offset - back))
    return tuple(found)


def last_before(decision: Resume | Begin) -> LastRecord:
    """The record that the epoch comes after which goes on by a decision, where nothing has become another one there."""
    last = decision.last if isinstance(decision, Resume) else None
    if last is None or decision.anew or last.source >= decision.position:
        return NO_RECORD
    return LastRecord(last.sequence, last.source, last.target).only_before()


def _with_inherited(observed: Observed, decision: Decision) -> Decision:
    """The same, but what the log has lost of MirrorMaker 2's copies is copied again, as far back as its syncs tell."""
    inherited = observed.inherited
    if inherited is None or observed.is_another_topic or not isinstance(decision, Resume | Begin):
        return decision
    end = _inherited_end(observed, inherited)
    if end >= inherited.end:
        return decision
    back, known = inherited.translate_back(end), decision.position
    position = back if known == NO_OFFSET else min(back, known)
    resume = decision if isinstance(decision, Resume) else Resume(position=known, last=None, anew=decision.anew)
    return replace(
        resume,
        position=position,
        last=resume.last if position == known else None,
        targets=tuple(one for one in resume.targets if one.target < end),
        event=_inherited_lost(inherited, end, back, decision.event) if back < inherited.until else decision.event,
        anew=resume.anew or position != known,
        inherited=inherited.cut(end, position),
    )


def _inherited_end(observed: Observed, inherited: Inherited) -> int:
    """Up to where the log still has what MirrorMaker 2 copied, or retention has removed it.

    Where no leader epoch is on record, the log's end tells, without the markers of the flow's own fences, and where a
    lane has seen that the log was cut off.
    """
    progress, told = observed.progress, observed.inherited_log
    if told is not None:
        kept = inherited.kept(told)
    else:
        kept = min(inherited.end, _end(observed.tail, observed.ids))
        kept = kept if progress is None or progress.cut == NO_OFFSET else min(kept, progress.cut)
    return max(observed.tail.start, kept)


def _inherited_lost(inherited: Inherited, end: int, back: int, event: Event | None) -> Event:
    """What MirrorMaker 2 had copied is lost from the target offset ``end`` on, beside what ``event`` tells."""
    text = (
        f"the target lost the end of its log, offsets {end} to {inherited.end - 1}, which MirrorMaker 2 had copied: by "
        f"its offset syncs everything from source offset {back} on is copied again; copies of that which lie below "
        f"target offset {end} will be there twice, and what the source no longer has is lost"
    )
    first, last = end, inherited.end - 1
    if event is not None:
        text = f"{text}; {event.text}"
    if event is not None and event.kind is Kind.TARGET_TAIL_LOST:
        first, last = min(first, event.first), max(last, event.last)
    return Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=first, last=last)


def _decide(observed: Observed) -> Decision:
    tail, fence = observed.tail, observed.fence
    if fence is not None:
        if any(b.producer_id == fence.producer_id and b.epoch > fence.epoch and not b.control for b in tail.batches):
            reason = "another driver writes it, or somebody who may write to the copy has forged a newer epoch"
            return Stuck(error=_said(reason, f"stop all drivers of this flow but one; else {_FORGED}"))
        if not any(b.producer_id == fence.producer_id and b.epoch >= fence.epoch for b in tail.batches):
            return ReadFrom(offset=tail.since)  # its marker is not below the high watermark yet
    mine = _own(observed)
    found = [b for b in mine if _writer(b) == _writer(mine[-1])]
    if found and (not observed.lineage.is_older(_writer(found[0])) or not observed.lineage.on_record()):
        return _after(observed, found)
    hint = _hint(observed)
    if tail.since > tail.start and (not found or tail.start <= hint < tail.since):
        return ReadFrom(offset=_further(observed, hint))
    decision = _nothing_of_ours(observed)
    if isinstance(decision, Resume | Begin):
        anew = observed.lineage.began_anew(observed.lineage.on_record())
        return _with_outlived(observed, found, replace(decision, anew=anew))
    return decision


def _with_outlived(observed: Observed, found: list[TailBatch], decision: Resume | Begin) -> Resume | Begin:
    """The same, but an event says what may be there twice where the map has outlived what was ``found`` in the log."""
    if not found or not came_since(_writer(found[0]), observed.ids, observed.before):
        return decision
    text = (
        f"the target has records of {_name(_writer(found[0]))} up to offset {found[-1].last_offset}, which the offset "
        f"map has outlived: those that the source still has from offset {decision.position} on may be there twice"
    )
    event = decision.event
    if event is None:
        return replace(decision, event=Event(kind=Kind.MAY_REPEAT, text=text, first=decision.position))
    return replace(decision, event=replace(event, text=f"{event.text}; {text}"))


def _writer(batch: TailBatch) -> Writer:
    return Writer(producer_id=batch.producer_id, epoch=batch.epoch)


def _own(observed: Observed) -> list[TailBatch]:
    """The flow's batches among those read, the newest writer's last, each writer's in the order of the log."""
    ids = {*observed.ids, *(writer.producer_id for writer in observed.lineage.on_record())}
    mine = (b for b in observed.tail.batches if b.producer_id in ids and not b.control and b.sequence >= 0)
    return sorted(mine, key=lambda batch: observed.lineage.rank(_writer(batch)))


def _hint(observed: Observed) -> int:
    """A target offset at which the flow's last batch is expected, or `NO_OFFSET`."""
    return NO_OFFSET if observed.progress is None else observed.progress.target


def _further(observed: Observed, hint: int) -> int:
    """Where to read from next: the hint if it lies further back, else several times as far."""
    tail = observed.tail
    if tail.start <= hint < tail.since:
        return hint
    return max(tail.start, tail.high_watermark - FURTHER * max(LEAST, tail.high_watermark - tail.since))


def _after(observed: Observed, found: list[TailBatch]) -> Decision:
    """The log has batches of the flow: the last of them says how far it got."""
    writer = _writer(found[0])
    pieces = observed.map.pieces(writer)
    if pieces is None:
        return _no_segment(observed, found[-1])
    near = _count(pieces, writer, observed.progress)
    unsound = _unsound(observed, pieces, found, near)
    if unsound is not None:
        return unsound
    counts = [pieces.count_of(b.sequence, near) + b.last_offset - b.base_offset for b in found]
    count = max(counts)
    batch = found[counts.index(count)]
    source = pieces.source_of(count)
    if source is None:
        return _gone_from_the_source(pieces, batch, _began(observed, writer))
    if _may_hide_newer(observed, writer, pieces, count):
        return ReadFrom(offset=_further(observed, _hint(observed)))
    if not pieces.is_exact(count):
        begin, lost = thinned.go_on(pieces, count, batch.last_offset, _began(observed, writer))
        void = observed.lineage.void(observed.partition, writer)
        return Resume(position=begin, last=None, void=void, event=lost, anew=True)
    last = Last(sequence=count % SEQUENCES, source=source, target=batch.last_offset)
    had = _cleaned(observed, writer, last)
    if had is not None:
        return _by_what_is_known(observed, had)
    placed = place(
        Placed(
            partition=observed.partition,
            writer=writer,
            pieces=pieces,
            batches=found,
            known=_known(near, observed.progress, count),
            count=count,
            target=batch.last_offset,
            near=near,
            since=observed.tail.since,
            start=observed.tail.start,
        )
    )
    if isinstance(placed, Unseen):
        return ReadFrom(offset=_further(observed, placed.offset))
    returned = _returned(observed, writer, count)
    if isinstance(returned, ReadFrom):
        return returned
    position, event = _position(observed, writer, last)
    ends = {} if event is None else _ends_of_cleaned(observed, writer, last, position)
    targets = _with_cleaned(observed, writer, placed.targets, ends, count)
    void = observed.lineage.void(observed.partition, writer, but=ends)
    return Resume(
        position=position,
        last=last,
        targets=(*returned.targets, *targets),
        void=(*returned.void, *placed.void, *void),
        event=event,
        anew=observed.lineage.began_anew((*observed.lineage.newer(writer), *observed.lineage.sent_nothing(writer))),
    )


def _returned(observed: Observed, writer: Writer, count: int) -> Found | ReadFrom:
    """What a former leader has brought back of epochs before ``writer``, which an earlier takeover had found lost.

    The map ends these epochs where their batches were missing then, and has no place for anything of a later one, of
    which ``count`` is the last record that is there.
    """
    lineage, own = observed.lineage, observed.map.pieces(writer)
    if own is None or own.last_settled(count) is not None:
        return Found()
    if not lineage.sent_nothing(writer) and not any(_has_acknowledged(observed, one) for one in lineage.newer(writer)):
        return Found()
    older = [(each, pieces) for each in lineage.older(writer) if (pieces := observed.map.pieces(each)) is not None]
    if not older:
        return Found()
    since = _alike(observed, older)
    if isinstance(since, ReadFrom):
        return since
    targets, void = list[Targets](), list[str]()
    for each, pieces in older:
        found = _as_the_log_has(observed, each, pieces, since)
        if isinstance(found, ReadFrom):
            return found
        targets += found.targets
        void += found.void
    return Found(tuple(targets), tuple(void))


def _alike(observed: Observed, older: list[tuple[Writer, Pieces]]) -> int | ReadFrom:
    """Up to where the log is the one of which the map tells: behind the last batch that lies where the map has it.

    Former leaders that come back by turns have other epochs each, so an epoch of the map need not be in this log.
    """
    tail = observed.tail
    for writer, pieces in reversed(older):
        last = pieces.last_settled()
        if last is None:
            continue
        alike = [b.last_offset + 1 for b in _of(tail, writer) if _lies_where_mapped(pieces, b)]
        if alike:
            return max(alike)
        if last.offset < tail.start:
            break
        first = max(tail.start, pieces.targets.first.offset)
        if first < tail.since:
            return ReadFrom(offset=max(first, _further(observed, last.offset)))
    return tail.start if tail.since <= tail.start else ReadFrom(offset=tail.start)


def _as_the_log_has(observed: Observed, writer: Writer, pieces: Pieces, since: int) -> Found | ReadFrom:
    """What changes of an epoch's places from ``since`` on: batches that are back, and places where others lie now.

    Places at which nothing lies stay: the log cleaner may have removed the records.
    """
    tail = observed.tail
    mine = [batch for batch in _of(tail, writer) if batch.base_offset >= since]
    others = [b for b in tail.batches if b.last_offset >= since and (b.control or _writer(b) != writer)]
    taken = any(_has_places(pieces, batch.base_offset, batch.last_offset) for batch in others)
    if not taken and all(pieces.target_of(_last_count(pieces, b)) == b.last_offset for b in mine):
        return Found()
    batches = _of(tail, writer) if taken else mine
    shorter, gone = _cut_places(observed, writer, since) if taken else ([], [])
    found: Found | Unseen = Found()
    if batches:
        count, target = max((_last_count(pieces, batch), batch.last_offset) for batch in batches)
        found = place(
            Placed(
                partition=observed.partition,
                writer=writer,
                pieces=pieces,
                batches=batches,
                known=None,
                count=count,
                target=target,
                near=None,
                since=tail.since,
                start=tail.start,
            )
        )
    elif (stop := pieces.targets.count_at(since)) is not None:
        found = Found(end_of(observed.partition, writer, pieces, stop - 1))
    if isinstance(found, Unseen):
        return ReadFrom(offset=_further(observed, found.offset))
    written = {one.key: one for one in (*shorter, *found.targets)}
    return Found(tuple(written.values()), tuple(key for key in (*gone, *found.void) if key not in written))


def _of(tail: Tail, writer: Writer) -> list[TailBatch]:
    """The records of an epoch among those read."""
    return [b for b in tail.batches if _writer(b) == writer and not b.control and b.sequence >= 0]


def _last_count(pieces: Pieces, batch: TailBatch) -> int:
    return pieces.count_of(batch.sequence) + batch.last_offset - batch.base_offset


def _lies_where_mapped(pieces: Pieces, batch: TailBatch) -> bool:
    """Whether an epoch's batch lies where the map has its last record, as far as the map tells."""
    count = _last_count(pieces, batch)
    piece = pieces.targets.piece_of(count)
    known = any(part.first <= count < part.stop for part in pieces.known())
    return known and piece is not None and piece.may_have(count, batch.last_offset)


def _has_places(pieces: Pieces, first: int, last: int) -> bool:
    """Whether the map has records of an epoch from one target offset to another."""
    begin = pieces.targets.count_at(first)
    for part in pieces.known():
        count = part.first if begin is None else max(begin, part.first)
        target = pieces.targets.offset_of(count) if count < part.stop else None
        if target is not None and target <= last:
            return True
    return False


def _lost_places(observed: Observed, target: int, gone: frozenset[str]) -> tuple[tuple[Targets, ...], tuple[str, ...]]:
    """What leaves the map where the log is lost from a target offset on: what is shortened, and keys of the rest.

    Or what comes in the place of that would be a line that crosses the old one. What is ``gone`` anyway is left out.
    """
    cuts = [_cut_places(observed, writer, target) for writer in observed.map.writers(observed.ids)]
    changed = tuple(one for shorter, _ in cuts for one in shorter if one.key not in gone)
    return changed, tuple(key for _, void in cuts for key in void if key not in gone)


def _ends_at(observed: Observed, target: int, gone: frozenset[str]) -> Iterator[Targets]:
    """The ends of epochs that reach beyond a target offset from which on the log is lost.

    Or the straight line of the last record before it would lead on, over what comes in the place of the loss.
    """
    held = observed.map.offsets(observed.progress, observed.ids, parted=False).ends()
    for writer in observed.map.writers(observed.ids):
        pieces = observed.map.pieces(writer)
        piece = None if pieces is None else pieces.targets.piece_at(target)
        if pieces is None or piece is None or _is_gone(observed, writer, pieces, gone):
            continue
        stop = min(piece.begin + target - piece.offset, piece.end)
        for known in pieces.known():
            end = held.get(writer, NO_OFFSET) if known.stop == FAR else known.stop
            if known.first < stop < end:
                yield from end_of(observed.partition, writer, pieces, stop - 1)


def _is_gone(observed: Observed, writer: Writer, pieces: Pieces, gone: frozenset[str]) -> bool:
    """Whether all places of an epoch leave the map."""
    stored = (TargetsKey(observed.partition, writer, block.sequence).text for _, block in pieces.targets.stored())
    return all(key in gone for key in stored)


def _cut_places(observed: Observed, writer: Writer, target: int) -> tuple[list[Targets], list[str]]:
    """What leaves the map of an epoch from a target offset on: what is shortened, and keys of the rest."""
    changed, void = list[Targets](), list[str]()
    pieces = observed.map.pieces(writer)
    assert pieces is not None  # a writer has segments
    for _, block in pieces.targets.stored():
        left = cut(block.holes, target - block.offset)
        one = Targets(
            partition=observed.partition,
            writer=writer,
            sequence=block.sequence,
            target=block.offset,
            holes=left,
            after=block.after,
            torn=block.torn or block.holes.thinned,
        )
        if block.offset >= target:
            void.append(one.key)
        elif left != block.holes:
            changed.append(one)
    return changed, void


def _ends_of_cleaned(observed: Observed, writer: Writer, last: Last, position: int) -> dict[Writer, int]:
    """Before which counts epochs end whose records the cleaner has removed between the last record and the position."""
    if position <= last.source + 1:
        return {}
    mapped = observed.map.offsets(observed.progress, observed.ids, parted=False).below(position)
    held = {writer, *observed.lineage.newer(writer)}
    return {each: end for each, end in mapped.ends().items() if each in held}


def _with_cleaned(
    observed: Observed, writer: Writer, targets: tuple[Targets, ...], ends: Mapping[Writer, int], count: int
) -> tuple[Targets, ...]:
    """The same, but what the cleaner has removed behind the last record, ``count``, is known to have been there.

    A later loss that takes its place too has to see that. So newer epochs end behind what they had there, by ``ends``.
    """
    found, behind = list[Targets](), ends.get(writer, count + 1) % SEQUENCES
    for one in targets:
        is_end = (one.sequence, one.target) == ((count + 1) % SEQUENCES, NO_OFFSET)
        found.append(replace(one, sequence=behind) if is_end else one)
    for newer in observed.lineage.newer(writer):
        pieces = observed.map.pieces(newer)
        if pieces is not None and newer in ends:
            found += end_of(observed.partition, newer, pieces, ends[newer] - 1)
    return tuple(found)


def _unsound(observed: Observed, pieces: Pieces, found: list[TailBatch], near: int | None) -> Decision | None:
    """What to do where the log has batches of the flow and lacks what lay before them, or contradicts the progress."""
    writer, progress = _writer(found[0]), observed.progress
    if near is not None and progress is not None and near % SEQUENCES != progress.sequence:
        return _contradiction(writer)
    if writer == observed.lineage.newest and not _has_acknowledged(observed, writer):
        # Any leader takes the first batch of an epoch, whatever its log has lost of the epochs before.
        torn = _torn(observed, writer, found)
        if torn is not None:
            return torn
    cut = _cut_off(observed, writer)
    if cut is not None:
        return cut
    if near is None or progress is None:
        return None
    counted = [(pieces.count_of(b.sequence, near), b) for b in found]
    gap = find_gap(counted, Known(near, progress.target))
    return None if gap is None else _before_the_gap(observed, writer, pieces, gap)


def _before_the_gap(observed: Observed, writer: Writer, pieces: Pieces, gap: Gap) -> Decision:
    """The log lost its end, and then took more of the same epoch: all from the gap on is copied again.

    Where nothing of the epoch lies before the gap, what older epochs had may be gone too.
    """
    sound = None if gap.sound is None else pieces.source_of(gap.sound)
    if sound is None:
        return _before_the_first(observed, writer, gap.first)
    position = sound + 1
    last = observed.tail.high_watermark - 1
    text = (
        f"the target lost the end of its log, offsets from {gap.first} on that it had acknowledged, and has taken more "
        f"since: all from source offset {position} on is copied again; what lies from target offset {gap.first} to "
        f"{last} will be there twice"
    )
    assert gap.sound is not None  # or it has no source offset
    last_sound = Copied(writer=writer, sequence=gap.sound % SEQUENCES, source=sound, target=gap.first - 1)
    event = Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=gap.first, last=last)
    return _copied_again(observed, position, event, last_sound)


def _copied_again(observed: Observed, position: int, event: Event, sound: Copied | None) -> Resume:
    """All is copied again that was lost, and what has come in its place; the map ends with the last sound record."""
    pieces = None if sound is None else observed.map.pieces(sound.writer)
    ends: tuple[Targets, ...] = ()
    if sound is not None and pieces is not None:
        ends = end_of(observed.partition, sound.writer, pieces, pieces.count_of(sound.sequence))
    return Resume(position=position, last=None, targets=ends, event=event, anew=True)


def _torn(observed: Observed, writer: Writer, found: list[TailBatch]) -> Decision | None:
    """What to do where the log lacks what older epochs had acknowledged, and took the first batches of ``writer``."""
    tail, progress = observed.tail, observed.progress
    if observed.is_another_topic:
        return None  # what older epochs had acknowledged was in another topic of the name
    first = min(batch.base_offset for batch in found)
    began = _opening(observed, writer)
    if progress is not None and progress.writer == writer and progress.position != NO_OFFSET:
        began = min(began, progress.position)
    had = last_acknowledged(observed.map, progress, observed.lineage.older(writer), began)
    if not _lies_below(progress, first):
        if had is None or had.target < tail.start or observed.lineage.began_anew((writer,)):
            return None  # an epoch that began anew need not follow the one before, nor be in the same topic
        if had.target < tail.since:
            return ReadFrom(offset=had.target)
        if not is_missing(had, tail, cleaned=observed.may_be_cleaned(had.target)):
            return None
    return _before_the_first(observed, writer, first)


def _cut_off(observed: Observed, writer: Writer) -> Decision | None:
    """What to do where a lane was told that the log had been cut off, and others have filled what is missing.

    ``writer`` is the newest that the log has something of: nothing counts from where a newer one began anew.

    Where a broker raised its epoch without an election the lane was told so too, and nothing is missing.
    """
    tail, cut = observed.tail, NO_OFFSET if observed.progress is None else observed.progress.cut
    if cut == NO_OFFSET or observed.is_another_topic:
        return None
    writers = observed.lineage.on_record()
    before = [b for b in tail.batches if b.base_offset < cut]
    sound = last_record(observed.map, before, writers)
    if sound is None and tail.since > tail.start:
        return ReadFrom(offset=_further(observed, NO_OFFSET))
    behind = [b for b in tail.batches if b.base_offset >= cut and not b.control and _writer(b) in writers]
    if not behind:
        return None
    if sound is None:
        # What another log has below its start need not be what the map has there.
        since = min(cut, tail.start) if observed.is_another_log else tail.start
        position = mirrored_from(observed.map, writers, since)
        if position is not None and has_record(observed.map, behind, writers, position):
            return None  # the flow had written nothing before, and its first record is there
    else:
        position = missing_from(observed.map, observed.lineage, before, behind[0])
    if position is None:
        return None
    position, last = min([position, *_began(observed, writer)]), tail.high_watermark - 1
    text = (
        f"the target lost the end of its log, offsets from {cut} on that it had acknowledged, and has taken more "
        f"since: all from source offset {position} on is copied again; what the flow wrote from target offset "
        f"{behind[0].base_offset} to {last} will be there twice"
    )
    event = Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=cut, last=last)
    return _copied_again(observed, position, event, sound)


def _lies_below(progress: Progress | None, first: int) -> bool:
    """Whether the log was known to go beyond ``first`` before the newest writer sent anything."""
    return progress is not None and first < progress.reached.end


def _before_the_first(observed: Observed, writer: Writer, first: int) -> Decision:
    """All behind the last record of an older epoch that the log still has is copied again."""
    tail, older = observed.tail, observed.lineage.older(writer)
    sound = last_record(observed.map, [b for b in tail.batches if b.base_offset < first], older)
    if sound is None and tail.since > tail.start:
        return ReadFrom(offset=_further(observed, NO_OFFSET))
    began = [_opening(observed, writer)]
    if sound is None:
        lost, position = tail.start, mirrored_from(observed.map, older, tail.start)
    else:
        lost, position = sound.target + 1, sound.source + 1
        began += _began(observed, sound.writer)
    position = min(began if position is None else [position, *began])
    last = tail.high_watermark - 1
    text = (
        f"the target lost the end of its log, offsets from {lost} on that it had acknowledged, and has taken more "
        f"since: all from source offset {position} on is copied again; what the flow wrote from target offset {first} "
        f"to {last} will be there twice"
    )
    event = Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=lost, last=last)
    return _copied_again(observed, position, event, sound)


def _gone_from_the_source(pieces: Pieces, batch: TailBatch, began: tuple[int, ...]) -> Resume:
    """The log ends before all segments that are on record: those below the source's log start are removed from it.

    A newer writer that began anew copied from another log, which may have all of that.
    """
    position, end = min(pieces.first.offset, *began) if began else pieces.first.offset, batch.last_offset + 1
    text = (
        f"the target lost the end of its log from offset {end} on: everything from source offset {position} on is "
        "copied again; what the source no longer has is lost"
        if began
        else f"the target lost the end of its log from offset {end} on, and what it had there up to source offset "
        f"{position - 1} is gone from the source too: it cannot be copied again"
    )
    return Resume(
        position=position,
        last=None,
        event=Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=end),
        anew=bool(began),
    )


def _count(pieces: Pieces, writer: Writer, progress: Progress | None) -> int | None:
    """The count of the progress's last record, if this writer sent it."""
    if progress is None or progress.writer != writer or progress.sequence == NO_OFFSET:
        return None
    return pieces.count_of_last(progress.sequence, progress.source)


def _known(near: int | None, progress: Progress | None, count: int) -> Known | None:
    """The progress's last record as a place that is known, if the log still has it."""
    if near is None or progress is None or near > count or progress.target == NO_OFFSET:
        return None
    return Known(near, progress.target)


def _may_hide_newer(observed: Observed, writer: Writer, pieces: Pieces, count: int) -> bool:
    """Whether batches of a newer writer may lie before those read: the fence does not hold for unguarded data."""
    if observed.tail.since <= max(observed.tail.start, _hint(observed)) or not observed.lineage.newer(writer):
        return False
    return pieces.unguarded(count, count + 1)


def _position(observed: Observed, writer: Writer, last: Last) -> tuple[int, Event | None]:
    """The position behind the target's last record, and an event if the target had more before."""
    position, event = last.source + 1, None
    progress, began = observed.progress, _began(observed, writer)
    if progress is not None and observed.lineage.rank(progress.writer) >= observed.lineage.rank(writer):
        had = _had(observed, progress)
        event = _lost_since(observed, writer, last, min(position, *began)) if began else None
        if not began and had is not None and had.source > last.source:
            position, lost = _first_lost(observed, last, had)
            event = _lost(observed, position, lost, had)
        elif event is None and had is not None and had.source == last.source and _last_of(progress, writer):
            position = position if _had_more(observed, writer, last) else max(position, progress.position)
    return min([position, *began]), event


def _lost_since(observed: Observed, writer: Writer, last: Last, position: int) -> Event | None:
    """What newer writers had acknowledged and the log has not, where one of them began anew.

    Where an unclean election has brought a former leader back, its log has other records where theirs lay.
    """
    found, newer = _lost_across(observed, last, position), observed.lineage.newer(writer)
    places = [place for each in newer if (place := _first_and_last(observed, each)) is not None]
    first = min((target for _, _, target in places), default=FAR)
    if first > last.target:  # else it is another log: in one log what newer writers wrote lies behind
        return found if position > last.source else _with_copies(observed, found, last, position)
    sources = min(source for source, _, _ in places), max(source for _, source, _ in places)
    text = (
        f"a former leader of the target has come back, whose log has other records from offset {first} on: the target "
        f"lost what it had acknowledged since, source offsets {sources[0]} to {sources[1]}; everything from source "
        f"offset {position} on is copied again; what that log has of it will be there twice, and what the source no "
        "longer has is lost"
    )
    return Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=first, last=last.target if found is None else found.last)


def _with_copies(observed: Observed, found: Event | None, last: Last, position: int) -> Event | None:
    """The same, which says what the log has of what is copied again; where nothing is lost, if a former leader has."""
    text = f"what the target has from source offset {position} to {last.source} will be there twice"
    if found is not None:
        return replace(found, text=f"{found.text}; {text}")
    if not observed.is_another_log:
        return None
    text = f"a former leader of the target has come back: {text}"
    return Event(kind=Kind.MAY_REPEAT, text=text, first=position)


def _first_and_last(observed: Observed, writer: Writer) -> tuple[int, int, int] | None:
    """The source offsets of an epoch's first and last acknowledged records, and the target offset of the first."""
    pieces, progress = observed.map.pieces(writer), observed.progress
    settled = None if pieces is None else pieces.last_settled()
    if pieces is None or settled is None:
        return None
    first = next(pieces.known()).first
    source, last, target = pieces.source_of(first), pieces.source_of(settled.count), pieces.targets.offset_of(first)
    if source is None or last is None or target is None:
        return None
    if progress is not None and progress.writer == writer and progress.sequence != NO_OFFSET:
        last = max(last, progress.source)
    return source, last, target


def _lost_across(observed: Observed, last: Last, position: int) -> Event | None:
    """What the target had behind the log's last record, where a newer writer began anew since: by target offsets.

    Source offsets do not compare there: they may be those of another log, or copied a second time.
    """
    progress, tail, cut = observed.progress, observed.tail, observed.cut
    before = last_acknowledged(observed.map, progress, observed.map.writers(observed.ids), FAR)
    had = max(NO_OFFSET if each is None else each.target for each in (progress, before))
    if had < tail.high_watermark and _lies_nothing(tail, had) and observed.may_be_cleaned(had):
        had = NO_OFFSET
    if progress is not None and progress.sequence == NO_OFFSET and last.target < cut < progress.reached.end:
        had = max(had, progress.reached.end - 1)  # of the epoch before it is only known how far the log went
    if had <= last.target:
        return None
    first = cut if last.target < cut <= had else last.target + 1
    text = (
        f"the target lost the end of its log, offsets {first} to {had}, that it had acknowledged: everything from "
        f"source offset {position} on is copied again; what the source no longer has is lost"
    )
    return Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=first, last=had)


def _lies_nothing(tail: Tail, target: int) -> bool:
    """Whether no batch that was read covers a target offset."""
    return not any(batch.base_offset <= target <= batch.last_offset for batch in tail.batches)


def _first_lost(observed: Observed, last: Last, had: Stretch) -> tuple[int, int]:
    """The source and target offset from which on records are lost, of which ``had`` was the last.

    What lies behind the last record of the log, and before the offset at which it was cut off, the cleaner has removed.
    """
    if last.target < observed.cut <= had.target:
        source = observed.map.offsets(observed.progress, observed.ids, parted=False).target_to_source(observed.cut)
        if source is not None and last.source < source <= had.source:
            return source, observed.cut
    return last.source + 1, last.target + 1


def _began(observed: Observed, writer: Writer) -> tuple[int, ...]:
    """Where newer writers began anew: from there on the source, or the target topic, is not what ``writer`` knew.

    A place at which nothing was copied does not count once a newer writer has begun anew at another one.
    """
    lineage, progress = observed.lineage, observed.progress
    anew = [newer for newer in lineage.newer(writer) if lineage.began_anew((newer,))]
    last = anew[-1:]
    began = []
    if progress is not None and progress.position != NO_OFFSET and lineage.began_anew(lineage.sent_nothing(writer)):
        began, last = [progress.position], []
    return (
        *(_opening(observed, newer) for newer in anew if newer in last or _has_acknowledged(observed, newer)),
        *began,
    )


def _had(observed: Observed, progress: Progress) -> Stretch | None:
    """The last record that was acknowledged, by the progress, or by the map where its writer has sent nothing yet."""
    if progress.sequence != NO_OFFSET:
        return Stretch(progress.source, progress.target, 1)
    return observed.map.offsets(progress, observed.ids, parted=False).end()


def _cleaned(observed: Observed, writer: Writer, last: Last) -> Stretch | None:
    """The last acknowledged record, if it lay behind the log's last one, and the log cleaner has removed it.

    The log then goes on behind its offset, and has nothing there. What a truncation took others may have filled, and
    the cleaner may have removed of that what lies at this offset.
    """
    tail, progress = observed.tail, observed.progress
    if progress is None or observed.lineage.rank(progress.writer) < observed.lineage.rank(writer):
        return None
    had = _had(observed, progress)
    if had is None or not tail.since <= had.target < tail.high_watermark:
        return None
    if had.target <= last.target if _began(observed, writer) else had.source <= last.source:
        return None
    if not observed.may_be_cleaned(had.target):
        return None
    mapped = observed.map.offsets(progress, observed.ids, parted=False)
    behind = [batch for batch in tail.batches if batch.base_offset > last.target]
    filled = not _lies_nothing(tail, had.target)
    return None if filled or any(mapped.has(batch.base_offset, batch.last_offset) for batch in behind) else had


def _last_of(progress: Progress, writer: Writer) -> bool:
    """Whether the progress lies behind the last record of ``writer``: it wrote it, or its own writer sent nothing."""
    return progress.writer == writer or progress.sequence == NO_OFFSET


def _had_more(observed: Observed, writer: Writer, last: Last) -> bool:
    """Whether the log once had records behind the last one: a driver that found them lost may have died over it."""
    pieces, progress = observed.map.pieces(writer), observed.progress
    count = None if pieces is None else pieces.count_at(last.source)
    if progress is not None and progress.source > last.source:
        return True
    if pieces is None or count is None:
        return False
    return any(end > count + 1 for end in pieces.ends) or _acknowledged_behind(observed, writer, count)


def _acknowledged_behind(observed: Observed, writer: Writer, count: int) -> bool:
    """Whether a progress that does not name its last record tells of one behind ``count`` of ``writer``."""
    progress = observed.progress
    pieces = None if progress is None else observed.map.pieces(progress.writer)
    if progress is None or pieces is None or progress.sequence != NO_OFFSET:
        return False
    behind = count + 1 if progress.writer == writer else pieces.first.count
    return pieces.count_of(progress.next_sequence, behind) > behind


def _lost(observed: Observed, position: int, end: int, had: Stretch) -> Event:
    """The log ends at ``end``, and ``had`` was the last acknowledged record."""
    count = observed.map.offsets(observed.progress, observed.ids).count(position, had.source + 1)
    what = f"the target lost the end of its log, offsets {end} to {had.target}: {count} records"
    if had.target < end:
        what = f"a former leader of the target has come back, whose log lacks {count} records"
    text = (
        f"{what} that it had acknowledged, source offsets {position} to {had.source}; those that the source still has "
        "are copied again"
    )
    return Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=end, last=had.target if had.target >= end else NO_OFFSET)


def _nothing_of_ours(observed: Observed) -> Decision:
    """No batch is left in the log that the records know of."""
    progress = observed.progress
    if progress is not None and observed.is_another_topic:
        return _made_anew(observed, progress)
    mapped = observed.map.offsets(progress, observed.ids)
    had = mapped.end()
    first = mapped.first()
    if had is not None and first is not None and observed.is_another_log and first.target < observed.tail.start:
        return _nothing_left(observed, first.source, had)
    # Others may have written to a log that was torn: then their batches lie where ours were.
    torn = min(
        [
            _end(observed.tail),
            *(b.base_offset for b in observed.tail.batches if mapped.has(b.base_offset, b.last_offset)),
        ]
    )
    if had is not None and not observed.may_be_cleaned(had.target):
        torn = min(torn, max(observed.cut, observed.tail.start))
    if had is not None and torn <= had.target:
        return _lost_all(observed, had, torn)
    decision = _by_what_is_known(observed, had)
    lost = _lost_before(observed, decision.position, torn) if isinstance(decision, Resume | Begin) else None
    if lost is None or not isinstance(decision, Resume | Begin):
        return decision
    text = lost.text if decision.event is None else f"{lost.text}; {decision.event.text}"
    event = replace(lost, text=text)
    if isinstance(decision, Begin):
        return Resume(position=decision.position, last=None, event=event)
    return replace(decision, event=event)


def _nothing_left(observed: Observed, position: int, had: Stretch) -> Resume:
    """The leader has not what was acknowledged last, and retention has left nothing of the flow in its log.

    It may be a former leader that has come back: places on the map are those of another log then, and nothing tells how
    far the copy had come in this one.
    """
    text = (
        "the target lost the end of its log in an unclean election, and retention has left nothing of this flow before "
        f"offset {observed.tail.high_watermark}, so nothing tells how far its leader had come: all that the source has "
        f"from offset {position} to {had.source} is copied again, and may be there twice"
    )
    event = Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=observed.tail.start, last=had.target)
    return Resume(position=position, last=None, event=event)


def _lost_before(observed: Observed, position: int, torn: int) -> Event | None:
    """What the target had behind the place at which its log was torn, of which no epoch that holds knows any more.

    An order, or another source topic, had the copy begin at ``position`` since, and nothing has come of that yet.
    """
    progress = observed.progress
    if progress is None or observed.is_another_topic:
        return None
    before = last_acknowledged(observed.map, progress, observed.map.writers(observed.ids), FAR)
    if observed.cut != NO_OFFSET:  # others may have filled what is missing
        torn = min(torn, max(observed.cut, observed.tail.start))
    if before is None or before.target < torn or observed.may_be_cleaned(before.target):
        return None
    text = (
        f"the target lost the end of its log, offsets {torn} to {before.target}, that it had acknowledged: everything "
        f"from source offset {position} on is copied again; what the source no longer has is lost"
    )
    return Event(kind=Kind.TARGET_TAIL_LOST, text=text, first=torn, last=before.target)


def _by_what_is_known(observed: Observed, had: Stretch | None) -> Decision:
    """The log has nothing of what was acknowledged last, ``had``, and has not lost it in a truncation."""
    progress, end = observed.progress, _end(observed.tail)
    writers = observed.map.writers(observed.ids)
    if not writers or (
        progress is not None and observed.lineage.rank(writers[-1]) < observed.lineage.rank(progress.writer)
    ):
        return _nothing_sent(observed, had)
    if had is None or not _has_acknowledged(observed, writers[-1]):
        return _opened_only(observed, writers[-1], had, end)
    return _behind(observed, writers[-1], had, end)


def _has_acknowledged(observed: Observed, writer: Writer) -> bool:
    """Whether a record of that writer is known to be acknowledged."""
    pieces, progress = observed.map.pieces(writer), observed.progress
    settled = pieces is not None and pieces.last_settled() is not None
    return settled or (progress is not None and progress.writer == writer and progress.sequence != NO_OFFSET)


def _nothing_sent(observed: Observed, had: Stretch | None) -> Resume | Begin:
    """The newest writer has sent nothing: its segments would be on record."""
    progress = observed.progress
    if progress is None or progress.position == NO_OFFSET:
        return Begin(position=observed.start)
    position = progress.position if had is None else max(progress.position, had.source + 1)
    event = _sent_nevertheless(observed, progress, had, position)
    if had is None:
        return Begin(position=position, event=event)
    last = Last(sequence=progress.sequence, source=had.source, target=had.target)
    return Resume(position=position, last=last, event=event)


def _sent_nevertheless(observed: Observed, progress: Progress, had: Stretch | None, position: int) -> Event | None:
    """What a log says that only the flow writes, and that goes beyond what is on record: more was sent than that.

    Where it is not on record how far the log went, behind ``had`` lies the marker of the fence with which it began.
    """
    inherited = 0 if observed.inherited is None else observed.inherited.end
    first = max(inherited, progress.target + 1, progress.reached.end)
    if had is not None:
        first = max(first, had.target + (2 if progress.reached.end == NO_OFFSET else 1))
    missing = _missing(observed.tail, first, _end(observed.tail))
    if not observed.sole_writer or missing <= 0:
        return None
    text = (
        f"the target's log has gone beyond offset {first}, and {missing} offsets from there on are gone: the flow's "
        f"internal topic may have lost what it had of them; going on at source offset {position}: up to {missing} "
        "records from there on may be there twice"
    )
    return Event(kind=Kind.MAY_REPEAT, text=text, first=position)


def _behind(observed: Observed, writer: Writer, had: Stretch, end: int) -> Decision:
    """The newest writer's last acknowledged record is known; the log has nothing of it: was there more?"""
    pieces, progress = observed.map.pieces(writer), observed.progress
    count = None if pieces is None else pieces.count_at(had.source)
    if pieces is None or count is None:
        return _contradiction(writer)
    position = had.source + 1
    if progress is not None and progress.source == had.source:
        position = max(position, progress.position)
    last = Last(sequence=count % SEQUENCES, source=had.source, target=had.target)
    missing = _missing(observed.tail, had.target + 1, end)
    ends = end_of(observed.partition, writer, pieces, count)
    if missing == 0:
        return Resume(position=position, last=last, targets=ends)
    if observed.sole_writer:
        return _by_the_logs_end(observed, writer, last, count, missing)
    text = (
        "the target topic has nothing of this flow any more, and others write it, so its end tells nothing; going on "
        f"at source offset {position}, behind the last acknowledged record: what was sent after it and not "
        "acknowledged may be there twice"
    )
    return Resume(position=position, last=last, targets=ends, event=Event(kind=Kind.NOTE, text=text, first=position))


def _made_anew(observed: Observed, progress: Progress) -> Begin:
    """The target topic is another one: what the old one had is gone; nothing that is still to be copied is left out."""
    known = progress.position != NO_OFFSET
    position = min(observed.start, progress.position) if known else observed.start
    text = f"the target topic was made anew, without what was copied up to source offset {progress.position}"
    return Begin(position=position, event=Event(kind=Kind.TARGET_RECREATED, text=text))


def _opening(observed: Observed, writer: Writer) -> int:
    pieces = observed.map.pieces(writer)
    return observed.start if pieces is None else pieces.first.offset


def _opened_only(observed: Observed, writer: Writer, had: Stretch | None, end: int) -> Begin:
    """The newest writer wrote segments ahead, and none of its records is known to be acknowledged.

    Target offsets behind ``had``, what was acknowledged before, that retention removed may have been records of it.
    """
    position = _opening(observed, writer)
    if _missing(observed.tail, 0 if had is None else had.target + 1, end) == 0:
        return Begin(position=position)
    text = (
        f"the target topic has nothing of this flow any more; going on at source offset {position}: what "
        f"{_name(writer)} sent from there on and was not acknowledged may be there twice"
    )
    return Begin(position=position, event=Event(kind=Kind.NOTE, text=text, first=position))


def _end(tail: Tail, ids: Collection[int] | None = None) -> int:
    """The log's end without the markers at it, of these producers if any are given."""
    end = tail.high_watermark
    for batch in reversed(tail.batches):
        if not batch.control or batch.last_offset + 1 != end or not (ids is None or batch.producer_id in ids):
            break
        end = batch.base_offset
    return end


def _missing(tail: Tail, first: int, end: int) -> int:
    """How many offsets from ``first`` to before ``end`` the log does not have any more."""
    seen = sum(max(0, min(b.last_offset + 1, end) - max(b.base_offset, first)) for b in tail.batches)
    return end - first - seen


def _lost_all(observed: Observed, had: Stretch, end: int) -> Resume:
    """The log was torn at ``end``, below what was acknowledged, and has nothing else of the flow."""
    mapped = observed.map.offsets(observed.progress, observed.ids)
    position = mapped.target_to_source(end)
    if position is None:
        position = next(iter(mapped)).source
    return Resume(position=position, last=None, event=_lost(observed, position, end, had))


def _by_the_logs_end(observed: Observed, writer: Writer, last: Last, count: int, missing: int) -> Decision:
    """Retention or the log cleaner removed what came last: the offsets used since are records, or markers of fences.

    Each raise of the epoch may have left one marker. The newest is there to see; of the others as many records are
    repeated as there may be markers that nobody sees any more.
    """
    fence, pieces, markers = observed.fence, observed.map.pieces(writer), missing
    if fence is not None and fence.producer_id == writer.producer_id:
        markers = min(missing, max(0, fence.epoch - writer.epoch - 1))
    count += missing - markers
    source = None if pieces is None else pieces.source_of(count)
    if pieces is None or source is None:
        return _contradiction(writer)
    text = (
        "retention or the log cleaner removed what this flow wrote last; by the end of the log the target has had "
        f"the records up to source offset {source}"
    )
    if markers:
        text += f"; up to {markers} records from there on may be there twice"
    position = source + 1
    found = Last(sequence=count % SEQUENCES, source=source, target=last.target + missing)
    event = Event(kind=Kind.NOTE, text=text, first=position)
    ends = end_of(observed.partition, writer, pieces, count)
    return Resume(position=position, last=None if markers else found, targets=ends, event=event)


_FORGED = "see who has WRITE on the target topic, and delete it: it is copied anew"
_ANEW = (
    "restore the flow's internal topic; or delete the target topic and the internal topic, and the flow copies "
    "everything anew"
)

_ANEW_ALONE = (
    "the flow's internal topic has lost all that it had of this partition: restore it; or delete the target topic, and "
    "the flow copies it anew, from where a topic without a position begins"
)


def _no_segment(observed: Observed, batch: TailBatch) -> Stuck:
    reason = (
        f"its target has the record with sequence {_last_sequence(batch)} of {_name(_writer(batch))} at offset "
        f"{batch.last_offset}, but no segment on record says which source offset that is"
    )
    remedy = _ANEW if observed.progress is not None or observed.lineage.on_record() else _ANEW_ALONE
    return Stuck(error=_said(reason, f"{remedy}; where somebody who may write to the copy has forged it, {_FORGED}"))


def _contradiction(writer: Writer) -> Stuck:
    return Stuck(error=_said(f"progress and segments of {_name(writer)} contradict each other", _ANEW))


def _last_sequence(batch: TailBatch) -> int:
    return (batch.sequence + batch.last_offset - batch.base_offset) % SEQUENCES


def _name(writer: Writer) -> str:
    return f"producer id {writer.producer_id}, epoch {writer.epoch}"


def _said(reason: str, remedy: str) -> str:
    return f"it cannot be taken over: {reason}: {remedy}"
