"""Small compacted topics of one partition whose keys and values are bytes of somebody else's making.

As `Journal` for the topics of sparkmirror's own; MirrorMaker 2's checkpoints are such a topic.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder

from sparkmirror.kafka.cluster import CALL_MS
from sparkmirror.kafka.journal import BATCH_BYTES, GZIP, Journal

_OVERHEAD_BYTES = 32
_MANY = 4


class Pair(NamedTuple):
    """One record; a ``value`` of None is a tombstone."""

    key: bytes
    value: bytes | None


class PairJournal(Journal):
    """One such topic on one cluster. For coroutines on the cluster's loop."""

    async def append_pairs(self, pairs: Sequence[Pair], timeout_ms: int = CALL_MS) -> None:
        """Writes records and returns when all in-sync replicas have them.

        Raises:
            BrokerError: the broker refuses for good.
            LinkError: no acknowledgement before the deadline.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        for encoded in map(_encode, _batches(pairs)):
            await self._until(deadline, lambda payload=encoded: self._produce(payload))

    async def read_pairs(self, offset: int, timeout_ms: int = CALL_MS) -> tuple[list[Pair], int]:
        """Reads from ``offset`` to the end.

        Returns:
            the records, in the order of the log, and the offset to read on from.

        Raises:
            BrokerError: the topic cannot be read.
            LinkError: no answer before the deadline.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        found: list[Pair] = []
        end = offset + 1
        while offset < end:
            data, start, end = await self._until(deadline, lambda at=offset: self._fetch_batches(at, 0))
            some, following = _decode(data, start)
            found += some
            if following == offset:
                break
            offset = following
        return found, offset


def _batches(pairs: Sequence[Pair]) -> Iterable[list[Pair]]:
    """The records in pieces, each well below a topic's usual size limit."""
    piece: list[Pair] = []
    size = 0
    for pair in pairs:
        if piece and size >= BATCH_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(pair)
        size += len(pair.key) + len(pair.value or b"") + _OVERHEAD_BYTES
    if piece:
        yield piece


def _encode(pairs: Sequence[Pair]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=GZIP if len(pairs) > _MANY else 0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    now = int(time.time() * 1000)
    for offset, pair in enumerate(pairs):
        builder.append(offset, now, pair.key, pair.value, [])
    return bytes(builder.build())


def _decode(data: bytes, offset: int) -> tuple[list[Pair], int]:
    found: list[Pair] = []
    following = offset
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        if not batch.is_control_batch:
            for record in batch:
                if record.offset >= offset and record.key is not None:
                    value = None if record.value is None else bytes(record.value)
                    found.append(Pair(bytes(record.key), value))
        following = max(following, batch.next_offset)
    return found, following
