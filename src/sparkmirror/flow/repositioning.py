"""Where partitions go on, changed by an operator: to the start, the end, a time, or exact offsets.

A flow that ended cleanly is changed as a driver would change it: the flow is taken (so whoever starts beside it ends),
every writer epoch is raised, the new positions go on record under the new epochs, and the clean end with them. The next
start goes on there. Of a flow that runs the change is ordered: its driver has the lanes give the partitions back, takes
them over and goes on elsewhere. So it is after an unclean end too, since only a takeover can tell what the target has.

Invariants: what a change means for the target, records copied again or never, is told before and after; a dry run
changes nothing. Where the source's log is not what was copied, what is on record of the rest ends with the change, as
where a flow goes back by itself: no offset is translated by it, and none of its leader epochs counts.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from sparkmirror.config import FlowConfig
from sparkmirror.copy.plan import group_of
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.events import Event, Kind, now_ms
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.left_out import LeftOut, epochs_of
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.operator import who
from sparkmirror.flow.parting import parted_logs
from sparkmirror.flow.planner import check_ids
from sparkmirror.flow.positions import is_dead
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.flow.starts import find_starts
from sparkmirror.kafka import admin
from sparkmirror.kafka.epochs import newest_epochs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Happened, Progress, SourceEpoch, closing
from sparkmirror.offsets.segments import MapRecord, Parted
from sparkmirror.offsets.source_history import Begun
from sparkmirror.offsets.state import JournalState


class Place(Enum):
    """A place in a log that depends on the log."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CONFIGURED = "where the configuration says"


@dataclass(frozen=True, slots=True)
class Moment:
    """The first record with this timestamp or a later one; milliseconds since 1970."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class Exactly:
    """A source offset."""

    offset: int


Wanted = Place | Moment | Exactly


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where one partition is, and may be moved to.

    Attributes:
        partition: of the source.
        position: the next source offset to copy, or `NO_OFFSET` where it was never copied.
        first, end: what the source has.
        to: the position after the change; the same as ``position`` where nothing changes.
        topic_id: of the topic that has these offsets, "" where brokers are too old.
        leader_epoch: the newest of its log when that had these offsets, or -1.
        parted: where the source's log parts from what was copied, if that is before the position; else `NO_OFFSET`.
    """

    partition: TopicPartition
    position: int
    first: int
    end: int
    to: int
    topic_id: str = ""
    leader_epoch: int = -1
    parted: int = NO_OFFSET

    @property
    def kept(self) -> int:
        """Up to where what was copied is what the source has."""
        return self.position if self.parted == NO_OFFSET else min(self.position, self.parted)

    @property
    def again(self) -> int:
        """Source offsets that will be copied once more."""
        return max(0, self.kept - self.to) if self.position != NO_OFFSET else 0

    @property
    def skipped(self) -> int:
        """Source offsets that will never be copied."""
        return max(0, self.to - max(self.kept, self.first))


class Effect(Enum):
    """What became of a wish to move partitions."""

    NONE = "nothing was changed"
    MADE = "the next start goes on there"
    ORDERED = "the flow goes on there within seconds, or when it is started"


