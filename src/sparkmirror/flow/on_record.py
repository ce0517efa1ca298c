"""What goes on record when partitions are taken over, begin, or go on elsewhere: pure.

`takeover` and `planning` ask the clusters and write; what they write is decided here, so that a model without brokers
writes the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.copy.tally import EVENTS_KEPT
from sparkmirror.events import DEPARTED, Event, now_ms
from sparkmirror.flow.positions import Resumed, Start, is_dead
from sparkmirror.model import NO_OFFSET, NO_RECORD, NOTHING, LastRecord, TopicPartition
from sparkmirror.offsets.came_after import came_after
from sparkmirror.offsets.inherited import Inherited, bounds_of
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Happened, Progress, SourceEpoch
from sparkmirror.offsets.recovery import UNKNOWN_MS
from sparkmirror.offsets.restoring import of_partitions
from sparkmirror.offsets.segments import MapRecord, Moved, Ordered, Parted, Segments
from sparkmirror.offsets.source_history import Begun
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.takeover import Resume


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Who writes.

    Attributes:
        ids: the flow's producer ids in the order in which they were registered.
        generation: of the flow record now.
        first_generation: with which this run began.
    """

    ids: tuple[int, ...]
    generation: int
    first_generation: int

    def is_mine(self, progress: Progress) -> bool:
        """Whether this run wrote it."""
        return progress.generation >= self.first_generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is written where partitions were taken over or go on elsewhere: one batch for all of a partition.

    Attributes:
        records: in their order.
        tombstones: keys of what holds no more.
    """

    records: tuple[Happened | Inherited | MapRecord | Progress | SourceEpoch, ...] = ()
    tombstones: tuple[str, ...] = ()


NOTHING_CHANGES = Written()


def departed(state: JournalState, absent: Mapping[TopicPartition, Event]) -> tuple[Progress, ...]:
    """What goes on record of partitions that leave the flow: they stand still no longer.

    It vouches for no segments: their lane wrote its last progress before, and what came behind that may be lost since.

    Args:
        state: before.
        absent: what became of partitions that cannot be found at the source.
    """
    return tuple(
        replace(known, error="", events=(*known.events, event)[-EVENTS_KEPT:], restored=True)
        for here, event in absent.items()
        if event.kind in DEPARTED and (known := state.progress.get(here)) is not None and known.error
    )


def taken_over(
    state: JournalState,
    run: Run,
    resumed: Mapping[TopicPartition, Resumed],
    found: Collection[Resume],
    *,
    lacks: bool = False,
) -> Written:
    """What goes on record of partitions that were taken over.

    Args:
        state: before.
        run: who takes them over.
        resumed: where each goes on.
        found: what was decided of those of which the target has something.
        lacks: whether the topic lacks something of what is known, since it has lost its end.
    """
    lost = of_partitions(state, resumed.keys(), run.ids) if lacks else ()
    happened = [Happened(partition=here, event=where.event) for here, where in resumed.items() if where.event]
    cut = {decision.inherited.partition: decision.inherited.bounds for decision in found if decision.inherited}
    back = [
        replace(fresh := progress_at(here, where, state, run), inherited=cut.get(here, fresh.inherited))
        for here, where in resumed.items()
        if where.position != NO_OFFSET and (known := state.progress.get(here)) is not None
        # One that begins anew where the position on record is goes back too, behind what is in the log.
        if where.anew or where.position < known.position
    ]
    targets = (each for decision in found for each in decision.targets)
    inherited = (decision.inherited for decision in found if decision.inherited is not None)
    return Written(
        records=(*happened, *back, *inherited, *lost, *targets),
        tombstones=tuple(key for decision in found for key in decision.void),
    )


def progress_at(partition: TopicPartition, where: Resumed, state: JournalState, run: Run) -> Progress:
    """The progress of a partition that was taken over, whose new writer epoch has sent nothing yet.

    The source was not asked: what is known of it stays as it is, but for what a position further back does not bear
    out.
    """
    fresh = Progress(
        partition=partition,
        writer=where.writer,
        generation=run.generation,
        position=where.position,
        next_sequence=0,
        settled=True,
        anew=where.anew,
        reached=where.reached,
        before=where.last.before,
        inherited=bounds_of(state.inherited.get(partition)),
        events=() if where.event is None else (where.event,),
        time_ms=now_ms(),
    )
    before = state.progress.get(partition)
    if before is None:
        return fresh
    back = where.position < before.position
    copied = before.copied if run.is_mine(before) else NOTHING
    return replace(
        fresh,
        end=before.end,
        events=(*before.events, *fresh.events)[-EVENTS_KEPT:],
        leader_epoch=state.source_epoch(partition, where.position),
        topic_id=before.topic_id,
        target_id=before.target_id,
        newest_ms=-1 if back else before.newest_ms,
        recovery_ms=UNKNOWN_MS if back else before.recovery_ms,
        copies_end=min(before.copies_end, where.position),
        time_ms=before.time_ms,
        **copied._asdict(),
    )


def behind_records(
    state: JournalState, run: Run, starts: Sequence[Start], plans: Sequence[PartitionPlan]
) -> tuple[PartitionPlan, ...]:
    """The same plans; those that do not say which record their epoch comes after say so, as far as that is known.

    Args:
        state: read to its end, with what takeovers have put on record.
        run: who writes.
        starts: as they were decided.
        plans: of these, in the same order.
    """
    return tuple(
        replace(plan, last=_came_after(state, run, start, plan)) if plan.last == NO_RECORD else plan
        for start, plan in zip(starts, plans, strict=True)
    )


def _came_after(state: JournalState, run: Run, start: Start, plan: PartitionPlan) -> LastRecord:
    """The last record that counts on below where a plan begins; none in a topic that is another one."""
    known, here = state.maps.get(plan.source), plan.source
    if plan.opened or known is None or _is_of_another_topic(state, start):
        return NO_RECORD
    parted = _parts_at(state, run, start)
    limit = plan.position if parted == NO_OFFSET else min(parted, plan.position)
    return came_after(known, state.progress.get(here), run.ids, plan.position, limit, anew=plan.anew)


def first_begins(run: Run, starts: Sequence[Start], plans: Sequence[PartitionPlan]) -> tuple[Progress, ...]:
    """The first position of partitions that had none; a later driver goes on from it."""
    return tuple(
        replace(_begins(plan, run), end=start.end, reached=plan.reached, recovery_ms=plan.recovery_ms)
        for start, plan in zip(starts, plans, strict=True)
        if start.first
    )


def going_on(
    state: JournalState,
    run: Run,
    *,
    starts: Sequence[Start],
    plans: Sequence[PartitionPlan],
    orders: Mapping[TopicPartition, MoveOrder],
    took_over: Collection[TopicPartition],
    passed: Mapping[TopicPartition, Sequence[SourceEpoch]],
) -> Written:
    """What goes on record where partitions go on elsewhere, or are of another topic by now; it ends their orders.

    An order that concerns another topic of the name ends here too; one that has come since stays.

    Args:
        state: read to its end.
        run: who writes.
        starts: as they were decided.
        plans: of these, in the same order.
        orders: as they were when the starts were decided.
        took_over: partitions that were taken over just now.
        passed: leader epochs of the source in what is left out.
    """
    begun = [orders[plan.source] for plan in plans if plan.source in orders]
    dead = [key for start, plan in zip(starts, plans, strict=True) for key in _dead_epochs(state, start, plan)]
    for start in starts:
        here = start.plan.source
        if start.anew and _is_of_another_topic(state, start) and here in state.maps:
            dead += (*state.maps[here].idle_orders(here, run.ids), *state.maps[here].bounds_keys(here))
    if not begun and not dead and not any(start.anew or start.parted != NO_OFFSET for start in starts):
        return NOTHING_CHANGES
    records: list[Inherited | MapRecord | Progress | SourceEpoch] = [one for some in passed.values() for one in some]
    for start, plan in zip(starts, plans, strict=True):
        parted = _parts_at(state, run, start)
        if parted != NO_OFFSET:
            # An epoch that has sent nothing may begin twice, as after an order: what it had parted before holds.
            known = state.map_of(plan.source).parted_at(plan.writer)
            records.append(Parted(partition=plan.source, writer=plan.writer, source=min(parted, known)))
        records += _inherited_parted(state, start, parted)
        if start.moved and start.anew and plan.source in orders:
            # What the same epoch was ordered before, it has not begun to copy.
            stood = state.map_of(plan.source).stood_at(plan.writer)
            stood = start.instead_of if stood is None else stood
            records.append(Ordered(partition=plan.source, writer=plan.writer, stood=stood, source=plan.position))
        if start.only_moved:
            records.append(Moved(partition=plan.source, writer=plan.writer, source=plan.position))
        if start.anew:
            opening = Segments(
                partition=plan.source,
                writer=plan.writer,
                sequence=0,
                source=plan.position,
                anew=True,
                after=plan.last.before_source,
            )
            last = state.last(plan.source)
            taken = last is None or plan.source in took_over
            ending = () if taken or last is None else state.map_of(plan.source).closing(last)
            records += [*ending, opening, _goes_on_elsewhere(state, run, start, plan)]
    ended = [each.key for each in begun if state.moves.get(each.key) == each]
    begun_again = {one.key for one in records}
    return Written(records=tuple(records), tombstones=(*ended, *(key for key in dead if key not in begun_again)))


def _is_of_another_topic(state: JournalState, start: Start) -> bool:
    """Whether the source or the target topic is not the one of which the progress is."""
    known, plan = state.progress.get(start.plan.source), start.plan
    if known is None:
        return False
    pairs = ((known.topic_id, plan.topic_id), (known.target_id, plan.target_id))
    return any(before and now and before != now for before, now in pairs)


def _parts_at(state: JournalState, run: Run, start: Start) -> int:
    """From where on older epochs hold no more; or `NO_OFFSET` where an order alone had the copy begin elsewhere.

    What was lost on either side and an order leaves out is not copied again, and no epoch begins there that would hide
    it on the map. What an order had copied once more, and another one has passed over, is not lost: there the older
    copies count on. What begins after a loss, in the place of an order by which nothing was copied, is no order. Of
    another topic of the name, on either side, older epochs know nothing.
    """
    known, here = state.maps.get(start.plan.source), start.plan.source
    if known is not None and start.anew and _is_of_another_topic(state, start):
        return 0
    if start.parted != NO_OFFSET or known is None or not start.anew:
        return start.parted
    if not start.only_moved and known.idle_orders(here, run.ids):
        return start.plan.position if start.instead_of == NO_OFFSET else min(start.instead_of, start.plan.position)
    if NO_OFFSET < start.instead_of < start.plan.position and not known.going_back(run.ids, state.last(here)):
        return start.instead_of
    return NO_OFFSET if start.only_moved else start.plan.position


def _inherited_parted(state: JournalState, start: Start, parted: int) -> Iterator[Inherited]:
    """What is left of MirrorMaker 2's copies where the source has other records now; an order alone takes nothing."""
    inherited = state.inherited.get(start.plan.source)
    begun = start.plan.position if start.anew and not start.only_moved else NO_OFFSET
    known = [offset for offset in (parted, begun) if offset != NO_OFFSET]
    if inherited is not None and known and min(known) < inherited.until:
        yield inherited.parted(min(known))


