"""Where partitions go on, changed by an operator: to the start, the end, a time, or exact offsets.

A change is an order on record (`MoveOrder`), and `planning` carries it out, which holds it against what was copied. Of
a flow that runs its driver does so, when the lanes have given the partitions back. Of a flow that ended cleanly this
command does: it takes the flow, as a driver would, plans these partitions, and writes a clean end. What cannot be
planned now (the target has no such topic yet, a broker does not answer) stays an order, which the next start carries
out. So it is after an unclean end too, since only a takeover can tell what the target has.

Invariants: one path decides what an order leads to, whether the flow runs or not; the offsets that are reported count
what the source still has of what was copied; a dry run changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from sparkmirror.config import FlowConfig
from sparkmirror.copy.registrations import transactional_id
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import ConfigError, FencedError, SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.flow.homecoming import Homecoming
from sparkmirror.flow.identities import Identities
from sparkmirror.flow.opening import Opened, check_held, open_flow
from sparkmirror.flow.operator import who
from sparkmirror.flow.parting import parted_logs, recreated_topics
from sparkmirror.flow.planner import check_ids
from sparkmirror.flow.planning import Planning
from sparkmirror.flow.restoring import last_records
from sparkmirror.flow.sides import BOTH, connected, record
from sparkmirror.flow.starts import find_starts
from sparkmirror.flow.writers import GROUPS
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import newest_epochs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.kafka.transactional_ids import can_be_asked, holder
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.writers import ran_since


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
        parted: the first copied offset that the source does not have any more as it was copied, or `NO_OFFSET`; not
            looked at where positions are only shown.
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
        """Up to where the source still has what was copied, or `NO_OFFSET`."""
        return self.position if self.parted == NO_OFFSET else self.parted

    @property
    def again(self) -> int:
        """Source offsets that will be copied once more."""
        return max(0, self.kept - max(self.to, self.first)) if self.position != NO_OFFSET else 0

    @property
    def skipped(self) -> int:
        """Source offsets that will never be copied."""
        return max(0, self.to - max(self.kept, self.first))

    @property
    def lost(self) -> str:
        """What the source has no more of what was copied, and what that means for groups, for people; or ""."""
        if self.parted == NO_OFFSET:
            return ""
        text = (
            f"{self.partition}: offsets {self.parted} to {self.position - 1} were copied and are not in the source's "
            f"log any more; what it has from offset {self.parted} on are other records"
        )
        left = f", of which offsets {self.kept} to {self.to - 1} are left out: groups there skip them on the target"
        return text + (left if self.skipped else "")


class Effect(Enum):
    """What became of a wish to move partitions."""

    NONE = "nothing was changed"
    MADE = "the next start goes on there"
    ORDERED = "the flow goes on there within seconds, or when it is started"


class Moved(NamedTuple):
    """What became of a wish to move partitions.

    Attributes:
        standings: each partition, as it was when it was asked.
        effect: what was done.
        waiting: why partitions of a stopped flow wait for its next start, for people.
    """

    standings: tuple[Standing, ...]
    effect: Effect
    waiting: tuple[str, ...] = ()


def show(flow: FlowConfig, wanted: Sequence[str] = ()) -> tuple[Standing, ...]:
    """Where the partitions of a flow are, those of some topics or of all.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    with connected(flow, role="positions", needs=BOTH) as sides:
        known = record(sides) or JournalState()
        ordered = {order.partition: order.to for order in known.moves.values()}
        found = _standings(sides, known, wanted, None, None)
        return tuple(replace(one, to=ordered.get(one.partition, one.to)) for one in found)


def move(flow: FlowConfig, file: str, topic: str, partition: int | None, to: Wanted, *, dry_run: bool = False) -> Moved:
    """Moves one topic, or one of its partitions.

    Args:
        flow: which may run.
        file: the configuration file, for messages.
        topic: of the source.
        partition: one of its numbers; None for all.
        to: where to.
        dry_run: tell only what would be.

    Raises:
        ConfigError: the flow does not copy the topic, or the source has no such offset.
        HeldError: an operation holds the flow, which would have to be taken.
        SparkmirrorError: a cluster cannot be asked or written to.
    """
    with connected(flow, role="positions", needs=BOTH) as sides:
        known = record(sides) or JournalState()
        standings = _with_partings(sides, known, _standings(sides, known, (topic,), partition, to))
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
        ordered, stopped = {order.partition for order in known.moves.values()}, is_stopped(known)
        changed = [
            one
            for one in standings  # a lane that runs is further than the record
            if not stopped or one.to != one.position or one.parted != NO_OFFSET or one.partition in ordered
        ]
        made = stopped and not {one.partition for one in changed}.intersection(known.in_doubt())
        if changed and made:
            check_held(flow, known)
        if not changed or dry_run:
            return Moved(standings, Effect.NONE)
        if made:
            return Moved(standings, Effect.MADE, _carry_out(sides, file, known, changed))
        assert sides.store is not None  # a flow that is not stopped has a record
        sides.store.write(_orders(sides, changed))
        return Moved(standings, Effect.ORDERED)


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


