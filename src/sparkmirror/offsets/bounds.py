"""Which segments nobody needs any more, so that the map stays as large as the source's log and no larger: pure.

Invariants:
    * Every source offset from the log's start on translates as before; the segment that holds the start stays.
    * What a takeover may need stays, wherever the log starts: of the newest `EPOCHS` writer epochs with segments, the
      last one whose target offset is known, and all behind it.
    * Within an epoch the oldest go first, so what is left has no gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map import PartitionMap
from sparkmirror.offsets.pieces import Columns
from sparkmirror.offsets.records import SEQUENCES, SegmentKey
from sparkmirror.offsets.state import JournalState

EPOCHS = 3
"""A target that loses its tail may fall back by an epoch; by as many as this within the source's retention, hardly."""


def bound(state: JournalState, log_starts: Mapping[TopicPartition, int], ids: Sequence[int]) -> tuple[str, ...]:
    """The keys of segments that can go.

    Args:
        state: of the internal topic.
        log_starts: of the source's partitions; those that are not in it keep everything.
        ids: the flow's producer ids in the order in which they were registered.
    """
    return tuple(
        key
        for partition, log_start in log_starts.items()
        if partition in state.maps
        for key in _outlived(partition, state.maps[partition], log_start, ids)
    )


def _outlived(partition: TopicPartition, pieces: PartitionMap, log_start: int, ids: Sequence[int]) -> list[str]:
    keys: list[str] = []
    cut = np.iinfo(np.int64).max
    for age, writer in enumerate(reversed(pieces.writers(ids))):
        here = pieces.pieces(writer)
        if here is None:
            continue
        columns = here.columns
        needed = _needed(columns, log_start, cut)
        if age < EPOCHS:
            needed[_last_settled(columns, cut) :] = True
        sequences = columns.counts[: int(np.argmax(needed)) if needed.any() else len(needed)] % SEQUENCES
        keys += [SegmentKey(partition, writer, sequence).text for sequence in sequences.tolist()]
        if age == 0 or here.supersedes:
            cut = min(cut, int(columns.sources[0]))
    return keys


def _needed(columns: Columns, log_start: int, cut: int) -> npt.NDArray[np.bool_]:
    """Which segments hold source offsets from ``log_start`` on and below those where a newer epoch began."""
    ends = np.minimum(np.append(columns.sources[1:], cut), cut)
    needed: npt.NDArray[np.bool_] = (columns.sources < cut) & (ends > log_start)
    return needed


def _last_settled(columns: Columns, cut: int) -> int:
    settled = np.flatnonzero((columns.targets >= 0) & (columns.sources < cut))
    return int(settled[-1]) if len(settled) else 0
