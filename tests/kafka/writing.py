"""Single batches for the tests of this room, sent with a producer id, an epoch and a sequence of one's own choice."""

from __future__ import annotations

import time
from typing import NamedTuple

from kafka.protocol.producer import ProduceRequest

from sparkmirror.kafka.admin import list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import TopicPartition, Writer
from tests.batches.building import Rec, Written

TIMEOUT_MS = 20_000
NOBODY = Writer(producer_id=-1, epoch=-1)


class Appended(NamedTuple):
    """A broker's answer: an error code and, for 0, the offset of the first record."""

    code: int
    offset: int


def batch(writer: Writer = NOBODY, sequence: int = -1, records: int = 1, *, size: int = 20, age_ms: int = 0) -> bytes:
    """A batch of equal records."""
    then = int(time.time() * 1000) - age_ms
    recs = tuple(Rec(number, then, None, b"v" * size) for number in range(records))
    return Written(records=recs, producer=(writer.producer_id, writer.epoch, sequence)).encode()


def send(cluster: Cluster, partition: TopicPartition, payload: bytes, *, acks: int = -1) -> Appended:
    """Sends one batch to the partition's leader."""
    wire = ProduceRequest.TopicProduceData
    topic = list_topics(cluster, [partition.topic], TIMEOUT_MS)[partition.topic]
    part = wire.PartitionProduceData(index=partition.partition, records=payload)
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[wire(name=partition.topic, topic_id=topic.topic_id, partition_data=[part])],
        max_version=None if topic.topic_id.int else 12,
    )
    answer = cluster.call(request, topic.partitions[partition.partition].node, TIMEOUT_MS)
    told = answer.responses[0].partition_responses[0]
    return Appended(told.error_code, told.base_offset)


def write(
    cluster: Cluster, partition: TopicPartition, writer: Writer, sequence: int, records: int = 1, *, size: int = 20
) -> Appended:
    """Sends one batch of ``writer``."""
    return send(cluster, partition, batch(writer, sequence, records, size=size))
