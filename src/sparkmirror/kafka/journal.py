"""Small compacted topics of one partition, as stores: append key and value, read everything, follow the end.

The flow's internal topic, its control topic and the registry of writers are such topics, whose keys and values are
text; and MirrorMaker 2's own topics, whose keys and values are bytes. Appending waits
for all in-sync replicas and repeats what fails in passing; a repeated record is harmless, since the same key carries
the same value.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from sparkmirror import batches
from sparkmirror.errors import BatchError, BrokerError, LinkError
from sparkmirror.kafka.cluster import CALL_MS, Cluster
from sparkmirror.kafka.codes import OFFSET_OUT_OF_RANGE, Advice, advice, broker_error
from sparkmirror.kafka.metadata import NO_LEADER, describe_topics
from sparkmirror.kafka.stored_records import Opened, StoredRecord, open_records, opening
from sparkmirror.model import Writer

BATCH_BYTES = 900_000
GZIP = 1
PLAIN_BYTES = 500
"""Smaller batches are not compressed; a single record that is large has to fit into ``max.message.bytes``."""

FETCH_BYTES = 4 << 20
ATTEMPT_MIN_MS, ATTEMPT_MS = 1_000, 10_000
"""For one answer of the leader, of the time that is left: one that hangs is replaced after some seconds, and the next
one has to be found."""

NOBODY = Writer(producer_id=-1, epoch=-1)

Pair: TypeAlias = tuple[str | bytes, str | bytes | None]
"""A key and a value to write; text is written as UTF-8, and None is a tombstone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of such a topic; a ``value`` of None is a tombstone.

    Bytes that are no UTF-8 are halves of surrogate pairs here (``surrogateescape``): no text of ours has any.
    """

    offset: int
    key: str
    value: str | None


class Cursor(NamedTuple):
    """Where a reader stands: the offset to read on from, and the leader epoch of what lies before it; -1: not known."""

    offset: int = 0
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a reader that goes on found.

    Attributes:
        entries: the records.
        cursor: where to read on from.
        end: the high watermark.
        parted: where the log parts from what was read before, which it has lost from there on; None where it does not.
        elected: the first offset of the newest leader epoch in what was read; -1 where that is the one before.
    """

    entries: Sequence[Entry]
    cursor: Cursor
    end: int
    parted: Cursor | None = None
    elected: int = -1


