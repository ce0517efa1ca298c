"""How long what was refused waits before it is sent again.

Pure. Reference: KIP-580 (``retry.backoff.ms``, ``retry.backoff.max.ms``); without its jitter, since the partitions of a
lane share one connection anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """A pause that doubles with each refusal in a row.

    Attributes:
        first: seconds after the first refusal.
        most: seconds that it never exceeds.
    """

    first: float = 0.1
    most: float = 1.0

    def after(self, refusals: int) -> float:
        """Seconds to wait after so many refusals in a row, at least one."""
        return min(self.most, self.first * (1 << min(refusals - 1, _DOUBLINGS)))