def show(flow: FlowConfig, wanted: Sequence[str] = ()) -> tuple[Standing, ...]:
    """Where the partitions of a flow are, those of some topics or of all.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    with connected(flow, role="positions", needs=BOTH) as sides:
        return _standings(sides, record(sides) or JournalState(), wanted, None, None)


def move(
    flow: FlowConfig, file: str, topic: str, partition: int | None, to: Wanted, *, dry_run: bool = False
) -> tuple[tuple[Standing, ...], Effect]:
    """Moves one topic, or one of its partitions.

    Args:
        flow: which may run.
        file: the configuration file, for messages.
        topic: of the source.
        partition: one of its numbers; None for all.
        to: where to.
        dry_run: tell only what would be.

    Returns:
        each partition, as it was when it was asked, and what was done.

    Raises:
        ConfigError: the flow does not copy the topic, or the source has no such offset.
        SparkmirrorError: a cluster cannot be asked or written to.
    """
    with connected(flow, role="positions", needs=BOTH) as sides:
        known = record(sides) or JournalState()
        standings = _compared(sides, known, _standings(sides, known, (topic,), partition, to))
        if not standings:
            raise ConfigError(
                file=file,
                key=str(flow.name),
                reason=f"the flow copies no {topic}" + ("" if partition is None else f"-{partition}"),
                remedy=f"sparkmirror explain --topic {topic} tells why",
            )
        for one in standings:
            _check_range(one, flow, file)
        _check_own(flow, known, file)
        ordered = {order.partition for order in known.moves.values()}
        changed = [
            one for one in standings if one.to != one.position or one.parted != NO_OFFSET or one.partition in ordered
        ]
        if not changed or dry_run:
            return standings, Effect.NONE
        if is_stopped(known) and not {one.partition for one in changed}.intersection(known.in_doubt()):
            _write(flow, sides, file, known, changed)
            return standings, Effect.MADE
        _order(sides, changed)
        return standings, Effect.ORDERED


def _standings(
    sides: Sides, known: JournalState, wanted: Sequence[str], number: int | None, to: Wanted | None
) -> tuple[Standing, ...]:
    flow, source, timeout_ms = sides.flow, sides.source, sides.flow.admin_timeout_ms
    chosen = topics.choose(flow, admin.list_topics(source, timeout_ms=timeout_ms))
    ids = ids_of_topics(source, chosen)
    places = [
        TopicPartition(name, each)
        for name, topic in chosen.items()
        if not wanted or name in wanted
        for each in sorted(topic.partitions)
        if number is None or each == number
    ]
    epochs = newest_epochs(source, places, timeout_ms) if to is not None else {}
    first = admin.list_offsets(source, places, OffsetSpec.EARLIEST, timeout_ms=timeout_ms)
    ends = admin.list_offsets(source, places, OffsetSpec.LATEST, isolation=flow.isolation, timeout_ms=timeout_ms)
    at: Mapping[TopicPartition, int] = {}
    if isinstance(to, Moment):
        at = admin.list_offsets(source, places, to.time_ms, timeout_ms=timeout_ms)
    elif to is Place.CONFIGURED:
        at, refused = find_starts(flow, source, places, first, ends, timeout_ms)
        for place, event in refused.items():
            raise SparkmirrorError(f"{place}: {event}")
    found = []
    for place in places:
        position = known.progress[place].position if place in known.progress else NO_OFFSET
        standing = Standing(
            partition=place,
            position=position,
            first=first[place],
            end=ends[place],
            to=position,
            topic_id=ids.get(place.topic, ""),
            leader_epoch=epochs.get(place, -1),
        )
        found.append(standing if to is None else replace(standing, to=_target(standing, to, at)))
    return tuple(found)


def _compared(sides: Sides, known: JournalState, standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """As they are, with where the source's logs part from what was copied of them.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    same = {
        one.partition: one
        for one in standings
        if one.position != NO_OFFSET and known.progress[one.partition].topic_id in ("", one.topic_id)
    }
    if not same or sides.store is None:
        return tuple(standings)
    progress = {place: known.progress[place] for place in same}
    ends = {place: max(one.end, one.position) for place, one in same.items()}
    parted = parted_logs(sides, progress, ends, (), sides.flow.admin_timeout_ms, restored=True)
    points = {one.partition: one.offset for one in parted}
    return tuple(replace(one, parted=points.get(one.partition, NO_OFFSET)) for one in standings)


def _target(standing: Standing, to: Wanted, at: Mapping[TopicPartition, int]) -> int:
    if isinstance(to, Exactly):
        return to.offset
    if isinstance(to, Moment) or to is Place.CONFIGURED:
        found = at[standing.partition]
        return standing.end if found == NO_OFFSET else found
    return standing.end if to is Place.LATEST else standing.first


def is_stopped(known: JournalState) -> bool:
    """Whether the flow ended cleanly, or was never started: what is set now is where it begins."""
    if known.flow is None:
        return not known.progress
    return known.stopped is not None and known.stopped.generation == known.flow.generation


def check_stopped(flow: FlowConfig, known: JournalState, file: str) -> None:
    """Refuses a flow that runs, or whose last run did not end cleanly; one that was never started is neither.

    Raises:
        ConfigError: it is one of these.
    """
    if not is_stopped(known):
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="the flow runs, or its last run did not end cleanly",
            remedy="stop it first (SIGTERM); after an unclean end start it once more and stop it",
        )
    doubtful = sorted(known.in_doubt())
    if doubtful:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=(
                f"a run did not end cleanly, and of {len(doubtful)} partitions, {doubtful[0]} among them, nothing is "
                "on record since: more may have been copied of them"
            ),
            remedy="start the flow once more, with their topics, and stop it when they are copied",
        )


def _order(sides: Sides, changed: Sequence[Standing]) -> None:
    assert sides.store is not None  # a flow that is not stopped has a record
    now, by = now_ms(), who()
    _check_same(sides, changed)
    sides.store.write(
        [
            MoveOrder(
                partition=one.partition,
                to=one.to,
                topic_id=one.topic_id,
                time_ms=now,
                by=by,
                leader_epoch=one.leader_epoch,
            )
            for one in changed
        ]
    )


def _check_same(sides: Sides, changed: Sequence[Standing]) -> None:
    """Sees that the offsets that were looked at are those of the topics that are there now.

    Raises:
        SparkmirrorError: a topic was made anew since.
    """
    check_ids(sides.source, {one.partition.topic: one.topic_id for one in changed})


