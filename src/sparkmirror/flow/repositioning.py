"""Where partitions go on, changed by an operator: to the start, the end, a time, or exact offsets.

A flow that ended cleanly is changed as a driver would change it: the flow is taken (so whoever starts beside it ends),
every writer epoch is raised, the new positions go on record under the new epochs, and the clean end with them. The next
start goes on there. Of a flow that runs the change is ordered: its driver has the lanes give the partitions back, takes
them over and goes on elsewhere. So it is after an unclean end too, since only a takeover can tell what the target has.

Invariants: what a change means for the target, records copied again or never, is told before and after; a dry run
changes nothing.
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
from sparkmirror.events import now_ms
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, open_flow
from sparkmirror.flow.operator import who
from sparkmirror.flow.planner import check_ids
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.flow.starts import find_starts
from sparkmirror.kafka import admin
from sparkmirror.kafka.epochs import newest_epochs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import Progress, closing
from sparkmirror.offsets.segments import Targets
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
    """

    partition: TopicPartition
    position: int
    first: int
    end: int
    to: int
    topic_id: str = ""
    leader_epoch: int = -1

    @property
    def again(self) -> int:
        """Source offsets that will be copied once more."""
        return max(0, self.position - self.to) if self.position != NO_OFFSET else 0

    @property
    def skipped(self) -> int:
        """Source offsets that will never be copied."""
        return max(0, self.to - max(self.position, self.first))


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
        standings = _standings(sides, known, (topic,), partition, to)
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
        changed = [one for one in standings if one.to != one.position or one.partition in ordered]
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
    if opened.lost_runs:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="its internal topic has lost what the newest runs wrote, so its positions do not hold",
            remedy="start the flow, which reads the target's logs, and try again",
        )
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
    records: list[Progress | Targets] = [
        _progress(one, opened, one.topic_id, target_ids.get(there[one.partition].topic, "")) for one in changed
    ]
    for one in changed:
        last = state.last(one.partition)
        records += () if last is None else closing(last)
    moved = {one.partition for one in changed}
    orders = [key for key, order in state.moves.items() if order.partition in moved]
    opened.store.write([*records, opened.stopped()], tombstones=orders)


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
