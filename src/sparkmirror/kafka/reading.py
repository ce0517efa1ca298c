"""Records of partitions between two offsets, opened: for whoever compares logs, or reads a small topic of others.

Invariants: one request for all partitions of a leader, all leaders at the same time; a partition that fails stops no
other (`Results`); what is returned lies below the high watermark, under read_committed below the last stable offset and
without aborted transactions; control records are none. Whatever is in an answer, it is opened in steps
(`opened_records`), between which the network loop has its turn.

References: FetchRequest (KIP-74), aborted transactions (KIP-98).
"""

from __future__ import annotations

import sys
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from sparkmirror import batches
from sparkmirror.batches.index import Longs
from sparkmirror.config import Isolation
from sparkmirror.errors import BatchError, BrokerError, LinkError
from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.changes import remedy_of
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.fetching import Part, one_off_request, parts_of
from sparkmirror.kafka.leaders import Leader
from sparkmirror.kafka.opened_records import OpenedRecords, in_turn
from sparkmirror.kafka.rounds import Answer, Deadline, Results, explained, repeat
from sparkmirror.model import TopicPartition

CORRUPT_MESSAGE, REQUEST_TIMED_OUT = 2, 7

PARTITIONS = 200
ANSWER_BYTES, PARTITION_BYTES = 32 << 20, 4 << 20
OPENED_BYTES = 64 << 20
"""Of a partition, where what is read of it has a limit that is less: records may be far larger than their batches."""

FETCH_MS, ASK_MS, WAIT_MS = 10_000, 3_000, 500

T = TypeVar("T")


class Span(NamedTuple):
    """Offsets from ``first`` to before ``end``."""

    first: int
    end: int


class Read(NamedTuple, Generic[T]):
    """What was read of a span: all that is kept of it from its first offset to before ``end``."""

    records: list[T]
    end: int