def _check_range(one: Standing, flow: FlowConfig, file: str) -> None:
    if not one.first <= one.to <= one.end:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"{one.partition} has offsets {one.first} to {one.end} on cluster {flow.source.alias}, not {one.to}",
            remedy="give an offset between the two, or earliest or latest",
        )


def _check_own(flow: FlowConfig, known: JournalState, file: str) -> None:
    if known.elsewhere is not None:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"the flow's positions are with MirrorMaker 2, in {known.elsewhere.topic}",
            remedy="start the flow with --take-over mm2, or without it if MirrorMaker 2 has not copied since",
        )


def check_taken(opened: Opened, known: JournalState, flow: FlowConfig, file: str) -> None:
    """Sees that nobody had the flow between the look at its record and its opening.

    Raises:
        ConfigError: somebody had; nothing of what was decided holds.
    """
    before = 0 if known.flow is None else known.flow.generation
    if not opened.clean or opened.generation != before + 1:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="another run took the flow meanwhile",
            remedy="see that only one is started, and try again when it has ended",
        )


def _write(flow: FlowConfig, sides: Sides, file: str, known: JournalState, changed: Sequence[Standing]) -> None:
    """Takes the flow, and puts the new positions and a clean end on record."""
    _check_same(sides, changed)
    opened = open_flow(flow, sides.source, sides.target, file, uuid.uuid4().hex[:12], Identities(file))
    check_taken(opened, known, flow, file)
    there = {one.partition: _on_target(flow, one.partition) for one in changed}
    target_ids = ids_of_topics(sides.target, {place.topic for place in there.values()})
    state = opened.store.state
    records: list[Progress | MapRecord | SourceEpoch | Happened] = [
        _progress(one, opened, one.topic_id, target_ids.get(there[one.partition].topic, "")) for one in changed
    ]
    for one in changed:
        last = state.last(one.partition)
        records += () if last is None else closing(last)
        if NO_OFFSET < one.parted < one.to:
            writer = opened.first[group_of(one.partition, len(opened.first))]
            records.append(Parted(partition=one.partition, writer=writer, source=one.parted))
        if one.parted != NO_OFFSET:
            records.append(Happened(partition=one.partition, event=_lost(one)))
    records += _left_out(sides, state, changed)
    kept = {one.key for one in records}
    dead = [key for one in changed for key in _dead_epochs(state, one) if key not in kept]
    moved = {one.partition for one in changed}
    orders = [key for key, order in state.moves.items() if order.partition in moved]
    opened.store.write([*records, opened.stopped()], tombstones=[*orders, *dead])


def _lost(one: Standing) -> Event:
    text = (
        "the source lost its tail, in an unclean election or since its disk is an older copy: what was copied of "
        f"offsets {one.parted} to {one.position - 1} is not in its log any more; {who()} has moved the copy to offset "
        f"{one.to}"
    )
    return Event(kind=Kind.SOURCE_TAIL_LOST, text=text, first=one.parted, last=one.position - 1)


def _left_out(sides: Sides, state: JournalState, changed: Sequence[Standing]) -> list[SourceEpoch]:
    left_out = {
        one.partition: LeftOut(kept=one.kept, to=one.to, leader_epoch=one.leader_epoch, topic_id=one.topic_id)
        for one in changed
    }
    found = epochs_of(sides.source, state, left_out, sides.flow.admin_timeout_ms)
    return [each for some in found.values() for each in some]


def _dead_epochs(state: JournalState, one: Standing) -> list[str]:
    """The keys of leader epochs that the source's log does not have, or that a lane puts on record again."""
    kept = one.to if one.kept == NO_OFFSET else min(one.to, one.kept)
    return [
        known.key
        for known in state.source_epochs.get(one.partition, {}).values()
        if (known.topic_id and one.topic_id and known.topic_id != one.topic_id)
        or is_dead(Begun(known.epoch, known.offset), kept, one.leader_epoch, anew=True)
    ]


def _progress(one: Standing, opened: Opened, source_id: str, target_id: str) -> Progress:
    before = opened.store.state.progress.get(one.partition)
    writer = opened.first[group_of(one.partition, len(opened.first))]
    fresh = Progress(
        partition=one.partition,
        writer=writer,
        generation=opened.generation,
        position=one.to,
        next_sequence=0,
        end=one.end,
        leader_epoch=one.leader_epoch,
        topic_id=source_id,
        target_id=target_id,
        settled=True,
        anew=True,
        time_ms=now_ms(),
    )
    return fresh if before is None else replace(fresh, reached=before.reached, newest_ms=before.newest_ms)


def _on_target(flow: FlowConfig, partition: TopicPartition) -> TopicPartition:
    return TopicPartition(topics.remote_topic(flow, partition.topic), partition.partition)
