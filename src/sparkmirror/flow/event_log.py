"""What happens to a flow while it runs, as lines for people: each in the log at once, the newest on the display.

Invariants: what is new is in the log, however much happens at once. What says the same is logged again after ten
minutes at the earliest, unless it was withdrawn: an attempt that fails every second is one line.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

log = logging.getLogger(__name__)

NEWEST = 20
"""So many does the display know."""

REMEMBERED = 10_000
AGAIN_SECONDS = 600.0


class EventLog:
    """The events of one flow; usable from any thread.

    Args:
        flow: the flow's name.
        clock: seconds.
    """

    def __init__(self, flow: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._flow, self._clock = flow, clock
        self._logged: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    @property
    def newest(self) -> tuple[str, ...]:
        """The last first told, the newest last, each once."""
        with self._lock:
            return tuple(self._logged)[-NEWEST:]

    def note(self, event: str) -> None:
        """Logs an event, unless the same was logged a short while ago."""
        with self._lock:
            before = self._logged.get(event)
        if before is None or self._clock() - before >= AGAIN_SECONDS:
            self.tell(event)

    def tell(self, event: str) -> None:
        """Logs an event, also when the same was logged just now."""
        with self._lock:
            self._logged[event] = self._clock()
            self._logged.move_to_end(event)
            while len(self._logged) > REMEMBERED:
                self._logged.popitem(last=False)
        log.warning("%s", event, extra={"flow": self._flow})

    def withdraw(self, event: str) -> None:
        """An event is over: it is shown no more, and when it comes again it is new."""
        with self._lock:
            self._logged.pop(event, None)
