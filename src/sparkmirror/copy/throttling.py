"""Quotas: how long brokers hold a lane back, and how it keeps each pause short.

A broker that finds a client above its quota says in its answer for how long it will not listen to that connection, and
kafka-python sends nothing until then. That is no error and loses nothing. But whatever else goes over the connection
waits too, a lane's sign of life among it: so requests to such a broker become smaller, and go one at a time, until its
pauses are short.

Reference: KIP-124, KIP-219 (``throttle_time_ms``), ``kafka.server.ClientQuotaManager``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.events import Kind
from sparkmirror.model import NO_OFFSET

WINDOW_SECONDS = 60.0
MOST_OF = 0.5
LONG_MS = 1_000
LEAST_BYTES = 64 << 10


@dataclass(slots=True)
class _Broker:
    """One broker's pauses: (end, seconds) each, on the monotonic clock, none overlapping."""

    pauses: deque[tuple[float, float]] = field(default_factory=deque)
    until: float = 0.0
    told: bool = False


@dataclass(slots=True)
class Throttling:
    """The pauses that the brokers of one cluster have asked for.

    Attributes:
        alias: the cluster's.
        doing: what they hold back, for people.
    """

    alias: str
    doing: str
    _brokers: dict[int, _Broker] = field(default_factory=dict)

    def note(self, node: int, throttle_ms: int, now: float) -> None:
        """Takes what an answer asks for."""
        if throttle_ms <= 0:
            return
        broker = self._brokers.setdefault(node, _Broker())
        until = now + throttle_ms / 1000
        seconds = until - max(now, broker.until)
        if seconds > 0:
            broker.pauses.append((until, seconds))
            broker.until = until

    def long(self, now: float) -> Iterator[tuple[int, float]]:
        """Brokers that held back for most of the last minute, with the seconds; each once until it has let go."""
        for node, broker in self._brokers.items():
            while broker.pauses and broker.pauses[0][0] < now - WINDOW_SECONDS:
                broker.pauses.popleft()
            seconds = sum(seconds for _, seconds in broker.pauses) - max(0.0, broker.until - now)
            much = seconds >= MOST_OF * WINDOW_SECONDS
            if much and not broker.told:
                yield node, seconds
            broker.told = much

    def text(self, node: int, seconds: float) -> str:
        """What an operator is told."""
        return (
            f"broker {node} of {self.alias} held {self.doing} back for {seconds:.0f} of the last {WINDOW_SECONDS:.0f} "
            "s, because of a quota: the copy is as fast as that allows, and nothing is lost; raise the quota of this "
            "user or client id if the lag grows"
        )


def tell(partitions: Iterable[PartitionCopy], source: Throttling, target: Throttling, now: float) -> None:
    """Notes an event with the first partition of each broker that held a lane back for long."""
    for throttling, node_of in ((source, _source_node), (target, _target_node)):
        for node, seconds in throttling.long(now):
            concerned = (p for p in partitions if node_of(p) == node and not p.error)
            first = next(concerned, None)
            if first is not None:
                first.tally.note(throttling.text(node, seconds), Kind.THROTTLED, first.position, NO_OFFSET)


def _source_node(partition: PartitionCopy) -> int:
    return partition.read_from


def _target_node(partition: PartitionCopy) -> int:
    return partition.target_leader


def request_bytes(now: int, throttle_ms: int, most: int) -> int:
    """How large the next request to a broker may be, given the size now and what its last answer asked for."""
    if throttle_ms > LONG_MS:
        return max(min(LEAST_BYTES, most), now // 2)
    return now if throttle_ms > 0 else min(most, now + max(now // 4, 1))
