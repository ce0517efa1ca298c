"""Rates from totals: records and bytes per second over the last few seconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

WINDOW_SECONDS = 5.0


@dataclass(slots=True)
class Rates:
    """Takes totals at moments of the monotonic clock."""

    _samples: deque[tuple[float, int, int]] = field(default_factory=deque)

    def take(self, now: float, records: int, size: int) -> tuple[float, float]:
        """Adds the totals of this moment; gives (records, bytes) per second."""
        self._samples.append((now, records, size))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW_SECONDS:
            self._samples.popleft()
        began, first_records, first_size = self._samples[0]
        seconds = now - began
        if seconds <= 0:
            return (0.0, 0.0)
        return (max(0.0, (records - first_records) / seconds), max(0.0, (size - first_size) / seconds))
