"""Producer ids from the transaction coordinator.

A flow writes idempotent batches under producer ids that belong to transactional ids: the coordinator then hands out the
same id again with the next epoch. The plain form of InitProducerId is used, which always raises the epoch (KIP-98); no
transaction is ever opened for data.
"""

from __future__ import annotations

import time
from typing import Any

from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest

from sparkmirror.errors import BrokerError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import Advice, advice, broker_error
from sparkmirror.model import Writer

TRANSACTION_TIMEOUT_MS = 30_000


def acquire_writer(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Writer:
    """Asks the coordinator for the producer id of ``transactional_id``, with a new epoch.

    Raises:
        BrokerError: the coordinator refuses, or is not available until the deadline.
        LinkError: it cannot be reached.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    failures = 0
    while True:
        answer = _attempt(cluster, transactional_id, timeout_ms)
        if answer.error_code == 0:
            return Writer(producer_id=answer.producer_id, epoch=answer.producer_epoch)
        transient = advice(answer.error_code) in (Advice.RETRY, Advice.REFRESH)
        if not transient or time.monotonic() > deadline:
            raise _refusal(answer.error_code, cluster, transactional_id)
        failures += 1
        time.sleep(cluster.backoff.after(failures))


def _attempt(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Any:
    """One question to the coordinator; the answer carries ``error_code``, ``producer_id`` and ``producer_epoch``."""
    found = cluster.call(
        FindCoordinatorRequest(
            key=transactional_id, key_type=CoordinatorType.TRANSACTION.value, coordinator_keys=[transactional_id]
        ),
        timeout_ms=timeout_ms,
    )
    place = found.coordinators[0] if found.coordinators else found
    if place.error_code != 0:
        return place
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        producer_id=-1,
        producer_epoch=-1,
        max_version=4,
    )
    return cluster.call(request, node=place.node_id, timeout_ms=timeout_ms)


def _refusal(code: int, cluster: Cluster, transactional_id: str) -> BrokerError:
    error = broker_error(code, cluster.alias)
    return BrokerError(
        code=code,
        name=f"{error.name} for transactional id {transactional_id}",
        cluster=cluster.alias,
        remedy=error.remedy,
    )