def _dead_epochs(state: JournalState, start: Start, plan: PartitionPlan) -> Iterator[str]:
    """The keys of leader epochs that the source's log does not have, or that a lane puts on record again."""
    for known in state.source_epochs.get(plan.source, {}).values():
        another = plan.topic_id and known.topic_id and plan.topic_id != known.topic_id
        begun = Begun(known.epoch, known.offset)
        if another or is_dead(begun, start.kept, plan.leader_epoch, anew=start.anew):
            yield known.key


def _goes_on_elsewhere(state: JournalState, run: Run, start: Start, plan: PartitionPlan) -> Progress:
    before = state.progress.get(plan.source)
    begins = replace(_begins(plan, run), anew=True, end=start.end, reached=plan.reached, recovery_ms=plan.recovery_ms)
    if before is None or (plan.topic_id and before.topic_id and before.topic_id != plan.topic_id):
        return begins
    return replace(begins, end=before.end if start.end == NO_OFFSET else start.end, newest_ms=before.newest_ms)


def _begins(plan: PartitionPlan, run: Run) -> Progress:
    """The progress of a partition of which the plan's writer has sent nothing yet."""
    return Progress(
        partition=plan.source,
        writer=plan.writer,
        generation=run.generation,
        position=plan.position,
        next_sequence=0,
        leader_epoch=plan.leader_epoch,
        topic_id=plan.topic_id,
        target_id=plan.target_id,
        copies_end=plan.copies_end,
        before=plan.last.before,
        inherited=plan.inherited,
        settled=True,
        **plan.copied._asdict(),
        time_ms=now_ms(),
    )
