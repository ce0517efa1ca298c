"""Records as the referee reads them: librdkafka's view of one topic, between two fixed ends.

librdkafka shares no code with sparkmirror's own data path, so a mistake in one is not repeated by the other.

Invariants:
- What is read is fixed before reading starts: from the first offset to the end at that moment (the last stable
  offset, since reading is read_committed). Records that arrive later are left out.
- Memory is bounded whatever the topic holds: librdkafka queues 16 MiB, and a batch handed out aims at 8 MiB.
- A reader that makes no progress for its deadline raises LabError; it never waits forever.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from sparkmirror.errors import LabError

IN_PASSING = (5, 6, 74, 75, 78)
"""What a broker answers that comes up: no leader, not the leader, another leader epoch, no offsets yet."""
LOOK_SECONDS = 0.2

QUEUE_KILOBYTES = 16 * 1024
BATCH_BYTES = 8 * 1024 * 1024
FIRST_BATCH, LARGEST_BATCH = 64, 10_000
POLL_S = 0.05
ERRORS_ONLY = 3

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]
"""Timestamp in ms, key, value, headers: everything of a record that a mirror must keep, but for its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The offsets of one partition that are read: ``first`` included, ``end`` not."""

    first: int
    end: int

    def within(self, last: int) -> Extent:
        """No more than the last so many offsets."""
        return Extent(first=max(self.first, self.end - last), end=self.end)


def row_of(message: Message) -> Row:
    """Returns what must be equal on both sides of a mirror."""
    return message.timestamp()[1], message.key(), message.value(), message.headers()  # type: ignore[return-value]  # headers are a list here


def size_of(row: Row) -> int:
    """Returns the bytes of key and value."""
    return len(row[1] or b"") + len(row[2] or b"")


def extents(bootstrap_servers: str, topic: str, *, timeout_s: float = 30.0) -> dict[int, Extent]:
    """Returns what there is to read of each partition of ``topic`` now; empty when there is no such topic.

    Raises:
        LabError: the cluster did not answer within ``timeout_s``.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": ERRORS_ONLY})
    try:
        # All topics, since asking for one by name may create it.
        known = admin.list_topics(timeout=timeout_s).topics.get(topic)
        if known is None:
            return {}
        places = [TopicPartition(topic, partition) for partition in known.partitions]
        ends = _list_offsets(admin, places, OffsetSpec.latest(), timeout_s)  # type: ignore[no-untyped-call]  # confluent-kafka left it out
        firsts = _list_offsets(admin, places, OffsetSpec.earliest(), timeout_s)  # type: ignore[no-untyped-call]  # as above
    except KafkaException as error:
        raise LabError(f"{bootstrap_servers}: the offsets of topic {topic} cannot be had: {error}") from error
    return {partition: Extent(first=firsts[partition], end=ends[partition]) for partition in sorted(ends)}


def _list_offsets(
    admin: AdminClient, places: list[TopicPartition], spec: OffsetSpec, timeout_s: float
) -> dict[int, int]:
    deadline = time.monotonic() + timeout_s
    while places:
        futures = admin.list_offsets(
            dict.fromkeys(places, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=timeout_s
        )
        try:
            return {place.partition: int(future.result(timeout_s).offset) for place, future in futures.items()}
        except KafkaException as error:
            if error.args[0].code() not in IN_PASSING or time.monotonic() > deadline:
                raise
            time.sleep(LOOK_SECONDS)
    return {}


class Reader:
    """Reads some partitions of one topic from their first offset to their end, in batches of messages."""

    def __init__(
        self, bootstrap_servers: str, topic: str, extent_of: dict[int, Extent], *, timeout_s: float = 30.0
    ) -> None:
        self._place = f"{bootstrap_servers}: topic {topic}"
        self._open = {partition: extent.end for partition, extent in extent_of.items() if extent.first < extent.end}
        self._timeout_s = timeout_s
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "sparkmirror-referee",
                "log_level": ERRORS_ONLY,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "check.crcs": True,
                "fetch.wait.max.ms": 50,
                "queued.max.messages.kbytes": QUEUE_KILOBYTES,
                "queued.min.messages": 1_000_000,
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, partition, extent_of[partition].first) for partition in self._open]
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def __iter__(self) -> Iterator[list[Message]]:
        """Yields batches of messages below the partitions' ends, each partition in its order.

        Raises:
            LabError: librdkafka reports an error, or nothing has come for the reader's deadline.
        """
        wanted, last_sign = FIRST_BATCH, time.monotonic()
        while self._open:
            messages = self._consumer.consume(num_messages=wanted, timeout=POLL_S)
            if messages:
                last_sign = time.monotonic()
            elif time.monotonic() - last_sign > self._timeout_s:
                raise LabError(f"{self._place}: nothing has come for {self._timeout_s:.0f} s; still open: {self._open}")
            records = self._below_the_ends(messages)
            if records:
                yield records
                mean = sum(len(message) for message in records) // len(records) + 100
                wanted = max(1, min(LARGEST_BATCH, BATCH_BYTES // mean, wanted * 4))

    def _below_the_ends(self, messages: list[Message]) -> list[Message]:
        still_open, records = self._open, []
        for message in messages:
            if message.error() is not None:
                self._end_or_raise(message)
                continue
            partition, offset = message.partition(), message.offset()
            end = still_open.get(partition)  # type: ignore[arg-type]  # a record has a partition
            if end is None:
                continue
            if offset < end:  # type: ignore[operator]  # a record has an offset
                records.append(message)
            if offset >= end - 1:  # type: ignore[operator]  # as above
                del still_open[partition]  # type: ignore[arg-type]  # as above
        return records

    def _end_or_raise(self, message: Message) -> None:
        error = message.error()
        if error is None or error.code() != KafkaError._PARTITION_EOF:
            raise LabError(f"{self._place}, partition {message.partition()}: {error}")
        # Control records and aborted data may be all that lies before the end: then no record says that it is reached.
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None and offset >= self._open.get(partition, 0):
            self._open.pop(partition, None)
