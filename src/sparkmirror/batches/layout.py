"""Where the fields of a record batch lie.

Purpose: the constants of the batch formats, by Kafka's own names, for every other module of this room.

Invariants: numbers only; all integers in a header are big-endian. The bytes before ``CRC_FROM`` may be changed without
a new checksum.

References: org.apache.kafka.common.record.DefaultRecordBatch (magic 2), LegacyRecord (magic 0 and 1), KIP-32 (magic 1),
KIP-98 (magic 2), KIP-534 (delete horizon).
"""

from __future__ import annotations

from typing import Final

BASE_OFFSET: Final = 0
LENGTH: Final = 8
LEADER_EPOCH: Final = 12
MAGIC: Final = 16
CRC: Final = 17
CRC_FROM: Final = 21
ATTRIBUTES: Final = 21
LAST_OFFSET_DELTA: Final = 23
BASE_TIMESTAMP: Final = 27
MAX_TIMESTAMP: Final = 35
PRODUCER_ID: Final = 43
PRODUCER_EPOCH: Final = 51
BASE_SEQUENCE: Final = 53
COUNT: Final = 57
HEADER: Final = 61
"""Size of a header of magic 2: the records start here."""

PREFIX: Final = 12
"""Base offset and length field, which the length field does not count."""

LEGACY_MINIMUM: Final = 14
"""The least that the length field of a message of magic 0 may say (crc, magic, attributes, two null fields)."""

LEGACY_CRC: Final = 12
LEGACY_CRC_FROM: Final = 16
LEGACY_ATTRIBUTES: Final = 17
LEGACY_TIMESTAMP: Final = 18
LEGACY_FIELDS_0: Final = 18
"""Where the size of the key lies in a message of magic 0; key, size of the value and value follow."""

LEGACY_FIELDS_1: Final = 26
"""The same for magic 1, which has a timestamp before it."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

LAST_CODEC: Final = 4
LEGACY_LAST_CODEC: Final = 3
NO_PRODUCER: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

ABORT: Final = 0
COMMIT: Final = 1
"""Control record types: the second int16 of a control record's key."""
