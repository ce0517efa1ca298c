"""Takes a flow over from MirrorMaker 2: reads its stored positions, looks how far the target is, puts that on record.

The positions are written as an operator's would be (`repositioning`): the flow is taken, every writer epoch is raised,
and the positions go on record with a clean end. The start that follows goes on there.

Invariants: nothing is written while MirrorMaker 2 seems to run, or where the flow has positions of its own; until all
is on record the flow is marked as one whose positions are elsewhere, so that a start in between is refused; offset
syncs are kept with the positions, since their topic is compacted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.copy.plan import group_of
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import ConfigError
from sparkmirror.events import now_ms
from sparkmirror.flow.comparing import compare, isolation_of
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.inheriting import Arrived, Copied
from sparkmirror.flow.mirror_maker import Stored, find_stored, known_syncs
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.planner import ids_of_topics
from sparkmirror.flow.sides import connected, record
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.model import NO_OFFSET, Reached, TopicPartition
from sparkmirror.offsets.inherited import ELSEWHERE_KEY, Elsewhere, Inherited, Point, joined, points_of
from sparkmirror.offsets.records import Happened, Progress, Record, Stopped, closing
from sparkmirror.offsets.state import JournalState

log = logging.getLogger(__name__)


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
    with connected(flow, role="take-over") as sides:
        _check_free(flow, record(sides) or JournalState(), file)
        find_stored(sides, file, topic)


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
    with connected(flow, role="take-over") as sides:
        known = record(sides) or JournalState()
        _check_free(flow, known, file)
        stored = find_stored(sides, file, topic)
        syncs = known_syncs(sides)
        arrived = tuple(compare(sides, _copied(sides, stored, syncs)))
        _write(sides, file, stored.topic, arrived, syncs)
    for line in _told(flow, arrived):
        log.info("%s", line, extra={"flow": str(flow.name)})
    return TakenOver(topic=stored.topic, arrived=arrived)


def _check_free(flow: FlowConfig, known: JournalState, file: str) -> None:
    if known.elsewhere is None and any(one.position != NO_OFFSET for one in known.progress.values()):
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="the flow has positions of its own: it has been started before, and was not handed over since",
            remedy="start it without --take-over: it goes on where it was; others can be chosen with --flow",
        )


def _copied(sides: Sides, stored: Stored, syncs: Mapping[TopicPartition, Sequence[OffsetSync]]) -> list[Copied]:
    """Every partition that the flow copies and MirrorMaker 2 has begun."""
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    chosen = topics.choose(flow, admin.list_topics(sides.source, timeout_ms=timeout_ms))
    pairs = {
        TopicPartition(name, number): TopicPartition(topics.remote_topic(flow, name), number)
        for name, topic in chosen.items()
        for number in sorted(topic.partitions)
    }
    described = admin.list_topics(sides.target, sorted({there.topic for there in pairs.values()}), timeout_ms)
    there = [
        one for one in pairs.values() if one.topic in described and one.partition in described[one.topic].partitions
    ]

    def ask(cluster: Cluster, some: Sequence[TopicPartition], spec: OffsetSpec, isolation: Isolation) -> Ends:
        return admin.list_offsets(cluster, some, spec, isolation=isolation, timeout_ms=timeout_ms)

    here = list(pairs)
    first = ask(sides.source, here, OffsetSpec.EARLIEST, Isolation.READ_UNCOMMITTED)
    ends = ask(sides.source, here, OffsetSpec.LATEST, isolation_of(flow))
    target_first = ask(sides.target, there, OffsetSpec.EARLIEST, Isolation.READ_UNCOMMITTED)
    stable = ask(sides.target, there, OffsetSpec.LATEST, Isolation.READ_COMMITTED)
    target_ends = ask(sides.target, there, OffsetSpec.LATEST, Isolation.READ_UNCOMMITTED)
    found = (
        Copied(
            here=place,
            there=pairs[place],
            stored=stored.offsets.get(place, NO_OFFSET),
            first=first[place],
            end=ends[place],
            target_first=target_first.get(pairs[place], 0),
            target_stable=stable.get(pairs[place], 0),
            target_end=target_ends.get(pairs[place], 0),
            sync=syncs[place][-1] if syncs.get(place) else None,
        )
        for place in here
    )
    return [one for one in found if one.begun]


Ends = Mapping[TopicPartition, int]


def _write(
    sides: Sides,
    file: str,
    topic: str,
    arrived: Sequence[Arrived],
    syncs: Mapping[TopicPartition, Sequence[OffsetSync]],
) -> None:
    """Takes the flow, and puts positions, what may be there twice, and MirrorMaker 2's syncs on record."""
    flow = sides.flow
    opened = open_flow(flow, sides.source, sides.target, file, uuid.uuid4().hex[:12], Identities(file), elsewhere=True)
    state = opened.store.state
    _check_free(flow, state, file)  # another run may have been quicker
    opened.store.write([Elsewhere(topic=topic, time_ms=now_ms(), pending=True)])
    source_ids = ids_of_topics(sides.source, {one.copied.here.topic for one in arrived})
    target_ids = ids_of_topics(sides.target, {one.copied.there.topic for one in arrived})
    records: list[Record] = []
    for one in arrived:
        here, there = one.copied.here, one.copied.there
        progress, last = _progress(one, opened), state.last(here)
        records += () if last is None else closing(last)
        records.append(
            replace(progress, topic_id=source_ids.get(here.topic, ""), target_id=target_ids.get(there.topic, ""))
        )
        records.append(_inherited(one, opened, syncs.get(here, ())))
        if one.event is not None:
            records.append(Happened(partition=here, event=one.event))
    opened.store.write(records)
    stopped = Stopped(generation=opened.generation, time_ms=now_ms())
    opened.store.write([stopped], tombstones=[ELSEWHERE_KEY, *state.moves])


def _progress(one: Arrived, opened: Opened) -> Progress:
    return Progress(
        partition=one.copied.here,
        writer=opened.first[group_of(one.copied.here, len(opened.first))],
        generation=opened.generation,
        position=one.position,
        next_sequence=0,
        end=one.copied.end,
        settled=True,
        anew=True,
        reached=Reached(end=one.copied.target_end),
        time_ms=now_ms(),
    )


def _inherited(one: Arrived, opened: Opened, syncs: Sequence[OffsetSync]) -> Inherited:
    """What is known of MirrorMaker 2's time; a flow that was handed over knows what it had copied before, too."""
    place, state = one.copied.here, opened.store.state
    own = None
    if place in state.maps:
        own = state.maps[place].offsets(state.progress.get(place), opened.writers.ids).end()
    since = 0 if own is None else own.source + 1
    points = points_of([(sync.upstream, sync.downstream) for sync in syncs], since, one.position)
    known: list[Point] = [] if own is None else [(own.source, own.target)]
    known += [one.last] if one.last is not None else []
    fresh = Inherited(
        partition=place,
        spans=((since, one.position),),
        end=one.copied.target_end,
        points=joined(known, points),
        time_ms=now_ms(),
    )
    before = state.inherited.get(place)
    return fresh if before is None else fresh.after(before)


def _told(flow: FlowConfig, arrived: Sequence[Arrived]) -> Iterator[str]:
    beyond = sum(one.beyond for one in arrived if one.event is None)
    unsure = [one for one in arrived if one.event is not None]
    yield (
        f"{flow.name}: {len(arrived)} partitions are taken over from MirrorMaker 2; the target had {beyond} offsets "
        f"beyond its positions; of {len(unsure)} partitions something may be copied twice"
    )
    yield from (f"{one.copied.here}: {one.event}" for one in unsure)
