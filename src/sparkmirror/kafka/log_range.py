"""Where a partition's log begins and ends: two ListOffsets requests to its leader."""

from __future__ import annotations

from kafka.protocol.consumer import ListOffsetsRequest

from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import broker_error
from sparkmirror.model import TopicPartition

EARLIEST = -2
LATEST = -1


async def log_range(
    cluster: Cluster, leader: int, partition: TopicPartition, leader_epoch: int, isolation: int
) -> tuple[int, int]:
    """The first offset, and the offset after the last (the last stable one under read_committed).

    Raises:
        BrokerError: the leader refuses.
        LinkError: it does not answer.
    """
    first = await _ask(cluster, leader, partition, leader_epoch, isolation, EARLIEST)
    return first, await _ask(cluster, leader, partition, leader_epoch, isolation, LATEST)


async def _ask(
    cluster: Cluster, leader: int, partition: TopicPartition, leader_epoch: int, isolation: int, timestamp: int
) -> int:
    part = ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition(
        partition_index=partition.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    topic = ListOffsetsRequest.ListOffsetsTopic(name=partition.topic, partitions=[part])
    answer = await cluster.exchange(
        ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[topic], timeout_ms=10_000, min_version=1),
        leader,
    )
    result = answer.topics[0].partitions[0]
    if result.error_code != 0:
        raise broker_error(result.error_code, cluster.alias, topic=partition.topic, partition=partition.partition)
    return int(result.offset)
