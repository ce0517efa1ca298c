"""The time that a rehearsal has, and how long its steps took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

STEP_MS, LEAST_MS = 15_000, 1_000
"""For one exchange with a cluster, of the time that is left; the last one may end a little later."""


class Clock:
    """Counts from when it is made.

    Args:
        timeout_s: seconds that there are.

    Attributes:
        took_ms: milliseconds that each step took, by its name, in order.
    """

    def __init__(self, timeout_s: float) -> None:
        self._end = time.monotonic() + timeout_s
        self.took_ms: dict[str, int] = {}

    def again(self) -> Clock:
        """One that ends at the same time, and measures steps of its own."""
        other = Clock(0)
        other._end = self._end
        return other

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() >= self._end

    @property
    def step_ms(self) -> int:
        """How long the next exchange may take."""
        return max(LEAST_MS, min(STEP_MS, int((self._end - time.monotonic()) * 1000)))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measures what is done within; a name that comes again counts anew."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.took_ms[name] = int((time.monotonic() - began) * 1000)
