"""Where partitions of a stopped flow go on, changed by an operator: to the start, the end, a time, or exact offsets.

The change is made as a driver would make it: the flow is taken (so whoever still runs it ends), every writer epoch is
raised, the new positions go on record under the new epochs, and the clean end with them. The next start goes on there.

Invariants: only a flow that ended cleanly is changed, since a takeover would find the old position in the target's log;
what a change means for the target, records copied again or never, is told before and after; a dry run changes nothing.
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
from sparkmirror.flow.planner import ids_of_topics
from sparkmirror.flow.sides import connected, record
from sparkmirror.flow.starts import find_starts
from sparkmirror.kafka import admin
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.records import Progress, Stopped
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
    """

    partition: TopicPartition
    position: int
    first: int
    end: int
    to: int

    @property
    def again(self) -> int:
        """Source offsets that will be copied once more."""
        return max(0, self.position - self.to) if self.position != NO_OFFSET else 0

    @property
    def skipped(self) -> int:
        """Source offsets that will never be copied."""
        return max(0, self.to - max(self.position, self.first))


def show(flow: FlowConfig, wanted: Sequence[str] = ()) -> tuple[Standing, ...]:
    """Where the partitions of a flow are, those of some topics or of all.

    Raises:
        SparkmirrorError: a cluster cannot be asked.
    """
    with connected(flow, role="positions") as sides:
        return _standings(sides, record(sides) or JournalState(), wanted, None, None)


def move(
    flow: FlowConfig, file: str, topic: str, partition: int | None, to: Wanted, *, dry_run: bool = False
) -> tuple[Standing, ...]:
    """Moves one topic, or one of its partitions.

    Args:
        flow: which must be stopped.
        file: the configuration file, for messages.
        topic: of the source.
        partition: one of its numbers; None for all.
        to: where to.
        dry_run: tell only what would be.

    Raises:
        ConfigError: the flow does not copy the topic, runs, or did not end cleanly; or the source has no such offset.
        SparkmirrorError: a cluster cannot be asked or written to.
    """
    with connected(flow, role="positions") as sides:
        known = record(sides) or JournalState()
        check_stopped(flow, known, file)
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
        changed = [one for one in standings if one.to != one.position]
        if changed and not dry_run:
            _write(flow, sides, file, changed)
        return standings


def _standings(
    sides: Sides, known: JournalState, wanted: Sequence[str], number: int | None, to: Wanted | None
) -> tuple[Standing, ...]:
    flow, source, timeout_ms = sides.flow, sides.source, sides.flow.admin_timeout_ms
    chosen = topics.choose(flow, admin.list_topics(source, timeout_ms=timeout_ms))
    places = [
        TopicPartition(name, each)
        for name, topic in chosen.items()
        if not wanted or name in wanted
        for each in sorted(topic.partitions)
        if number is None or each == number
    ]
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
        standing = Standing(partition=place, position=position, first=first[place], end=ends[place], to=position)
        found.append(standing if to is None else replace(standing, to=_target(standing, to, at)))
    return tuple(found)


def _target(standing: Standing, to: Wanted, at: Mapping[TopicPartition, int]) -> int:
    if isinstance(to, Exactly):
        return to.offset
    if isinstance(to, Moment) or to is Place.CONFIGURED:
        found = at[standing.partition]
        return standing.end if found == NO_OFFSET else found
    return standing.end if to is Place.LATEST else standing.first


def check_stopped(flow: FlowConfig, known: JournalState, file: str) -> None:
    """Refuses a flow that runs, or whose last run did not end cleanly; one that was never started is neither.

    Raises:
        ConfigError: it is one of these.
    """
    if known.stopped is not None and known.flow is not None and known.stopped.generation == known.flow.generation:
        return
    if known.flow is None and not known.progress:
        return  # never started: what is set now is where it begins
    raise ConfigError(
        file=file,
        key=str(flow.name),
        reason="the flow runs, or its last run did not end cleanly",
        remedy="stop it first (SIGTERM); after an unclean end start it once more and stop it",
    )


def _check_range(one: Standing, flow: FlowConfig, file: str) -> None:
    if not one.first <= one.to <= one.end:
        raise ConfigError(
            file=file,
            key=str(flow.name),
            reason=f"{one.partition} has offsets {one.first} to {one.end} on cluster {flow.source.alias}, not {one.to}",
            remedy="give an offset between the two, or earliest or latest",
        )


def _write(flow: FlowConfig, sides: Sides, file: str, changed: Sequence[Standing]) -> None:
    """Takes the flow, and puts the new positions and a clean end on record."""
    opened = open_flow(flow, sides.source, sides.target, file, uuid.uuid4().hex[:12], Identities(file))
    source_ids = ids_of_topics(sides.source, {one.partition.topic for one in changed})
    there = {one.partition: _on_target(flow, one.partition) for one in changed}
    target_ids = ids_of_topics(sides.target, {place.topic for place in there.values()})
    records: list[Progress | Stopped] = [
        _progress(one, opened, source_ids.get(one.partition.topic, ""), target_ids.get(there[one.partition].topic, ""))
        for one in changed
    ]
    opened.store.write([*records, Stopped(generation=opened.generation, time_ms=now_ms())])


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
        topic_id=source_id,
        target_id=target_id,
        settled=True,
        anew=True,
        time_ms=now_ms(),
    )
    return fresh if before is None else replace(fresh, reached=before.reached, newest_ms=before.newest_ms)


def _on_target(flow: FlowConfig, partition: TopicPartition) -> TopicPartition:
    return TopicPartition(topics.remote_topic(flow, partition.topic), partition.partition)