Take = Callable[[Any], list[T]]
"""Makes what is kept of some records, given as an Arrow table (``batches.column_schema``): no values, and no parts of
the table, unless the bytes that are read have a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted(Generic[T]):
    """Which records are read, and what is kept of those of a partition; ``without`` are the producers left out."""

    take: Callable[[TopicPartition], Take[T]]
    isolation: Isolation
    without: Longs


@dataclass(slots=True, kw_only=True)
class _Reading(Generic[T]):
    """One partition while it is read; brokers before 2.8 have no topic ids."""

    partition: TopicPartition
    leader: Leader
    topic_id: uuid.UUID | None
    only: Longs | None
    span: Span
    offset: int
    left: int
    left_opened: int
    opened: int = 0
    found: list[T] = field(default_factory=list)
    failure: Answer[TopicPartition, Read[T]] | None = None

    @property
    def open(self) -> bool:
        return self.failure is None and self.offset < self.span.end and self.left > 0 and self.left_opened > 0

    @property
    def part(self) -> Part:
        most = min(PARTITION_BYTES, self.left)
        return Part(self.partition, self.topic_id, self.leader.epoch, self.offset, most)

    def fail(self, code: int, message: str = "", link: LinkError | None = None) -> None:
        self.failure = Answer(key=self.partition, code=code, message=message, link=link)

    def read(self, part: Any, wanted: _Wanted[T]) -> Iterator[int]:
        """Takes what an answer says of the partition; nothing when others filled the answer.

        Args:
            part: of the answer.
            wanted: what is kept.

        Yields:
            The bytes of the records of each step.
        """
        if part.error_code != 0:
            self.fail(part.error_code)
            return
        index = batches.index(part.records or b"")
        if len(index):
            try:
                yield from self._open(index, part, wanted)
            except BatchError as damage:
                self.fail(CORRUPT_MESSAGE, str(damage))
                return
        if index.error is not None and (not len(index) or self.offset > int(index.last_offset[-1])):
            self.fail(CORRUPT_MESSAGE, str(index.error))

    def _open(self, index: batches.Indexed, part: Any, wanted: _Wanted[T]) -> Iterator[int]:
        told = part.aborted_transactions or () if wanted.isolation is Isolation.READ_COMMITTED else ()
        aborted = [(one.producer_id, one.first_offset) for one in told]
        kept = batches.keep(index, start_offset=self.offset, aborted=aborted, dropped_producers=wanted.without)
        kept = kept if self.only is None else batches.of_producers(kept, index, self.only)
        records = OpenedRecords(index=index, kept=kept, offset=self.offset, until=self.span.end)
        before, limit, keep = self.opened, self.left_opened, wanted.take(self.partition)

        def take(table: Any) -> bool:
            self.found += keep(table)
            return records.opened < limit

        while self.open and not records.over:
            records.step(take)
            self.offset = records.offset
            size = before + records.opened - self.opened
            self.opened, self.left_opened = before + records.opened, limit - records.opened
            if records.over:
                self.left -= len(part.records)
            yield size


def read_records(
    cluster: Cluster,
    spans: Mapping[TopicPartition, Span],
    take: Take[T],
    timeout_ms: int,
    isolation: Isolation = Isolation.READ_COMMITTED,
    without: Collection[int] = (),
) -> Results[TopicPartition, list[T]]:
    """Reads spans of offsets, each of which must lie within what its log has.

    Args:
        cluster: where.
        spans: from where to where.
        take: makes what is kept of records, called for some of them at a time.
        timeout_ms: milliseconds until partitions without an answer count as failed.
        isolation: whether records of transactions that were aborted, or are open, are there too.
        without: producer ids whose records are left out.
    """
    read = read_up_to(cluster, spans, take, timeout_ms, sys.maxsize, isolation, without)
    return Results(found={one: each.records for one, each in read.found.items()}, failed=read.failed)


def read_each(
    cluster: Cluster, spans: Mapping[TopicPartition, Span], take: Callable[[TopicPartition], Take[T]], timeout_ms: int
) -> Results[TopicPartition, Read[T]]:
    """As `read_records`, where what is kept of records depends on their partition."""
    wanted = _Wanted(take=take, isolation=Isolation.READ_COMMITTED, without=batches.producers(()))
    return _read(cluster, spans, wanted, timeout_ms, sys.maxsize, {})


def read_up_to(
    cluster: Cluster,
    spans: Mapping[TopicPartition, Span],
    take: Take[T],
    timeout_ms: int,
    most_bytes: int,
    isolation: Isolation = Isolation.READ_COMMITTED,
    without: Collection[int] = (),
    only: Mapping[TopicPartition, Collection[int]] | None = None,
) -> Results[TopicPartition, Read[T]]:
    """As `read_records`, but ends in each partition when about so many bytes of batches were read, at least one.

    Of batches that open to far more it ends earlier, at `OPENED_BYTES` of records or ``most_bytes``.

    ``only`` are the producer ids whose records are kept of a partition; of all, where it is not named.
    """
    ids = {one: batches.producers(set(some)) for one, some in (only or {}).items()}
    wanted = _Wanted(take=lambda _: take, isolation=isolation, without=batches.producers(set(without)))
    return _read(cluster, spans, wanted, timeout_ms, most_bytes, ids)


def _read(
    cluster: Cluster,
    spans: Mapping[TopicPartition, Span],
    wanted: _Wanted[T],
    timeout_ms: int,
    most_bytes: int,
    only: Mapping[TopicPartition, Longs],
) -> Results[TopicPartition, Read[T]]:
    def ask(partitions: Sequence[TopicPartition], deadline: Deadline) -> Iterable[Answer[TopicPartition, Read[T]]]:
        try:
            known = list_topics(cluster, sorted({one.topic for one in partitions}), min(deadline.attempt_ms, ASK_MS))
        except LinkError as failure:
            yield from (Answer(key=one, link=failure) for one in partitions)
            return
        by_node: dict[int, list[_Reading[T]]] = defaultdict(list)
        for one in partitions:
            topic = known.get(one.topic)
            leader = topic.partitions.get(one.partition) if topic is not None else None
            if topic is None or leader is None or leader.node < 0:
                yield Answer(key=one, code=UNKNOWN_TOPIC_OR_PARTITION if leader is None else LEADER_NOT_AVAILABLE)
                continue
            span = spans[one]
            by_node[leader.node].append(
                _Reading(
                    partition=one,
                    leader=leader,
                    topic_id=topic.topic_id,
                    only=only.get(one),
                    span=span,
                    offset=span.first,
                    left=most_bytes,
                    left_opened=max(most_bytes, OPENED_BYTES),
                )
            )
        cluster.run(_read_all, cluster, by_node, wanted, deadline)
        for reading in (one for some in by_node.values() for one in some):
            yield reading.failure or Answer(
                key=reading.partition, value=Read(reading.found, min(reading.offset, reading.span.end))
            )

    def explain(partition: TopicPartition, code: int, message: str) -> BrokerError:
        topic, number = partition
        remedy = remedy_of("READ", code, topic)
        return explained(code, cluster.alias, topic=topic, partition=number, remedy=remedy, message=message)

    return repeat(list(spans), ask, explain, timeout_ms, cluster.backoff)


async def _read_all(
    cluster: Cluster,
    by_node: Mapping[int, Sequence[_Reading[T]]],
    wanted: _Wanted[T],
    deadline: Deadline,
) -> None:
    under_way = [
        cluster.loop.call_soon_with_future(_read_leader, cluster, node, some, wanted, deadline)
        for node, some in by_node.items()
    ]
    for future in under_way:
        await future


async def _read_leader(
    cluster: Cluster,
    node: int,
    readings: Sequence[_Reading[T]],
    wanted: _Wanted[T],
    deadline: Deadline,
) -> None:
    """Fetches until every partition is read to the end of its span, or the time is over.

    Those of which much has been opened come last, so that they hold up no other.
    """
    while not deadline.passed:
        pending = sorted((each for each in readings if each.open), key=lambda each: each.opened)[:PARTITIONS]
        if not pending:
            return
        try:
            answer = await cluster.exchange(
                one_off_request(
                    [each.part for each in pending],
                    isolation=wanted.isolation,
                    max_bytes=ANSWER_BYTES,
                    max_wait_ms=WAIT_MS,
                ),
                node,
                min(deadline.attempt_ms, FETCH_MS),
            )
        except LinkError as failure:
            _fail(readings, 0, link=failure)
            return
        if answer.error_code != 0:
            _fail(readings, answer.error_code)
            return
        names = {reading.topic_id: reading.partition.topic for reading in pending}
        by_partition = {reading.partition: reading for reading in pending}
        parts = {one.partition: (one, part) for one, part in parts_of(answer, by_partition, names)}
        await in_turn(cluster, [reading.read(part, wanted) for reading, part in parts.values()], deadline)
    _fail(readings, REQUEST_TIMED_OUT)


def _fail(readings: Sequence[_Reading[T]], code: int, link: LinkError | None = None) -> None:
    for reading in readings:
        if reading.open:
            reading.fail(code, link=link)
