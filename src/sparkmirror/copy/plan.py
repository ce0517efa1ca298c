"""Which lane copies which partition, and from where: the driver's side of a shift, pure.

A shift is one Spark job of a lane. Its plan names every partition with the position to start from, or with the shift
that hands it over: then the position comes from that shift's handover record, so that two shifts of a lane can overlap
and the copy pauses for milliseconds only.

Invariants: plans carry no secrets; everything pickles; a partition belongs to one lane at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkmirror.copy.orders import NO_ORDERS, Orders
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.kafka.producer_ids import NOBODY
from sparkmirror.model import (
    MAX_MESSAGE_BYTES,
    NO_OFFSET,
    NO_RECORD,
    NOTHING,
    NOTHING_BEFORE,
    UNKNOWN,
    WENT_ON,
    Began,
    Copied,
    CopiedBefore,
    LastRecord,
    Reached,
    TopicPartition,
    Writer,
)
from sparkmirror.offsets.recovery import UNKNOWN_MS

GUARDED_MS = 23 * 3_600_000
"""Brokers forget a producer whose newest record is a day old, unless ``producer.id.expiration.ms`` says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """One partition of a shift.

    Attributes:
        source: the source topic and partition.
        target_topic: where it goes; the partition number stays.
        topic_id, target_id: of the source and the target topic as 32 hexadecimal digits, or "".
        position: the next source offset to copy; unused where ``after`` is set.
        until: stop when this source offset is reached, or `NO_OFFSET` for never.
        writer: producer id and epoch to write with.
        sequence: the next sequence number of that epoch.
        opened: whether the segment that opens the epoch is on record.
        last: the last record of that epoch that was acknowledged, and what it came after.
        inherited: what MirrorMaker 2 had copied when the flow took over.
        began: why the writer epoch began where it did.
        after: the shift that hands the partition over, or "".
        max_message_bytes: the target topic's limit for a batch.
        log_append_time: whether the target topic sets its own timestamps.
        codec: what the target topic's brokers compress every batch with, or "" if they leave that as it comes.
        copied: what the run did with it before.
        leader_epoch: of the source's batch left of the position, or -1 if nobody knows.
        epoch_on_record: the newest leader epoch of the source whose begin is on record, or -1.
        anew: whether the writer epoch begins where source or target are not what older epochs knew, see `Segment`.
        reached: how far the target's log is known to go; a leader that has less is not written to.
        recovery_ms: the recovery point so far, see ``offsets.recovery``.
        copies_end: the source offset behind the last copy of the flow the other way that was met, or `NO_OFFSET`.
        carried: ids of the clusters whose records, mirrored into the source, this writer epoch may carry on.
        homeward: whether the source topic is a copy of the target topic, of which only what others wrote goes there.
    """

    source: TopicPartition
    target_topic: str
    topic_id: str
    position: int
    writer: Writer
    until: int = NO_OFFSET
    sequence: int = 0
    opened: bool = False
    after: str = ""
    max_message_bytes: int = MAX_MESSAGE_BYTES
    log_append_time: bool = False
    codec: str = ""
    copied: Copied = NOTHING
    target_id: str = ""
    leader_epoch: int = -1
    epoch_on_record: int = -1
    anew: bool = False
    reached: Reached = UNKNOWN
    last: LastRecord = NO_RECORD
    inherited: CopiedBefore = NOTHING_BEFORE
    began: Began = WENT_ON
    recovery_ms: int = UNKNOWN_MS
    copies_end: int = NO_OFFSET
    carried: tuple[str, ...] = ()
    homeward: bool = False

    @property
    def target(self) -> TopicPartition:
        """The target topic and partition."""
        return TopicPartition(self.target_topic, self.source.partition)

    @property
    def facts(self) -> TargetFacts:
        """What the target topic asked of a batch when this was planned."""
        return TargetFacts(
            max_message_bytes=self.max_message_bytes, log_append_time=self.log_append_time, codec=self.codec
        )

    def with_writer(self, writer: Writer) -> PartitionPlan:
        """The same partition, under an epoch that nobody has written it with."""
        return replace(self, writer=writer, sequence=0, opened=False, last=self.last.only_before(), began=WENT_ON)

    def with_facts(self, facts: TargetFacts) -> PartitionPlan:
        """The same partition, for a target topic that asks for something else by now."""
        return replace(
            self,
            max_message_bytes=facts.max_message_bytes,
            log_append_time=facts.log_append_time,
            codec=facts.codec,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftPlan:
    """One shift of one lane.

    Attributes:
        flow: the flow's name, ``source->target``.
        run: the driver's run; control records of other runs are not for us.
        shift: unique within the run, such as ``lane-2.7``.
        generation: the driver's start counter of the flow.
        driver: by what the driver owned the internal topic when it took the flow.
        source_id, target_id: the ids of the clusters.
        loops_by_writer: drop batches that a mirror wrote and that came from the target.
        internal_topic, control_topic: of the flow, on the target.
        control_offset: where in the control topic to begin reading.
        max_ms: milliseconds until the lane hands over by itself; 0 for never.
        grace_ms: milliseconds beyond ``max_ms`` that it waits for its successor to be ready.
        guarded_ms: how old the newest record of a batch may be, in milliseconds, for the target's brokers to remember
            its writer: ``producer.id.expiration.ms`` there, less a margin. Older batches are unguarded.
        once: ends when every partition has reached its ``until``.
        orders: what holds when it starts; the control topic has what comes.
    """

    flow: str
    run: str
    shift: str
    generation: int
    partitions: tuple[PartitionPlan, ...]
    driver: Writer = NOBODY
    source_id: str = ""
    target_id: str = ""
    loops_by_writer: bool = False
    internal_topic: str = ""
    control_topic: str = ""
    control_offset: int = 0
    max_ms: int = 0
    grace_ms: int = 10_000
    guarded_ms: int = GUARDED_MS
    once: bool = False
    orders: Orders = NO_ORDERS

    @property
    def predecessors(self) -> frozenset[str]:
        """The shifts that hand partitions over to this one."""
        return frozenset(p.after for p in self.partitions if p.after)


def pack(weights: Mapping[TopicPartition, float], lanes: int) -> tuple[tuple[TopicPartition, ...], ...]:
    """Packs partitions into at most ``lanes`` lanes, the heaviest first, each into the lightest lane so far.

    Args:
        weights: partition → bytes per second, or any measure of work. Every partition counts a little, so that idle
            ones are spread too.
        lanes: how many lanes at most; at least 1.

    Returns:
        the non-empty lanes, each sorted.
    """
    count = min(lanes, len(weights))
    if count == 0:
        return ()
    floor = max(1.0, sum(weights.values()) / len(weights) / 100)
    loads: list[tuple[float, int]] = [(0.0, lane) for lane in range(count)]
    members: list[list[TopicPartition]] = [[] for _ in range(count)]
    for partition in sorted(weights, key=lambda p: (-weights[p], p)):
        load, lane = heapq.heappop(loads)
        members[lane].append(partition)
        heapq.heappush(loads, (load + max(floor, weights[partition]), lane))
    return tuple(tuple(sorted(lane)) for lane in members)


def lane_count(tasks_max: int | None, free_slots: int, partitions: int) -> int:
    """How many lanes a flow gets: one for each free slot, never above partitions or ``tasks.max`` where it is set."""
    return min(max(1, free_slots), partitions, partitions if tasks_max is None else tasks_max)


def group_of(partition: TopicPartition, groups: int) -> int:
    """Which of the flow's producer ids writes a partition: a stable hash, since Python's own differs between runs."""
    value = 2166136261
    for byte in f"{partition.topic}\0{partition.partition}".encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value % groups
