"""Partitions that stand still: when each is tried again. Pure, but for the clock that is passed in.

The pause doubles with each failure from one second to a minute, and starts over when a partition has done well for
five minutes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkmirror.model import TopicPartition

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
FORGIVEN_SECONDS = 300.0


@dataclass(slots=True)
class _Failure:
    error: str
    count: int
    at: float
    due: float


@dataclass(slots=True)
class Resting:
    """The partitions of one flow that stand still."""

    _failures: dict[TopicPartition, _Failure] = field(default_factory=dict)
    _resting: set[TopicPartition] = field(default_factory=set)

    def rest(self, partition: TopicPartition, error: str, now: float) -> None:
        """Lets a partition rest after ``error``."""
        before = self._failures.get(partition)
        count = before.count + 1 if before is not None and now - before.at < FORGIVEN_SECONDS else 1
        pause = min(FIRST_SECONDS * 2 ** min(count - 1, 10), LONGEST_SECONDS)
        self._failures[partition] = _Failure(error, count, now, now + pause)
        self._resting.add(partition)

    def take_due(self, now: float) -> tuple[TopicPartition, ...]:
        """The partitions whose pause is over; they no longer rest."""
        due = tuple(sorted(p for p in self._resting if self._failures[p].due <= now))
        self._resting.difference_update(due)
        return due

    def errors(self) -> dict[TopicPartition, str]:
        """Why each resting partition stands still."""
        return {p: self._failures[p].error for p in sorted(self._resting)}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._resting

    def __len__(self) -> int:
        return len(self._resting)
