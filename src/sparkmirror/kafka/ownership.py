"""Who owns a topic by a transactional id: when that has to be shown again, and what the coordinator may answer.

The coordinator forgets a transactional id that was not asked for in ``transactional.id.expiration.ms`` (7 days by
default); batches do not count as use. Whoever takes the id then gets another producer id, and shuts nobody out. So an
owner renews it, long before.

A leader forgets a producer that has written nothing for ``producer.id.expiration.ms`` (1 day by default), and takes any
epoch of its id then. So what its successor wrote shuts out a former owner for as long only. The coordinator knows
longer: an owner of whose batches none was acknowledged for `PROOF_SECONDS`, since its process stood still say, asks it
before it sends another one.

Invariants:
    * A renewal names the producer id and epoch that are held (KIP-360). One that was followed is refused, and its
      follower keeps its epoch.
    * Another producer id in the answer is taken only where this owner has spent the epochs of the one before, and has
      appended under it: those who owned the topic before are shut out by that. Otherwise the coordinator had forgotten
      the transactional id, and nobody knows who had it in between.

References: ``TransactionCoordinator.handleInitProducerId``, ``TransactionMetadata.prepareIncrementProducerEpoch``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.errors import FencedError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.coordinator import INVALID_PRODUCER_ID_MAPPING
from sparkmirror.kafka.producer_ids import NOBODY, next_writer
from sparkmirror.model import Writer
from sparkmirror.offsets.writers import KEEP_ALIVE_SECONDS, LAST_EPOCH, must_rotate

PROOF_SECONDS = 30.0
"""The driver writes every few seconds; only one that could not, or stood still, is older."""

_FORGOTTEN = (
    "the coordinator has forgotten the id, which nobody has renewed for transactional.id.expiration.ms; another driver "
    "may have had the flow since, so this one has lost it: start it again"
)


class Moment(NamedTuple):
    """The same moment on a clock that a sleeping machine does not stop, and on that of the wall, in seconds.

    A virtual machine that is paused may see only one of them jump.
    """

    boot: float
    wall: float

    def seconds_since(self, then: Moment) -> float:
        """The longer of the two times."""
        return max(self.boot - then.boot, self.wall - then.wall)


NEVER = Moment(0.0, 0.0)


def this_moment() -> Moment:
    """By the clocks of this machine."""
    return Moment(time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)), time.time())


@dataclass(slots=True)
class Ownership:
    """Of one owner.

    Attributes:
        transactional_id: by which the topic is owned.
        renew_seconds: between two renewals.
        clock: gives the moment.
        renewed: when the coordinator was asked last.
        proven: when the newest request left that only the owner gets an answer to.
        has_appended: whether a batch of this owner was acknowledged.
    """

    transactional_id: str
    renew_seconds: float = KEEP_ALIVE_SECONDS
    clock: Callable[[], Moment] = this_moment
    renewed: Moment = NEVER
    proven: Moment = NEVER
    has_appended: bool = False

    def is_proven(self, seconds: float = PROOF_SECONDS) -> bool:
        """Whether it was the owner so many seconds ago."""
        return self.clock().seconds_since(self.proven) <= seconds

    def must_renew(self, held: Writer, sequence: int) -> bool:
        """Whether the coordinator is to be asked before the next batch, which gets that sequence number."""
        if not self.is_proven():
            return True
        due = must_rotate(held) or self.clock().seconds_since(self.renewed) >= self.renew_seconds
        return due and sequence > 0  # one batch of each epoch at least, whatever the interval

    def acknowledged(self, sent: Moment) -> None:
        """A batch that was sent then is in the log."""
        self.proven, self.has_appended = max(self.proven, sent), True

    async def take(self, cluster: Cluster, timeout_ms: int) -> Writer:
        """The first writer of this owner, whoever owned the topic before.

        Raises:
            BrokerError: the coordinator refuses.
            LinkError: it cannot be reached.
        """
        began = self.clock()
        writer = await next_writer(cluster, self.transactional_id, NOBODY, timeout_ms)
        self.renewed = self.proven = began
        return writer

    async def renew(self, cluster: Cluster, held: Writer, timeout_ms: int) -> Writer:
        """The next writer. Nothing may be in flight that ``held`` has sent.

        Raises:
            FencedError: another one owns the topic now, or may have owned it since.
            BrokerError: the coordinator refuses.
            LinkError: it cannot be reached.
        """
        began = self.clock()
        writer = await self._next(cluster, held, timeout_ms)
        while self.has_appended and must_rotate(writer):  # spends what epochs its producer id has left
            writer = await self._next(cluster, writer, timeout_ms)
        self.renewed = self.proven = began
        return writer

    async def _next(self, cluster: Cluster, held: Writer, timeout_ms: int) -> Writer:
        writer = await next_writer(cluster, self.transactional_id, held, timeout_ms)
        spent = held.epoch >= LAST_EPOCH and self.has_appended
        if writer.producer_id != held.producer_id and not spent:
            raise FencedError(
                code=INVALID_PRODUCER_ID_MAPPING,
                name=f"INVALID_PRODUCER_ID_MAPPING for transactional id {self.transactional_id}",
                cluster=cluster.alias,
                remedy=_FORGOTTEN,
            )
        return writer
