"""A batch's records as bytes, whatever it is compressed with.

Purpose: the one place where a batch is opened, and where what is wrong with it becomes a BatchError with its offset.
"""

from __future__ import annotations

from typing import Final

from sparkmirror.batches import index_kernel as rows
from sparkmirror.batches import layout
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.codecs import CodecError, decompress
from sparkmirror.batches.index import Bytes, Indexed
from sparkmirror.errors import BatchError

_OLD_REMEDY: Final = "upgrade the topic's messages, or start behind them"


def codec_of(indexed: Indexed, column: int) -> Codec:
    """What a batch is compressed with."""
    return Codec(int(indexed.table[rows.ATTRIBUTES, column]) & layout.CODEC_MASK)


def records_of(indexed: Indexed, column: int, limit: int) -> tuple[Bytes, int]:
    """The records of a batch of magic 2, uncompressed.

    Args:
        indexed: where the batch is.
        column: which of its batches.
        limit: the most bytes that it may decompress to.

    Returns:
        (array, start): the records go from there to the array's end. An uncompressed batch is not copied.

    Raises:
        BatchError: it is of magic 0 or 1, or its compressed data is damaged or exceeds the limit.
    """
    if indexed.table[rows.MAGIC, column] < 2:
        raise legacy(indexed, column)
    start, size = int(indexed.table[rows.START, column]), int(indexed.table[rows.SIZE, column])
    codec = codec_of(indexed, column)
    if codec is Codec.NONE:
        return indexed.data[: start + size], start + layout.HEADER
    try:
        return decompress(codec, indexed.data[start + layout.HEADER : start + size], limit), 0
    except CodecError as error:
        raise BatchError(offset=offset_of(indexed, column), reason=f"the batch cannot be opened: {error}") from error


def offset_of(indexed: Indexed, column: int) -> int:
    """The base offset of a batch in the source."""
    return int(indexed.table[rows.FIRST, column])


def damaged(indexed: Indexed, column: int) -> BatchError:
    """The error for records that contradict their header or each other."""
    return BatchError(offset=offset_of(indexed, column), reason="the batch's records do not fit its header")


def legacy(indexed: Indexed, column: int) -> BatchError:
    """The error for messages of magic 0 and 1."""
    magic = int(indexed.table[rows.MAGIC, column])
    reason = f"a message of magic {magic}, from before Kafka 0.11, cannot be copied yet"
    return BatchError(offset=offset_of(indexed, column), reason=reason, remedy=_OLD_REMEDY)
