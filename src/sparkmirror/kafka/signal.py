"""A wake-up for one coroutine of a network loop: set from callbacks of the same loop, waited for with a deadline."""

from __future__ import annotations

from typing import Any

from kafka.future import Future


class Signal:
    """Latched: a `set` while nobody waits is not lost."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._raised = False
        self._waiting: Any = None

    def set(self) -> None:
        """Wakes the waiter, or lets the next `wait` return at once. On the loop's thread only."""
        self._raised = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.success(None)

    async def wait(self, seconds: float) -> None:
        """Returns when the signal is set or ``seconds`` have passed."""
        if not self._raised:
            self._waiting = Future()
            timer = self._loop.call_later(max(0.0, seconds), self.set)
            try:
                await self._waiting
            finally:
                self._waiting = None
                self._loop.cancel(timer)
        self._raised = False
