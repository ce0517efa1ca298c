"""Where each partition begins when a flow starts, when it is tried again, or when it is added to a flow: pure.

Rules, in order; wherever they lead, an operator's order to go on elsewhere wins:
    1. the source topic was made anew: its oldest record;
    2. the target topic was made anew: the source's oldest record, or the position, as ``on.target.recreated`` says;
    3. the source lost its tail in an unclean election: where the two histories part;
    4. where a takeover or a settled stop says;
    5. the newest progress on record;
    6. the start that the configuration says. Where that is may depend on the moment, so `planning` puts it on record
       before a lane has the partition: it is decided once.

Invariants: 1 to 3 are events with exact offsets, and settings may stop the partition instead, until an operator orders
it to go on: that is the answer that a stop waits for. What the flow orders itself is none. A partition that goes back,
or on into another topic, takes the first sequence number of its group's writer, whose epoch the caller has raised since
the partition was last handed out (`sparkmirror.events.ANEW`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparkmirror.config import GoOn, Policies, Refill
from sparkmirror.copy.plan import PartitionPlan, group_of
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.events import Event, Kind
from sparkmirror.model import (
    NO_OFFSET,
    NO_RECORD,
    NOTHING,
    UNKNOWN,
    Copied,
    LastRecord,
    Reached,
    TopicPartition,
    Writer,
)
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.recovery import UNKNOWN_MS, Answer, recovery_ms
from sparkmirror.offsets.source_history import UNDEFINED, Begun, EpochEnd

_STANDS_STILL = f"the copy stands still until on.source.tail.lost is {GoOn.CONTINUE.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Where a partition goes on that was handed out before, as a takeover or its own settled stop tells.

    Attributes:
        position: the next source offset to copy.
        writer: producer id and epoch to go on with.
        sequence: the next sequence number of that epoch.
        opened: whether the epoch's opening segment is on record.
        event: what its operator should know of it, or None.
        anew: whether that epoch began anew, see `sparkmirror.offsets.records.Segment`.
        reached: how far the target's log is known to go.
        last: the last record of that epoch that was acknowledged.
    """

    position: int
    writer: Writer
    sequence: int = 0
    opened: bool = False
    event: Event | None = None
    anew: bool = False
    reached: Reached = UNKNOWN
    last: LastRecord = NO_RECORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known when positions are decided.

    Attributes:
        progress: the newest of each partition.
        topic_ids, target_ids: of the source and target topics, "" where the brokers are too old to have them.
        starts: where a partition without a position begins.
        oldest: where each source log begins.
        ends: where to stop, for a copy that ends; empty otherwise.
        targets: target topic → facts.
        writers: one for each group of partitions.
        copied: what this run did with a partition already.
        resumed: partitions that were handed out before in this run, or were taken over.
        left_of: the leader epoch of the source's batch left of each position, or of a later one; -1 if nobody knows.
        epochs: up to where the source's log is what was copied of it, by these.
        histories: the leader epochs of the source that were copied of the topic that is there now.
        log_ends: where the source's log ends, for those whose leader epoch nobody knows.
        on: what is done when source or target were changed.
        moves: where an operator wants partitions to go on.
        homeward: where the flow itself wants them to go on, behind what cannot be told from its own; these come first.
        floors: recovery points that are known to be later than those on record.
        answers: what the source just said of where its logs end.
        newest: the newest leader epoch of source logs, of before it was asked for starts; where one begins behind the
            log's first record, or goes on by an order that names none.
        ordered: where the leader epochs that orders name end in the source's log now.
        late: partitions that are to begin at the end of their logs, and are found by a flow that has begun already.
    """

    progress: Mapping[TopicPartition, Progress]
    topic_ids: Mapping[str, str]
    starts: Mapping[TopicPartition, int]
    oldest: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    targets: Mapping[str, TargetFacts]
    writers: Sequence[Writer]
    copied: Mapping[TopicPartition, Copied]
    resumed: Mapping[TopicPartition, Resumed] = field(default_factory=dict)
    target_ids: Mapping[str, str] = field(default_factory=dict)
    left_of: Mapping[TopicPartition, int] = field(default_factory=dict)
    epochs: Mapping[TopicPartition, EpochEnd] = field(default_factory=dict)
    histories: Mapping[TopicPartition, Sequence[Begun]] = field(default_factory=dict)
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    on: Policies = field(default_factory=Policies)
    moves: Mapping[TopicPartition, MoveOrder] = field(default_factory=dict)
    homeward: Mapping[TopicPartition, MoveOrder] = field(default_factory=dict)
    floors: Mapping[TopicPartition, int] = field(default_factory=dict)
    answers: Mapping[TopicPartition, Answer] = field(default_factory=dict)
    newest: Mapping[TopicPartition, int] = field(default_factory=dict)
    ordered: Mapping[TopicPartition, EpochEnd] = field(default_factory=dict)
    late: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where one partition begins, and what its operator should know of it.

    Attributes:
        plan: for a lane.
        event: what happened, or None.
        also: what happened to the target topic besides, or None.
        moved: whether an operator's order is obeyed hereby.
        only_moved: whether nothing but that order is why it goes on elsewhere.
        instead_of: where it would go on without that order, or `NO_OFFSET` where there is none.
        first: whether no position is on record, so that the configuration says where it begins.
        anew: whether the copy goes back, or on elsewhere or in another topic: what is on record does not lead here.
        end: where the source's log ends now, or `NO_OFFSET`.
        parted: where the source's log parts from what was copied, or the target's has lost it, if the copy goes on
            further on, or if it is another topic, which has nothing of it; else `NO_OFFSET`.
    """

    plan: PartitionPlan
    event: Event | None = None
    moved: bool = False
    only_moved: bool = False
    instead_of: int = NO_OFFSET
    first: bool = False
    anew: bool = False
    end: int = NO_OFFSET
    parted: int = NO_OFFSET
    also: Event | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        """All that happened."""
        return tuple(event for event in (self.event, self.also) if event is not None)

    @property
    def kept(self) -> int:
        """Up to where what was copied of the source's log is what it has."""
        return _kept(self.plan.position, self.parted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """A partition that does not begin now, and why."""

    source: TopicPartition
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A source offset, how it came to be, and whether the copy goes back to it or on into another topic.

    ``leader_epoch`` is one that the source's log has up to there, or -1: by it the leader sees whether it still does.
    """

    position: int
    leader_epoch: int = -1
    event: Event | None = None
    anew: bool = False
    stop: bool = False
    moved: bool = False
    only_moved: bool = False
    instead_of: int = NO_OFFSET
    first: bool = False
    parted: int = NO_OFFSET
    also: Event | None = None


def decide_start(source: TopicPartition, target: TopicPartition, known: Known) -> Start | Stand:
    """Decides whether and where ``source`` begins, and with which sequence number of which writer."""
    topic_id = known.topic_ids.get(source.topic, "")
    place = _moved(source, target, known, topic_id)
    if place.stop and place.event is not None:
        return Stand(source=source, event=place.event)
    plan = PartitionPlan(
        source=source,
        target_topic=target.topic,
        topic_id=topic_id,
        target_id=known.target_ids.get(target.topic, ""),
        position=place.position,
        until=known.ends.get(source, NO_OFFSET),
        writer=known.writers[group_of(source, len(known.writers))],
        copied=known.copied.get(source, NOTHING),
        leader_epoch=place.leader_epoch,
        epoch_on_record=max(
            (
                one.epoch
                for one in known.histories.get(source, ())
                if not is_dead(one, _kept(place.position, place.parted), place.leader_epoch, anew=place.anew)
            ),
            default=-1,
        ),
        anew=place.anew,
        recovery_ms=_recovery_ms(source, place, known),
        copies_end=_copies_end(known.progress.get(source), topic_id, place.position),
    ).with_facts(known.targets[target.topic])
    resumed, progress = known.resumed.get(source), known.progress.get(source)
    plan = replace(plan, reached=_reached(plan, resumed, progress))
    if resumed is not None and not place.anew:
        plan = replace(
            plan,
            writer=resumed.writer,
            sequence=resumed.sequence,
            opened=resumed.opened,
            last=resumed.last,
            anew=resumed.anew,
        )
    elif progress is not None and not place.anew:
        # An epoch that sent nothing left no segment to say that it began anew: the next one says so.
        plan = replace(plan, anew=progress.anew and progress.sequence == NO_OFFSET, last=_before(plan, progress))
    if place.parted != NO_OFFSET and not plan.opened:
        plan = replace(plan, last=NO_RECORD)  # the source may have lost that record
    end = known.answers[source].end if source in known.answers else NO_OFFSET
    return Start(
        plan=plan,
        event=place.event,
        moved=place.moved,
        only_moved=place.only_moved,
        instead_of=place.instead_of,
        first=place.first,
        anew=place.anew,
        end=end,
        parted=place.parted,
        also=place.also,
    )


def _before(plan: PartitionPlan, progress: Progress) -> LastRecord:
    """The record that a new epoch comes after which goes on where the one on record has ended in order."""
    if progress.target_id and plan.target_id and progress.target_id != plan.target_id:
        return NO_RECORD
    before = progress.last.only_before()
    return before if before.before_source < plan.position else NO_RECORD


def _reached(plan: PartitionPlan, resumed: Resumed | None, progress: Progress | None) -> Reached:
    """How far the target's log is known to go, wherever on the source the copy goes on; unknown in another topic."""
    if progress is not None and progress.target_id and plan.target_id and progress.target_id != plan.target_id:
        return UNKNOWN
    if resumed is not None:
        return resumed.reached
    return UNKNOWN if progress is None else progress.reached


def _leader_epoch(source: TopicPartition, known: Known) -> int:
    """The epoch of the batch left of the position, by which the source's leader sees whether it still has that."""
    end = known.epochs.get(source)
    return known.left_of.get(source, -1) if end is None else end.epoch


def _kept(position: int, parted: int) -> int:
    return position if parted == NO_OFFSET else min(position, parted)


def is_dead(begun: Begun, position: int, leader_epoch: int, *, anew: bool) -> bool:
    """Whether the begin of a leader epoch does not count where a partition goes on.

    Epochs above that of the position are not of the log that is there now, or begin behind it and are met again. Where
    a copy goes back or on elsewhere, what begins there or behind is met again, at its true begin; where nothing is
    known of the log there, nothing counts.

    Args:
        begun: as it is on record.
        position: where the partition goes on, or where the source's log parts from what was copied, if that is before.
        leader_epoch: of the batch left of where it goes on, or a later one; -1 if nobody knows.
        anew: as in `Start`.
    """
    if anew and (leader_epoch < 0 or begun.offset >= position):
        return True
    return 0 <= leader_epoch < begun.epoch


def _copies_end(before: Progress | None, topic_id: str, position: int) -> int:
    """Up to where copies of the flow the other way were met; those behind the position are met again."""
    if before is None or (topic_id and before.topic_id and before.topic_id != topic_id):
        return NO_OFFSET
    return min(before.copies_end, position)


def _recovery_ms(source: TopicPartition, place: _Place, known: Known) -> int:
    """The recovery point so far: lost where the copy goes back, or on elsewhere; this moment where nothing waits."""
    progress, so_far = known.progress.get(source), UNKNOWN_MS
    if progress is not None and not place.anew and place.position >= progress.position:
        # What was known of a lane's position does not hold for one that the driver has put on record since.
        so_far = max(progress.recovery_ms, known.floors.get(source, UNKNOWN_MS) if progress.lane else UNKNOWN_MS)
    answer = known.answers.get(source)
    return recovery_ms(so_far, position=place.position, answer=answer, newest_ms=-1, asked_ms=UNKNOWN_MS)


def _place(source: TopicPartition, target: TopicPartition, known: Known) -> _Place:
    progress, resumed = known.progress.get(source), known.resumed.get(source)
    position = resumed.position if resumed else progress.position if progress else NO_OFFSET
    if position == NO_OFFSET:
        event = _begins_late(source, known)
        return _Place(position=known.starts[source], leader_epoch=known.newest.get(source, -1), event=event, first=True)
    if progress is not None:
        for rule in (_both_recreated, _source_recreated, _target_recreated, _tail_lost):
            place = rule(progress, position, target, known)
            if place is not None:
                return place
    epoch = _leader_epoch(source, known) if progress is not None else -1
    event = resumed.event if resumed else None
    if event is not None and event.kind is Kind.FORGED_BATCH and known.on.source_tail_lost is GoOn.STOP:
        # Nothing but the records differs: the source may have lost them, and others may be there since.
        event = replace(event, text=f"{event.text}; {_STANDS_STILL}")
        return _Place(position=position, leader_epoch=epoch, event=event, stop=True)
    return _Place(position=position, leader_epoch=epoch, event=event)


def _begins_late(source: TopicPartition, known: Known) -> Event | None:
    """What a partition has not copied that has come, or was found, since the flow began; its start says so."""
    oldest, start = known.oldest.get(source, NO_OFFSET), known.starts[source]
    if source not in known.late or not NO_OFFSET < oldest < start:
        return None
    text = (
        f"it begins at offset {start}, the end of its log, as its start position says; offsets {oldest} to {start - 1} "
        "are not copied, though the flow had begun: positions set --to earliest has them copied too"
    )
    return Event(kind=Kind.NOTE, text=text, first=oldest, last=start - 1)


def _moved(source: TopicPartition, target: TopicPartition, known: Known, topic_id: str) -> _Place:
    """The place that an operator ordered instead, unless that was in another topic of the name.

    Where the source's log has lost its end since, what it has in the place of that is not what was to be left out. Of
    one that went back as a whole and no longer knows the leader epoch, only what was copied has been compared. Such an
    order does not end a stop either: who gave it did not know of the loss.
    """
    place, ordered = _place(source, target, known), known.moves.get(source)
    if ordered is not None and ordered.topic_id and topic_id and ordered.topic_id != topic_id:
        ordered = None
    if place.stop:
        if ordered is None or not _is_answered(source, target, place, ordered, known):
            return place
        place = _place(source, target, replace(known, on=_without_stops(known.on)))
    order = known.homeward.get(source, ordered)
    if order is None:
        return place
    still = _still(source, place, known, order)
    to, epoch = min(order.to, still.end), still.epoch
    if order is ordered and to == order.to and _stands_there(place, to):
        text = f"goes on at offset {to}, where it stands, as {order.by} has ordered: nothing is copied again"
        return replace(place, event=Event(kind=Kind.MOVED, text=text, first=to, last=to), moved=True)
    text = f"moved from offset {place.position} to offset {to}, as {order.by} has ordered"
    if to < order.to:
        text = (
            f"moved from offset {place.position} to offset {to}: the source has lost its tail since {order.by} ordered "
            f"it to go on at offset {order.to}, and has other records there"
        )
    first, last = sorted((place.position, to))
    if place.event is not None:
        text = f"{place.event.text}; {text}"
    event = Event(kind=Kind.MOVED, text=text, first=first, last=max(first, last - 1))
    if place.event is not None and to == place.position:
        event = place.event  # it goes there anyway
    lost = place.event is not None and place.event.kind in (Kind.SOURCE_TAIL_LOST, Kind.TARGET_TAIL_LOST)
    least = place.position if place.parted == NO_OFFSET else place.parted
    back = lost and to < least  # both: older copies hold below the loss, as far as they have not been copied again
    parted = least if lost and to != least else place.parted
    alone = (place.event is None or back) and to == order.to
    return _Place(
        position=to,
        leader_epoch=epoch,
        event=event,
        anew=True,
        moved=True,
        only_moved=alone,
        instead_of=place.position,
        parted=parted,
        also=place.also,
    )


def _stands_there(place: _Place, to: int) -> bool:
    """Whether an order changes nothing: an epoch that begins anew would end there what an order before it has begun.

    Between the last record and the position may lie markers, so nothing would tell that one has come as far as that.
    """
    return to == place.position and place.event is None and not place.first and not place.anew


def _is_answered(source: TopicPartition, target: TopicPartition, place: _Place, order: MoveOrder, known: Known) -> bool:
    """Whether an order was given of the target topic that is there, if it is another one, and of the log that is there.

    A log is the one that was meant if it has the leader epoch that the order names, up to there.
    """
    if place.event is not None and place.event.kind is Kind.TARGET_RECREATED:
        return bool(order.target_id) and order.target_id == known.target_ids.get(target.topic, "")
    end = known.ordered.get(source)
    return order.leader_epoch < 0 or end is None or (end.epoch == order.leader_epoch and end.end >= order.to)


def _still(source: TopicPartition, place: _Place, known: Known, order: MoveOrder) -> EpochEnd:
    """Up to where the source's log is the one that an order means, at least up to there where nothing tells."""
    end = known.ordered.get(source) if order is known.moves.get(source) else None
    if end is None:
        return EpochEnd(known.newest.get(source, -1), order.to)
    return end if end.end != UNDEFINED else EpochEnd(place.leader_epoch, place.position)


def _without_stops(on: Policies) -> Policies:
    """What is done in place of a stop where an operator orders a partition to go on: what needs no records again."""
    refill = Refill.POSITION if on.target_recreated is Refill.STOP else on.target_recreated
    return replace(on, source_tail_lost=GoOn.CONTINUE, source_recreated=GoOn.CONTINUE, target_recreated=refill)


def _both_recreated(progress: Progress, position: int, target: TopicPartition, known: Known) -> _Place | None:
    """A new source topic is copied from its oldest record, so ``on.target.recreated`` can only add a stop to that."""
    of_source = _source_recreated(progress, position, target, known)
    of_target = _target_recreated(progress, position, target, known)
    if of_source is None or of_target is None or of_source.event is None or of_target.event is None:
        return None
    if of_source.stop or of_target.stop:
        # Where the target's setting stops it, an order that ends the stop has to mean both topics.
        told = of_target.event if of_target.stop else of_source.event
        event = replace(told, text=f"{of_source.event.text}; {of_target.event.text}")
        return replace(of_source, event=event, stop=True)
    done = f"the new source topic is copied from its oldest record, offset {of_source.position}"
    return replace(of_source, also=_of_another_target(progress, position, target, known, done))


def _source_recreated(progress: Progress, position: int, _target: TopicPartition, known: Known) -> _Place | None:
    source = progress.partition
    now = known.topic_ids.get(source.topic, "")
    if not progress.topic_id or not now or progress.topic_id == now:
        return None
    oldest, stop = known.oldest[source], known.on.source_recreated is GoOn.STOP
    done = (
        f"the copy stands still until on.source.recreated is {GoOn.CONTINUE.value}"
        if stop
        else f"going on from its oldest record, offset {oldest}"
    )
    text = (
        f"the source topic was deleted and made anew (its topic id was {progress.topic_id}, now it is {now}); of the "
        f"old one all below offset {position} was copied; {done}"
    )
    event = Event(kind=Kind.SOURCE_RECREATED, text=text, first=position, last=position)
    return _Place(position=oldest, event=event, anew=True, stop=stop, parted=0)


def _target_recreated(progress: Progress, position: int, target: TopicPartition, known: Known) -> _Place | None:
    now = known.target_ids.get(target.topic, "")
    if not progress.target_id or not now or progress.target_id == now:
        return None
    oldest = known.oldest[progress.partition]
    choice = known.on.target_recreated
    done = {
        Refill.OLDEST: f"copying again from the source's oldest record, offset {oldest}",
        Refill.POSITION: f"going on from offset {position}: what was copied before is not there any more",
        Refill.STOP: "the copy stands still until on.target.recreated says from where it goes on",
    }[choice]
    event = _of_another_target(progress, position, target, known, done)
    stop = choice is Refill.STOP
    if choice is Refill.OLDEST:
        return _Place(position=oldest, event=event, anew=True)
    epoch = _leader_epoch(progress.partition, known)
    return _Place(position=position, leader_epoch=epoch, event=event, anew=True, stop=stop)


def _of_another_target(progress: Progress, position: int, target: TopicPartition, known: Known, done: str) -> Event:
    now, first = known.target_ids[target.topic], min(known.oldest[progress.partition], position)
    text = (
        f"the target topic {target.topic} was deleted, with what was copied up to offset {position}, and made anew "
        f"(its topic id was {progress.target_id}, now it is {now}); {done}"
    )
    return Event(kind=Kind.TARGET_RECREATED, text=text, first=first, last=position - 1)


def _tail_lost(progress: Progress, position: int, _target: TopicPartition, known: Known) -> _Place | None:
    here = progress.partition
    end = known.epochs.get(here, EpochEnd(UNDEFINED, known.log_ends.get(here, position)))
    if end.end == UNDEFINED or end.end >= position:
        return None
    stop = known.on.source_tail_lost is GoOn.STOP
    goes_on = max(end.end, known.oldest.get(here, end.end))
    event = tail_lost(end, position, goes_on, epoch=known.left_of.get(here, -1), stop=stop)
    parted = end.end if end.end < goes_on else NO_OFFSET
    return _Place(position=goes_on, leader_epoch=end.epoch, event=event, anew=True, stop=stop, parted=parted)


def tail_lost(met: EpochEnd, position: int, goes_on: int, *, epoch: int, stop: bool) -> Event:
    """The event of a source that lost what was copied up to ``position``, from where both are known to be the same."""
    point = met.end
    done = _STANDS_STILL if stop else f"going on from offset {goes_on}"
    epochs = f" (leader epoch {epoch}; the two part after epoch {met.epoch})" if epoch >= max(0, met.epoch) else ""
    if not met.proven:
        text = (
            "the source lost its tail, in an unclean election or since its disk is an older copy, and what it has from "
            f"offset {point} on could not be compared with what was copied up to offset {position - 1}{epochs}; the "
            f"mirror keeps that, and records that the source still has may be there twice; {done}"
        )
        return Event(kind=Kind.SOURCE_TAIL_LOST, text=text, first=point, last=position - 1)
    text = (
        f"the source lost its tail, in an unclean election or since its disk is an older copy: what was copied of "
        f"offsets {point} to {position - 1} is not in its log any more{epochs}; the mirror keeps it, and what the "
        f"source has from offset {point} on are other records; {done}"
    )
    return Event(kind=Kind.SOURCE_TAIL_LOST, text=text, first=point, last=position - 1)
