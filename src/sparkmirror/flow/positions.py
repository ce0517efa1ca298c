"""Where each partition begins when a flow starts, or when partitions are added to it: pure.

Rules, in order: where a takeover or a settled stop says; the newest progress on record; else the start that the
configuration says. The first two hold if the source topic is still the one they were written for: a topic that was
deleted and made anew begins at its oldest record, with an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkmirror.copy.plan import PartitionPlan, group_of
from sparkmirror.events import Event, Kind
from sparkmirror.model import NO_OFFSET, NOTHING, Copied, TopicPartition, Writer
from sparkmirror.offsets.records import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What a target topic asks of a batch: bytes, whether it sets timestamps itself, and its codec, "" for any."""

    max_message_bytes: int
    log_append_time: bool
    codec: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Where a partition goes on that was handed out before, as a takeover or its own settled stop tells.

    Attributes:
        position: the next source offset to copy.
        writer: producer id and epoch to go on with.
        sequence: the next sequence number of that epoch.
        opened: whether the epoch's opening segment is on record.
        event: what its operator should know of it, or None.
    """

    position: int
    writer: Writer
    sequence: int = 0
    opened: bool = False
    event: Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known when positions are decided.

    Attributes:
        progress: the newest of each partition.
        topic_ids: of the source topics, "" where the brokers are too old to have them.
        starts: where a partition without a position begins.
        oldest: where each source log begins.
        ends: where to stop, for a copy that ends; empty otherwise.
        targets: target topic → facts.
        writers: one for each group of partitions.
        copied: what this run did with a partition already.
        resumed: partitions that were handed out before in this run, or were taken over.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where one partition begins, and what its operator should know of it."""

    plan: PartitionPlan
    event: Event | None = None


def decide_start(source: TopicPartition, target: TopicPartition, known: Known) -> Start:
    """Decides where ``source`` begins, with the first sequence number of its writer's new epoch."""
    position, event = _position(source, known)
    facts = known.targets[target.topic]
    resumed = known.resumed.get(source)
    plan = PartitionPlan(
        source=source,
        target_topic=target.topic,
        topic_id=known.topic_ids.get(source.topic, ""),
        position=position,
        until=known.ends.get(source, NO_OFFSET),
        writer=resumed.writer if resumed else known.writers[group_of(source, len(known.writers))],
        sequence=resumed.sequence if resumed else 0,
        opened=resumed is not None and resumed.opened,
        max_message_bytes=facts.max_message_bytes,
        log_append_time=facts.log_append_time,
        codec=facts.codec,
        copied=known.copied.get(source, NOTHING),
    )
    return Start(plan=plan, event=event)


def _position(source: TopicPartition, known: Known) -> tuple[int, Event | None]:
    progress, resumed = known.progress.get(source), known.resumed.get(source)
    position = resumed.position if resumed else progress.position if progress else NO_OFFSET
    if position == NO_OFFSET:
        return known.starts[source], None
    now = known.topic_ids.get(source.topic, "")
    if progress is not None and progress.topic_id and now and progress.topic_id != now:
        text = (
            f"the source topic was deleted and made anew since offset {position}; "
            f"going on from its oldest record, offset {known.oldest[source]}"
        )
        return known.oldest[source], Event(kind=Kind.SOURCE_RECREATED, text=text, first=position, last=position)
    return position, resumed.event if resumed else None
