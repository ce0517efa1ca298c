"""The records of small topics as stores (``journal``), opened within limits, whoever wrote them.

Whoever may write to such a topic may put there what no client of ours writes, and brokers look at little of it.

Invariants:
    - At most `OPENED_BYTES` of a batch are opened; one reading gives about `TAKEN_BYTES` of records and passes over
      `PASSED_BATCHES` at most, and the next one goes on behind them. It is done in steps of one batch or chunk, so that
      other connections of the loop are not held.
    - A batch with a wrong checksum ends the reading before it: a disk has changed it, and it may be one of ours.
    - One with the right checksum that cannot be opened, or opens to more, is none of ours: it is reported and passed
      over. Ours are below `OPENED_BYTES`, and a broker checks the records of what it appends.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from sparkmirror import batches
from sparkmirror.batches import columns
from sparkmirror.errors import BatchError

if TYPE_CHECKING:
    import pyarrow as pa

OPENED_BYTES = 32 << 20
"""Of one batch. What we write has 900 KB, unless a single record is larger: what an operation knows of a million
partitions is one, and a broker takes 8 MiB of it, compressed."""

TAKEN_BYTES = 32 << 20
CHUNK_BYTES = 4 << 20
PASSED_BATCHES = 16
"""That one reading passes over at most: a few hundred bytes may open to `OPENED_BYTES`, which takes tens of
milliseconds, and an answer of some megabytes has room for thousands."""


class StoredRecord(NamedTuple):
    """One record that has a key; a ``value`` of None is a tombstone."""

    offset: int
    key: bytes
    value: bytes | None


@dataclass(slots=True)
class Opened:
    """What a fetch answer holds.

    Attributes:
        following: the offset to read on from.
        records: in the order of the log.
        unopened: batches that were passed over: the offset of each, and why.
    """

    following: int
    records: list[StoredRecord] = field(default_factory=list)
    unopened: dict[int, str] = field(default_factory=dict)


def open_records(answer: bytes, offset: int) -> Opened:
    """Opens the batches of a fetch answer, from ``offset`` on.

    Raises:
        BatchError: the first batch that is left to read has a wrong checksum, or is no batch.
    """
    return _result(opening(answer, offset))


def opening(answer: bytes, offset: int) -> Generator[None, None, Opened]:
    """Like `open_records`, in steps: a network loop can have its turn after each, which opens one batch or chunk.

    Raises:
        BatchError: as `open_records`.
    """
    index = batches.index(answer)
    opened = Opened(offset)
    end = int(index.last_offset[-1]) + 1 if len(index) else offset
    if index.error is not None and end <= offset:
        raise index.error
    size = 0
    chunks = _chunks(index, opened, end)
    while True:
        try:
            chunk = next(chunks)
        except StopIteration as over:
            opened.following = max(opened.following, over.value)
            return opened
        if chunk is not None:
            size += chunk.nbytes
            keys, values = (chunk.column(name).to_pylist() for name in (columns.KEY, columns.VALUE))
            rows = zip(chunk.column(columns.OFFSET).to_pylist(), keys, values, strict=True)
            opened.records += [StoredRecord(at, key, value) for at, key, value in rows if key is not None]
            if size >= TAKEN_BYTES:
                return opened
        yield


def _result(steps: Generator[None, None, Opened]) -> Opened:
    while True:
        try:
            next(steps)
        except StopIteration as over:
            return cast("Opened", over.value)


def _chunks(index: batches.Indexed, opened: Opened, end: int) -> Generator[pa.RecordBatch | None, None, int]:
    """The records, in pieces, and None for a batch that cannot be opened; moves on with each piece.

    Returns:
        the offset behind all that was looked at: ``end``, or behind the last of `PASSED_BATCHES` that were passed over.
    """
    kept = batches.keep(index, start_offset=opened.following)
    while len(index):
        try:
            for chunk in batches.decode_by_chunk(
                index, kept, decompression_limit=OPENED_BYTES, chunk_bytes=CHUNK_BYTES, most_headers=0
            ):
                opened.following = int(chunk.column(columns.OFFSET)[-1].as_py()) + 1
                yield chunk
            break
        except BatchError as damage:
            column = max(int(np.searchsorted(index.base_offset, damage.offset, side="right")) - 1, 0)
            if not kept.mask[column]:
                raise
            opened.unopened[int(index.base_offset[column])] = damage.reason
            unread = index.last_offset >= opened.following
            unread[column] = False
            if len(opened.unopened) == PASSED_BATCHES:  # those before it may be left to read
                unread[column:] = False
                end = int(index.last_offset[column]) + 1
            reasons = np.where(kept.mask & ~unread, np.uint8(batches.Reason.BEFORE), kept.reasons)
            kept = batches.Kept(reasons=reasons, start_offset=opened.following)
            yield None
    return end
