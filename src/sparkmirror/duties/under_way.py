"""Copies that are on the target and not on record yet: where a group goes on behind them is not known.

A lane puts on record once a second what the target has acknowledged, and one that stands still or has died puts nothing
there. Where two flows write to one topic, the position of the flow back on the target moves over copies as soon as
they are there. A group that is level with the flow's map would go to that position, behind copies that it has not read.

Invariants: the leader of the copy tells what the flow's producer has written last; the flow's record is older, so
where both are the same nothing was written in between. One that does not say so is under way. An older epoch of the
producer, or an older producer, is settled: its last word came on record before the next one began. A leader forgets
producers that have written nothing for a day, and those of old records within minutes: then the record counts if a
driver lives that would put more there, or if the last one has ended in order, and if no copy that the flow back has met
lies behind it.

Reference: DescribeProducers (KIP-664).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.producer_states import ProducerState
from sparkmirror.model import NO_OFFSET, TopicPartition, Writer
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState

ASK_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""


class OnRecord(NamedTuple):
    """What the record of a flow says of what it has written.

    Attributes:
        progress: the newest of each partition.
        in_doubt: the partitions of which the last word may be missing if no driver lives.
        left_in_doubt: and those where it may be missing also if one does.
    """

    progress: Mapping[TopicPartition, Progress] = MappingProxyType({})
    in_doubt: frozenset[TopicPartition] = frozenset()
    left_in_doubt: frozenset[TopicPartition] = frozenset()


NOTHING_ON_RECORD = OnRecord()


def on_record(state: JournalState) -> OnRecord:
    """What the record says now; maps that are read after it are no older. Pure."""
    dead = frozenset(state.in_doubt())
    return OnRecord(dict(state.progress), dead, dead if state.ended_cleanly else frozenset(state.left_in_doubt()))


class Level(NamedTuple):
    """A partition of the source in which a group is level with the flow's map.

    Attributes:
        copy: the same on the target.
        offsets: the flow's map.
        met: the target offset behind the last copy that the flow back has met, or `NO_OFFSET`.
    """

    copy: TopicPartition
    offsets: OffsetMap
    met: int

    @property
    def has_all_met(self) -> bool:
        """Whether the map has the last copy that the flow back has met."""
        end = self.offsets.end()
        return self.met <= (0 if end is None else end.target + 1)


def under_way(
    target: Cluster,
    level: Mapping[TopicPartition, Level],
    known: OnRecord,
    timeout_ms: int,
    lives: Callable[[], bool],
) -> frozenset[TopicPartition]:
    """The partitions of the source of which the target may have copies that the flow's record does not have.

    Args:
        target: the cluster.
        level: the partitions of the source that matter.
        known: what the flow has on record.
        timeout_ms: of each question.
        lives: whether a driver runs the flow; called where it matters, since the answer may take seconds. One that
            gives a sign of life afterwards has lived when the record was read.

    Raises:
        SparkmirrorError: the cluster cannot be asked at all.
    """
    if not level:
        return frozenset()
    asked = admin.find_producers(target, sorted({each.copy for each in level.values()}), min(ASK_MS, timeout_ms))
    if_dead, if_alive = (
        unsettled(level, known.progress, asked.found, in_doubt) for in_doubt in (known.in_doubt, known.left_in_doubt)
    )
    return if_alive if if_dead != if_alive and lives() else if_dead


def unsettled(
    level: Mapping[TopicPartition, Level],
    progress: Mapping[TopicPartition, Progress],
    producers: Mapping[TopicPartition, Mapping[int, ProducerState]],
    in_doubt: Collection[TopicPartition],
) -> frozenset[TopicPartition]:
    """Those of the partitions of the source of which there may be copies that are not on record. Pure.

    Args:
        level: the partitions.
        progress: the newest on record of each.
        producers: of the copies, whose leaders tell.
        in_doubt: the partitions of which the last word may be missing.
    """
    return frozenset(
        place
        for place, each in level.items()
        if not is_settled(
            progress.get(place),
            producers.get(each.copy),
            newest=each.offsets.writer,
            certain=place not in in_doubt and each.has_all_met,
        )
    )


def is_level(offsets: OffsetMap, committed: int) -> bool:
    """Whether nothing that is on the map lies behind a committed offset. Pure."""
    end = offsets.end()
    return end is None or committed > end.source


def is_settled(
    progress: Progress | None,
    producers: Mapping[int, ProducerState] | None,
    *,
    newest: Writer | None,
    certain: bool,
) -> bool:
    """Whether the record of a partition has all that the flow has written. Pure.

    Args:
        progress: the newest on record, or None.
        producers: of the copy, by their ids; None where its leader does not tell.
        newest: who goes on with the copy, as the map knows it: a new one has its first batch announced there, and no
            progress until it has written for a second.
        certain: whether the record has the last word, as far as all records say.
    """
    if progress is None or producers is None:
        return False
    writer = newest or progress.writer
    state = producers.get(writer.producer_id)
    if state is None:
        return certain
    if state.epoch < writer.epoch:
        return True
    return state == ProducerState(writer.epoch, progress.sequence if progress.writer == writer else NO_OFFSET)
