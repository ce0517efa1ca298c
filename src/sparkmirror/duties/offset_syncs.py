"""Offset syncs: where single records lie on both sides, for MirrorMaker 2 and the tools that read its topic.

Taken from the offset map, which is exact. One is written where the difference between the offsets changes, and of the
newest record when a partition has moved on by ``offset.lag.max`` or stands still. Where a round has much to tell,
points are spread over it, as many as a reader keeps.

Invariants: the two offsets of a sync are those of one record, which the target has acknowledged; for a partition the
upstream offsets grow, unless its history changed: then all is told anew from its beginning, which makes readers forget
what they knew.

Reference: ``OffsetSyncWriter.PartitionState``, ``OffsetSyncStore``, ``MirrorSourceConfig.offsetSyncsTopic`` (KIP-382,
KIP-716).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from sparkmirror.config import FlowConfig, Side
from sparkmirror.duties.duty import Result, Sides, each
from sparkmirror.duties.known_writers import KnownWriters
from sparkmirror.duties.mirror_topics import NOT_ALLOWED, CreateTopic, create, exists, with_remedy
from sparkmirror.duties.topics import is_homeward
from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import policy_for
from sparkmirror.offsets.map import OffsetMap, Stretch
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState

EVERY_SECONDS = 1.0
MOST_AT_ONCE = 64
"""Syncs of one partition in one round: so many a reader keeps (``OffsetSyncStore.SYNCS_PER_PARTITION``)."""

MOST_STRETCHES = 20_000
"""More are not gone through in a round: each is a hole of the source, and a source may have very many."""

CALL_MS = 15_000
"""For a question or a write at most: it is repeated in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One partition that may have something to tell.

    Attributes:
        mapped: its offset map.
        written: the newest sync that this run wrote, or None.
        still: whether its newest record is the one of the round before.
        whole: whether the past is to be told where nothing was written; else an earlier run has done that.
    """

    mapped: OffsetMap
    written: OffsetSync | None
    still: bool
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSyncs:
    """Syncs to write, in the order of each partition's offsets."""

    syncs: tuple[OffsetSync, ...]
    change: None = None


class OffsetSyncs:
    """The duty."""

    name = "offset syncs"

    def __init__(self, sides: Sides) -> None:
        flow = sides.flow
        self.interval_s: float | None = EVERY_SECONDS if flow.offset_syncs.enabled else None
        self._sides = sides
        self._cluster = sides.source if flow.offset_syncs.location is Side.SOURCE else sides.target
        self._topic = topic_of(flow)
        self._journal = Journal(self._cluster, self._topic)
        self._writers = KnownWriters(sides.target, str(flow.name), flow.admin_timeout_ms)
        self._there = self._begun = False
        self._told_before: frozenset[TopicPartition] = frozenset()
        self._read: dict[TopicPartition, Progress] = {}
        self._ends: dict[TopicPartition, Stretch] = {}
        self._written: dict[TopicPartition, OffsetSync] = {}

    def look(self) -> Sequence[CreateTopic | WriteSyncs]:
        """Follows the internal topic, and looks at the partitions that moved or have something left to tell."""
        store, flow = self._sides.store, self._sides.flow
        if store is None:
            return ()
        store.follow()
        self._there = self._there or exists(self._cluster, self._topic, min(CALL_MS, flow.admin_timeout_ms))
        self._begin(store.state)
        creation = () if self._there else (_creation(flow, self._topic),)
        syncs = decide(self._lines(store.state), flow.offset_syncs.lag_max)
        return (*creation, WriteSyncs(syncs=syncs)) if syncs else creation

    def apply(self, actions: Sequence[CreateTopic | WriteSyncs]) -> Sequence[Result]:
        """Creates the topic and writes; where that fails nothing is tried that needs it."""
        results: list[Result] = []
        for action in actions:
            results += each([action], self._do)
            if not results[-1].done:
                break
        return results

    def _do(self, action: CreateTopic | WriteSyncs) -> None:
        timeout_ms = self._sides.flow.admin_timeout_ms
        try:
            if isinstance(action, CreateTopic):
                create(self._cluster, action, timeout_ms)
                self._there = True
            else:
                pairs = [(sync.key, sync.value) for sync in action.syncs]
                self._cluster.run(self._journal.append, pairs, min(CALL_MS, timeout_ms))
                self._written.update((sync.partition, sync) for sync in action.syncs)
        except SparkmirrorError as failure:
            self._there = False  # it may have been deleted
            if isinstance(failure, BrokerError) and failure.code in NOT_ALLOWED:
                raise with_remedy(failure, self._topic, _remedy(self._sides.flow, self._topic)) from failure
            raise

    def _begin(self, state: JournalState) -> None:
        """What an earlier run has told of its partitions' past lies in the topic, and is not told again."""
        if not self._there:
            self._told_before, self._begun = frozenset(), True
            self._written.clear()
        if self._begun:
            return
        place = TopicPartition(self._topic, 0)
        end = admin.list_offsets(self._cluster, [place], OffsetSpec.LATEST, timeout_ms=CALL_MS)[place]
        self._told_before = frozenset(state.maps) if end else frozenset()
        self._begun = True

    def _lines(self, state: JournalState) -> dict[TopicPartition, Line]:
        moved = [
            (partition, progress)
            for partition, progress in state.progress.items()
            if (progress is not self._read.get(partition) or self._unwritten(partition))
            and not is_homeward(self._sides.flow, partition.topic)
        ]
        if not moved or state.flow is None:
            return {}
        ids = self._writers.ids(state.flow, {progress.writer.producer_id for _, progress in moved})
        lines: dict[TopicPartition, Line] = {}
        for partition, progress in moved:
            mapped = state.map_of(partition).offsets(progress, ids)
            end = mapped.end()
            if end is not None:
                lines[partition] = Line(
                    mapped=mapped,
                    written=self._written.get(partition),
                    still=self._ends.get(partition) == end,
                    whole=partition not in self._told_before,
                )
                self._ends[partition] = end
            self._read[partition] = progress
        return lines

    def _unwritten(self, partition: TopicPartition) -> bool:
        end, written = self._ends.get(partition), self._written.get(partition)
        return end is not None and (written is None or (written.upstream, written.downstream) != end[:2])


