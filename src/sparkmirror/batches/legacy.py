"""Messages of magic 0 and 1, from before Kafka 0.11, as records of magic 2.

Purpose: whoever opens batches gets them in one form. A compressed message becomes the records of one batch; plain
messages that stand side by side become the records of one batch too, and each remains a source batch of its own.

Invariants:
    - Offsets, times, keys and values are those that Java's consumer gives. In a compressed message of magic 0 the
      offsets are absolute; in one of magic 1 they are relative, and its own offset is that of its last record, also
      after the log cleaner took some. Under LogAppendTime its time is that of all its records. Magic 0 has no time: -1.
    - A message inside may have the other old magic, as Java's consumer allows and some old clients wrote.
    - Every checksum is checked, in the compressed message too. What cannot be read is a BatchError; Java passes over a
      message that is cut short inside a compressed one, we do not lose a record in silence.

References: org.apache.kafka.common.record.AbstractLegacyRecordBatch (DeepRecordsIterator), LegacyRecord; KIP-31
(relative offsets), KIP-32 (time).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sparkmirror.batches import layout, lz4_frames
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import CodecError, decompress
from sparkmirror.batches.index import Bytes, Indexed, Longs
from sparkmirror.batches.kernels import index as rows
from sparkmirror.batches.kernels import legacy as kernels
from sparkmirror.errors import BatchError

_REASONS: Final = {
    kernels.CUT_SHORT: "the compressed message holds one that is cut short",
    kernels.BAD_CRC: "the message is corrupt: its bytes do not match its CRC32",
    kernels.BAD_MAGIC: "a message inside a compressed one has an unknown magic byte",
    kernels.NESTED: "a message inside a compressed one is compressed itself",
    kernels.BAD_FIELDS: "the message's key and value do not fit its length",
    kernels.BAD_ORDER: "the message's offset is not above that of the message before it",
}


def wrapped(indexed: Indexed, column: int, limit: int) -> tuple[Bytes, Longs]:
    """The records in a compressed message.

    Args:
        indexed: where the message is.
        column: which of its batches.
        limit: the most bytes that it may decompress to.

    Returns:
        (records, table): records of magic 2, and a table with one column that tells of them as ``index`` would.

    Raises:
        BatchError: it cannot be read, or what is in it contradicts it.
    """
    offset, attributes, time = (int(indexed.table[row, column]) for row in (rows.LAST, rows.ATTRIBUTES, rows.MAX_TIME))
    is_relative = int(indexed.table[rows.MAGIC, column]) == 1
    messages = _messages(indexed, column, limit)
    count, last = kernels.survey(messages, 0, len(messages))
    if count < 0:
        raise BatchError(offset=offset, reason=_REASONS[kernels.CUT_SHORT])
    if count == 0:
        raise BatchError(offset=offset, reason="the compressed message holds no messages")
    if not 0 <= last <= offset:  # some clients send 0 as the outer offset, but the broker sets it: no log has that
        reason = f"the compressed message's offset does not fit that of its last one, {last}"
        raise BatchError(offset=offset, reason=reason)
    base = offset - int(last) if is_relative else 0
    is_stamped = is_relative and attributes & layout.LOG_APPEND_TIME != 0
    records, table = _converted(messages, 0, len(messages), (base, 1, int(is_stamped), time))
    if table[rows.FIRST, 0] < indexed.table[rows.FIRST, column]:
        raise BatchError(offset=int(table[rows.FIRST, 0]), reason=_REASONS[kernels.BAD_ORDER])
    return records, table


def plain(indexed: Indexed, first: int, stop: int) -> tuple[Bytes, Longs]:
    """The records of messages that are not compressed and stand side by side.

    Args:
        indexed: where they are.
        first: the first one's column.
        stop: the column after the last one.

    Returns:
        (records, table): as for ``wrapped``.

    Raises:
        BatchError: the key and value of one of them do not fit its length.
    """
    start, size = indexed.start, indexed.size
    return _converted(indexed.data, int(start[first]), int(start[stop - 1] + size[stop - 1]), (0, 0, 0, 0))


def _messages(indexed: Indexed, column: int, limit: int) -> Bytes:
    """What a compressed message holds, decompressed."""
    start, size = int(indexed.start[column]), int(indexed.size[column])
    offset, magic = int(indexed.last_offset[column]), int(indexed.magic[column])
    codec = Codec(int(indexed.attributes[column]) & layout.CODEC_MASK)
    at, length = kernels.value_of(indexed.data, start, start + size)
    if at < 0:
        raise BatchError(offset=offset, reason=_REASONS[kernels.BAD_FIELDS])
    if length < 0:
        raise BatchError(offset=offset, reason="the compressed message has no value")
    payload = indexed.data[at : at + length]
    if magic == 0 and codec is Codec.LZ4:
        payload = lz4_frames.mended(payload)
    try:
        return decompress(codec, payload, limit)
    except CodecError as error:
        raise BatchError(offset=offset, reason=f"the compressed message cannot be opened: {error}") from error


def _converted(data: Bytes, at: int, stop: int, how: tuple[int, int, int, int]) -> tuple[Bytes, Longs]:
    why, offset, out, facts = kernels.convert(data, at, stop, *how)
    if why != kernels.DONE:
        raise BatchError(offset=int(offset), reason=_REASONS[why])
    table = np.full((rows.COLUMNS, 1), -1, np.int64)
    table[rows.START, 0], table[rows.SIZE, 0] = 0, facts[kernels.SIZE]
    table[rows.FIRST, 0], table[rows.LAST, 0] = facts[kernels.FIRST], facts[kernels.LAST]
    table[rows.COUNT, 0], table[rows.ATTRIBUTES, 0], table[rows.MAGIC, 0] = facts[kernels.COUNT], 0, 2
    table[rows.BASE_TIME, 0], table[rows.MAX_TIME, 0] = facts[kernels.BASE_TIME], facts[kernels.NEWEST]
    return out[: facts[kernels.SIZE]], table
