"""Batches to and from a broker exactly as they are: plain requests of kafka-python, not sparkmirror's data path."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import ProduceRequest

from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster

ANSWER_BYTES = 1 << 24
LEADER_SECONDS = 30.0
NO_LEADER_YET = {3, 5, 6}
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE and NOT_LEADER_OR_FOLLOWER."""


def produce(cluster: Cluster, topic: str, batch: bytes | memoryview, partition: int = 0) -> int:
    """Writes one batch and returns the offset that it got; a topic that was just made may have to be waited for."""
    data: Any = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=partition, records=bytes(batch))
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[data(name=topic, partition_data=[part])],
        max_version=12,
    )

    def ask() -> Any:
        return cluster.call(request, _leader(cluster, topic, partition)).responses[0].partition_responses[0]

    return int(_answered(ask, f"{topic}-{partition}").base_offset)


def fetch(cluster: Cluster, topic: str, partition: int = 0, offset: int = 0) -> bytes:
    """The batches from an offset on that are there now, control batches too; the last one may be cut off."""
    part = FetchRequest.FetchTopic.FetchPartition(
        partition=partition, current_leader_epoch=-1, fetch_offset=offset, partition_max_bytes=ANSWER_BYTES
    )
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=ANSWER_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=12,
    )

    def ask() -> Any:
        return cluster.call(request, _leader(cluster, topic, partition)).responses[0].partitions[0]

    return bytes(_answered(ask, f"{topic}-{partition}").records or b"")


def _answered(ask: Callable[[], Any], what: str) -> Any:
    """Asks until the leader takes itself for one."""
    deadline = time.monotonic() + LEADER_SECONDS
    while True:
        answer = ask()
        if answer.error_code == 0:
            return answer
        assert answer.error_code in NO_LEADER_YET, f"{what}: error {answer.error_code}"
        assert time.monotonic() < deadline, f"{what}: error {answer.error_code} for {LEADER_SECONDS} s"
        time.sleep(0.1)


def _leader(cluster: Cluster, topic: str, partition: int) -> int:
    return admin.list_topics(cluster, [topic])[topic].partitions[partition].node
