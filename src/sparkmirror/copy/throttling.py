"""Quotas: what a lane tells of brokers that hold it back, and how it keeps each pause short.

A pause holds for all that goes over the connection, a lane's sign of life among it: so requests to such a broker become
smaller, and go one at a time, until its pauses are short. See ``kafka.throttling``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.events import Kind
from sparkmirror.kafka.throttling import Once, Throttling
from sparkmirror.model import NO_OFFSET

LONG_MS = 1_000
LEAST_BYTES = 64 << 10


@dataclass(slots=True)
class Told:
    """What was told of one lane's clusters."""

    source: Once = field(default_factory=Once)
    target: Once = field(default_factory=Once)


def tell(partitions: Sequence[PartitionCopy], source: Throttling, target: Throttling, told: Told, now: float) -> None:
    """Notes an event for each broker that held a lane back for long.

    It goes with the first partition of the broker, or with any other where it has none now: requests of other kinds
    are held back too, and leaders may not be known.
    """
    alive = [p for p in partitions if not p.error]
    for throttling, once, node_of in ((source, told.source, _source_node), (target, told.target, _target_node)):
        for held in once.new(throttling.long(now)) if alive else ():
            first = next((p for p in alive if node_of(p) == held.node), alive[0])
            first.tally.note(throttling.text(held), Kind.THROTTLED, first.position, NO_OFFSET)


def _source_node(partition: PartitionCopy) -> int:
    return partition.read_from


def _target_node(partition: PartitionCopy) -> int:
    return partition.target_leader


def request_bytes(now: int, throttle_ms: int, most: int) -> int:
    """How large the next request to a broker may be, given the size now and what its last answer asked for."""
    if throttle_ms > LONG_MS:
        return max(min(LEAST_BYTES, most), now // 2)
    return now if throttle_ms > 0 else min(most, now + max(now // 4, 1))
