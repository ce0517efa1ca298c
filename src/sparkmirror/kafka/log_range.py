"""Where a partition's log begins and ends, as only its leader can tell."""

from __future__ import annotations

from sparkmirror.config import Isolation
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import Advice, advice, broker_error
from sparkmirror.kafka.leaders import LEADER_MS, Leader, OffsetSpec, ask_each_leader
from sparkmirror.model import TopicPartition


async def log_range(
    cluster: Cluster, leader: Leader, partition: TopicPartition, isolation: Isolation
) -> tuple[int, int]:
    """The first offset, and the offset after the last (the last stable one under read_committed).

    Raises:
        BrokerError: the leader refuses, or is not the leader.
        LinkError: it does not answer.
    """
    first = await _ask(cluster, leader, partition, isolation, OffsetSpec.EARLIEST)
    return first, await _ask(cluster, leader, partition, isolation, OffsetSpec.LATEST)


def passes(failure: BrokerError | LinkError) -> bool:
    """Whether a question that failed can be asked again, of whoever leads by then."""
    if isinstance(failure, LinkError):
        return not failure.lasting
    return advice(failure.code) in (Advice.RETRY, Advice.REFRESH)


async def _ask(
    cluster: Cluster, leader: Leader, partition: TopicPartition, isolation: Isolation, spec: OffsetSpec
) -> int:
    answers = await ask_each_leader(cluster, {partition: leader}, spec, isolation, LEADER_MS)
    for answer in answers:
        if answer.link is not None:
            raise answer.link
        if answer.code != 0 or answer.value is None:
            raise broker_error(answer.code, cluster.alias, topic=partition.topic, partition=partition.partition)
        return answer.value
    raise cluster.link_error(ConnectionError(f"broker {leader.node} answered without {partition}"))
