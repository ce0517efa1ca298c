"""Takes a flow over from MirrorMaker 2: reads its stored positions, looks how far the target is, puts that on record.

By an order (``run --take-over mm2``), or at a flow's first start, see ``unasked``. The positions are written as an
operator's would be (`repositioning`): the flow is taken, every writer epoch is raised, and the positions go on record
with a clean end. The start that follows goes on there.

Invariants: nothing is written while MirrorMaker 2 seems to run, or where the flow has positions of its own; until all
is on record the flow is marked as one whose positions are elsewhere, so that a start in between is refused; offset
syncs are kept with the positions, since their topic is compacted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.copy.plan import group_of
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import ConfigError
from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.flow.comparing import compare, isolation_of
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.inheriting import Arrived, Copied, Own, not_below, own
from sparkmirror.flow.left_out import LeftOut, epochs_of
from sparkmirror.flow.mirror_maker import (
    ABORTED_MS,
    Stored,
    check_no_workers,
    find_stored,
    known_syncs,
    wait_for_transactions,
)
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.planner import check_ids
from sparkmirror.flow.restoring import last_records
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import epochs_between, newest_epochs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.reading import Span
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.model import NO_OFFSET, Reached, TopicPartition
from sparkmirror.offsets.inherited import ELSEWHERE_KEY, Elsewhere, Inherited, Point, joined, points_of
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.records import FLOW, Happened, Progress, Record, SourceEpoch, closing
from sparkmirror.offsets.segments import Parted
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.track import FAR

log = logging.getLogger(__name__)


Syncs = Mapping[TopicPartition, Sequence[OffsetSync]]
Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """What became of a flow.

    Attributes:
        topic: where MirrorMaker 2's positions were.
        arrived: the partitions that go on.
    """

    topic: str
    arrived: tuple[Arrived, ...]


def check(flow: FlowConfig, file: str, *, topic: str = "") -> None:
    """Looks whether a flow can be taken over; changes nothing.

    Args:
        flow: which must not run, nor MirrorMaker 2's.
        file: the configuration file, for messages.
        topic: Kafka Connect's topic of offsets; by default the one that the configuration tells.

    Raises:
        ConfigError: the flow has positions of its own, MirrorMaker 2 runs, or its positions cannot be found.
        SparkmirrorError: a cluster cannot be asked.
    """
    with connected(flow, role="take-over", needs=BOTH) as sides:
        known = record(sides) or JournalState()
        stored = find_stored(sides, file, topic)
        if not _whole(known):
            _due(flow, known, stored, copied_partitions(sides, stored.offsets, ABORTED_MS), file)


def take_over(flow: FlowConfig, file: str, *, topic: str = "") -> TakenOver:
    """Takes one flow over.

    Args:
        flow: which must not run, nor MirrorMaker 2's.
        file: the configuration file, for messages.
        topic: Kafka Connect's topic of offsets; by default the one that the configuration tells.

    Raises:
        ConfigError: as `check`.
        SparkmirrorError: a cluster cannot be asked or written to.
    """
    with connected(flow, role="take-over", needs=BOTH) as sides:
        known = record(sides) or JournalState()
        stored = find_stored(sides, file, topic)
        syncs = known_syncs(sides)
        due = partial(_due, flow, stored=stored, file=file)
        found = with_syncs(copied_partitions(sides, stored.offsets, ABORTED_MS), syncs)
        arrived = tuple(compare(sides, due(known, found=found)))
        run = uuid.uuid4().hex[:12]
        opened = open_flow(flow, sides.source, sides.target, file, run, Identities(file), elsewhere=_whole)
        still = due(opened.store.state, found=[one.copied for one in arrived])  # another run may have been quicker
        taken = TakenOver(topic=stored.topic, arrived=tuple(one for one in arrived if one.copied in still))
        check_no_workers(flow, stored.cluster, file)  # reading takes minutes where transactions are open
        event = put_on_record(sides, opened, taken, syncs)
    for line in (f"{flow.name}: {event}", *told(taken)):
        log.info("%s", line, extra={"flow": str(flow.name)})
    return taken


def _begun(known: JournalState) -> set[TopicPartition]:
    """The partitions that have positions of the flow's own."""
    return {here for here, one in known.progress.items() if one.position != NO_OFFSET}


