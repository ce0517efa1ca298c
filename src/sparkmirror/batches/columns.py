"""Records as columns: the Arrow schema that ``decode`` gives and ``encode`` takes.

    offset          int64   where the record lies in its partition
    timestamp       int64   milliseconds since 1970, -1 for none
    timestamp_type  int8    who set it, a ``TimestampType``
    key             binary, null where the record has none
    value           binary, null for a tombstone
    headers         list<struct<key: binary, value: binary or null>>, in order, with repeated keys; empty for none

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


@cache
def column_schema() -> pa.Schema:
    """The columns that ``decode`` gives."""
    import pyarrow as pa

    header = pa.struct([pa.field(KEY, pa.binary(), nullable=False), pa.field(VALUE, pa.binary())])
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
