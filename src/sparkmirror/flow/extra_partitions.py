"""Partitions that a copy has and its original has not: nothing brings home what others write there.

Somebody has added partitions to the copy, or the topic was there before with more of them. The original is its owner's:
the flow adds none to it, and can only say so.

Invariants: a partition is told only where a record of others was read there; of a log that holds nothing but records of
mirrors each look reads on, by a megabyte at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from sparkmirror.config import FlowConfig
from sparkmirror.copy.origins import brought_from
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.topics import remote_topic
from sparkmirror.duties.written_by_others import AT_ONCE_BYTES
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.opened_records import extent
from sparkmirror.kafka.reading import Span, read_up_to
from sparkmirror.model import TopicPartition

ASK_MS = 3_000
"""The flow waits meanwhile."""

BROUGHT_HOME = "brought home"
"""Each event that says of copies that what others wrote to them does not go home has these words."""


def without_original(sides: Sides, copies: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """Those of these copies whose original has fewer partitions, in order; a topic that is not there is no original.

    Args:
        sides: of the flow that brings home what others wrote to copies.
        copies: their partitions.

    Raises:
        SparkmirrorError: the target cannot be asked.
    """
    flow, places = sides.flow, sorted(copies)
    names = {place.topic: remote_topic(flow, place.topic) for place in places}
    known = admin.list_topics(sides.target, sorted(set(names.values())), flow.admin_timeout_ms) if names else {}
    return tuple(
        place
        for place in places
        if names[place.topic] in known and place.partition not in known[names[place.topic]].partitions
    )


def said(flow: FlowConfig, copy: TopicPartition) -> str:
    """Why nothing of such a partition goes home, and what has it go there."""
    original, there = remote_topic(flow, copy.topic), flow.target.alias
    return (
        f"{TopicPartition(original, copy.partition)} does not exist on {there}: give {original} as many partitions as "
        f"{copy.topic} has on {flow.source.alias}, and have nobody write to the new ones before these records are there"
    )


class ExtraPartitions:
    """Says, look by look, to which of them others have written.

    Args:
        config: of the flow that brings home what others wrote to copies.
        source: where the copies are.
        source_id: its cluster id.
        target_id: that of the cluster with the originals.
    """

    def __init__(self, config: FlowConfig, source: Cluster, source_id: str, target_id: str) -> None:
        self._config, self._source = config, source
        self._ids = source_id, target_id
        self._read: dict[TopicPartition, int] = {}
        self._written: set[TopicPartition] = set()

    def look(self, places: Sequence[TopicPartition]) -> dict[str, str]:
        """What is told of copies, by their names; as before where the source cannot be asked.

        Args:
            places: the partitions that their originals have not.
        """
        self._written &= set(places)
        if places:
            with suppress(SparkmirrorError):  # whatever else needs the source tells that it is away
                self._read_on(places)
        found: dict[str, list[TopicPartition]] = defaultdict(list)
        for place in sorted(self._written):
            found[place.topic].append(place)
        return {copy: _told(self._config, some) for copy, some in found.items()}

    def _read_on(self, places: Sequence[TopicPartition]) -> None:
        source, timeout_ms = self._source, min(ASK_MS, self._config.admin_timeout_ms)
        isolation = self._config.isolation
        starts = admin.find_offsets(source, list(places), OffsetSpec.EARLIEST, timeout_ms=timeout_ms).found
        ends = admin.find_offsets(source, list(starts), OffsetSpec.LATEST, isolation, timeout_ms=timeout_ms).found
        self._written -= {place for place, end in ends.items() if starts[place] >= end}
        lost = {place for place, end in ends.items() if self._read.get(place, 0) > end}  # what was read: once more
        begins = {
            place: start if place in lost else max(start, self._read.get(place, 0)) for place, start in starts.items()
        }
        due = [place for place, end in ends.items() if place not in self._written and begins[place] < end]
        spans = {place: Span(begins[place], ends[place]) for place in due}
        if not spans:
            return
        makers = brought_from(source, *self._ids)
        found = read_up_to(source, spans, extent, timeout_ms, AT_ONCE_BYTES, isolation, makers).found
        self._read |= {place: part.end for place, part in found.items()}
        self._written |= {place for place, part in found.items() if part.records}


def _told(flow: FlowConfig, places: Sequence[TopicPartition]) -> str:
    numbers = ", ".join(str(place.partition) for place in places)
    which = f"partition {numbers}" if len(places) == 1 else f"partitions {numbers}"
    return f"what others wrote to {which} of it is not {BROUGHT_HOME}: {said(flow, places[0])}"
