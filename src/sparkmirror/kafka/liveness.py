"""Whether the driver of a flow lives: seen by its signs of life that come on record while one reads.

Invariant: no two machines' clocks are compared. A sign that an earlier reading did not find was written since then; one
that the first reading found may be of any age, whatever time it bears.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sparkmirror.offsets.records import Life

if TYPE_CHECKING:
    from sparkmirror.kafka.store import Store

SILENT_SECONDS = 10.0
"""A driver that gave no sign of life for so long is not running, or cannot reach the target; it gives one every 3 s."""

HEARTBEAT_SECONDS = 4.0
"""The same for what people are told, and for how long an operation waits for a driver before it fences it."""

OVER = ("stopped", "failed")
"""The driver's last words."""

LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """When the newest sign of life was written, in seconds of the clock that counts from the start of this machine.

    Attributes:
        sign: it.
        since: not before this moment; without end in the past where nothing tells.
        until: not after this moment.
        looked: when the topic was read last, and had no newer one.
    """

    sign: Life | None = None
    since: float = -math.inf
    until: float = math.inf
    looked: float = -math.inf

    def read(self, sign: Life | None, began: float, came: float) -> Heard:
        """What is known after one more reading.

        Args:
            sign: the newest that is on record.
            began: when the reading began.
            came: when the answer was there that brought the sign; its begin where none did.
        """
        if sign == self.sign and self.until < math.inf:
            return replace(self, looked=began)
        return Heard(sign=sign, since=self.looked, until=came, looked=began)

    def is_within(self, seconds: float, now: float) -> bool:
        """Whether the sign is surely no older."""
        return now - self.since <= seconds

    def is_silent(self, seconds: float = SILENT_SECONDS) -> bool:
        """Whether for so long no sign has come, as far as was read."""
        return self.looked - self.until >= seconds

    def seconds_left(self, seconds: float, now: float) -> float:
        """Until the driver counts as silent if no sign comes."""
        return max(0.0, self.until + seconds - now)


def is_alive(store: Store, seconds: float = SILENT_SECONDS) -> bool:
    """Whether a driver runs the flow; one that was not heard just now is waited for.

    Args:
        store: the flow's internal topic, which is read on.
        seconds: without a sign of life, after which there is none.

    Raises:
        SparkmirrorError: the topic cannot be read.
    """
    while True:
        store.follow()
        life = store.state.life
        if life is None or life.state in OVER or store.heard.is_silent(seconds):
            return False
        if store.heard.is_within(seconds, store.now()):
            return True
        time.sleep(min(LOOK_SECONDS, store.heard.seconds_left(seconds, store.now())))
