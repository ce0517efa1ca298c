"""In which topics of the source lie records of the target that other clusters have brought there: those of a ring.

In a ring A->B->C->A of flows that keep names, what was born on B reaches A through C. A->B leaves it out, so its map
has holes there, and no flow from B to A has a map that says which records of B lie in them. A group of A that goes on
at B behind the next copy would skip the records of B that it has not read; and where each flow commits group offsets,
they are carried around the ring, onto the cluster where the group lives. So groups are not translated in such topics.

Invariants: the source's registry of writers tells (`copy.registrations`): a flow declares there that it carries the
target's records before it brings the first of them. Which topics these flows copy is on their records, which lie on the
source too; where one cannot be read, any topic may be concerned. Without provenance headers a ring copies nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkmirror.copy.origins import read_registry
from sparkmirror.copy.registrations import Registration, closing, registrations
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.store import Store
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.naming import WRITERS_TOPIC, internal_topic

NOWHERE: frozenset[TopicPartition] = frozenset()


class Rings:
    """Asks the source again and again.

    Args:
        sides: the flow and its clusters.
        timeout_ms: of each question; as the flow is configured without.
    """

    def __init__(self, sides: Sides, timeout_ms: int | None = None) -> None:
        self._flow, self._source, self._store = sides.flow, sides.source, sides.store
        self._timeout_ms = timeout_ms or sides.flow.admin_timeout_ms
        self._stores: dict[str, Store] = {}

    def of(self, places: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Those of the source's partitions that lie in a ring with the target.

        Raises:
            BrokerError: the source's registry of writers cannot be read.
            LinkError: the source does not answer.
        """
        if not places or not (self._flow.policy.keeps_names and self._flow.provenance_header):
            return NOWHERE
        known = self._registered()
        topics = [self._topics_of(one) for one in sorted({one.flow for one in known})]
        if None in topics:
            return frozenset(places)
        concerned = frozenset().union(*(some for some in topics if some is not None))
        return frozenset(place for place in places if place.topic in concerned)

    def _registered(self) -> tuple[Registration, ...]:
        """The flows that close the ring, as they are registered."""
        assert self._store is not None  # its record has the clusters' ids
        if self._store.state.flow is None:
            self._store.follow()
        own = self._store.state.flow
        if own is None:
            return ()
        entries = self._source.run(read_registry, Journal(self._source, WRITERS_TOPIC))
        return closing(registrations(entries), own.source_id, own.target_id)

    def _topics_of(self, flow: str) -> frozenset[str] | None:
        """The topics that a flow to the source copies, or has copied; None where that cannot be read."""
        source, _, target = flow.partition("->")
        name = internal_topic(FlowName(source=Alias(source), target=Alias(target)))
        try:
            if name not in admin.list_topics(self._source, [name], self._timeout_ms):
                return None
            store = self._stores.setdefault(name, Store(self._source, name, self._timeout_ms))
            store.follow()
        except SparkmirrorError:
            return None
        state = store.state
        return frozenset(place.topic for place in (*state.progress, *state.maps, *state.inherited))
