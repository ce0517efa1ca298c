"""Which producer id belongs to a transactional id, as its coordinator knows it.

A producer id is handed out by the cluster, so the answer is what no record of a topic can forge. It tells the newest
id only: a coordinator forgets transactional ids that nobody uses (``transactional.id.expiration.ms``), and hands out
another producer id when the epochs of one are spent.

Reference: DescribeTransactions (KIP-664), of brokers from 3.0 on; it asks for DESCRIBE on the transactional id.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.coordinator import exchange_with_coordinator
from sparkmirror.kafka.rounds import Deadline
from sparkmirror.model import Writer

TRANSACTIONAL_ID_NOT_FOUND = 105


def can_be_asked(cluster: Cluster) -> bool:
    """Whether the brokers know the request, as far as the first one that was connected tells."""
    known = cluster.connections.broker_version_data
    return known is not None and DescribeTransactionsRequest.API_KEY in known.api_versions


async def holder(cluster: Cluster, transactional_id: str, timeout_ms: int) -> Writer | None:
    """The producer id and the newest epoch of ``transactional_id``; None where the coordinator does not know it.

    Raises:
        BrokerError: this user may not ask, or the coordinator is not available until the deadline.
        LinkError: it cannot be reached, or its answer leaves the id out.
    """

    def request() -> Any:
        return DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def state_of(answer: Any) -> Any:
        for state in answer.transaction_states:
            if state.transactional_id == transactional_id:
                return state
        raise cluster.link_error(ConnectionError(f"the coordinator of {transactional_id} answered without it"))

    def code_of(answer: Any) -> int:
        code = int(state_of(answer).error_code)
        return 0 if code == TRANSACTIONAL_ID_NOT_FOUND else code

    deadline = Deadline(timeout_ms, cluster.backoff)
    answer = await exchange_with_coordinator(cluster, transactional_id, request, code_of, deadline)
    state = state_of(answer)
    if state.error_code == TRANSACTIONAL_ID_NOT_FOUND:
        return None
    return Writer(producer_id=int(state.producer_id), epoch=int(state.producer_epoch))
