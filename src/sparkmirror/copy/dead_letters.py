"""Records that the target topic cannot hold, put aside: into the dead-letter topic on the target.

A dead letter is the record as a reader of the source sees it (key, value, headers, time). Behind its own headers stand
those that Connect gives to its dead letters, as far as they mean something here: where the record comes from and why it
was put aside. ``task.id``, ``class.name`` and ``exception.stacktrace`` do not.

Invariants: a record is left out of the copy only once all in-sync replicas have its dead letter, so none is lost; one
that was written when a lane ended, and is not below the position yet, is written again by the next. Each is a batch of
its own, so that they come to lie there however large they are together.

Reference: KIP-298; org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sparkmirror import batches
from sparkmirror.batches.columns import HEADERS, KEY, OFFSET, VALUE
from sparkmirror.batches.opening import codec_of
from sparkmirror.config.settings import DeadLetters
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.errors import BatchError, RecordTooLargeError, SparkmirrorError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "__connect.errors."
STAGE = "KAFKA_PRODUCE"
EXCEPTION = "org.apache.kafka.common.errors.RecordTooLargeException"
"""Connect's words for what happened here, so that its users' tools understand them."""

_LARGEST = 2**31 - 1
_CHUNK_BYTES = 1 << 20
_MANY_HEADERS = 10_000
"""Of a record with more the headers stay packed: a batch may hold one of 100 million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter: the record's offset at the source, and the batch that holds it alone."""

    offset: int
    batch: memoryview


class DeadLetterTopic:
    """The dead-letter topic of a flow, for one lane.

    Args:
        target: where it is.
        flow: the flow's name.
        settings: of the flow.
    """

    def __init__(self, target: Cluster, flow: str, settings: DeadLetters) -> None:
        self._journal = Journal(target, settings.topic)
        self._flow = flow if settings.context_headers else None

    async def put_aside(self, partition: PartitionCopy, index: batches.Indexed, refusal: RecordTooLargeError) -> None:
        """Writes records to the topic, and has the partition leave out each that is there.

        Args:
            partition: whose they are.
            index: an answer that holds them.
            refusal: says which they are.

        Raises:
            BatchError: one of them cannot be written.
        """
        why = (
            f"the record is larger than max.message.bytes of the topic {partition.target.topic}, "
            f"{partition.rules.target.max_message_bytes}"
        )
        context = None if self._flow is None else (self._flow, partition.source, why)
        for letter in letters(index, refusal.offsets, context, partition.rules.decompression_limit):
            try:
                there = await self._journal.append_batch(letter.batch)
            except SparkmirrorError as failure:
                raise BatchError(
                    offset=letter.offset, reason=f"{why}, and its dead letter cannot be written: {failure}"
                ) from failure
            event = f"offset {letter.offset} went to the dead-letter topic {self._journal.topic}, offset {there}: {why}"
            partition.put_aside(letter.offset, event)


def letters(
    index: batches.Indexed,
    offsets: tuple[int, ...],
    context: tuple[str, TopicPartition, str] | None,
    decompression_limit: int,
) -> Iterator[Letter]:
    """Makes dead letters of some records.

    Args:
        index: an answer that holds them.
        offsets: theirs, ascending; all in one batch.
        context: flow, source partition and reason, for the headers; None for no more headers than the records have.
        decompression_limit: the most bytes that the batch may decompress to.

    Raises:
        BatchError: the batch cannot be opened.
    """
    column = int(np.searchsorted(index.base_offset, offsets[0], side="right")) - 1
    alone = replace(index, table=np.ascontiguousarray(index.table[:, column : column + 1]))
    codec = codec_of(index, column)
    for records in batches.decode_by_chunk(
        alone, decompression_limit=decompression_limit, chunk_bytes=_CHUNK_BYTES, most_headers=_MANY_HEADERS
    ):
        known = records.column(OFFSET).to_numpy()
        here = [offset for offset in offsets if known[0] <= offset <= known[-1]]
        for offset, row in zip(here, np.searchsorted(known, here).tolist(), strict=True):
            record = records.slice(row, 1)
            if context is not None:
                record = _with_headers(record, _headers(offset, *context))
            # As at the source: what fits there only because it is compressed has to fit here too.
            (made,) = batches.encode(record, codec=codec, max_message_bytes=_LARGEST)
            yield Letter(offset=offset, batch=made.batch)


def _with_headers(record: pa.RecordBatch, more: list[dict[str, bytes]]) -> pa.RecordBatch:
    """One record, with further headers behind its own, which may be packed."""
    import pyarrow as pa

    column = record.schema.names.index(HEADERS)
    (headers,) = record.column(column).to_pylist()
    if headers and headers[0][KEY] is None:
        headers[0][VALUE] = _packed_with(headers[0][VALUE], more)
    else:
        headers += more
    return record.set_column(column, record.schema.field(column), pa.array([headers], record.schema.field(column).type))


def _packed_with(packed: bytes, more: list[dict[str, bytes]]) -> bytes:
    """Headers as they lie in a record, with further ones behind them."""
    size = next(at for at, byte in enumerate(packed) if byte < 0x80) + 1
    count = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(packed[:size])) >> 1
    behind = b"".join(_length(len(part)) + part for header in more for part in (header[KEY], header[VALUE]))
    return b"".join((_length(count + len(more)), memoryview(packed)[size:], behind))


def _length(number: int) -> bytes:
    """A length as it stands in a record: zigzag, of seven bits a byte."""
    left, made = 2 * number, bytearray()
    while left >= 0x80:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*made, left))


def _headers(offset: int, flow: str, source: TopicPartition, why: str) -> list[dict[str, bytes]]:
    told = {
        "topic": source.topic,
        "partition": str(source.partition),
        "offset": str(offset),
        "connector.name": flow,
        "stage": STAGE,
        "exception.class.name": EXCEPTION,
        "exception.message": why,
    }
    return [{"key": f"{PREFIX}{name}".encode(), "value": value.encode()} for name, value in told.items()]
