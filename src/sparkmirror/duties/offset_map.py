"""Keeps the offset map as large as the source's log: segments below the log's start leave the internal topic.

One round: ask the source where its logs start, decide which segments nobody needs (``offsets.bounds``), remove them.

Invariant: a partition whose log start is not told keeps everything until the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.bounds import bound
from sparkmirror.offsets.state import JournalState

CHUNK = 10_000
"""Partitions that are asked for, and keys that are removed, at a time."""


def bound_offset_map(
    state: JournalState,
    partitions: Collection[TopicPartition],
    ids: Sequence[int],
    source: Cluster,
    remove: Callable[[Sequence[str]], None],
    timeout_ms: int,
) -> int:
    """Does one round.

    Args:
        state: of the flow's internal topic, read to its end.
        partitions: that the source has now; a topic that is gone would be asked for until the time is over.
        ids: the flow's producer ids in the order in which they were registered.
        source: asked where its logs start.
        remove: writes tombstones for keys to the internal topic.
        timeout_ms: for each question.

    Returns:
        how many segments were removed.

    Raises:
        BrokerError: the source refuses, or the target.
        LinkError: one of them does not answer.
    """
    several = sorted(place for place in partitions if place in state.maps and len(state.maps[place]) > 1)
    removed = 0
    for first in range(0, len(several), CHUNK):
        some = several[first : first + CHUNK]
        starts = admin.find_offsets(source, some, OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
        keys = bound(state, starts, ids)
        for at in range(0, len(keys), CHUNK):
            remove(keys[at : at + CHUNK])
        removed += len(keys)
    return removed
