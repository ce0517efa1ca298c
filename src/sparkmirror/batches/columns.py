"""Records as columns: the Arrow schema that ``decode`` gives and ``encode`` takes.

    offset          int64   where the record lies in its partition
    timestamp       int64   milliseconds since 1970, -1 for none
    timestamp_type  int8    who set it, a ``TimestampType``
    key             binary, null where the record has none
    value           binary, null for a tombstone
    headers         list<struct<key: binary, value: binary or null>>, in order, with repeated keys; empty for none

Two bytes of a batch may be a header, and an array of headers takes four times as much. Whoever reads what strangers
wrote has the headers of a record that has too many *packed*: one header without a key, whose value is all of them as
they lie in the record (the schema then has keys that may be null, and says so).

Invariants: nothing that a log can hold is lost or refused.
    - Timestamps are plain numbers and not Arrow's timestamps: -1 is no moment, and Kafka allows every int64, of which
      most are out of range for what reads Arrow (microseconds in Spark, nanoseconds in pandas). Where they are known to
      be sound, ``column.cast(pa.timestamp("ms", "UTC"))`` makes moments of them without a copy.
    - Header keys are bytes. Kafka's clients write UTF-8, but brokers do not look.

pyarrow is imported by the functions that use it: the process that forks Spark's workers imports this room, and must not
start a thread, which pyarrow does.

References: org.apache.kafka.common.record.TimestampType; Spark's Kafka source, whose ``timestampType`` has the same
numbers.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Final

from sparkmirror.batches.kernels import decode as kernels

if TYPE_CHECKING:
    import pyarrow as pa

OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
TIMESTAMP_TYPE: Final = "timestamp_type"
KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"


class TimestampType(IntEnum):
    """Who set a record's timestamp, in Kafka's own numbers."""

    NONE = kernels.NO_TIMESTAMP_TYPE
    """Nobody: messages of magic 0 have none."""
    CREATE_TIME = kernels.CREATE_TIME
    """The producer."""
    LOG_APPEND_TIME = kernels.LOG_APPEND_TIME
    """The broker, when it appended the batch."""


_PACKED: Final = {b"null": b"the value is all headers of the record, packed"}


def may_be_packed(header: pa.DataType) -> bool:
    """Whether headers of this type may stand for all headers of a record."""
    return header.num_fields > 0 and bool(header.field(0).metadata == _PACKED)


@cache
def column_schema(*, packed: bool = False) -> pa.Schema:
    """The columns that ``decode`` gives.

    Args:
        packed: whether a header may stand for all of its record.
    """
    import pyarrow as pa

    key = pa.field(KEY, pa.binary(), nullable=packed, metadata=_PACKED if packed else None)
    header = pa.struct([key, pa.field(VALUE, pa.binary())])
    return pa.schema(
        [
            pa.field(OFFSET, pa.int64(), nullable=False),
            pa.field(TIMESTAMP, pa.int64(), nullable=False),
            pa.field(TIMESTAMP_TYPE, pa.int8(), nullable=False),
            pa.field(KEY, pa.binary()),
            pa.field(VALUE, pa.binary()),
            pa.field(HEADERS, pa.list_(pa.field("item", header, nullable=False)), nullable=False),
        ]
    )
