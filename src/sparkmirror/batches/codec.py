"""The compression codecs of Kafka by number and name."""

from __future__ import annotations

from enum import IntEnum


class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes (org.apache.kafka.common.record.CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
