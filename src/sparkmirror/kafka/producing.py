"""Produce requests with batches as they are: one batch for each partition, acknowledged by all in-sync replicas.

Reference: KIP-98 (idempotent producer), KIP-516 (topic ids, Produce version 13).
"""

from __future__ import annotations

import struct
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafka.protocol.producer import ProduceRequest

from sparkmirror.kafka.transport import Pieces
from sparkmirror.model import TopicPartition

LAST_VERSION_WITH_NAMES = 12
FIRST_FLEXIBLE = 9
ALL_IN_SYNC = -1


class Load(NamedTuple):
    """One batch for one partition."""

    partition: TopicPartition
    topic_id: uuid.UUID | None
    payload: memoryview


class Produced(NamedTuple):
    """The broker's answer for one batch: the error code and, for 0, the offset of its first record.

    Where a record is the cause of an error, ``record`` is its index in the batch (KIP-467), else 0. ``stamped_ms`` is
    the time that a topic with LogAppendTime has set, else -1; of a batch that the broker had already, it is the newest
    time in the batch, whatever the topic does (``UnifiedLog.append``).
    """

    partition: TopicPartition
    code: int
    base_offset: int
    message: str
    record: int
    stamped_ms: int


class BatchesRequest:
    """A Produce request that is sent from the batches' own memory; stands in for kafka-python's ``ProduceRequest``.

    It carries the same fields in the same versions (the tests compare every version byte by byte), but its encoding is
    a list of pieces: what lies between the batches, and the batches themselves, which are not copied.

    Args:
        loads: at most one for each partition.
        timeout_ms: how long the leader may wait for the in-sync replicas.
    """

    API_KEY = ProduceRequest.API_KEY

    def __init__(self, loads: Iterable[Load], timeout_ms: int) -> None:
        self._topics: dict[str, list[Load]] = defaultdict(list)
        for load in loads:
            self._topics[load.partition.topic].append(load)
        by_id = all(some[0].topic_id is not None for some in self._topics.values())
        self._plain = ProduceRequest(
            transactional_id=None,
            acks=ALL_IN_SYNC,
            timeout_ms=timeout_ms,
            topic_data=[],
            max_version=None if by_id else LAST_VERSION_WITH_NAMES,
        )
        self._timeout_ms = timeout_ms

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    @property
    def API_VERSION(self) -> Any:  # noqa: N802  # kafka-python's name
        """The version, once it is negotiated."""
        return self._plain.API_VERSION

    @API_VERSION.setter
    def API_VERSION(self, version: int) -> None:  # noqa: N802  # kafka-python's name
        self._plain.API_VERSION = version

    def pieces(self) -> Pieces:
        """The framed request; its header must have been made."""
        version = self._plain.API_VERSION
        flexible = version >= FIRST_FLEXIBLE
        body = _Body(flexible)
        body.add(self._plain.header.encode(flexible=flexible))
        body.null_string()
        body.add(struct.pack(">hi", ALL_IN_SYNC, self._timeout_ms))
        body.count(len(self._topics))
        for topic, loads in self._topics.items():
            if version > LAST_VERSION_WITH_NAMES:
                body.add(_identity(loads[0]).bytes)
            else:
                body.string(topic)
            body.count(len(loads))
            for load in loads:
                body.add(struct.pack(">i", load.partition.partition))
                body.batch(load.payload)
                body.no_tags()
            body.no_tags()
        body.no_tags()
        return body.framed()


def _identity(load: Load) -> uuid.UUID:
    if load.topic_id is None:
        raise ValueError(f"{load.partition} has no topic id, which this version of Produce asks for")
    return load.topic_id


class _Body:
    """Kafka's types, compact in flexible versions (KIP-482), gathered so that batches stay pieces of their own."""

    def __init__(self, flexible: bool) -> None:
        self._flexible = flexible
        self._head = bytearray(4)
        self._done: list[bytes | bytearray | memoryview] = []
        self._open = self._head

    def add(self, data: bytes) -> None:
        self._open += data

    def count(self, number: int) -> None:
        self.add(_varint(number + 1) if self._flexible else struct.pack(">i", number))

    def null_string(self) -> None:
        self.add(b"\0" if self._flexible else b"\xff\xff")

    def string(self, text: str) -> None:
        data = text.encode()
        self.add(_varint(len(data) + 1) if self._flexible else struct.pack(">h", len(data)))
        self.add(data)

    def no_tags(self) -> None:
        if self._flexible:
            self.add(b"\0")

    def batch(self, payload: memoryview) -> None:
        self.add(_varint(len(payload) + 1) if self._flexible else struct.pack(">i", len(payload)))
        self._done += (self._open, payload)
        self._open = bytearray()

    def framed(self) -> Pieces:
        pieces = Pieces((*self._done, self._open) if self._open else self._done)
        struct.pack_into(">i", self._head, 0, sum(map(len, pieces)) - 4)
        return pieces


def _varint(value: int) -> bytes:
    """An unsigned varint."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def produced(answer: Any, names: dict[uuid.UUID, str]) -> Iterator[Produced]:
    """What an answer says of each batch; ``names`` gives the topic of a topic id."""
    for topic in answer.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for part in topic.partition_responses:
            message, record = _cause(part)
            place = TopicPartition(name, part.index)
            yield Produced(place, part.error_code, part.base_offset, message, record, part.log_append_time_ms)


def _cause(part: Any) -> tuple[str, int]:
    """What the broker says of an error: of the first record that caused it, or of the batch."""
    for record in getattr(part, "record_errors", None) or ():
        return record.batch_index_error_message or part.error_message or "", int(record.batch_index)
    return part.error_message or "", 0
