"""A wake-up for a coroutine of a network loop, and a turn that several take one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kafka.future import Future


class Signal:
    """Latched: a `set` while nobody waits is not lost. One coroutine waits at a time."""

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
            assert self._waiting is None, "another coroutine waits, and would never be woken"
            self._waiting = Future()
            timer = self._loop.call_later(max(0.0, seconds), self.set)
            try:
                await self._waiting
            finally:
                self._waiting = None
                self._loop.cancel(timer)
        self._raised = False


class Turn:
    """One coroutine of a loop at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._taken = False
        self._queue: deque[Any] = deque()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Waits until those who came before are done: what they wait for themselves has deadlines."""
        if self._taken:
            mine = Future()
            self._queue.append(mine)
            await mine  # the coroutine before hands the turn over
        self._taken = True
        try:
            yield
        finally:
            if self._queue:
                self._queue.popleft().success(None)
            else:
                self._taken = False
