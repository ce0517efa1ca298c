"""The ends of logs as batch headers: how far a writer got, as the target itself tells it.

Purpose: who takes a partition over asks for its last batches, after a fence; where others have written too, for all
batches from an offset on. In bulk: one request for all partitions of a leader, all leaders at the same time.

Invariants:
    - Only what lies below the high watermark of the present leader is told, and only by a leader that says it has
      caught up since its election (ListOffsets, KIP-207). DescribeProducers is not asked: it shows a log's end, which
      may be taken back, and followers answer it too.
    - A partition that was fenced is told only with the fence's control record in it. Leaders may change in between: one
      that does not show the record is asked again until the deadline.
    - Batches of any age and of any writer are indexed; nothing is opened.
    - A `LogCache` keeps what was read below the high watermark of one leader epoch of one topic, no longer.

References: FetchRequest (KIP-74: a batch larger than the limit comes whole only for the first partition of an answer),
``kafka.server.ReplicaManager.readFromLog``.
"""

from __future__ import annotations

import math
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkmirror import batches
from sparkmirror.batches import layout
from sparkmirror.config import Isolation
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.admin import TopicDescription, list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import LEADER_NOT_AVAILABLE, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, broker_error
from sparkmirror.kafka.fetching import Part, one_off_request, parts_of
from sparkmirror.kafka.leaders import Leader, OffsetSpec, ask_leaders
from sparkmirror.kafka.rounds import Answer, Deadline, Results, explained, repeat
from sparkmirror.model import UNKNOWN, TopicPartition
from sparkmirror.offsets.log_parts import LogPart, append, end_of_gap, from_offset, part_at, with_part
from sparkmirror.offsets.tail import NO_PRODUCER, NO_SEQUENCE, Tail, TailBatch

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

CORRUPT_MESSAGE = 2
REQUEST_TIMED_OUT = 7
OFFSET_NOT_AVAILABLE = 78

BEFORE_END = 2
"""The offset of the last record before a control record at the end, from the high watermark back."""

PARTITIONS = 1_000
ANSWER_BYTES = 32 << 20
LEAST_BYTES, MOST_BYTES = 64 << 10, 8 << 20
"""Per Fetch; and per partition in it, four times as much each time that it is not enough."""
ASK_MS, FETCH_MS = 3_000, 10_000
"""For one question about leaders and offsets, and for one Fetch: a broker that hangs keeps its own partitions only."""


class Mark(NamedTuple):
    """What a fence left in a partition: a control record of ``producer_id`` with at least ``epoch``.

    ``floor`` is an offset that the record does not lie below, as long as the log has not lost its end.
    """

    producer_id: int
    epoch: int
    floor: int


@dataclass(slots=True)
class _CachedLog:
    """What was read of a log: the topic and leader epoch that it is of, its parts, and how many bytes that were."""

    topic_id: uuid.UUID | None
    leader_epoch: int
    parts: tuple[LogPart, ...] = ()
    size: int = 0


