"""The offset maps of a flow, as of the moment of the question, for whoever translates with them."""

from __future__ import annotations

from collections.abc import Set

from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_writers import KnownWriters
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.condensing import committed
from sparkmirror.offsets.map import OffsetMap, PartitionMap


class KnownMaps:
    """Reads the flow's internal topic on, and the register of writers when it has to.

    Args:
        sides: the flow and its clusters; without a store nothing is known.
    """

    def __init__(self, sides: Sides) -> None:
        self._store = sides.store
        self._writers = KnownWriters(sides.target, str(sides.flow.name), sides.flow.admin_timeout_ms)

    def of(self, places: Set[TopicPartition]) -> dict[TopicPartition, OffsetMap]:
        """The maps of those of the source partitions that the flow knows; an empty one where nothing was mirrored.

        Raises:
            SparkmirrorError: the target cannot be asked.
        """
        if self._store is None:
            return {}
        self._store.follow()
        state = self._store.state
        if state.flow is None:
            return {}
        known = [
            place for place in places if any(place in own for own in (state.maps, state.inherited, state.progress))
        ]
        maps = {place: state.maps.get(place) or PartitionMap() for place in known}
        seen = {writer.producer_id for own in maps.values() for writer in own.writers(())}
        seen |= {state.progress[place].writer.producer_id for place in maps if place in state.progress}
        ids = self._writers.ids(state.flow, seen)
        points = committed(state, maps)
        return {place: own.offsets(state.progress.get(place), ids, points.get(place)) for place, own in maps.items()}