def _whole(known: JournalState) -> bool:
    """Whether no position on record holds, so that every partition is taken over."""
    return known.elsewhere is not None or not _begun(known)


def _due(flow: FlowConfig, known: JournalState, stored: Stored, found: Sequence[Copied], file: str) -> list[Copied]:
    """The partitions to take over: of a flow that has copied other topics, those of MirrorMaker 2's without a position.

    Such topics wait, since their target topics were not empty (`sparkmirror.flow.occupied`).
    """
    if _whole(known):
        return list(found)
    begun, left = _begun(known).union(known.maps), {place.topic for place in stored.offsets}
    due = [one for one in found if one.here not in begun and one.here.topic in left]
    if not due:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="the flow has positions of its own: it has been started before, and was not handed over since",
            remedy="start it without --take-over: it goes on where it was; others can be chosen with --flow",
        )
    return due


def copied_partitions(sides: Sides, stored: Ends, wait_ms: int) -> list[Copied]:
    """Every partition that the flow copies and MirrorMaker 2 has begun.

    Args:
        sides: of the flow.
        stored: MirrorMaker 2's positions.
        wait_ms: milliseconds to wait at most for transactions that are open on the target.

    Raises:
        BrokerError: this user may not see a topic that MirrorMaker 2 may have copied.
        SparkmirrorError: a cluster does not answer, or a transaction stays open.
    """
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    chosen = topics.choose(flow, admin.list_topics(sides.source, timeout_ms=timeout_ms))
    pairs = {
        TopicPartition(name, number): TopicPartition(topics.remote_topic(flow, name), number)
        for name, topic in chosen.items()
        for number in sorted(topic.partitions)
    }
    described = admin.list_topics(sides.target, sorted({there.topic for there in pairs.values()}), timeout_ms)
    _check_visible(sides, stored, chosen, described)
    there = [
        one for one in pairs.values() if one.topic in described and one.partition in described[one.topic].partitions
    ]

    def ask(cluster: Cluster, some: Sequence[TopicPartition], spec: OffsetSpec, isolation: Isolation) -> Ends:
        return admin.list_offsets(cluster, some, spec, isolation=isolation, timeout_ms=timeout_ms)

    here = list(pairs)
    source_ids, target_ids = ids_of_topics(sides.source, chosen), ids_of_topics(sides.target, described)
    epochs = newest_epochs(sides.source, here, timeout_ms)  # before the ends: a log that has both has what lies below
    first = ask(sides.source, here, OffsetSpec.EARLIEST, Isolation.READ_UNCOMMITTED)
    ends = ask(sides.source, here, OffsetSpec.LATEST, isolation_of(flow))
    target_epochs = newest_epochs(sides.target, there, timeout_ms)  # before the ends, likewise
    target_first = ask(sides.target, there, OffsetSpec.EARLIEST, Isolation.READ_UNCOMMITTED)
    target_ends = ask(sides.target, there, OffsetSpec.LATEST, Isolation.READ_UNCOMMITTED)
    wait_for_transactions(flow, sides.target, target_ends, wait_ms)
    logs = {place: Span(target_first[place], target_ends[place]) for place in target_epochs}
    begun = epochs_between(sides.target, logs, target_epochs, timeout_ms)
    found = (
        Copied(
            here=place,
            there=pairs[place],
            stored=stored.get(place, NO_OFFSET),
            first=first[place],
            end=ends[place],
            target_first=target_first.get(pairs[place], 0),
            target_end=target_ends.get(pairs[place], 0),
            source_id=source_ids.get(place.topic, ""),
            target_id=target_ids.get(pairs[place].topic, ""),
            leader_epoch=epochs.get(place, -1),
            target_epochs=begun.get(pairs[place], ()),
        )
        for place in here
    )
    return [one for one in found if one.begun]


