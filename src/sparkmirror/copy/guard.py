"""Whether the target's brokers remember the writer of a batch: by the times of its records.

A broker forgets a producer when the newest record of its last batch is older than ``producer.id.expiration.ms``,
however short ago that batch was appended (``ProducerStateManager``, ``ProducerAppendInfo``). While it remembers, the
same batch sent again is not appended again, a batch whose predecessor is missing is refused, and so is a fenced writer.

Invariant: a timestamp of -1, no timestamp, is old. On a topic with LogAppendTime the broker's own clock is what counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

FORGOTTEN = -(1 << 62)
"""Older than everything: nothing is known of the broker's memory."""

LEAD_MS = 600_000
"""Batches that turn unguarded within this time are put on record as unguarded at once, since they may wait so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Of one partition.

    Attributes:
        age_ms: how old the newest record may be.
        broker_time: whether the target topic sets its own timestamps. Whoever relies on it looks at each answer, which
            tells: the topic may be changed.
    """

    age_ms: int
    broker_time: bool = False

    def holds(self, newest_ms: int) -> bool:
        """Whether a batch with this newest timestamp is guarded now."""
        return self.broker_time or self.remembers(newest_ms)

    def remembers(self, state_ms: int) -> bool:
        """Whether a broker whose state of the writer has this time has it still."""
        return state_ms >= _now_ms() - self.age_ms

    def state_ms(self, newest_ms: int) -> int:
        """The time of the state that an appended batch with this newest timestamp leaves behind."""
        return _now_ms() if self.broker_time else newest_ms

    @property
    def old_ms(self) -> int:
        """Batches whose newest timestamp is below this are unguarded, or will be soon."""
        return FORGOTTEN if self.broker_time else _now_ms() - self.age_ms + LEAD_MS


def _now_ms() -> int:
    return int(time.time() * 1000)
