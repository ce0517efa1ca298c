"""Small compacted topics of one partition whose keys and values are bytes of somebody else's making.

As `Journal` for the topics of sparkmirror's own; MirrorMaker 2's checkpoints are such a topic.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from sparkmirror.kafka.cluster import CALL_MS
from sparkmirror.kafka.journal import Journal, decode_bytes


class Pair(NamedTuple):
    """One record; a ``value`` of None is a tombstone."""

    key: bytes
    value: bytes | None


class PairJournal(Journal):
    """One such topic on one cluster. For coroutines on the cluster's loop."""

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
            some, following = decode_bytes(data, start)
            found += [Pair(key, value) for _, key, value in some]
            if following == offset:
                break
            offset = following
        return found, offset
