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

References: FetchRequest (KIP-74: a batch larger than the limit comes whole only for the first partition of an answer),
``kafka.server.ReplicaManager.readFromLog``.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from sparkmirror.offsets.tail import Tail, TailBatch

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


def last_batches(
    cluster: Cluster,
    partitions: Sequence[TopicPartition],
    timeout_ms: int,
    fenced: Mapping[TopicPartition, Mark] | None = None,
) -> Results[TopicPartition, Tail]:
    """The last batches of logs: the one that holds the offset before the last, and what follows it.

    Args:
        cluster: where.
        partitions: which.
        timeout_ms: milliseconds until partitions without an answer count as failed.
        fenced: what a fence left in them. Then the batches begin before the fence, and those of others that have come
            since are told too.
    """
    marks = fenced or {}
    wanted = {partition: _Wanted(offset=None, mark=marks.get(partition)) for partition in partitions}
    return _read(cluster, wanted, timeout_ms)


def read_headers(
    cluster: Cluster,
    offsets: Mapping[TopicPartition, int],
    timeout_ms: int,
    fenced: Mapping[TopicPartition, Mark] | None = None,
) -> Results[TopicPartition, Tail]:
    """All batches from an offset, or from the log's start if that lies above it, to the high watermark.

    Args:
        cluster: where.
        offsets: from where on.
        timeout_ms: milliseconds until partitions without an answer count as failed.
        fenced: what a fence left in them; it must be among the batches.
    """
    marks = fenced or {}
    wanted = {partition: _Wanted(offset=offset, mark=marks.get(partition)) for partition, offset in offsets.items()}
    return _read(cluster, wanted, timeout_ms)


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
    """One partition while it is read: up to where, and what was found so far."""

    partition: TopicPartition
    leader: Leader
    topic_id: uuid.UUID
    start: int
    high_watermark: int
    since: int
    offset: int
    limit: int = LEAST_BYTES
    found: list[TailBatch] = field(default_factory=list)
    failure: Answer[TopicPartition, Tail] | None = None

    @property
    def open(self) -> bool:
        """Whether something is still to be fetched."""
        return self.failure is None and self.offset < self.high_watermark

    @property
    def part(self) -> Part:
        """What is asked next."""
        return Part(self.partition, self.topic_id, self.leader.epoch, self.offset, self.limit)

    def fail(self, code: int, message: str = "", link: LinkError | None = None) -> None:
        self.failure = Answer(key=self.partition, code=code, message=message, link=link)

    def take(self, part: Any) -> None:
        """Takes what an answer says of the partition; nothing when others filled the answer."""
        self.limit = min(self.limit * 4, MOST_BYTES)
        if part.error_code == OFFSET_OUT_OF_RANGE:
            self.fail(OFFSET_NOT_AVAILABLE, "the log has changed while it was read")
        elif part.error_code != 0:
            self.fail(part.error_code)
        else:
            index = batches.index(part.records or b"")
            if len(index):
                self._add(_headers(index, self.offset))
            if index.error is not None:
                self.fail(CORRUPT_MESSAGE, str(index.error))

    def _add(self, headers: list[TailBatch]) -> None:
        if not self.found:
            self.since = min(self.since, headers[0].base_offset)
        self.found += headers
        self.offset = headers[-1].last_offset + 1

    def tail(self) -> Tail:
        """What was read. Batches that came in meanwhile lie below a later high watermark."""
        end = max(self.high_watermark, self.offset)
        return Tail(start=self.start, high_watermark=end, batches=tuple(self.found), since=self.since)


def _headers(index: batches.Indexed, offset: int) -> list[TailBatch]:
    """The batches of an answer; one of magic 0 or 1 may not say where it begins, so it is told from ``offset`` on."""
    columns = (
        index.magic,
        index.base_offset,
        index.last_offset,
        index.producer_id,
        index.epoch,
        index.base_sequence,
        index.count,
        index.attributes,
        index.max_timestamp,
        index.leader_epoch,
    )
    return [
        TailBatch(
            base_offset=base if magic == 2 else max(base, offset),
            last_offset=last,
            producer_id=producer_id,
            epoch=epoch,
            sequence=sequence,
            count=count,
            control=magic == 2 and bool(attributes & layout.CONTROL),
            newest_ms=newest_ms,
            leader_epoch=leader_epoch if magic == 2 else UNKNOWN.leader_epoch,
        )
        for magic, base, last, producer_id, epoch, sequence, count, attributes, newest_ms, leader_epoch in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _read(cluster: Cluster, wanted: Mapping[TopicPartition, _Wanted], timeout_ms: int) -> Results[TopicPartition, Tail]:
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
        readings, failures = _locate(cluster, wanted, known, leaders, deadline)
        yield from failures
        cluster.run(_read_all, cluster, readings, deadline)
        for reading in readings:
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
        readings.append(
            _Reading(
                partition=partition,
                leader=leaders[partition],
                topic_id=known[partition.topic].topic_id,
                start=start,
                high_watermark=max(start, ends[partition]),
                since=begin,
                offset=begin,
            )
        )
    return readings, failures


async def _read_all(cluster: Cluster, readings: Sequence[_Reading], deadline: Deadline) -> None:
    """Reads from all leaders at the same time; what cannot be read has failed then."""
    by_node: dict[int, list[_Reading]] = defaultdict(list)
    for reading in readings:
        by_node[reading.leader.node].append(reading)
    under_way = [
        cluster.loop.call_soon_with_future(_read_leader, cluster, node, some, deadline)
        for node, some in by_node.items()
    ]
    for future in under_way:
        await future


async def _read_leader(cluster: Cluster, node: int, readings: Sequence[_Reading], deadline: Deadline) -> None:
    """Fetches until every partition is read to its end. Those that are behind go first, so that each answer helps."""
    while pending := [reading for reading in readings if reading.open]:
        some = pending[:PARTITIONS]
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
        if deadline.passed or not any(r.offset > offset or not r.open for r, offset in zip(some, before, strict=True)):
            for reading in some:
                if reading.open:
                    reading.fail(REQUEST_TIMED_OUT if deadline.passed else OFFSET_NOT_AVAILABLE)


def _take(answer: Any, readings: Sequence[_Reading]) -> None:
    if answer.error_code != 0:
        for reading in readings:
            reading.fail(answer.error_code)
        return
    names = {reading.topic_id: reading.partition.topic for reading in readings}
    by_partition = {reading.partition: reading for reading in readings}
    for reading, part in parts_of(answer, by_partition, names):
        reading.take(part)
