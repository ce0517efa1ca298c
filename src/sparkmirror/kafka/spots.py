"""Single records of many partitions: the first one at an offset or behind it, for whoever checks places in a log.

Invariants: one request at a time to each leader, with one place of each of its partitions, all leaders side by side;
what an answer holds of later places is taken from it too. A place costs few answers: one behind which nothing comes
within `REACH` of them has no record. A partition that fails stops no other (`Results`). What is told lies below the
high watermark, under read_committed below the last stable offset and outside aborted transactions; control records are
none. Whatever is in an answer, it is opened in steps (`opened_records`), and no further than to the last place in it.

References: FetchRequest (KIP-74: a batch larger than the limit comes whole only for the first partition of an answer).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from sparkmirror import batches
from sparkmirror.batches import columns
from sparkmirror.config import Isolation
from sparkmirror.errors import BatchError, BrokerError, LinkError
from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.changes import remedy_of
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import LEADER_NOT_AVAILABLE, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION
from sparkmirror.kafka.fetching import Part, one_off_request, parts_of
from sparkmirror.kafka.leaders import Leader
from sparkmirror.kafka.opened_records import OpenedRecords, Row, in_turn, rows
from sparkmirror.kafka.rounds import Answer, Deadline, Results, explained, repeat
from sparkmirror.model import TopicPartition

CORRUPT_MESSAGE, REQUEST_TIMED_OUT = 2, 7

PARTITIONS = 200
ANSWER_BYTES = 16 << 20
LEAST_BYTES, MOST_BYTES = 32 << 10, 8 << 20
"""Per Fetch; and per partition in it, four times as much each time that it is not enough."""
REACH = 8
"""So many answers with batches are looked through for one place."""
FETCH_MS, ASK_MS, WAIT_MS = 10_000, 3_000, 100

T = TypeVar("T")


class Spot(NamedTuple):
    """A place in a log."""

    partition: TopicPartition
    offset: int


Take = Callable[[Row], T]
"""Makes what is kept of a record, which is not its bytes: these go with the table in which they lie."""


@dataclass(slots=True, kw_only=True)
class _Reading(Generic[T]):
    """One partition while it is read; ``wanted`` are its places without an answer, in order."""

    partition: TopicPartition
    leader: Leader
    topic_id: uuid.UUID | None
    wanted: list[int]
    isolation: Isolation
    take: Take[T]
    offset: int = 0
    limit: int = LEAST_BYTES
    looked: int = 0
    opened: int = 0
    found: dict[int, T | None] = field(default_factory=dict)
    failure: Answer[Spot, T | None] | None = None

    def __post_init__(self) -> None:
        self.offset = self.wanted[0]

    @property
    def open(self) -> bool:
        return self.failure is None and bool(self.wanted)

    @property
    def part(self) -> Part:
        return Part(self.partition, self.topic_id, self.leader.epoch, self.offset, self.limit)

    def fail(self, code: int, message: str = "", link: LinkError | None = None) -> None:
        self.failure = Answer(key=Spot(self.partition, self.offset), code=code, message=message, link=link)

    def read(self, part: Any) -> Iterator[int]:
        """Takes what an answer says of the partition; nothing when others filled the answer.

        Yields:
            The bytes of the records of each step.
        """
        if part.error_code == OFFSET_OUT_OF_RANGE:
            self._settle(None)
        elif part.error_code != 0:
            self.fail(part.error_code)
        else:
            index = batches.index(part.records or b"")
            if len(index):
                yield from self._look_through(index, part)
            elif index.error is not None:
                self.fail(CORRUPT_MESSAGE, str(index.error))
            elif self.offset >= self._end(part):
                self._settle(None)
            else:
                self.limit = min(self.limit * 4, MOST_BYTES)

    def _end(self, part: Any) -> int:
        committed = self.isolation is Isolation.READ_COMMITTED
        return int(part.last_stable_offset if committed else part.high_watermark)

    def _look_through(self, index: batches.Indexed, part: Any) -> Iterator[int]:
        told = part.aborted_transactions or () if self.isolation is Isolation.READ_COMMITTED else ()
        aborted = [(one.producer_id, one.first_offset) for one in told]
        following = int(index.last_offset[-1]) + 1

        def take(table: Any) -> bool:
            self._settle_within(table)
            return bool(self.wanted) and self.wanted[0] < following

        try:
            kept = batches.keep(index, start_offset=self.offset, aborted=aborted)
            records = OpenedRecords(index=index, kept=kept, offset=self.offset)
            while self.wanted and self.wanted[0] < following and not records.over:
                before = records.opened
                records.step(take)
                self.opened += records.opened - before
                records.offset = max(records.offset, self.wanted[0] if self.wanted else following)
                self.offset = records.offset
                yield records.opened - before
        except BatchError as damage:
            self.fail(CORRUPT_MESSAGE, str(damage))
            return
        if self.wanted and self.wanted[0] < following:
            self._go_on(following)

    def _settle_within(self, table: Any) -> None:
        """Settles the places up to the last of some records."""
        offsets = table.column(columns.OFFSET).to_numpy()
        while self.wanted and self.wanted[0] <= offsets[-1]:
            row = int(np.searchsorted(offsets, self.wanted[0]))
            self._settle(self.take(next(rows(table.slice(row, 1)))))

    def _go_on(self, following: int) -> None:
        """Nothing was there for the next place, which is looked for from ``following`` on, but not without end."""
        self.offset, self.limit = following, min(self.limit * 4, MOST_BYTES)
        self.looked += 1
        if self.looked == REACH:
            self._settle(None)

    def _settle(self, value: T | None) -> None:
        self.found[self.wanted.pop(0)] = value
        self.looked = 0
        if self.wanted:
            self.offset = self.wanted[0]


def read_spots(
    cluster: Cluster,
    spots: Iterable[Spot],
    take: Take[T],
    timeout_ms: int,
    isolation: Isolation = Isolation.READ_COMMITTED,
) -> Results[Spot, T | None]:
    """Reads the first record at each place or behind it; None where there is none, or where the log begins behind it.

    Args:
        cluster: where.
        spots: the places.
        take: makes what is kept of a record.
        timeout_ms: milliseconds until places without an answer count as failed.
        isolation: whether records of transactions that were aborted, or are open, are there too.
    """

    def ask(places: Sequence[Spot], deadline: Deadline) -> Iterable[Answer[Spot, T | None]]:
        try:
            names = sorted({spot.partition.topic for spot in places})
            known = list_topics(cluster, names, min(deadline.attempt_ms, ASK_MS))
        except LinkError as failure:
            yield from (Answer(key=spot, link=failure) for spot in places)
            return
        wanted: dict[TopicPartition, list[int]] = defaultdict(list)
        for spot in sorted(places):
            wanted[spot.partition].append(spot.offset)
        by_node: dict[int, list[_Reading[T]]] = defaultdict(list)
        for partition, offsets in wanted.items():
            topic = known.get(partition.topic)
            leader = topic.partitions.get(partition.partition) if topic is not None else None
            if topic is None or leader is None or leader.node < 0:
                code = UNKNOWN_TOPIC_OR_PARTITION if leader is None else LEADER_NOT_AVAILABLE
                yield from (Answer(key=Spot(partition, offset), code=code) for offset in offsets)
                continue
            by_node[leader.node].append(
                _Reading(
                    partition=partition,
                    leader=leader,
                    topic_id=topic.topic_id,
                    wanted=offsets,
                    isolation=isolation,
                    take=take,
                )
            )
        cluster.run(_read_all, cluster, by_node, deadline)
        for reading in (one for some in by_node.values() for one in some):
            yield from _answers(reading)

    def explain(spot: Spot, code: int, message: str) -> BrokerError:
        topic, number = spot.partition
        remedy = remedy_of("READ", code, topic)
        return explained(code, cluster.alias, topic=topic, partition=number, remedy=remedy, message=message)

    return repeat(list(spots), ask, explain, timeout_ms, cluster.backoff)


def _answers(reading: _Reading[T]) -> Iterable[Answer[Spot, T | None]]:
    partition, failure = reading.partition, reading.failure
    for offset, value in reading.found.items():
        yield Answer(key=Spot(partition, offset), value=value)
    if failure is not None:
        for offset in reading.wanted:
            yield Answer(key=Spot(partition, offset), code=failure.code, message=failure.message, link=failure.link)


async def _read_all(cluster: Cluster, by_node: Mapping[int, Sequence[_Reading[T]]], deadline: Deadline) -> None:
    under_way = [
        cluster.loop.call_soon_with_future(_read_leader, cluster, node, some, deadline)
        for node, some in by_node.items()
    ]
    for future in under_way:
        await future


async def _read_leader(cluster: Cluster, node: int, readings: Sequence[_Reading[T]], deadline: Deadline) -> None:
    """Fetches until every place has its answer, or the time is over; those with much in them come last."""
    while not deadline.passed:
        pending = sorted((each for each in readings if each.open), key=lambda each: each.opened)[:PARTITIONS]
        if not pending:
            return
        request = one_off_request(
            [each.part for each in pending],
            isolation=pending[0].isolation,
            max_bytes=ANSWER_BYTES,
            max_wait_ms=WAIT_MS,
        )
        try:
            answer = await cluster.exchange(request, node, min(deadline.attempt_ms, FETCH_MS))
        except LinkError as failure:
            _fail(readings, 0, link=failure)
            return
        if answer.error_code != 0:
            _fail(readings, answer.error_code)
            return
        names = {reading.topic_id: reading.partition.topic for reading in pending}
        by_partition = {reading.partition: reading for reading in pending}
        parts = {one.partition: (one, part) for one, part in parts_of(answer, by_partition, names)}
        await in_turn(cluster, [reading.read(part) for reading, part in parts.values()], deadline)
    _fail(readings, REQUEST_TIMED_OUT)


def _fail(readings: Sequence[_Reading[T]], code: int, link: LinkError | None = None) -> None:
    for reading in readings:
        if reading.open:
            reading.fail(code, link=link)