class Journal:
    """One such topic on one cluster; the leader is learnt when needed. For coroutines on the cluster's loop.

    Attributes:
        topic: the topic's name.
        partition: the one that is meant; 0 is the only one of most such topics.
        unopened: batches that were read and cannot be opened: the offset of each, and why. No mirror has written them.
    """

    def __init__(self, cluster: Cluster, topic: str, partition: int = 0) -> None:
        self.cluster = cluster
        self.topic = topic
        self.partition = partition
        self.unopened: dict[int, str] = {}
        self._leader = NO_LEADER
        self._topic_id: Any = None

    async def append(self, entries: Sequence[Pair], timeout_ms: int = CALL_MS) -> int:
        """Writes ``(key, value)`` pairs and returns when all in-sync replicas have them.

        Returns:
            the offset of the first pair of the last batch; -1 without any pair.

        Raises:
            BrokerError: the broker refuses for good.
            LinkError: no acknowledgement before the deadline.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        offset = -1
        for pairs in split(entries):
            offset = await self._until(deadline, partial(self._produce, encode(pairs)))
        return offset

    async def append_batch(self, batch: memoryview, timeout_ms: int = CALL_MS) -> int:
        """Writes one batch as it is and returns its offset when all in-sync replicas have it.

        Raises:
            BrokerError: the broker refuses for good.
            LinkError: no acknowledgement before the deadline.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        offset: int = await self._until(deadline, partial(self._produce, bytes(batch)))
        return offset

    async def read(self, offset: int, max_wait_ms: int = 0, timeout_ms: int = CALL_MS) -> tuple[list[Entry], int, int]:
        """Reads on from ``offset``.

        Returns:
            the records, the offset to read on from, and the high watermark.

        Raises:
            BatchError: a batch is damaged: its bytes are not those that the broker was given.
            BrokerError: the topic cannot be read.
            LinkError: no answer before the deadline.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        data, start, end, _ = await self._until(deadline, partial(self._fetch_batches, Cursor(offset), max_wait_ms))
        opened = await self._open(data, start)
        return [entry_of(record) for record in opened.records], opened.following, end

    async def follow(self, cursor: Cursor, timeout_ms: int = CALL_MS) -> Followed:
        """As `read`, and sees whether the log still has what lies before the cursor (KIP-320).

        Raises:
            BatchError: as `read`.
            BrokerError: as `read`.
            LinkError: as `read`.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        data, start, end, parted = await self._until(deadline, partial(self._fetch_batches, cursor, 0))
        if parted is not None:
            return Followed(entries=(), cursor=cursor, end=end, parted=parted)
        opened, index = await self._open(data, start), batches.index(data)
        before = index.base_offset < opened.following
        epochs = [cursor.leader_epoch, *index.leader_epoch[before].tolist()]
        epoch, known = epochs[-1], epochs[0] if cursor.leader_epoch >= 0 else epochs[1 % len(epochs)]
        begun = index.base_offset[before & (index.leader_epoch == epoch)]
        elected = int(begun[0]) if epoch != known else -1
        entries = [entry_of(record) for record in opened.records]
        return Followed(entries=entries, cursor=Cursor(opened.following, epoch), end=end, elected=elected)

    async def read_all(self, timeout_ms: int = CALL_MS) -> tuple[dict[str, Entry], int]:
        """Reads the whole topic: the newest record of each key (tombstones left out), and the end offset.

        Raises:
            BatchError: a batch is damaged.
            BrokerError: the topic cannot be read.
            LinkError: no answer, or none with records where there are more, for as long as ``timeout_ms``.
        """
        newest: dict[str, Entry] = {}
        offset, end = 0, 1
        deadline = time.monotonic() + timeout_ms / 1000
        while offset < end:
            before = offset
            entries, offset, end = await self.read(offset, timeout_ms=timeout_ms)
            for entry in entries:
                newest[entry.key] = entry
            if offset == before < end:
                if time.monotonic() > deadline:
                    reason = f"{self.topic} was not read on from offset {offset} within {timeout_ms / 1000:g} s"
                    raise self.cluster.link_error(ConnectionError(reason))
                await self.cluster.loop.sleep(self.cluster.backoff.after(1))
            else:
                deadline = time.monotonic() + timeout_ms / 1000
        return {key: entry for key, entry in newest.items() if entry.value is not None}, offset

    async def read_bytes(
        self, offset: int, take: Callable[[Sequence[StoredRecord]], None], timeout_ms: int = CALL_MS
    ) -> int:
        """Reads keys and values as bytes, from ``offset`` to the end.

        Args:
            offset: of the first one.
            take: is given the records of each answer, in the order of the log; nothing else keeps them.
            timeout_ms: milliseconds to the deadline.

        Returns:
            the offset to read on from.

        Raises:
            BatchError: a batch is damaged.
            BrokerError: the topic cannot be read.
            LinkError: no answer before the deadline.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        end = offset + 1
        while offset < end:
            data, start, end, _ = await self._until(deadline, partial(self._fetch_batches, Cursor(offset), 0))
            opened = await self._open(data, start)
            take(opened.records)
            if opened.following == offset:
                break
            offset = opened.following
        return offset

    async def _open(self, answer: bytes, offset: int) -> Opened:
        steps = opening(answer, offset)
        while True:
            try:
                next(steps)
            except StopIteration as over:
                opened: Opened = over.value
                self.unopened |= opened.unopened
                return opened
            except BatchError as damage:
                raise damage.at(self.topic, self.partition) from None
            await self.cluster.loop.sleep(0)

    async def _until(self, deadline: float, attempt: Callable[[int], Awaitable[Any]]) -> Any:
        """The result of an attempt, which is given the milliseconds it may take."""
        failures = 0
        while True:
            left_ms = int((deadline - time.monotonic()) * 1000)
            failure: BrokerError | LinkError
            try:
                if self._leader == NO_LEADER:
                    await self._find_leader(max(1, left_ms))
                return await attempt(min(ATTEMPT_MS, max(ATTEMPT_MIN_MS, int((deadline - time.monotonic()) * 1000))))
            except BrokerError as refusal:
                if advice(refusal.code) not in (Advice.RETRY, Advice.REFRESH):
                    raise
                failure = refusal
            except LinkError as broken:
                failure = broken
            self._leader = NO_LEADER
            failures += 1
            pause = self.cluster.backoff.after(failures)
            if time.monotonic() + pause > deadline:
                raise failure
            await self.cluster.loop.sleep(pause)

    async def _find_leader(self, timeout_ms: int) -> None:
        view = (await describe_topics(self.cluster, [self.topic], timeout_ms))[self.topic]
        leader = view.leaders.get(self.partition)
        if view.code != 0 or leader is None or leader.node == NO_LEADER:
            raise broker_error(view.code or 5, self.cluster.alias, topic=self.topic, partition=self.partition)
        self._leader, self._topic_id = leader.node, view.topic_id

    async def _produce(self, payload: bytes, attempt_ms: int) -> int:
        request = _produce_request(self.topic, self._topic_id, self.partition, payload, attempt_ms)
        answer = await self.cluster.exchange(request, self._leader, attempt_ms)
        part = self._own(
            (one.topic_id, one.name, part.index, part) for one in answer.responses for part in one.partition_responses
        )
        if part.error_code != 0:
            raise broker_error(part.error_code, self.cluster.alias, topic=self.topic, partition=self.partition)
        return int(part.base_offset)

    async def _fetch_batches(
        self, cursor: Cursor, max_wait_ms: int, attempt_ms: int
    ) -> tuple[bytes, int, int, Cursor | None]:
        """The batches from the cursor on, where they begin, the high watermark, and where the log parts from before.

        They begin where the log does, if the cursor is not in it.
        """
        offset = cursor.offset
        request = _fetch_request(self.topic, self._topic_id, self.partition, cursor, max_wait_ms)
        answer = await self.cluster.exchange(request, self._leader, max_wait_ms + attempt_ms)
        if answer.error_code != 0:
            raise broker_error(answer.error_code, self.cluster.alias, topic=self.topic)
        part = self._own(
            (one.topic_id, one.topic, part.partition_index, part) for one in answer.responses for part in one.partitions
        )
        if part.error_code == OFFSET_OUT_OF_RANGE:
            start, end = max(part.log_start_offset, 0), max(part.high_watermark, 0)
            return b"", start, end, Cursor(min(offset, end)) if cursor.leader_epoch >= 0 and start < offset else None
        if part.error_code != 0:
            raise broker_error(part.error_code, self.cluster.alias, topic=self.topic, partition=self.partition)
        parted = part.diverging_epoch
        if parted is not None and parted.end_offset >= 0:
            return b"", offset, part.high_watermark, Cursor(min(offset, parted.end_offset), parted.epoch)
        return part.records or b"", offset, part.high_watermark, None

    def _own(self, parts: Iterable[tuple[Any, str | None, int, Any]]) -> Any:
        """The part of an answer that is about this partition: topic id or name, number, part.

        Raises:
            LinkError: there is none.
        """
        for topic_id, name, number, part in parts:
            if number == self.partition and (topic_id in (None, self._topic_id) and (name or self.topic) == self.topic):
                return part
        raise self.cluster.link_error(ConnectionError(f"broker {self._leader} answered without {self.topic}"))


def _produce_request(topic: str, topic_id: Any, partition: int, payload: bytes, timeout_ms: int) -> Any:
    part = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=payload)
    topics = [ProduceRequest.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[part])]
    return ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=timeout_ms,
        topic_data=topics,
        max_version=None if topic_id is not None else 12,
    )


def _fetch_request(topic: str, topic_id: Any, partition: int, cursor: Cursor, max_wait_ms: int) -> Any:
    wire = FetchRequest.FetchTopic.FetchPartition
    part = wire(
        partition=partition,
        fetch_offset=cursor.offset,
        last_fetched_epoch=cursor.leader_epoch,
        partition_max_bytes=FETCH_BYTES,
    )
    topics = [FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=[part])]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=topics,
        forgotten_topics_data=[],
        rack_id="",
        max_version=None if topic_id is not None else 12,
    )


def split(entries: Sequence[Pair]) -> list[Sequence[Pair]]:
    """Splits the pairs, in order, into batches well below a topic's usual size limit.

    A pair that does not fit beside those before it begins a batch; one that is larger than a batch has one for itself.
    """
    done: list[Sequence[Pair]] = []
    start = 0
    while start < len(entries):
        size, stop = size_of(entries[start]), start + 1
        while stop < len(entries) and (size := size + size_of(entries[stop])) <= BATCH_BYTES:
            stop += 1
        done.append(entries[start:stop])
        start = stop
    return done


def size_of(pair: Pair) -> int:
    """About how many bytes it takes in a batch."""
    key, value = pair
    return _length(key) + (_length(value) if value else 0) + 32


def _length(part: str | bytes) -> int:
    return len(part) if isinstance(part, bytes) or part.isascii() else len(_bytes(part))


def encode(entries: Sequence[Pair], writer: Writer = NOBODY, sequence: int = -1) -> bytes:
    """The pairs as one record batch, plain or of an idempotent writer."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=GZIP if sum(size_of(each) for each in entries) > PLAIN_BYTES else 0,
        is_transactional=False,
        producer_id=writer.producer_id,
        producer_epoch=writer.epoch,
        base_sequence=sequence,
        batch_size=1 << 30,
    )
    now = int(time.time() * 1000)
    for offset, (key, value) in enumerate(entries):
        builder.append(offset, now, _bytes(key), None if value is None else _bytes(value), [])
    return bytes(builder.build())


def _bytes(part: str | bytes) -> bytes:
    return part.encode(errors="surrogateescape") if isinstance(part, str) else part


def entry_of(record: StoredRecord) -> Entry:
    """A record with its key and its value as texts."""
    offset, key, value = record
    return Entry(offset, _text(key), None if value is None else _text(value))


def _text(part: bytes) -> str:
    return part.decode(errors="surrogateescape")


def decode(records: bytes | None, offset: int) -> tuple[list[Entry], int]:
    """Opens the batches of a fetch answer: the records from ``offset`` on, and the offset that follows them."""
    opened = open_records(records or b"", offset)
    return [entry_of(record) for record in opened.records], opened.following
