"""Single batches with a producer id, an epoch and a sequence of one's own choice, and what the broker says to them.

`tests.raw_batches` is for batches that are taken; here the refusals count.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from kafka.protocol.producer import ProduceRequest

from sparkmirror.kafka.admin import NewTopic, create_topics, find_offsets, list_topics, wait_for_leaders
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.model import TopicPartition, Writer
from tests.batches.building import Rec, Written

TIMEOUT_MS = 60_000
INVALID_PRODUCER_EPOCH = 47
NOBODY = Writer(producer_id=-1, epoch=-1)
ONLY_LEADER, ALL_IN_SYNC = 1, -1


class Appended(NamedTuple):
    """A broker's answer: an error code and, for 0, the offset of the first record."""

    code: int
    offset: int


def batch(writer: Writer = NOBODY, sequence: int = -1, records: int = 1, *, size: int = 20, **more: object) -> bytes:
    """A batch of equal records of the present; ``more`` are fields of `Written`."""
    now = int(time.time() * 1000)
    recs = tuple(Rec(number, now, None, b"v" * size) for number in range(records))
    written = Written(records=recs, producer=(writer.producer_id, writer.epoch, sequence), **more)  # type: ignore[arg-type]  # its fields
    return written.encode()


def send(cluster: Cluster, partition: TopicPartition, payload: bytes, *, acks: int = ALL_IN_SYNC) -> Appended:
    """Sends one batch to the partition's leader."""
    wire = ProduceRequest.TopicProduceData
    part = wire.PartitionProduceData(index=partition.partition, records=payload)
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=TIMEOUT_MS,
        topic_data=[wire(name=partition.topic, partition_data=[part])],
        max_version=12,
    )
    leader = list_topics(cluster, [partition.topic], TIMEOUT_MS)[partition.topic].partitions[partition.partition]
    (told,) = cluster.call(request, leader.node, TIMEOUT_MS).responses[0].partition_responses
    return Appended(told.error_code, told.base_offset)


def write(
    cluster: Cluster,
    partition: TopicPartition,
    writer: Writer,
    sequence: int,
    records: int = 1,
    *,
    size: int = 20,
    acks: int = ALL_IN_SYNC,
) -> Appended:
    """Sends one batch of ``writer``."""
    return send(cluster, partition, batch(writer, sequence, records, size=size), acks=acks)


def new_topic(
    cluster: Cluster, name: str, partitions: int = 1, configs: Sequence[tuple[str, str]] = ()
) -> list[TopicPartition]:
    """Creates a topic without copies and gives its partitions."""
    wanted = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=tuple(configs))
    create_topics(cluster, [wanted], TIMEOUT_MS).complete()
    wait_for_leaders(cluster, {name: partitions}, TIMEOUT_MS).complete()
    made = [TopicPartition(name, number) for number in range(partitions)]
    find_offsets(cluster, made, OffsetSpec.LATEST, timeout_ms=TIMEOUT_MS).complete()  # the leaders know it too
    return made