class LogCache:
    """What has been read of logs, so that a further reading fetches only the rest; for one thread.

    A log may be so long that it is not read in one turn, while others wait. Then its partition fails with
    REQUEST_TIMED_OUT, is among `unfinished`, and the next turn goes on where this one has stopped. That needs topic ids
    and leader epochs: without them nothing tells that a later reading has the same log, so it is read in one.

    Attributes:
        own: the producers whose batches are told one by one.
        unfinished: partitions that were not read to the end in this turn.
    """

    def __init__(self) -> None:
        self.own: frozenset[int] = frozenset()
        self.unfinished: set[TopicPartition] = set()
        self._logs: dict[TopicPartition, _CachedLog] = {}
        self._ends = math.inf

    def begin(self, own: Collection[int]) -> None:
        """Begins a turn, for which logs are read until the deadline of each reading."""
        if not self.own.issuperset(own):
            self._logs.clear()  # batches of these have been told as others'
        self.own = frozenset(own)
        self.unfinished.clear()
        self._ends = math.inf

    def limit(self, turn_ms: int) -> None:
        """Ends the turn after ``turn_ms`` milliseconds; each reading fetches once at least."""
        self._ends = time.monotonic() + turn_ms / 1000

    @property
    def is_over(self) -> bool:
        """Whether the turn has had its time."""
        return time.monotonic() >= self._ends

    def parts(self, partition: TopicPartition, topic_id: uuid.UUID | None, leader_epoch: int) -> tuple[LogPart, ...]:
        """What was read of a log, if it still is that of this topic and leader epoch."""
        known = self._logs.get(partition)
        if known is not None and (known.topic_id, known.leader_epoch) != (topic_id, leader_epoch):
            del self._logs[partition]
            return ()
        return () if known is None else known.parts

    def keep(self, reading: _Reading) -> None:
        """Keeps what was read of a log; nothing of one that has changed meanwhile."""
        if reading.failure is not None and reading.failure.code == OFFSET_NOT_AVAILABLE:
            self.forget(reading.partition)
            return
        known = self._logs.setdefault(reading.partition, _CachedLog(reading.topic_id, reading.leader.epoch))
        known.size = reading.size + (known.size if reading.lasts else 0)
        if reading.lasts and reading.offset > reading.since:
            known.parts = with_part(known.parts, LogPart(reading.since, reading.offset, tuple(reading.found)))

    def size(self, partition: TopicPartition) -> int:
        """How many bytes of its log were read, without what had to be read again."""
        known = self._logs.get(partition)
        return 0 if known is None else known.size

    def forget(self, partition: TopicPartition) -> None:
        """Keeps nothing of its log."""
        self._logs.pop(partition, None)


def last_batches(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    timeout_ms: int,
    fenced: Mapping[TopicPartition, Mark] | None = None,
    cache: LogCache | None = None,
) -> Results[TopicPartition, Tail]:
    """The last batches of logs: the one that holds the offset before the last, and what follows it.

    Args:
        cluster: where.
        partitions: which.
        timeout_ms: milliseconds until partitions without an answer count as failed.
        fenced: what a fence left in them. Then the batches begin before the fence, and those of others that have come
            since are told too.
        cache: what was read of them before.
    """
    marks = fenced or {}
    wanted = {partition: _Wanted(offset=None, mark=marks.get(partition)) for partition in partitions}
    return _read(cluster, wanted, timeout_ms, cache)


def read_headers(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, int],
    timeout_ms: int,
    fenced: Mapping[TopicPartition, Mark] | None = None,
    cache: LogCache | None = None,
) -> Results[TopicPartition, Tail]:
    """All batches from an offset, or from the log's start if that lies above it, to the high watermark.

    Args:
        cluster: where.
        offsets: from where on.
        timeout_ms: milliseconds until partitions without an answer count as failed.
        fenced: what a fence left in them; it must be among the batches.
        cache: what was read of them before.
    """
    marks = fenced or {}
    wanted = {partition: _Wanted(offset=offset, mark=marks.get(partition)) for partition, offset in offsets.items()}
    return _read(cluster, wanted, timeout_ms, cache)


