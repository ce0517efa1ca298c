"""Where groups of the source go on at the target in topics that were born there and that the flow back has copied.

A group that reads ``B.orders`` on A reads the copy of ``orders`` on B. When the group moves to B it goes on in
``orders`` itself. The map that tells where is that of the flow ``B->A``, and lies on A. The same holds for single
records of other topics that the flow back has written to A: where names are kept, and where records that others wrote
to copies are brought home.

Invariants: the map is read after the offsets of groups, so it is never older than what is translated with it; an offset
that the map does not reach yet leads to where the map ends, never beyond, and is marked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from sparkmirror.duties.duty import Sides
from sparkmirror.duties.known_maps import KnownMaps
from sparkmirror.duties.topics import original_of, remote_topic
from sparkmirror.kafka import admin
from sparkmirror.kafka.groups import Offsets
from sparkmirror.kafka.store import Store
from sparkmirror.model import NO_OFFSET, TopicPartition
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.group_records import UpstreamOffset
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.state import JournalState
from sparkmirror.offsets.translation import NotYet, Place, Translated, translate_back

Upstream = Mapping[str, Mapping[TopicPartition, UpstreamOffset]]
"""By group and partition of the source."""

POLL_SECONDS = 0.5


class UpstreamOffsets:
    """Translates what groups have committed in copies that the flow back has made.

    Args:
        sides: the flow and its clusters.
        timeout_ms: of each question; as the flow is configured without.
    """

    def __init__(self, sides: Sides, timeout_ms: int | None = None) -> None:
        flow = replace(sides.flow, admin_timeout_ms=timeout_ms or sides.flow.admin_timeout_ms)
        self._flow, self._cluster, self._store = flow, sides.source, sides.store
        self._topic_id: object = None
        # The flow back is known by its record only: its configuration may be in another file. Maps need its name alone.
        back = replace(flow, name=flow.name.back, source=flow.target, target=flow.source)
        self._back = Sides(flow=back, source=sides.target, target=sides.source, store=None)
        self._maps = KnownMaps(self._back)

    def of(
        self, offsets: Mapping[str, Offsets], *, patience_s: float = 0.0
    ) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
        """Where each committed offset leads to, for those that the flow back knows.

        Args:
            offsets: what groups have committed on the source.
            patience_s: how long the flow back is waited for, which puts on record once a second how far it is.

        Raises:
            SparkmirrorError: the source cannot be asked, or a record there is not one of ours.
        """
        if not any(offsets.values()) or not self._is_recorded():
            return {}
        deadline = time.monotonic() + patience_s
        while True:
            found = self._translated(offsets)
            inexact = any(not one.exact for own in found.values() for one in own.values())
            if not inexact or time.monotonic() >= deadline:
                return found
            time.sleep(POLL_SECONDS)

    def _is_recorded(self) -> bool:
        """Whether the flow back has an internal topic on the source; one that was made anew is read anew."""
        name, timeout_ms = internal_topic(self._back.flow.name), self._flow.admin_timeout_ms
        known = admin.list_topics(self._cluster, [name], timeout_ms).get(name)
        if known is None:
            self._topic_id = None
            return False
        if known.topic_id != self._topic_id:
            self._topic_id = known.topic_id
            self._back.store = Store(self._cluster, name, timeout_ms)
            self._maps = KnownMaps(self._back)
        return True

    def _translated(self, offsets: Mapping[str, Offsets]) -> dict[str, dict[TopicPartition, UpstreamOffset]]:
        places = {place: self._upstream_place(place) for own in offsets.values() for place in own}
        maps = self._maps.of(set(places.values()))
        assert self._back.store is not None  # it is recorded
        state = self._back.store.state
        if not self._is_of_these_clusters(state):
            return {}
        found: dict[str, dict[TopicPartition, UpstreamOffset]] = {}
        for group, own in offsets.items():
            for place, committed in own.items():
                there = places[place]
                if there not in maps:
                    continue
                known = state.progress.get(there), state.inherited.get(there)
                one = translated(maps[there], committed.offset, *known)
                if original_of(self._flow, place.topic) is not None or one.name == Place.RECORD.name:
                    found.setdefault(group, {})[place] = one
        return found

    def _is_of_these_clusters(self, back: JournalState) -> bool:
        """Whether the record found is that of the flow back; one from another cluster that had the alias is not."""
        own = None if self._store is None else self._store.state.flow
        if own is None or back.flow is None:
            return False
        return (back.flow.source_id, back.flow.target_id) == (own.target_id, own.source_id)

    def _upstream_place(self, place: TopicPartition) -> TopicPartition:
        """The partition of the target whose records the flow back writes to a partition of the source."""
        topic = original_of(self._flow, place.topic) or remote_topic(self._flow, place.topic)
        return TopicPartition(topic, place.partition)


def translated(
    offsets: OffsetMap, committed: int, progress: Progress | None, inherited: Inherited | None
) -> UpstreamOffset:
    """Where an offset that was committed in a copy leads to. Pure.

    Args:
        offsets: of the flow that made the copy, for this partition.
        committed: in the copy.
        progress: the newest of the partition.
        inherited: what MirrorMaker 2 copied before the flow took over.
    """
    if not len(offsets) and offsets.position != NO_OFFSET and inherited is None:
        return UpstreamOffset(offsets.position, Place.END.name)  # of a copy without a record nothing can have been read
    found = translate_back(offsets, committed, inherited)
    if isinstance(found, NotYet):
        return UpstreamOffset(NO_OFFSET, found.reason.name, exact=False)
    assert isinstance(found, Translated)
    last = offsets.end()
    reached = max(-1 if last is None else last.target + 1, NO_OFFSET if progress is None else progress.reached.end)
    return UpstreamOffset(found.offset, found.place.name, exact=found.place is not Place.END or committed <= reached)