def topic_of(flow: FlowConfig) -> str:
    """The flow's topic of offset syncs, which names the cluster that it is not on."""
    there = flow.offset_syncs.location is Side.SOURCE
    return policy_for(flow.policy, flow.source.alias).offset_syncs_topic(
        flow.target.alias if there else flow.source.alias
    )


def decide(lines: Mapping[TopicPartition, Line], lag_max: int) -> tuple[OffsetSync, ...]:
    """The syncs to write.

    Args:
        lines: the partitions that may have something to tell.
        lag_max: ``offset.lag.max``.
    """
    return tuple(
        OffsetSync(partition=partition, upstream=source, downstream=target)
        for partition, line in lines.items()
        for source, target in _points(line, lag_max)
    )


def _points(line: Line, lag_max: int) -> list[tuple[int, int]]:
    """What is to be told of one partition, oldest first."""
    end, written = line.mapped.end(), line.written
    if end is None:
        return []
    after = NO_OFFSET if line.whole else end.source - 1
    if written is not None and _agrees(line.mapped, written):
        after = written.upstream
        if not _due(line, end, written, lag_max):
            return []
    elif written is not None:
        after = NO_OFFSET
    stretches = list(islice(line.mapped.settled(after), MOST_STRETCHES))
    return _sampled(line.mapped, after, end) if len(stretches) == MOST_STRETCHES else _spread(stretches, lag_max)


def _agrees(mapped: OffsetMap, written: OffsetSync) -> bool:
    """Whether the record of a sync still lies where the sync says."""
    return mapped.mirrored(written.upstream) and mapped.source_to_target(written.upstream) == written.downstream


def _due(line: Line, end: Stretch, written: OffsetSync, lag_max: int) -> bool:
    """Whether the newest record is to be told, which is not that of ``written``.

    A reader translates what lies behind a sync to the offset after it: so much is counted off the distance.
    """
    if end.source == written.upstream:
        return False
    gaps = end.source - written.upstream != line.mapped.count(written.upstream + 1, end.source + 1)
    other = end.source - end.target != written.upstream - written.downstream
    return gaps or other or line.still or end.target - (written.downstream + 1) >= lag_max


def _spread(stretches: Sequence[Stretch], lag_max: int) -> list[tuple[int, int]]:
    """The first record of each stretch, some on the way, and the last record of all."""
    step = max(1, lag_max, sum(stretch.length for stretch in stretches) // MOST_AT_ONCE)
    points = [point for stretch in stretches for point in _steps(stretch, step)]
    for last in stretches[-1:]:
        end = (last.source + last.length - 1, last.target + last.length - 1)
        points += [end] if end not in points[-1:] else []
    if len(points) <= MOST_AT_ONCE:
        return points
    return [points[(number + 1) * len(points) // MOST_AT_ONCE - 1] for number in range(MOST_AT_ONCE)]


def _sampled(mapped: OffsetMap, after: int, end: Stretch) -> list[tuple[int, int]]:
    """Points spread evenly over a past with very many stretches, without going through all of them."""
    first = next(mapped.settled(after), end)
    wanted = (first.source + (end.source - first.source) * number // MOST_AT_ONCE for number in range(MOST_AT_ONCE))
    found = {next(mapped.settled(source - 1), end)[:2] for source in wanted}
    return sorted({*found, end[:2]})[-MOST_AT_ONCE:]


def _steps(stretch: Stretch, step: int) -> Iterable[tuple[int, int]]:
    return ((stretch.source + n, stretch.target + n) for n in range(0, stretch.length, step))


def _creation(flow: FlowConfig, topic: str) -> CreateTopic:
    settings = flow.offset_syncs
    return CreateTopic(
        cluster=flow.source.alias if settings.location is Side.SOURCE else flow.target.alias,
        topic=topic,
        replication_factor=settings.replication_factor,
        key="offset-syncs.topic.replication.factor",
    )


def _remedy(flow: FlowConfig, topic: str) -> str:
    elsewhere = "set offset-syncs.topic.location=target, " if flow.offset_syncs.location is Side.SOURCE else ""
    return (
        f"allow WRITE, DESCRIBE and CREATE on Topic {topic} to this user, {elsewhere}or set "
        "emit.offset-syncs.enabled=false: sparkmirror itself does not need them"
    )
