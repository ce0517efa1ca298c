"""Transactions that are open on partitions, and waiting until they have ended.

A producer that dies leaves its transaction open. What it wrote counts for nobody until its coordinator ends it: by an
abort after the producer's ``transaction.timeout.ms``, or by a commit that the producer had asked for already.

References: KIP-98; ``TransactionCoordinator.onEndTransactionComplete``, ``transaction.abort.timed.out.transaction``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.config import Isolation
from sparkmirror.kafka.admin import list_offsets
from sparkmirror.kafka.backoff import Backoff
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.rounds import Deadline
from sparkmirror.model import TopicPartition

PAUSE = Backoff(first=0.1, most=2.0)


def open_below(
    cluster: Cluster, ends: Mapping[TopicPartition, int], wait_ms: int, timeout_ms: int
) -> Sequence[TopicPartition]:
    """Waits until no transaction is open below these offsets; those that others begin meanwhile do not matter.

    Args:
        cluster: where.
        ends: offset by partition.
        wait_ms: milliseconds to wait at most; 0 only looks.
        timeout_ms: of each look.

    Returns:
        the partitions where one is still open.

    Raises:
        BrokerError: a partition is not there, has no leader, or may not be read.
        LinkError: a leader could not be asked.
    """
    deadline, left = Deadline(wait_ms, PAUSE), dict(ends)
    while left:
        stable = list_offsets(cluster, list(left), OffsetSpec.LATEST, Isolation.READ_COMMITTED, timeout_ms)
        left = {place: end for place, end in left.items() if stable[place] < end}
        if deadline.passed:
            break
        if left:
            deadline.pause()
    return sorted(left)
