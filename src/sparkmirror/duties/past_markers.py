"""How far nothing but copies and markers lies behind the position of a flow back that has been stopped.

Groups are not put beyond that position, since the other cluster's own records from there on are still to come. The
flow's copies behind it are no such records, as its map tells; but between two of them a fence may have left a marker,
or an application its own record, and only the log tells which.

Invariants: what cannot be read is not passed; what was passed holds until the log loses its end, or the position goes
back; a flow back that runs costs no reading, since its position moves between two looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sparkmirror.batches import columns
from sparkmirror.config import Isolation
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.flow_back import Back, other_side
from sparkmirror.kafka.spots import Spot, read_spots
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.map import OffsetMap

TURNS = 4
"""So many markers of a partition are passed in one look; the next one goes on behind them."""

READ_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""

UNCOMMITTED = Isolation.READ_UNCOMMITTED
"""A record of an open transaction may still come to be read."""

First = Callable[[Iterable[Spot]], Mapping[Spot, int | None]]
"""The offset of the first record at each place or behind it."""


class PastMarkers:
    """Looks at the target's logs, again and again.

    Args:
        sides: the flow and its clusters.
        first: reads; by default the target's logs.
    """

    def __init__(self, sides: Sides, first: First | None = None) -> None:
        self._sides = sides
        self._first = first or self._read
        self._passed: dict[TopicPartition, tuple[int, int]] = {}
        self._positions: dict[TopicPartition, int] = {}

    def of(self, back: Back, own: Mapping[TopicPartition, OffsetMap]) -> Back:
        """The same with how far each partition's position may be passed.

        Args:
            back: what is on record of the flow back.
            own: the flow's own maps.

        Raises:
            SparkmirrorError: the target cannot be asked at all.
        """
        positions = {place: one.offsets.position for place, one in back.copies.items()}
        passed = {place: self._begin(place, positions[place], own[place]) for place in _behind(positions, own)}
        standing = {place for place in passed if self._positions.get(place, positions[place]) == positions[place]}
        for _ in range(TURNS):
            moved = self._over({place: passed[place] for place in standing}, own)
            if not moved:
                break
            passed |= moved
        self._positions = positions
        self._passed = {place: (at, _end(own[place])) for place, at in passed.items()}
        copies = {place: replace(back.copies[place], passed=at) for place, at in passed.items()}
        return replace(back, copies={**back.copies, **copies})

    def _begin(self, place: TopicPartition, position: int, own: OffsetMap) -> int:
        """Where to go on: what was passed before holds as long as the log keeps its end.

        Not where the flow back has gone back: it brings again what lies from there on.
        """
        before, end = self._passed.get(place, (position, NO_OFFSET))
        holds = _end(own) >= end and self._positions.get(place, position) <= position
        return own.first_without_copy(max(position, before) if holds else position)

    def _over(
        self, places: Mapping[TopicPartition, int], own: Mapping[TopicPartition, OffsetMap]
    ) -> dict[TopicPartition, int]:
        """Where one marker and the copies behind it are passed: those of the offsets that go on."""
        flow = self._sides.flow
        spots = {place: Spot(other_side(flow, place), at) for place, at in places.items() if at <= _end(own[place])}
        found = self._first(spots.values()) if spots else {}
        firsts = {place: first for place, spot in spots.items() if (first := found.get(spot)) is not None}
        return {place: own[place].first_without_copy(at) for place, at in firsts.items() if own[place].has(at, at)}

    def _read(self, spots: Iterable[Spot]) -> Mapping[Spot, int | None]:
        timeout_ms = min(READ_MS, self._sides.flow.admin_timeout_ms)
        return read_spots(self._sides.target, list(spots), _offset, timeout_ms, UNCOMMITTED).found


def _behind(positions: Mapping[TopicPartition, int], own: Mapping[TopicPartition, OffsetMap]) -> list[TopicPartition]:
    """The partitions in which the flow has copies behind the position of the flow back."""
    return [place for place, at in positions.items() if place in own and NO_OFFSET < at <= _end(own[place])]


def _end(own: OffsetMap) -> int:
    """Where the last copy lies."""
    last = own.end()
    return NO_OFFSET if last is None else last.target


def _offset(row: Mapping[str, Any]) -> int:
    return int(row[columns.OFFSET])
