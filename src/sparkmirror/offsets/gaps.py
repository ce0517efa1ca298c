"""Batches that a target took over a gap: after its log had lost its end, from a writer that it did not remember. Pure.

A lane asks a new leader how far its log goes before it sends anything, so this happens only where the leader changed
unnoticed, or where brokers have no topic ids and a topic was made anew under the writer.

Invariant: along a log, target offset minus count never gets smaller within a writer epoch. Where it did, the records
between are missing, and what lies behind them has to be copied again too, since order would be lost otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkmirror.offsets.placing import Known
from sparkmirror.offsets.tail import TailBatch


class Gap(NamedTuple):
    """Where records are missing.

    Attributes:
        sound: the count of the last record before them, or None if none is among the batches.
        first: the target offset of the first batch behind them.
    """

    sound: int | None
    first: int


def find_gap(batches: Sequence[tuple[int, TailBatch]], known: Known) -> Gap | None:
    """Finds the gap, or None.

    Args:
        batches: of one writer epoch, each with the count of its first record.
        known: a record that was acknowledged.
    """
    shift = known.target - known.record
    behind = [
        batch.base_offset
        for count, batch in batches
        if _end(count, batch) > known.record and _shift(count, batch) < shift
    ]
    if not behind:
        return None
    first = min(behind)
    before = [_end(count, batch) for count, batch in batches if batch.last_offset < first]
    return Gap(max(before, default=None), first)


def _end(count: int, batch: TailBatch) -> int:
    """The count of a batch's last record."""
    return count + batch.last_offset - batch.base_offset


def _shift(count: int, batch: TailBatch) -> int:
    return batch.base_offset - count
