"""The offset maps of a flow, held against the target's logs.

A target may lose the end of a log (an unclean election, a power failure with replication factor 1), and the flow finds
that with the next batch, or within 30 s. Until then its map leads to copies that are gone, and others may have written
at their offsets.

Invariant: a map and the leader epoch that its copies are asked by are of one moment on record, and the leader is asked
after that: what is lost by then is not on the map.

Reference: OffsetForLeaderEpoch (KIP-320).
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.lost_copies import lost_copies
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.codes import GONE
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap

ASK_MS = 3_000
"""A partition without a leader has no readers either: its groups wait for the next round, and no others for it."""


class Checked(NamedTuple):
    """Maps of a flow, by partition of the source.

    Attributes:
        maps: without what the target has lost.
        unchecked: the partitions of which the copy's leader has not answered.
        lost: from which target offset on copies that the record has are lost; whoever stands behind it has not read
            what lies there now.
    """

    maps: dict[TopicPartition, OffsetMap]
    unchecked: frozenset[TopicPartition] = frozenset()
    lost: Mapping[TopicPartition, int] = {}


class CheckedMaps:
    """Reads the maps of a flow on, and asks the leaders of the copies each time.

    Args:
        sides: the flow and its clusters; without a store nothing is known.
    """

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._maps = KnownMaps(sides)

    def of(self, places: Set[TopicPartition]) -> Checked:
        """The maps as `KnownMaps.of` gives them, without what the target has lost.

        Raises:
            SparkmirrorError: the target cannot be asked at all.
        """
        maps, sides = self._maps.of(places), self._sides
        if sides.store is None or not maps:
            return Checked(maps)
        progress = {place: one for place, one in sides.store.state.progress.items() if place in maps}
        lost = lost_copies(sides.flow, sides.target, progress, min(ASK_MS, sides.flow.admin_timeout_ms))
        unchecked = {
            place for place, why in lost.failed.items() if not (isinstance(why, BrokerError) and why.code in GONE)
        }
        inherited = sides.store.state.inherited
        gone = {place: at for place, at in lost.found.items() if has_lost(maps[place], inherited.get(place), at)}
        return Checked(without_lost(maps, gone), frozenset(unchecked), gone)


def has_lost(offsets: OffsetMap, inherited: Inherited | None, lost: int) -> bool:
    """Whether copies lie at or behind a target offset, of the flow or of MirrorMaker 2 before it. Pure."""
    end = offsets.end()
    return (end is not None and end.target >= lost) or (inherited is not None and inherited.end > lost)


def without_lost(
    maps: Mapping[TopicPartition, OffsetMap], lost: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetMap]:
    """The maps as if nothing had been put where the target has lost it. Pure.

    Args:
        maps: by partition of the source.
        lost: from which target offset on the copies of some are lost.
    """
    return {place: one.before_target(lost[place]) if place in lost else one for place, one in maps.items()}
