"""Keeps the offset map small: as large as the logs of source and target, in few records, and within its budget.

What lies below the log starts of both leaves the internal topic (``offsets.bounds``); what is left is joined, and
thinned where it is more than ``offset.map.max.bytes`` (``offsets.condensing``).

Invariant: a partition whose log start, or that of its copy, is not told keeps everything until the next round.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.bounds import Starts, bound
from sparkmirror.offsets.condensing import condense, size_of
from sparkmirror.offsets.segments import Bounded, MapRecord
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.track import FAR

log = logging.getLogger(__name__)

CHUNK = 10_000
"""Partitions that are asked for, and keys that are removed, at a time."""

COPIES_MS = 10_000
"""Milliseconds for the leaders of copies: one that does not answer leaves more on the map, and nobody waits for it."""


def bound_offset_map(
    state: JournalState,
    partitions: Mapping[TopicPartition, TopicPartition],
    ids: Sequence[int],
    source: Cluster,
    target: Cluster,
    write: Callable[[Sequence[MapRecord], Sequence[str]], None],
    timeout_ms: int,
) -> int:
    """Does one round.

    Args:
        state: of the flow's internal topic, read to its end.
        partitions: that the source has now, each with its copy; a topic that is gone would be asked for until the time
            is over.
        ids: the flow's producer ids in the order in which they were registered.
        source: asked where its logs start.
        target: asked the same, of copies whose source has lost something that is on the map.
        write: writes records, and then tombstones for keys, to the internal topic.
        timeout_ms: for each question.

    Returns:
        how many segments were removed.

    Raises:
        BrokerError: the source refuses, or the target.
        LinkError: one of them does not answer.
    """
    several = sorted(
        place
        for place in partitions
        if (place in state.maps and len(state.maps[place]) > 1) or len(state.source_epochs.get(place, ())) > 1
    )
    removed = 0
    for first in range(0, len(several), CHUNK):
        some = several[first : first + CHUNK]
        begun = admin.find_offsets(source, some, OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
        lost = {place: start for place, start in begun.items() if bound(state, {place: Starts(start, FAR)}, ids)}
        asked = [partitions[place] for place in lost]
        copies = admin.find_offsets(target, asked, OffsetSpec.EARLIEST, timeout_ms=min(COPIES_MS, timeout_ms)).found
        starts = {place: Starts(start, copies.get(partitions[place])) for place, start in lost.items()}
        keys = bound(state, starts, ids)
        bounded = [
            Bounded(partition=place, source=start.source, target=start.copy)
            for place, start in starts.items()
            if start.copy is not None
        ]
        for at in range(0, len(keys), CHUNK):
            write(bounded if at == 0 else (), keys[at : at + CHUNK])
        removed += len(keys)
    return removed


def condense_offset_map(
    flow: str,
    state: JournalState,
    ids: Sequence[int],
    budget: int,
    write: Callable[[Sequence[MapRecord], Sequence[str]], None],
) -> int:
    """Joins records of the map, or thins the oldest ones where it is above its budget.

    Args:
        flow: its name, for the log.
        state: of the flow's internal topic, read to its end.
        ids: the flow's producer ids in the order in which they were registered.
        budget: ``offset.map.max.bytes``.
        write: writes records, and then tombstones for keys, to the internal topic.

    Returns:
        how many records were written.

    Raises:
        BrokerError: the target refuses.
        LinkError: it does not answer.
    """
    size = size_of(state)
    condensed = condense(state, ids, budget)
    if condensed.records and size > budget:
        log.warning(
            "%s: the offset map holds %d bytes of holes (offset.map.max.bytes=%d): its %d oldest records are thinned; "
            "offsets there lead to earlier records of the target, but for those that groups were seen at",
            flow,
            size,
            budget,
            len(condensed.records),
        )
    if condensed.records or condensed.void:
        write(condensed.records, condensed.void)
    return len(condensed.records)
