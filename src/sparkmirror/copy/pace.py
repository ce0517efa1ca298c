"""How fast a lane may fetch: a budget in bytes that fills with time and that answers use up.

Invariants: over any span the lane fetches no more than the rate allows, but for one answer and one second's worth; a
lane that is held back asks for little, so that what it gets lasts no longer than about a second.
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_BYTES = 16 << 10
"""Of a request, however slow the lane: a broker gives a whole batch anyway."""

BURST_SECONDS = 1.0


@dataclass(slots=True)
class Pace:
    """One lane's budget; times are seconds of a monotonic clock.

    Attributes:
        rate: bytes per second, or None for no limit.
    """

    rate: float | None = None
    _budget: float = 0.0
    _at: float = 0.0

    def change(self, rate: float | None, now: float) -> None:
        """Sets another rate; what was used up before stays so."""
        self._fill(now)
        self.rate = rate
        self._budget = min(self._budget, self._most)

    def ready(self, now: float) -> bool:
        """Whether more may be asked for."""
        self._fill(now)
        return self.rate is None or self._budget > 0

    def take(self, size: int) -> None:
        """An answer has brought so many bytes."""
        if self.rate is not None:
            self._budget -= size

    def most(self, size: int) -> int:
        """How much a request may ask for that could ask for ``size``."""
        return size if self.rate is None else int(min(size, max(LEAST_BYTES, self.rate * BURST_SECONDS)))

    @property
    def _most(self) -> float:
        return 0.0 if self.rate is None else self.rate * BURST_SECONDS

    def _fill(self, now: float) -> None:
        if self.rate is not None:
            self._budget = min(self._most, self._budget + (now - self._at) * self.rate)
        self._at = now
