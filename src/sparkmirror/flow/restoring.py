"""Puts on record again what the flow's internal topic has lost of the offset map, and its driver has read.

Invariant: a driver of many partitions is not held up: the topic is read once, a part in each round, and what it lacks
is looked for every few seconds.
"""

from __future__ import annotations

import math

from sparkmirror.flow.opening import Opened
from sparkmirror.offsets.restoring import lacking

PART_SECONDS = 0.5
"""So long a round reads what the topic has left."""

AGAIN_SECONDS = 5.0
"""So long after a look that has found what is not acknowledged yet comes the next one."""

WAIT_SECONDS = 30.0
"""So long something lost is waited for that is not acknowledged yet; what a stopped partition has sent never may be."""


class Restoring:
    """Of one flow.

    Args:
        opened: what its opening gave.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._due = -math.inf
        self._read_at: float | None = None

    def go_on(self, now: float) -> None:
        """One round; the waiting begins when the topic has been read.

        Raises:
            SparkmirrorError: the target cannot be asked, or has lost something more; the next round goes on.
        """
        if self._opened.store.lacks and now >= self._due:
            self._look(now, PART_SECONDS)

    def end(self) -> None:
        """The last round: nothing is waited for.

        Raises:
            SparkmirrorError: as `go_on`.
        """
        if self._opened.store.lacks:
            self._look(math.inf, math.inf)

    def _look(self, now: float, seconds: float) -> None:
        store = self._opened.store
        left = store.left(seconds)
        if left is None:
            self._read_at = None
            return
        self._read_at = now if self._read_at is None else self._read_at
        found = lacking(store.state, left, self._opened.writers.ids)
        store.write(found.records, found.keys)
        if found.waits and now - self._read_at < WAIT_SECONDS:
            self._due = now + AGAIN_SECONDS
            return
        store.restored()
        self._due, self._read_at = -math.inf, None
