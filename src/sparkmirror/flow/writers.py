"""A flow's producer ids: asked of the coordinator at every start, registered before the first batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sparkmirror.copy.origins import writer_key, writer_value
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.model import Writer
from sparkmirror.naming import WRITERS_TOPIC

GROUPS = 8
"""Partitions of one group share a producer id; one without a leader holds up the fencing of its group only."""


class Writers:
    """The producer ids of one flow.

    Args:
        target: the cluster that hands them out.
        flow: the flow's name.
        target_id: the target's cluster id.
        origin: ids of the clusters that the flow's batches come from.
        timeout_ms: of each question to the coordinator.
    """

    def __init__(self, target: Cluster, *, flow: str, target_id: str, origin: tuple[str, ...], timeout_ms: int) -> None:
        self._target = target
        self._flow = flow
        self._target_id = target_id
        self._origin = origin
        self._timeout_ms = timeout_ms
        self._registered: set[int] = set()

    def acquire_all(self) -> tuple[Writer, ...]:
        """Gets every group's producer id with a new epoch, and registers them.

        Raises:
            BrokerError: the coordinator refuses.
            LinkError: the target does not answer.
        """
        with ThreadPoolExecutor(GROUPS) as pool:
            writers = tuple(pool.map(self._acquire, range(GROUPS)))
        self._register(writers)
        return writers

    def renew(self, group: int) -> Writer:
        """Raises the epoch of one group, so that its partitions can be taken over."""
        writer = self._acquire(group)
        self._register((writer,))
        return writer

    def transactional_id(self, group: int) -> str:
        """``sparkmirror.<flow>.<origin set>.<group>``."""
        origin = hashlib.sha256(",".join(sorted(self._origin)).encode()).hexdigest()[:12]
        return f"sparkmirror.{self._flow}.{origin}.{group}"

    def _acquire(self, group: int) -> Writer:
        return acquire_writer(self._target, self.transactional_id(group), self._timeout_ms)

    def _register(self, writers: Sequence[Writer]) -> None:
        new = [writer for writer in writers if writer.producer_id not in self._registered]
        if new:
            value = writer_value(self._flow, self._target_id, self._origin)
            journal = Journal(self._target, WRITERS_TOPIC)
            self._target.run(journal.append, [(writer_key(writer), value) for writer in new], self._timeout_ms)
            self._registered.update(writer.producer_id for writer in new)
