"""Whether the source is still the one that was copied, when groups are moved away from it.

A flow that runs sees by itself that a topic was deleted and created again, or that a log has lost its end. One that is
dead, or was stopped before, has not: its offset map is of logs that are not there any more, and what came in their
place was never copied.

References: KIP-101 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.duties.duty import Sides
from sparkmirror.flow.parting import Parting, parted_logs, recreated_topics
from sparkmirror.kafka.topic_ids import ids_of_topics
from sparkmirror.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is not what was copied.

    Attributes:
        recreated: topics that were deleted and created again.
        parted: by partition from where on the log has other records than were copied, and the copy's position.
    """

    recreated: frozenset[str] = frozenset()
    parted: Mapping[TopicPartition, Parting] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, Any]:
        """For the record."""
        rows = [one.row for one in self.parted.values()]
        return {"source_recreated": sorted(self.recreated), "source_parted": rows}

    @staticmethod
    def of(facts: Mapping[str, Any]) -> Changes:
        """From the record."""
        found: Sequence[Parting] = [Parting.of(row) for row in facts.get("source_parted", ())]
        return Changes(
            recreated=frozenset(facts.get("source_recreated", ())), parted={one.partition: one for one in found}
        )

    def troubles(self, source: str, target: str) -> tuple[str, ...]:
        """What somebody has to look at, a line for each.

        Args:
            source: the cluster that groups leave.
            target: the one that they go to.
        """
        again = (
            f"topic {name} was deleted and created again on {source} since it was copied: what it has now is on "
            f"{source} only, and groups have no place in its copy on {target}"
            for name in sorted(self.recreated)
        )
        parted = (
            f"{one.partition}: {source} has lost what lay from offset {one.offset} on, and had been copied up to "
            f"offset {one.position}: what it has there now is on {source} only, and groups go on at the first record "
            "that it has lost"
            for one in self.parted.values()
        )
        return (*again, *parted)


def changes(sides: Sides, ends: Mapping[TopicPartition, int], timeout_ms: int | None = None) -> Changes:
    """Compares the source with what is on record of the flow.

    Args:
        sides: the flow and its clusters.
        ends: of the source's logs that count.
        timeout_ms: of each question; as the flow is configured without.

    Raises:
        SparkmirrorError: the source cannot be asked.
    """
    assert sides.store is not None  # a flow that was never started has no operation
    timeout_ms = sides.flow.admin_timeout_ms if timeout_ms is None else timeout_ms
    state = sides.store.state
    progress = {place: one for place, one in state.progress.items() if place in ends}
    ids = ids_of_topics(sides.source, {place.topic for place in progress})
    recreated = recreated_topics(progress, ids)
    parted = parted_logs(sides, progress, ends, recreated, timeout_ms)
    return Changes(recreated=frozenset(recreated), parted={one.partition: one for one in parted})
