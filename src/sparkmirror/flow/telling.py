"""What the operator is told of partitions: each event once, however often it comes back in progress and receipts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkmirror.model import TopicPartition

EVENTS_KEPT = 50
"""Of a partition, to know which were told: a shift keeps 20, and its last come when the next one has begun."""

Note = Callable[[str], None]


class Telling:
    """Tells the events of one flow.

    Args:
        note: takes what is new.
    """

    def __init__(self, note: Note) -> None:
        self._note = note
        self._told: dict[TopicPartition, tuple[str, ...]] = {}

    def tell(self, partition: TopicPartition, events: Sequence[str], error: str) -> None:
        """Notes the events of a partition that were not noted before; errors are noted when it rests."""
        told = self._told.get(partition, ())
        new = [event for event in events if event != error and event not in told]
        self._told[partition] = (*told, *new)[-EVENTS_KEPT:]
        for event in new:
            self._note(f"{partition}: {event}")


def stands(partition: TopicPartition, error: str) -> str:
    """The event of a partition that stands still; most errors name it themselves."""
    return f"stands still: {error}" if error.startswith(str(partition)) else f"{partition} stands still: {error}"
