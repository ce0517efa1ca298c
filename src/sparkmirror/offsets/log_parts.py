"""Parts of a log that have been read: which offsets are left between them, and what they give together. Pure.

A long log is read in several turns, from its end back. Below the high watermark a log stays as it is while its leader
epoch is the same, but for what retention and the log cleaner remove, so nothing is fetched twice.

Invariants: a part tells every batch between its two offsets; parts do not overlap. Batches of others that lie side by
side in one leader epoch are told as one: of these only the offsets count, and that the last ones may be markers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sparkmirror.offsets.tail import NO_PRODUCER, NO_SEQUENCE, TailBatch


class LogPart(NamedTuple):
    """What was read of a log between two offsets, the second not included."""

    since: int
    until: int
    batches: tuple[TailBatch, ...]


def part_at(parts: Sequence[LogPart], offset: int) -> LogPart | None:
    """The part that has an offset, or None."""
    return next((part for part in parts if part.since <= offset < part.until), None)


def end_of_gap(parts: Sequence[LogPart], offset: int, end: int) -> int:
    """Up to which offset, ``end`` at most, nothing is read from ``offset`` on, which is in no part."""
    return min([end, *(part.since for part in parts if part.since > offset)])


def from_offset(part: LogPart, offset: int) -> Iterable[TailBatch]:
    """The batches of a part that do not end before an offset; one that was not known to begin there is cut.

    A compressed message of before Kafka 0.11 does not say where it begins.
    """
    for batch in part.batches:
        if batch.last_offset >= offset:
            cut = batch.base_offset < offset and batch.producer_id == NO_PRODUCER
            yield batch._replace(base_offset=offset) if cut else batch


def with_part(parts: Sequence[LogPart], new: LogPart) -> tuple[LogPart, ...]:
    """The parts in order, where ``new`` holds all of those that it overlaps."""
    apart = [part for part in parts if part.until <= new.since or new.until <= part.since]
    return tuple(sorted([*apart, new]))


def append(batches: list[TailBatch], added: Iterable[TailBatch], own: Collection[int] | None) -> None:
    """Adds batches that come next in the log.

    Args:
        batches: in the order of the log; the last ones may become one with those that are added.
        added: behind them.
        own: the producers whose batches are told one by one; None for all.
    """
    for batch in added:
        while own is not None and batches and _are_one(batches[-1], batch, own):
            batch = _joined(batches.pop(), batch)  # noqa: PLW2901  # it grows to the left
        batches.append(batch)


def _are_one(left: TailBatch, right: TailBatch, own: Collection[int]) -> bool:
    side_by_side = left.last_offset + 1 == right.base_offset and left.leader_epoch == right.leader_epoch
    return side_by_side and not right.control and left.producer_id not in own and right.producer_id not in own


def _joined(left: TailBatch, right: TailBatch) -> TailBatch:
    return TailBatch(
        base_offset=left.base_offset,
        last_offset=right.last_offset,
        producer_id=NO_PRODUCER,
        epoch=NO_PRODUCER,
        sequence=NO_SEQUENCE,
        count=left.count + right.count,
        control=False,
        newest_ms=max(left.newest_ms, right.newest_ms),
        leader_epoch=right.leader_epoch,
    )
