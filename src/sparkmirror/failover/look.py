"""What an operation sees of both sides: whether the source answers and takes records, how far the flow is, the groups.

Invariants: nothing is changed; a source that does not answer is a value, not an error; the target has to answer.
Heartbeats are left out: mirrors write them without end, and nobody misses one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties import topics
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.groups import refusal
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.errors import SparkmirrorError
from sparkmirror.events import now_ms
from sparkmirror.failover.moves import Sight
from sparkmirror.kafka import admin
from sparkmirror.kafka.groups import Committed, GroupListing, Offsets, fetch_offsets, list_groups
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import policy_for
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState

REACH_MS = 3_000
"""A source that does not answer for so long is taken for gone, as far as a plan is concerned."""

PRODUCING_SECONDS = 2.0
"""Between the two looks that tell whether a source still takes records."""

OLDEST_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One partition of the flow.

    Attributes:
        partition: of the source.
        target: the same on the target.
        position: up to this source offset everything is on the target, or was left out on purpose.
        end: the end of the source as it was seen last, or `NO_OFFSET`.
        seen_ms: when that was, milliseconds since 1970.
        standing: why it stands still, or "".
    """

    partition: TopicPartition
    target: TopicPartition
    position: int
    end: int
    seen_ms: int
    standing: str = ""

    @property
    def missing(self) -> int:
        """Source offsets that are known to be missing on the target."""
        return max(0, self.end - self.position) if self.end != NO_OFFSET else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The source, if it answers.

    Attributes:
        failure: why it does not, or "".
        ends: of the partitions that the flow copies: what a reader may get to.
        high: the same, with what open transactions keep from readers.
        produced: records that it took between two looks.
    """

    failure: str = ""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    high: Mapping[TopicPartition, int] = field(default_factory=dict)
    produced: int = 0

    @property
    def answers(self) -> bool:
        """Whether it does."""
        return not self.failure


def partitions(flow: FlowConfig, state: JournalState, ends: Mapping[TopicPartition, int]) -> tuple[PartitionState, ...]:
    """Every partition of the flow, in order.

    Args:
        flow: the flow.
        state: its internal topic, read to its end.
        ends: of the source, asked now; empty where it does not answer.
    """
    committed: dict[TopicPartition, int] = {}
    for seen in state.groups.values():
        for number, (offset, _) in seen.offsets.items():
            place = TopicPartition(seen.topic, number)
            committed[place] = max(offset, committed.get(place, NO_OFFSET))
    now, policy = now_ms(), policy_for(flow.policy, flow.source.alias)
    return tuple(
        _partition(flow, progress, ends.get(place, NO_OFFSET), committed.get(place, NO_OFFSET), now)
        for place, progress in sorted(state.progress.items())
        if not policy.is_heartbeats_topic(place.topic)
    )


def _partition(flow: FlowConfig, progress: Progress, asked: int, committed: int, now: int) -> PartitionState:
    place = progress.partition
    seen = max(progress.end, committed)
    known = max(seen, progress.position) if seen != NO_OFFSET else NO_OFFSET
    return PartitionState(
        partition=place,
        target=TopicPartition(topics.remote_topic(flow, place.topic), place.partition),
        position=progress.position,
        end=asked if asked != NO_OFFSET else known,
        seen_ms=now if asked != NO_OFFSET else progress.time_ms,
        standing=progress.error,
    )


def source(sides: Sides, *, producing: bool = True) -> SourceState:
    """Asks the source, for a few seconds at most.

    Args:
        sides: the flow and its clusters.
        producing: whether to look twice, to see whether it takes records.
    """
    try:
        admin.cluster_id(sides.source, REACH_MS)
        ends, high = source_ends(sides, committed=True), source_ends(sides, committed=False)
        if not producing:
            return SourceState(ends=ends, high=high)
        time.sleep(PRODUCING_SECONDS)
        later = source_ends(sides, committed=False)
    except SparkmirrorError as failure:
        return SourceState(failure=str(failure))
    produced = sum(max(0, later[place] - high.get(place, 0)) for place in later)
    return SourceState(ends=ends, high=later, produced=produced)


def source_ends(sides: Sides, *, committed: bool) -> dict[TopicPartition, int]:
    """The ends of all partitions that the flow copies.

    Args:
        sides: the flow and its clusters.
        committed: as the flow's readers see them; else with what open transactions have written.

    Raises:
        SparkmirrorError: the source cannot be asked.
    """
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    policy = policy_for(flow.policy, flow.source.alias)
    chosen = topics.choose(flow, admin.list_topics(sides.source, timeout_ms=timeout_ms))
    places = [
        TopicPartition(name, number)
        for name, topic in chosen.items()
        if not policy.is_heartbeats_topic(name)
        for number in topic.partitions
    ]
    isolation = flow.isolation if committed else Isolation.READ_UNCOMMITTED
    return admin.list_offsets(sides.source, places, OffsetSpec.LATEST, isolation=isolation, timeout_ms=timeout_ms)


def groups_now(sides: Sides) -> tuple[dict[str, GroupListing], dict[str, Offsets]]:
    """The source's groups that the flow translates, and what they have committed.

    Raises:
        SparkmirrorError: the source cannot be asked, or a group's offsets cannot be read.
    """
    timeout_ms = sides.flow.admin_timeout_ms
    listed = list_groups(sides.source, timeout_ms)
    chosen = {name: listing for name, listing in listed.items() if refusal(sides.flow, listing) is None}
    return chosen, dict(fetch_offsets(sides.source, sorted(chosen), timeout_ms).complete())


def sight(sides: Sides, maps: KnownMaps) -> Sight:
    """What is on record of the source's groups, and how they stand on the target.

    Args:
        sides: the flow and its clusters; the source is not asked.
        maps: of the flow.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    flow, target, timeout_ms = sides.flow, sides.target, sides.flow.admin_timeout_ms
    assert sides.store is not None  # a flow that was never started has no operation
    sides.store.follow()
    state = sides.store.state
    offsets, seen_ms = on_record(state)
    places = {place for own in offsets.values() for place in own}
    renamed = {name: topics.remote_topic(flow, name) for name in topics.wanted(flow, {p.topic for p in places})}
    copied = {place for place in places if place.topic in renamed}
    there = [TopicPartition(renamed[place.topic], place.partition) for place in sorted(copied)]
    listed = list_groups(target, timeout_ms)
    known = [group for group in offsets if group in listed]
    return Sight(
        offsets=offsets,
        seen_ms=seen_ms,
        renamed=renamed,
        maps=maps.of(copied),
        inherited=dict(state.inherited),
        oldest=admin.find_offsets(target, there, OffsetSpec.EARLIEST, timeout_ms=min(timeout_ms, OLDEST_MS)).found,
        listed=listed,
        there=fetch_offsets(target, known, timeout_ms).complete(),
    )


def on_record(state: JournalState) -> tuple[dict[str, Offsets], dict[str, int]]:
    """What groups had committed on the source when it was seen last, and when that was."""
    offsets: dict[str, dict[TopicPartition, Committed]] = {}
    seen_ms: dict[str, int] = {}
    asked = state.groups_seen.time_ms if state.groups_seen is not None else 0
    for seen in state.groups.values():
        own = offsets.setdefault(seen.group, {})
        own |= {TopicPartition(seen.topic, number): Committed(*each) for number, each in seen.offsets.items()}
        seen_ms[seen.group] = max(seen.time_ms, asked)
    return dict(offsets), seen_ms
