"""Where logs of a cluster part from what was copied of them, and topics that are others by now.

As the flow itself sees it when it goes on: by topic ids and by the leader epochs of what was copied last.

References: KIP-101 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.duties.copied_records import CopiedRecords
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import CopiedLog, meeting_points
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.source_history import UNDEFINED


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where a log parts from what was copied of it: it has lost the rest, and may have other records there.

    Attributes:
        partition: on the cluster that came back.
        offset: of the first record that it lost.
        position: up to which it had been copied.
    """

    partition: TopicPartition
    offset: int
    position: int

    @property
    def row(self) -> list[Any]:
        """For the record."""
        return [*self.partition, self.offset, self.position]

    @staticmethod
    def of(row: Sequence[Any]) -> Parting:
        """From the record."""
        topic, number, offset, position = row
        return Parting(partition=TopicPartition(topic, number), offset=offset, position=position)

    def said(self, here: str, there: str) -> str:
        """What is said of it.

        Args:
            here: where applications are.
            there: the cluster that came back.
        """
        return (
            f"{self.partition}: {there} has lost what lay from offset {self.offset} on, and had been copied up to "
            f"offset {self.position}: these records are on {here} only, and groups that have not read them skip them"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCopies:
    """What the cluster that applications are on has lost of what was copied to it.

    Attributes:
        partition: on the cluster that it was copied from, which still has the records.
        copy: the partition that has lost them.
        offset: from which on, in the copy.
        first, last: the records, by their offsets in `partition`.
    """

    partition: TopicPartition
    copy: TopicPartition
    offset: int
    first: int
    last: int

    @property
    def row(self) -> list[Any]:
        """For the record."""
        return [*self.partition, *self.copy, self.offset, self.first, self.last]

    @staticmethod
    def of(row: Sequence[Any]) -> LostCopies:
        """From the record."""
        topic, number, copy, copy_number, offset, first, last = row
        place, there = TopicPartition(topic, number), TopicPartition(copy, copy_number)
        return LostCopies(partition=place, copy=there, offset=offset, first=first, last=last)

    def said(self, here: str, there: str) -> str:
        """What is said of it.

        Args:
            here: where applications are.
            there: the cluster that came back.
        """
        return (
            f"{self.copy}: {here} has lost what had been copied there from offset {self.offset} on, which is offsets "
            f"{self.first} to {self.last} of {self.partition} on {there}: groups that may not have read them do so on "
            f"{there}, and they are copied to {here} again, with all that lies behind them"
        )


def recreated_topics(progress: Mapping[TopicPartition, Progress], ids: Mapping[str, str]) -> tuple[str, ...]:
    """The topics that were deleted and created again since they were copied, in order. Pure.

    Args:
        progress: of the flow that copied.
        ids: of the topics as they are now, "" before Kafka 2.8.
    """
    known = {place.topic: one.topic_id for place, one in progress.items() if one.topic_id}
    return tuple(sorted(name for name, topic_id in known.items() if ids.get(name, "") not in ("", topic_id)))


def parted_logs(
    sides: Sides,
    progress: Mapping[TopicPartition, Progress],
    log_ends: Mapping[TopicPartition, int],
    recreated: Collection[str],
    timeout_ms: int,
    *,
    restored: bool = False,
) -> tuple[Parting, ...]:
    """The logs of the source that have lost the end of what was copied, in order.

    Args:
        sides: the flow that copied, and its clusters.
        progress: of the flow.
        log_ends: of the logs now; others are not looked at.
        recreated: topics that are not looked at.
        timeout_ms: of each question.
        restored: whether the logs may be older copies of their disks that have caught up: records are compared too.

    Raises:
        SparkmirrorError: a cluster cannot be asked about one of them.
    """
    found = find_partings(sides, progress, log_ends, recreated, timeout_ms, restored=restored)
    for failure in found.failed.values():
        raise failure
    return tuple(one for _, one in sorted(found.found.items()))


def find_partings(
    sides: Sides,
    progress: Mapping[TopicPartition, Progress],
    log_ends: Mapping[TopicPartition, int],
    recreated: Collection[str],
    timeout_ms: int,
    *,
    restored: bool = False,
) -> Results[TopicPartition, Parting]:
    """As `parted_logs`; logs of which that is not known are among the failed ones."""
    assert sides.store is not None  # the flow has copied
    history = sides.store.state.history
    copied = {
        place: one
        for place, one in progress.items()
        if place in log_ends and place.topic not in recreated and one.position != NO_OFFSET
    }
    asked = {
        place: CopiedLog(
            epoch=one.leader_epoch, position=one.position, history=history(place, one.topic_id), restored=restored
        )
        for place, one in copied.items()
        if one.leader_epoch >= 0
    }
    records = CopiedRecords(sides.flow, sides.source, sides.target, KnownMaps(sides).of, timeout_ms)
    told = meeting_points(sides.source, asked, records.compare, timeout_ms)
    points = {place: log_ends[place] for place in copied if place not in told.failed}
    points |= {place: end.end for place, end in told.found.items() if end.end != UNDEFINED}
    return Results(
        found={
            place: Parting(partition=place, offset=point, position=copied[place].position)
            for place, point in points.items()
            if point < copied[place].position
        },
        failed=told.failed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedLogs:
    """What of a cluster is not what was copied, as far as it answers.

    Attributes:
        recreated: topics that were deleted and created again.
        parted: by partition the first offset of what its log has lost.
        unchecked: what is not known, and why; "" where all is.
    """

    recreated: frozenset[str] = frozenset()
    parted: Mapping[TopicPartition, int] = field(default_factory=dict)
    unchecked: str = ""


def look_for_partings(sides: Sides, progress: Mapping[TopicPartition, Progress], timeout_ms: int) -> PartedLogs:
    """Compares the source's logs with what was copied of them; what does not answer is told and not raised.

    Args:
        sides: the flow that copied, and its clusters.
        progress: of the flow, read before.
        timeout_ms: of each question.
    """
    if not progress:
        return PartedLogs()
    cluster = sides.source
    recreated: tuple[str, ...] = ()
    try:
        recreated = recreated_topics(progress, ids_of_topics(cluster, {place.topic for place in progress}, timeout_ms))
        ends = admin.find_offsets(cluster, sorted(progress), OffsetSpec.LATEST, timeout_ms=timeout_ms)
        found = find_partings(sides, progress, ends.found, recreated, timeout_ms)
    except SparkmirrorError as failure:
        return PartedLogs(recreated=frozenset(recreated), unchecked=_unchecked(cluster, failure))
    unasked = [_unchecked(cluster, why) for why in (*ends.failed.values(), *found.failed.values())]
    return PartedLogs(
        recreated=frozenset(recreated),
        parted={place: one.offset for place, one in found.found.items()},
        unchecked=next(iter(unasked), ""),
    )


def _unchecked(cluster: Cluster, failure: Exception) -> str:
    return (
        f"whether {cluster.alias} still has what was copied, or has deleted topics and created them again, is not "
        f"known: {failure}"
    )
