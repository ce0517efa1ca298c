"""How long a client waits before it tries again what failed in passing.

Pure. Every role waits like this: a producer after a refusal, a consumer after a broken connection, an admin client and
the journals after either. References: KIP-580 (``retry.backoff.ms``, ``retry.backoff.max.ms``); without its jitter,
since the partitions of a lane share one connection anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.config.settings import ClientSettings

LEAST_SECONDS = 0.01
_DOUBLINGS = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """A pause that doubles with each failure in a row.

    Attributes:
        first: seconds after the first failure.
        most: seconds that it never exceeds.
    """

    first: float = 0.1
    most: float = 1.0

    @classmethod
    def of(cls, settings: ClientSettings) -> Backoff:
        """What a client's settings ask for, but at least 10 ms: without any pause a broker that is down costs a CPU."""
        return cls(
            first=max(LEAST_SECONDS, settings.retry_backoff_ms / 1000),
            most=max(LEAST_SECONDS, settings.retry_backoff_max_ms / 1000),
        )

    def after(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, at least one."""
        return min(self.most, self.first * (1 << min(failures - 1, _DOUBLINGS)))
