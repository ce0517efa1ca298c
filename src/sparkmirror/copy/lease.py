"""How long a lane may send: until its last proven sign of life is too old.

A round is: a sign of life is appended to the control topic, and then the topic is read beyond it. The driver says on
the same topic that a lane is lost before it gives its partitions away. So a lane that finds nothing of that up to its
own sign had not been given up when the round began, and the driver waits longer than `LEASE_SECONDS` after a sign.

For batches too old for the broker to remember their writer this is the only fence: see ``copy.retries``.

Invariants: time is counted from the beginning of the round, on the clock that runs on while the machine sleeps; a lane
that was given up never holds the lease again.
"""

from __future__ import annotations

import time

LEASE_SECONDS = 8.0


def now() -> float:
    """Seconds on the clock that a stopped process or a sleeping machine does not stop."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """Of one lane.

    Attributes:
        ended: why the lane may send nothing more, or "".
    """

    def __init__(self) -> None:
        self.ended = ""
        self._until = 0.0

    @property
    def holds(self) -> bool:
        """Whether the lane may send at this moment."""
        return now() < self._until

    def renew(self, began: float) -> None:
        """A round that began then, on the clock of `now`, found nothing against the lane."""
        if not self.ended:
            self._until = began + LEASE_SECONDS

    def end(self, reason: str) -> None:
        """The lane was given up."""
        self.ended = self.ended or reason
        self._until = 0.0
