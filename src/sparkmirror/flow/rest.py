"""Partitions that stand still: when each is tried again, and from where. Pure, but for the clock that is passed in.

The pause doubles with each failure from one second to a minute, and starts over when a partition has done well for
five minutes. It stays as it is where each try comes nearer.

Invariant: a partition goes on by itself only from a settled stop, where nothing was unacknowledged; any other must be
taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sparkmirror.flow.positions import Resumed
from sparkmirror.model import TopicPartition

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 60.0
FORGIVEN_SECONDS = 300.0
PLANNED_AGAIN = 3
"""How often in a row a partition is planned again for a target topic that was changed, before that is an error."""


@dataclass(slots=True)
class _Failure:
    error: str
    count: int
    at: float
    due: float
    earliest: float
    settled: Resumed | None
    passing: bool


@dataclass(slots=True)
class Resting:
    """The partitions of one flow that stand still."""

    _failures: dict[TopicPartition, _Failure] = field(default_factory=dict)
    _resting: set[TopicPartition] = field(default_factory=set)

    def rest(
        self,
        partition: TopicPartition,
        error: str,
        now: float,
        *,
        settled: Resumed | None = None,
        at_least: float = FIRST_SECONDS,
        changed: bool = False,
        nearer: bool = False,
    ) -> bool:
        """Lets a partition rest after ``error``.

        Args:
            partition: which one.
            error: why.
            now: on the monotonic clock.
            settled: where it goes on if nothing was unacknowledged; None if it must be taken over.
            at_least: seconds until it is tried again, whatever came before.
            changed: whether it stopped since its target topic was changed.
            nearer: whether it comes nearer with each try: that is no failure.

        Returns:
            whether it only waits to be planned again: an error is only what comes back.
        """
        before = self._failures.get(partition)
        known = before.count if before is not None and now - before.at < FORGIVEN_SECONDS else 0
        count = known if nearer else known + 1
        pause = at_least if nearer else max(at_least, min(FIRST_SECONDS * 2 ** min(count - 1, 10), LONGEST_SECONDS))
        passing = changed and count <= PLANNED_AGAIN
        self._failures[partition] = _Failure(error, count, now, now + pause, now + at_least, settled, passing)
        self._resting.add(partition)
        return passing

    def wake(self, partitions: Iterable[TopicPartition], now: float) -> None:
        """Tries partitions again at once, those of them that rest, but never before what they have to wait for."""
        for partition in self._resting.intersection(partitions):
            failure = self._failures[partition]
            failure.due = min(failure.due, max(now, failure.earliest))

    def settled(self, partition: TopicPartition) -> Resumed | None:
        """Where a partition that rests, or rested last, goes on without being taken over."""
        return self._failures[partition].settled

    @property
    def all_settled(self) -> bool:
        """Whether every partition that rests goes on without being taken over."""
        return all(self._failures[partition].settled is not None for partition in self._resting)

    def failures(self, partition: TopicPartition) -> int:
        """How often in a row a partition has failed."""
        failure = self._failures.get(partition)
        return failure.count if failure is not None else 0

    def take_due(self, now: float, among: Collection[TopicPartition] | None = None) -> tuple[TopicPartition, ...]:
        """The partitions whose pause is over, all or ``among`` some; they no longer rest."""
        due = tuple(sorted(p for p in self._resting if self._failures[p].due <= now and (among is None or p in among)))
        self._resting.difference_update(due)
        return due

    def errors(self) -> dict[TopicPartition, str]:
        """Why each resting partition stands still."""
        return {p: self._failures[p].error for p in sorted(self._resting)}

    def standing(self) -> dict[TopicPartition, str]:
        """The same, without those that only wait to be planned again."""
        return {p: error for p, error in self.errors().items() if not self._failures[p].passing}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._resting

    def __len__(self) -> int:
        return len(self._resting)