def _check_visible(sides: Sides, stored: Ends, chosen: Collection[str], described: Collection[str]) -> None:
    """Refuses where this user may not see a topic that MirrorMaker 2 may have copied, or its copy."""
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    copied = set(topics.wanted(flow, {place.topic for place in stored}))
    unlisted = sorted(copied.difference(chosen))
    if unlisted:
        admin.visible_topics(sides.source, unlisted, timeout_ms, right="READ")
    remote = {topics.remote_topic(flow, name) for name in copied.intersection(chosen)}
    missing = sorted(remote.difference(described))
    if missing:
        admin.visible_topics(sides.target, missing, timeout_ms, right="READ")


def with_syncs(found: Sequence[Copied], syncs: Syncs) -> list[Copied]:
    """The same partitions, each with MirrorMaker 2's offset syncs."""
    return [replace(one, syncs=points_of(_points(syncs.get(one.here, ())), 0, FAR)) for one in found]


def _points(syncs: Sequence[OffsetSync]) -> list[Point]:
    return [(sync.upstream, sync.downstream) for sync in syncs]


def put_on_record(
    sides: Sides,
    opened: Opened,
    taken: TakenOver,
    syncs: Syncs,
    *,
    unasked: bool = False,
) -> Event:
    """Puts positions, what may be there twice, and MirrorMaker 2's syncs on record, with a clean end.

    A flow that has positions of its own keeps them, and has ended as cleanly as before.

    Args:
        sides: of the flow.
        opened: the flow, which is taken.
        taken: what is taken over.
        syncs: MirrorMaker 2's, by partition.
        unasked: whether nobody has ordered it, so that a start finishes what did not end.

    Returns:
        the event that tells of it.

    Raises:
        SparkmirrorError: a cluster cannot be asked, or the internal topic not written.
    """
    state, arrived, whole = opened.store.state, taken.arrived, _whole(opened.store.state)
    check_ids(sides.source, {one.copied.here.topic: one.copied.source_id for one in arrived})
    check_ids(sides.target, {one.copied.there.topic: one.copied.target_id for one in arrived})
    if whole:
        opened.store.write([Elsewhere(topic=taken.topic, time_ms=now_ms(), pending=True, unasked=unasked)])
    event = _event(taken, unasked=unasked)
    records: list[Record] = [Happened(partition=FLOW, event=event), *_epochs_met(sides, opened, arrived)]
    for found in arrived:
        here = found.copied.here
        held = _own(found, opened)
        one = found if held.end is None else not_below(found, held.end.source + 1)
        inherited = _inherited(sides.flow, one, opened, held, syncs.get(here, ()))
        progress, last = _progress(one, opened, inherited), state.last(here)
        records += () if last is None else closing(last)
        records += (progress, inherited)
        if held.parted != NO_OFFSET:
            records.append(Parted(partition=here, writer=progress.writer, source=held.parted))
        if one.event is not None:
            records.append(Happened(partition=here, event=one.event))
    opened.store.write(records)
    moved = [
        key for key, order in state.moves.items() if whole or order.partition in {one.copied.here for one in arrived}
    ]
    ends = last_records(opened) if whole or opened.clean else []
    opened.store.write(ends, tombstones=[ELSEWHERE_KEY, *moved])
    return event


def _epochs_met(sides: Sides, opened: Opened, arrived: Sequence[Arrived]) -> list[SourceEpoch]:
    """The leader epochs of what MirrorMaker 2 has copied since the flow had the partitions."""
    state = opened.store.state
    left_out = {
        one.copied.here: LeftOut(
            kept=known.position,
            to=one.position,
            leader_epoch=one.copied.leader_epoch,
            topic_id=one.copied.source_id,
        )
        for one in arrived
        if (known := state.progress.get(one.copied.here)) is not None and known.topic_id in ("", one.copied.source_id)
    }
    found = epochs_of(sides.source, state, left_out, sides.flow.admin_timeout_ms)
    return [each for some in found.values() for each in some]


