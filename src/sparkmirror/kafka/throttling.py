"""Quotas: for how long the brokers of one cluster hold a client back.

A broker that finds a client above its quota says in its answer for how long it will not listen to that connection, and
kafka-python sends nothing until then. That is no error and loses nothing, but whatever goes over the connection waits.
Above a request quota, which counts the time that brokers spend on requests of every kind, a Fetch is answered without
records: then nothing is copied until less is asked.

Reference: KIP-13, KIP-124, KIP-219 (``throttle_time_ms``), KIP-599, ``kafka.server.ClientQuotaManager``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW_SECONDS = 60.0
MOST_OF = 0.5
LATELY_SECONDS = 10.0

READING, WRITING, CHANGING, OTHERS = "reading", "writing", "changes of topics", "other requests"
_DOING = {
    "FetchResponse": READING,
    "ProduceResponse": WRITING,
    "CreateTopicsResponse": CHANGING,
    "CreatePartitionsResponse": CHANGING,
    "DeleteTopicsResponse": CHANGING,
}
_QUOTAS = {READING: "consumer_byte_rate", WRITING: "producer_byte_rate", CHANGING: "controller_mutation_rate"}
_REQUESTS = "request_percentage"


class Held(NamedTuple):
    """A broker that holds a client back, for so many seconds of the last `WINDOW_SECONDS`, and what of it."""

    node: int | str
    seconds: float
    doing: tuple[str, ...]

    @property
    def quotas(self) -> str:
        """Which of the client's quotas it may be."""
        if OTHERS in self.doing:
            return _REQUESTS
        return " or ".join((*(_QUOTAS[one] for one in self.doing), _REQUESTS))


@dataclass(slots=True)
class _Broker:
    """One broker's pauses: (end, seconds, doing) each, on the monotonic clock, none overlapping."""

    pauses: deque[tuple[float, float, str]] = field(default_factory=deque)
    until: float = 0.0


@dataclass(slots=True)
class Throttling:
    """The pauses that the brokers of one cluster have asked for. Noted in one thread, and asked about in any.

    Attributes:
        alias: the cluster's.
    """

    alias: str
    _brokers: dict[int | str, _Broker] = field(default_factory=dict)

    def note(self, node: int | str, throttle_ms: int, answer: str, now: float) -> None:
        """Takes what an answer asks for.

        Args:
            node: the broker.
            throttle_ms: the pause.
            answer: the name of its kind.
            now: on the monotonic clock.
        """
        if throttle_ms <= 0:
            return
        broker = self._brokers.setdefault(node, _Broker())
        until = now + throttle_ms / 1000
        seconds = until - max(now, broker.until)
        if seconds > 0:
            broker.pauses.append((until, seconds, _DOING.get(answer, OTHERS)))
            broker.until = until
        while broker.pauses[0][0] < now - WINDOW_SECONDS:
            broker.pauses.popleft()

    def long(self, now: float) -> tuple[Held, ...]:
        """The brokers that held back for most of the last minute."""
        return tuple(held for held in self._held(now, WINDOW_SECONDS) if held.seconds >= MOST_OF * WINDOW_SECONDS)

    def lately(self, now: float) -> Held | None:
        """A broker that held back within the last seconds, if one did."""
        return max(self._held(now, LATELY_SECONDS), key=lambda held: held.seconds, default=None)

    def _held(self, now: float, window: float) -> list[Held]:
        found = []
        for node, broker in tuple(self._brokers.items()):
            some = [pause for pause in tuple(broker.pauses) if pause[0] >= now - window]
            seconds = sum(seconds for _, seconds, _ in some) - max(0.0, broker.until - now)
            if some:
                found.append(Held(node, seconds, tuple(sorted({doing for _, _, doing in some}))))
        return found

    def text(self, held: Held) -> str:
        """What an operator is told."""
        return (
            f"broker {held.node} of {self.alias} held {' and '.join(held.doing)} back for {held.seconds:.0f} of the "
            f"last {WINDOW_SECONDS:.0f} s, because of a quota: the copy is as fast as that allows, or stands still, "
            f"and nothing is lost; raise {held.quotas} of this user or client id on cluster {self.alias} if the lag "
            "grows"
        )


@dataclass(slots=True)
class Once:
    """Tells of each broker that holds back for long once, until it has let go."""

    _told: set[int | str] = field(default_factory=set)

    def new(self, found: tuple[Held, ...]) -> tuple[Held, ...]:
        """Those of the brokers found that have not been told of."""
        new = tuple(held for held in found if held.node not in self._told)
        self._told = {held.node for held in found}
        return new