class _Wanted(NamedTuple):
    """From where a partition is read, None for its end, and what must be found there."""

    offset: int | None
    mark: Mark | None

    def begin(self, start: int, high_watermark: int) -> int:
        """The offset to fetch from, given the extent of the log."""
        before_end = high_watermark - BEFORE_END
        offset = before_end if self.offset is None else self.offset
        if self.mark is not None:
            offset = min(offset, self.mark.floor - 1, before_end)
        return max(start, min(offset, high_watermark))

    def missed(self, found: Iterable[TailBatch]) -> bool:
        """Whether the fence's control record should be among the batches and is not."""
        mark = self.mark
        return mark is not None and not any(
            batch.control and batch.producer_id == mark.producer_id and batch.epoch >= mark.epoch for batch in found
        )


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One partition while it is read: up to where, and what was found so far.

    ``parts`` of the log were read before, ``size`` bytes were fetched now, and ``own`` is that of the cache.
    """

    partition: TopicPartition
    leader: Leader
    topic_id: uuid.UUID | None
    start: int
    high_watermark: int
    since: int
    offset: int
    parts: tuple[LogPart, ...] = ()
    own: Collection[int] | None = None
    limit: int = LEAST_BYTES
    size: int = 0
    found: list[TailBatch] = field(default_factory=list)
    failure: Answer[TopicPartition, Tail] | None = None

    def __post_init__(self) -> None:
        self._pass_parts()

    @property
    def open(self) -> bool:
        """Whether something is still to be fetched."""
        return self.failure is None and self.offset < self.high_watermark

    @property
    def lasts(self) -> bool:
        """Whether a later reading can tell that its log is the same one."""
        return self.topic_id is not None and self.topic_id.int != 0 and self.leader.epoch >= 0

    @property
    def part(self) -> Part:
        """What is asked next."""
        return Part(self.partition, self.topic_id, self.leader.epoch, self.offset, self.limit)

    def fail(self, code: int, message: str = "", link: LinkError | None = None, *, final: bool = False) -> None:
        self.failure = Answer(key=self.partition, code=code, message=message, link=link, final=final)

    def take(self, part: Any) -> None:
        """Takes what an answer says of the partition; nothing when others filled the answer."""
        self.limit = min(self.limit * 4, MOST_BYTES)
        if part.error_code == OFFSET_OUT_OF_RANGE:
            self.fail(OFFSET_NOT_AVAILABLE, "the log has changed while it was read")
        elif part.error_code != 0:
            self.fail(part.error_code)
        else:
            self.size += len(part.records or b"")
            index = batches.index(part.records or b"")
            if len(index):
                self._add(index)
            if index.error is not None:
                self.fail(CORRUPT_MESSAGE, str(index.error))

    def _add(self, index: batches.Indexed) -> None:
        end = end_of_gap(self.parts, self.offset, int(index.last_offset[-1]) + 1)
        fresh = _headers(index, self.offset, self.own, end)
        if fresh and not self.found:
            self.since = min(self.since, fresh[0].base_offset)
        append(self.found, fresh, self.own)
        self.offset = max([end, *(each.last_offset + 1 for each in fresh[-1:])])
        self._pass_parts()

    def _pass_parts(self) -> None:
        """Goes on behind what was read before."""
        while (known := part_at(self.parts, self.offset)) is not None:
            if not self.found:
                self.since = max(self.start, min(self.since, known.since))
            append(self.found, from_offset(known, self.offset if self.found else self.since), self.own)
            self.offset = known.until

    def tail(self) -> Tail:
        """What was read. Batches that came in meanwhile lie below a later high watermark."""
        end = max(self.high_watermark, self.offset)
        return Tail(start=self.start, high_watermark=end, batches=tuple(self.found), since=self.since)


def _headers(
    index: batches.Indexed, offset: int, own: Collection[int] | None = None, end: int | None = None
) -> list[TailBatch]:
    """The batches of an answer; one of magic 0 or 1 may not say where it begins, so it is told from ``offset`` on.

    Those that begin at ``end`` or behind it are left out, and those of other producers than ``own`` that lie side by
    side in one leader epoch are told as one.
    """
    new = index.magic == 2
    leader_epochs = np.where(new, index.leader_epoch, UNKNOWN.leader_epoch)
    base = np.where(new, index.base_offset, np.maximum(index.base_offset, offset))
    number = len(base) if end is None else int(np.searchsorted(base, end))
    if number == 0:
        return []
    control = new & (index.attributes & layout.CONTROL != 0)
    joins = _of_others(index, own)
    joins[1:] &= joins[:-1] & (base[1:] == index.last_offset[:-1] + 1) & (leader_epochs[1:] == leader_epochs[:-1])
    joins[0] = False
    begins = _begins(joins[:number], control[:number])
    ends = np.append(begins[1:], number)
    columns = (
        ends - begins == 1,
        base[begins],
        index.last_offset[ends - 1],
        index.producer_id[begins],
        index.epoch[begins],
        index.base_sequence[begins],
        np.add.reduceat(index.count[:number], begins),
        control[begins],
        np.maximum.reduceat(index.max_timestamp[:number], begins),
        leader_epochs[ends - 1],
    )
    return [
        TailBatch(
            base_offset=base_offset,
            last_offset=last,
            producer_id=producer_id if alone else NO_PRODUCER,
            epoch=epoch if alone else NO_PRODUCER,
            sequence=sequence if alone else NO_SEQUENCE,
            count=count,
            control=marker and alone,
            newest_ms=newest_ms,
            leader_epoch=leader_epoch,
        )
        for alone, base_offset, last, producer_id, epoch, sequence, count, marker, newest_ms, leader_epoch in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _of_others(index: batches.Indexed, own: Collection[int] | None) -> Flags:
    """Of each batch, whether it is of another producer than these; of none where no producers are given."""
    return np.zeros(len(index), dtype=np.bool_) if own is None else ~np.isin(index.producer_id, list(own))


def _begins(joins: Flags, control: Flags) -> Longs:
    """Which batches begin what is told as one.

    All but those that join what lies before them; of these no markers behind which no data joins: they may be the last
    ones of the log.
    """
    runs, numbers = np.flatnonzero(~joins), np.arange(len(joins))
    data = np.maximum.reduceat(np.where(control, -1, numbers), runs)
    behind = numbers > np.repeat(data, np.diff(np.append(runs, len(joins))))
    return np.flatnonzero(~joins | behind)


def _read(
    cluster: Cluster, wanted: Mapping[TopicPartition, _Wanted], timeout_ms: int, cache: LogCache | None
) -> Results[TopicPartition, Tail]:
    def ask(partitions: Sequence[TopicPartition], deadline: Deadline) -> Iterable[Answer[TopicPartition, Tail]]:
        try:
            names = sorted({partition.topic for partition in partitions})
            known = list_topics(cluster, names, min(deadline.attempt_ms, ASK_MS))
        except LinkError as failure:
            yield from (Answer(key=partition, link=failure) for partition in partitions)
            return
        leaders: dict[TopicPartition, Leader] = {}
        for partition in partitions:
            leader = known[partition.topic].partitions.get(partition.partition) if partition.topic in known else None
            if leader is None or leader.node < 0:
                yield Answer(key=partition, code=UNKNOWN_TOPIC_OR_PARTITION if leader is None else LEADER_NOT_AVAILABLE)
            else:
                leaders[partition] = leader
        readings, failures = _locate(cluster, wanted, known, leaders, deadline, cache)
        yield from failures
        cluster.run(_read_all, cluster, readings, deadline, cache)
        for reading in readings:
            if cache is not None:
                cache.keep(reading)
            if reading.failure is not None:
                yield reading.failure
            elif wanted[reading.partition].missed(reading.found):
                text = "its leader does not show the control record of the fence"
                yield Answer(key=reading.partition, code=OFFSET_NOT_AVAILABLE, message=text)
            else:
                yield Answer(key=reading.partition, value=reading.tail())

    return repeat(list(wanted), ask, _explaining(cluster), timeout_ms, cluster.backoff)


def _explaining(cluster: Cluster) -> Any:
    def explain(partition: TopicPartition, code: int, message: str) -> BrokerError:
        topic, number = partition
        remedy = message or broker_error(code, cluster.alias).remedy
        return explained(code, cluster.alias, topic=topic, partition=number, remedy=remedy)

    return explain


def _locate(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, _Wanted],
    known: Mapping[str, TopicDescription],
    leaders: Mapping[TopicPartition, Leader],
    deadline: Deadline,
    cache: LogCache | None,
) -> tuple[list[_Reading], list[Answer[TopicPartition, Tail]]]:
    """Asks the leaders for the extent of each log and says from where it is to be read, or why that is not known."""
    failures: list[Answer[TopicPartition, Tail]] = []
    attempt_ms = min(deadline.attempt_ms, ASK_MS)

    def ask(spec: OffsetSpec, some: Mapping[TopicPartition, Leader]) -> dict[TopicPartition, int]:
        offsets = {}
        for answer in ask_leaders(cluster, some, spec, Isolation.READ_UNCOMMITTED, attempt_ms):
            if answer.value is None or answer.code != 0:
                failures.append(Answer(key=answer.key, code=answer.code, link=answer.link))
            else:
                offsets[answer.key] = answer.value
        return offsets

    ends = ask(OffsetSpec.LATEST, leaders)
    starts = ask(OffsetSpec.EARLIEST, {partition: leaders[partition] for partition in ends})
    readings = []
    for partition, start in starts.items():
        begin = wanted[partition].begin(start, ends[partition])
        leader, topic_id = leaders[partition], known[partition.topic].topic_id
        readings.append(
            _Reading(
                partition=partition,
                leader=leader,
                topic_id=topic_id,
                start=start,
                high_watermark=max(start, ends[partition]),
                since=begin,
                offset=begin,
                parts=() if cache is None else cache.parts(partition, topic_id, leader.epoch),
                own=None if cache is None else cache.own,
            )
        )
    return readings, failures


async def _read_all(cluster: Cluster, readings: Sequence[_Reading], deadline: Deadline, cache: LogCache | None) -> None:
    """Reads from all leaders at the same time; what cannot be read has failed then."""
    by_node: dict[int, list[_Reading]] = defaultdict(list)
    for reading in readings:
        by_node[reading.leader.node].append(reading)
    under_way = [
        cluster.loop.call_soon_with_future(_read_leader, cluster, node, some, deadline, cache)
        for node, some in by_node.items()
    ]
    for future in under_way:
        await future


async def _read_leader(
    cluster: Cluster, node: int, readings: Sequence[_Reading], deadline: Deadline, cache: LogCache | None
) -> None:
    """Fetches until every partition is read to its end, or a turn is over.

    Those of which the least was fetched go first, so that each answer helps.
    """
    while pending := [reading for reading in readings if reading.open]:
        some = sorted(pending, key=lambda reading: reading.size)[:PARTITIONS]
        before = [reading.offset for reading in some]
        try:
            request = one_off_request(
                [each.part for each in some],
                isolation=Isolation.READ_UNCOMMITTED,
                max_bytes=ANSWER_BYTES,
                max_wait_ms=0,
            )
            answer = await cluster.exchange(request, node, min(deadline.attempt_ms, FETCH_MS))
        except LinkError as failure:
            for reading in pending:
                reading.fail(0, link=failure)
            return
        _take(answer, some)
        if cache is not None and (cache.is_over or deadline.passed):
            _pause(readings, cache)
        if deadline.passed or not any(r.offset > offset or not r.open for r, offset in zip(some, before, strict=True)):
            for reading in some:
                if reading.open:
                    reading.fail(REQUEST_TIMED_OUT if deadline.passed else OFFSET_NOT_AVAILABLE)


def _pause(readings: Sequence[_Reading], cache: LogCache) -> None:
    """Leaves for the next turn what can be gone on with."""
    for reading in readings:
        if reading.open and reading.lasts:
            left = f"offsets {reading.offset} to {reading.high_watermark - 1} of its log are still to be read"
            reading.fail(REQUEST_TIMED_OUT, left, final=True)
            cache.unfinished.add(reading.partition)


def _take(answer: Any, readings: Sequence[_Reading]) -> None:
    if answer.error_code != 0:
        for reading in readings:
            reading.fail(answer.error_code)
        return
    names = {reading.topic_id: reading.partition.topic for reading in readings}
    by_partition = {reading.partition: reading for reading in readings}
    for reading, part in parts_of(answer, by_partition, names):
        reading.take(part)
