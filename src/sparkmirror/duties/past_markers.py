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
from functools import partial

from sparkmirror.config import FlowConfig, Isolation
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.flow_back import Back, other_side
from sparkmirror.kafka.opened_records import Row
from sparkmirror.kafka.spots import Spot, read_spots
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.offsets.map import OffsetMap

TURNS, TURNS_AT_LAST = 4, 32
"""So many markers of a partition are passed in one look; the next one goes on behind them, if there is one."""

READ_MS = 10_000
"""A partition without a leader has no readers either, and is not waited for longer."""

UNCOMMITTED = Isolation.READ_UNCOMMITTED
"""A record of an open transaction may still come to be read."""

Start = tuple[TopicPartition, int]
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
        moved = _over(self._sides.flow, {(place, at): at for place, at in places.items()}, own, self._first)
        return {place: at for (place, _), at in moved.items()}

    def _read(self, spots: Iterable[Spot]) -> Mapping[Spot, int | None]:
        return _read(self._sides, spots)


def at_last(
    sides: Sides, own: Mapping[TopicPartition, OffsetMap], positions: Iterable[Start], first: First | None = None
) -> dict[Start, int]:
    """How far nothing but copies and markers lies behind positions of the flow back, which is held: by one look.

    Args:
        sides: the flow and its clusters; the target is read.
        own: the flow's own maps, settled.
        positions: source partitions with the position that is on record of each.
        first: reads; by default the target's logs.

    Raises:
        SparkmirrorError: the target cannot be asked at all.
    """
    read = partial(_read, sides) if first is None else first
    passed = {start: own[start[0]].first_without_copy(start[1]) for start in positions if start[0] in own}
    standing = dict(passed)
    for _ in range(TURNS_AT_LAST):
        standing = _over(sides.flow, standing, own, read)
        if not standing:
            break
        passed |= standing
    return passed


def _over(
    flow: FlowConfig, places: Mapping[Start, int], own: Mapping[TopicPartition, OffsetMap], read: First
) -> dict[Start, int]:
    """Where one marker and the copies behind it are passed: those of the offsets that go on."""
    spots = {start: Spot(other_side(flow, start[0]), at) for start, at in places.items() if at <= _end(own[start[0]])}
    found = read(spots.values()) if spots else {}
    firsts = {start: first for start, spot in spots.items() if (first := found.get(spot)) is not None}
    return {start: own[start[0]].first_without_copy(at) for start, at in firsts.items() if own[start[0]].has(at, at)}


def _read(sides: Sides, spots: Iterable[Spot]) -> Mapping[Spot, int | None]:
    timeout_ms = min(READ_MS, sides.flow.admin_timeout_ms)
    return read_spots(sides.target, list(spots), _offset, timeout_ms, UNCOMMITTED).found


def _behind(positions: Mapping[TopicPartition, int], own: Mapping[TopicPartition, OffsetMap]) -> list[TopicPartition]:
    """The partitions in which the flow has copies behind the position of the flow back."""
    return [place for place, at in positions.items() if place in own and NO_OFFSET < at <= _end(own[place])]


def _end(own: OffsetMap) -> int:
    """Where the last copy lies."""
    last = own.end()
    return NO_OFFSET if last is None else last.target


def _offset(row: Row) -> int:
    return row.offset