def _progress(one: Arrived, opened: Opened, inherited: Inherited) -> Progress:
    return Progress(
        partition=one.copied.here,
        writer=opened.first[group_of(one.copied.here, len(opened.first))],
        generation=opened.generation,
        position=one.position,
        next_sequence=0,
        end=one.copied.end,
        leader_epoch=one.copied.leader_epoch,
        topic_id=one.copied.source_id,
        target_id=one.copied.target_id,
        settled=True,
        anew=True,
        reached=Reached(leader_epoch=inherited.leader_epoch, end=inherited.end),
        inherited=inherited.bounds,
        time_ms=now_ms(),
    )


def _own(one: Arrived, opened: Opened) -> Own:
    """What is left of what the flow had copied before it was handed over."""
    place, state = one.copied.here, opened.store.state
    progress = state.progress.get(place)
    known = state.maps.get(place, PartitionMap())
    return own(known.offsets(progress, opened.writers.ids), progress, one.copied)


def _inherited(flow: FlowConfig, one: Arrived, opened: Opened, held: Own, syncs: Sequence[OffsetSync]) -> Inherited:
    """What is known of MirrorMaker 2's time; a flow that was handed over knows what it had copied before, too."""
    place, state = one.copied.here, opened.store.state
    since = 0 if held.end is None else held.end.source + 1
    synced = points_of(_points(syncs), since, one.position)
    points = tuple(point for point in synced if point[1] < one.copied.target_end)
    if points != synced:
        log.warning(
            "%s: the target partition ends at offset %d, and an offset sync of MirrorMaker 2 has a copy at offset %d: "
            "the target has lost the end of its log, or the topic was deleted and created again. What is missing is "
            "copied again with: sparkmirror positions set FILE --topic %s --partition %d --to %d",
            *(place, one.copied.target_end, synced[-1][1], *place, points[-1][0] + 1 if points else since),
            extra={"flow": str(flow.name)},
        )
    known: list[Point] = [] if held.end is None else [(held.end.source, held.end.target)]
    known += [one.last] if one.last is not None else []
    fresh = Inherited(
        partition=place,
        spans=((since, one.position),),
        end=one.copied.target_end,
        points=joined(known, points),
        epochs=tuple((epoch, begin) for epoch, begin in one.copied.target_epochs),
        time_ms=now_ms(),
        source_id=one.copied.source_id,
        target_id=one.copied.target_id,
    )
    before = state.inherited.get(place)
    if before is None or not before.is_of(fresh.source_id, fresh.target_id):
        return fresh
    if NO_OFFSET < held.kept < before.end:
        before = before.cut(held.kept, before.translate_back(held.kept))
    return fresh.after(before)


def _event(taken: TakenOver, *, unasked: bool) -> Event:
    beyond = sum(one.beyond for one in taken.arrived if one.event is None)
    kinds = [one.event.kind for one in taken.arrived if one.event is not None]
    unsure, torn = kinds.count(Kind.MAY_REPEAT), kinds.count(Kind.TARGET_TAIL_LOST)
    lost = f"; of {torn} partitions the target had lost the end, which is copied again" if torn else ""
    topics_of = {one.copied.here.topic for one in taken.arrived}
    why = ", since the flow had never run (mm2.takeover.enabled, --take-over none)" if unasked else ""
    text = (
        f"{len(taken.arrived)} partitions of {len(topics_of)} topics were taken over from MirrorMaker 2, at its "
        f"positions in the topic {taken.topic}{why}; the target had {beyond} offsets beyond these positions; of "
        f"{unsure} partitions something may be copied twice{lost}"
    )
    return Event(kind=Kind.TAKEN_OVER, text=text)


def told(taken: TakenOver) -> Iterator[str]:
    """What may be there twice, or was lost, for people."""
    yield from (f"{one.copied.here}: {one.event}" for one in taken.arrived if one.event is not None)
