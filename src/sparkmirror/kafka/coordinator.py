"""Questions to the transaction coordinator, which is looked up for each: it moves with the leader of its log.

Invariant: an error that passes (`codes.advice`) and a broken exchange are tried again until the deadline. So whatever
is asked here must be harmless when it is asked twice.

Reference: FindCoordinator (KIP-98), ``org.apache.kafka.clients.producer.internals.TransactionManager``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from sparkmirror.errors import BrokerError, FencedError, LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import Advice, advice, broker_error
from sparkmirror.kafka.rounds import Deadline

INVALID_PRODUCER_EPOCH = 47
INVALID_PRODUCER_ID_MAPPING = 49
PRODUCER_FENCED = 90

FIND_MS, ATTEMPT_MS = 3_000, 10_000
"""For one question: after that another broker is asked where the coordinator is, which may have moved."""

_FENCED = frozenset({INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED})
_FENCED_REMEDY = (
    "another driver has raised the epoch, or the transaction outlived its timeout: only one of two drivers may go on"
)


def ask_coordinator(
    cluster: Cluster,
    transactional_id: str,
    request: Callable[[], Any],
    code_of: Callable[[Any], int],
    deadline: Deadline,
) -> Any:
    """Like `exchange_with_coordinator`, for threads of a driver."""
    return cluster.run(exchange_with_coordinator, cluster, transactional_id, request, code_of, deadline)


async def exchange_with_coordinator(
    cluster: Cluster,
    transactional_id: str,
    request: Callable[[], Any],
    code_of: Callable[[Any], int],
    deadline: Deadline,
) -> Any:
    """Sends a request to the coordinator of ``transactional_id`` and returns its first answer without an error.

    Args:
        cluster: where.
        transactional_id: whose coordinator.
        request: makes the request, anew for each attempt.
        code_of: the error code that an answer stands for as a whole; 0 returns it.
        deadline: until when errors that pass are tried again.

    Raises:
        FencedError: the coordinator knows a newer epoch, or another producer id.
        BrokerError: it refuses, or is not available until the deadline.
        LinkError: it cannot be reached until the deadline.
    """
    while True:
        failure: BrokerError | LinkError
        try:
            code, answer = await _attempt(cluster, transactional_id, request(), code_of, deadline)
            if code == 0:
                return answer
            failure = _refusal(code, cluster, transactional_id)
            if advice(code) not in (Advice.RETRY, Advice.REFRESH):
                raise failure
        except LinkError as broken:
            failure = broken
        await cluster.loop.sleep(deadline.next_pause_s())
        if deadline.passed:
            raise failure


async def _attempt(
    cluster: Cluster, transactional_id: str, request: Any, code_of: Callable[[Any], int], deadline: Deadline
) -> tuple[int, Any]:
    question = FindCoordinatorRequest(
        key=transactional_id, key_type=CoordinatorType.TRANSACTION.value, coordinator_keys=[transactional_id]
    )
    found = await cluster.exchange(question, timeout_ms=min(deadline.attempt_ms, FIND_MS))
    place = found.coordinators[0] if found.coordinators else found
    if place.error_code != 0:
        return place.error_code, None
    answer = await cluster.exchange(request, place.node_id, min(deadline.attempt_ms, ATTEMPT_MS))
    return code_of(answer), answer


def _refusal(code: int, cluster: Cluster, transactional_id: str) -> BrokerError:
    error = broker_error(code, cluster.alias)
    kind = FencedError if code in _FENCED else BrokerError
    return kind(
        code=code,
        name=f"{error.name} for transactional id {transactional_id}",
        cluster=cluster.alias,
        remedy=_FENCED_REMEDY if code in _FENCED else error.remedy,
    )