def _with_partings(sides: Sides, known: JournalState, standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """The same, with what the source's logs do not have any more of what was copied.

    Raises:
        SparkmirrorError: a cluster cannot be asked about one of them.
    """
    if sides.store is None or not known.progress:
        return tuple(standings)
    ends = {one.partition: one.end for one in standings}
    progress = {place: known.progress[place] for place in ends if place in known.progress}
    recreated = recreated_topics(progress, {one.partition.topic: one.topic_id for one in standings})
    parted = parted_logs(sides, progress, ends, recreated, sides.flow.admin_timeout_ms, restored=True)
    points = {one.partition: one.offset for one in parted}
    points |= {place: 0 for place, one in progress.items() if place.topic in recreated and one.position > 0}
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
        return not known.progress and not known.lacks_start
    return known.is_stopped


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


def _orders(sides: Sides, changed: Sequence[Standing]) -> list[MoveOrder]:
    """The orders, of the topics that are there now.

    Raises:
        SparkmirrorError: a topic was created again since it was looked at.
    """
    there = {one.partition: _on_target(sides.flow, one.partition).topic for one in changed}
    target_ids = ids_of_topics(sides.target, set(there.values()))
    _check_same(sides, changed)
    now, by = now_ms(), who()
    return [
        MoveOrder(
            partition=one.partition,
            to=one.to,
            topic_id=one.topic_id,
            target_id=target_ids.get(there[one.partition], ""),
            time_ms=now,
            by=by,
            leader_epoch=one.leader_epoch,
        )
        for one in changed
    ]


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


def check_lost_runs(target: Cluster, known: JournalState, flow: FlowConfig, file: str) -> None:
    """Refuses a flow that has run since the clean end on record, before it is taken: its driver may live.

    The coordinator is asked, which knows of starts that the internal topic has lost. Brokers before 3.0 cannot be
    asked; `check_taken` finds it there once the flow is taken.

    Raises:
        ConfigError: it has.
        SparkmirrorError: the coordinator cannot be asked.
    """
    if known.flow is None or known.stopped is None or not can_be_asked(target):
        return
    names = [transactional_id(str(flow.name), (known.flow.source_id,), group) for group in range(GROUPS)]
    asked = [target.run(holder, target, name, flow.admin_timeout_ms) for name in names]
    if ran_since((found for found in asked if found is not None), known.stopped.writers):
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="its internal topic has lost what the newest runs wrote, so its positions do not hold",
            remedy=(
                "if the flow runs, try again in a minute, when its driver has put there again what it knows; else "
                "start the flow, which reads the target's logs, and try again"
            ),
        )


def check_taken(opened: Opened, known: JournalState, flow: FlowConfig, file: str) -> None:
    """Sees that nobody had the flow between the look at its record and its opening, and that the record is whole.

    Raises:
        ConfigError: somebody had, or it is not; nothing of what was decided holds.
        SparkmirrorError: the record cannot be read.
    """
    before = known.newest_generation
    opened.store.follow()
    if opened.lost_runs or opened.store.lacks:
        topic = "its internal topic or __transaction_state" if opened.lost_runs else "its internal topic"
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"{topic} has lost the end of its log, so its positions do not hold",
            remedy="start the flow, which reads the target's logs, and try again",
        )
    if not opened.clean or opened.generation != before + 1:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason="another run took the flow meanwhile",
            remedy="see that only one is started, and try again when it has ended",
        )


def _carry_out(sides: Sides, file: str, known: JournalState, changed: Sequence[Standing]) -> tuple[str, ...]:
    """Takes the flow, has orders carried out as its driver would, and puts a clean end on record.

    Returns:
        why some of them wait for the next start.

    Raises:
        ConfigError: another run took the flow meanwhile, or one has had it since the clean end on record.
        FencedError: one takes it now.
        SparkmirrorError: a cluster cannot be asked or written to.
    """
    check_lost_runs(sides.target, known, sides.flow, file)
    orders = _orders(sides, changed)
    opened = open_flow(sides.flow, sides.source, sides.target, file, uuid.uuid4().hex[:12], Identities(file))
    check_taken(opened, known, sides.flow, file)
    opened.store.write(orders)
    opened.store.follow()
    try:
        waiting = _plan(sides, opened, [one.partition for one in changed])
    except FencedError:
        raise
    except SparkmirrorError as failure:  # no lane has had anything, so the end is a clean one
        waiting = (str(failure),)
    opened.store.write(last_records(opened))
    return waiting


def _plan(sides: Sides, opened: Opened, partitions: Sequence[TopicPartition]) -> tuple[str, ...]:
    """Decides where partitions go on that the target has; the others begin when it has them."""
    flow, source, target = sides.flow, sides.source, sides.target
    there = {here: _on_target(flow, here) for here in partitions}
    absent = admin.absent(target, there.values(), flow.admin_timeout_ms)
    pairs = [(here, place) for here, place in there.items() if place not in absent]
    if not pairs:
        return ()
    planning = Planning(flow, opened, source, target, Homecoming(flow, opened, source), once=False)
    waiting = planning.plan(pairs, {}, {}).waiting
    return tuple(f"{here}: {event.text}" for here, (event, _) in sorted(waiting.items()))


def _on_target(flow: FlowConfig, partition: TopicPartition) -> TopicPartition:
    return TopicPartition(topics.remote_topic(flow, partition.topic), partition.partition)
