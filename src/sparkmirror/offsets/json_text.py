"""How records of the internal topics are written: compact JSON, the values with a version."""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Any

from sparkmirror.model import TopicPartition, Writer

VERSION = 1


def write(value: Any) -> str:
    """Writes a key or a value."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def place(topic: str, partition: int) -> TopicPartition:
    """A partition that a record names; records of one topic share the name."""
    return TopicPartition(sys.intern(topic), partition)


@lru_cache(4_096)
def writer(producer_id: int, epoch: int) -> Writer:
    """A writer that a record names; its records share it."""
    return Writer(producer_id=producer_id, epoch=epoch)
