"""Producer ids from the transaction coordinator.

A flow writes idempotent batches under producer ids that belong to transactional ids: the coordinator then hands out the
same id again with the next epoch. No transaction is ever opened for data.

The plain form of InitProducerId always raises the epoch (KIP-98) and takes the id from whoever had it. The expected
form names the id and the epoch that the caller holds (KIP-360), and is refused when a newer one has been handed out.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import InitProducerIdRequest

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.coordinator import exchange_with_coordinator
from sparkmirror.kafka.rounds import Deadline
from sparkmirror.model import Writer

TRANSACTION_TIMEOUT_MS = 30_000
"""After which the coordinator ends a fence whose driver died inside it."""

NOBODY = Writer(producer_id=-1, epoch=-1)


def acquire_writer(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Writer:
    """Asks the coordinator for the producer id of ``transactional_id``, with a new epoch.

    It is another id than before when the coordinator has forgotten the transactional id, or has no epoch left.

    Raises:
        BrokerError: the coordinator refuses, or is not available until the deadline.
        LinkError: it cannot be reached.
    """
    writer: Writer = cluster.run(next_writer, cluster, transactional_id, NOBODY, timeout_ms)
    return writer


def renew_writer(cluster: Cluster, transactional_id: str, writer: Writer, timeout_ms: int) -> Writer:
    """Raises the epoch only if ``writer`` is the newest one; that keeps the transactional id from expiring.

    Two that hold the same writer both get the same new one. A transactional id that the coordinator has forgotten is
    made anew, with another producer id.

    Raises:
        FencedError: the coordinator has handed out a newer writer.
        BrokerError: the coordinator refuses, or is not available until the deadline.
        LinkError: it cannot be reached.
    """
    renewed: Writer = cluster.run(next_writer, cluster, transactional_id, writer, timeout_ms)
    return renewed


async def next_writer(cluster: Cluster, transactional_id: str, writer: Writer, timeout_ms: int) -> Writer:
    """Like `renew_writer`, or for `NOBODY` like `acquire_writer`, for coroutines on the loop."""

    def request() -> Any:
        return InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=writer.producer_id,
            producer_epoch=writer.epoch,
            min_version=3 if writer != NOBODY else 0,
            max_version=4,
        )

    deadline = Deadline(timeout_ms, cluster.backoff)
    answer = await exchange_with_coordinator(
        cluster, transactional_id, request, lambda answer: int(answer.error_code), deadline
    )
    return Writer(producer_id=answer.producer_id, epoch=answer.producer_epoch)
