"""What leaders remember of the producers of partitions.

A leader shows the end of its log, which may be taken back, and forgets producers by the times of their records. So what
it says of one is a reason to look at the log, and no proof.

Reference: DescribeProducers (KIP-664), from Kafka 2.8 on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import of_asked, together
from sparkmirror.kafka.rounds import Answer
from sparkmirror.model import TopicPartition


class ProducerState(NamedTuple):
    """How far a producer has written to a partition, as its leader remembers it.

    Attributes:
        epoch: the newest one.
        last_sequence: of its newest record in that epoch, -1 where there is none.
    """

    epoch: int
    last_sequence: int


async def ask_leaders_for_producers(
    cluster: Cluster, nodes: Mapping[TopicPartition, int], timeout_ms: int
) -> list[Answer[TopicPartition, Mapping[int, ProducerState]]]:
    """Asks once, all leaders at the same time, for the producers of partitions by their ids.

    Args:
        cluster: where.
        nodes: the leaders of the partitions.
        timeout_ms: milliseconds for the answer of each leader.
    """
    by_node: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, node in nodes.items():
        by_node[node].append(partition)
    requests = {node: _request(some) for node, some in by_node.items()}
    answers = await together(cluster, requests, timeout_ms)
    return [
        told
        for node, answer in answers.items()
        for told in of_asked(cluster, node, frozenset(by_node[node]), answer, partial(_read, cluster))
    ]


def _request(partitions: Iterable[TopicPartition]) -> Any:
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        numbers[partition.topic].append(partition.partition)
    topic = DescribeProducersRequest.TopicRequest
    return DescribeProducersRequest(topics=[topic(name=name, partition_indexes=own) for name, own in numbers.items()])


def _read(cluster: Cluster, response: Any) -> Iterable[Answer[TopicPartition, Mapping[int, ProducerState]]]:
    for topic in response.topics:
        for part in topic.partitions:
            states = {
                int(one.producer_id): ProducerState(int(one.producer_epoch), int(one.last_sequence))
                for one in part.active_producers
            }
            place = TopicPartition(topic.name, part.partition_index)
            yield Answer(key=place, value=states, code=part.error_code, message=cluster.told(part.error_message))
