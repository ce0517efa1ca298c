"""The Produce request that is sent from the batches' own memory, against kafka-python's encoding of the same."""

from __future__ import annotations

import uuid

import pytest
from kafka.protocol.producer import ProduceRequest

from sparkmirror.kafka.producing import BatchesRequest, Load
from sparkmirror.model import TopicPartition

IDS = {"first": uuid.UUID(int=7), "second": uuid.UUID(int=1 << 120)}
PAYLOADS = {
    TopicPartition("first", 0): b"a" * 10,
    TopicPartition("first", 7): b"b" * 200,
    TopicPartition("second", 2): b"c" * 70_000,
}


def as_kafka_python_writes_it(version: int) -> bytes:
    topic = ProduceRequest.TopicProduceData
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=1234,
        topic_data=[
            topic(
                name=name,
                topic_id=identity,
                partition_data=[
                    topic.PartitionProduceData(index=p.partition, records=payload)
                    for p, payload in PAYLOADS.items()
                    if p.topic == name
                ],
            )
            for name, identity in IDS.items()
        ],
    )
    request.API_VERSION = version
    request.with_header(correlation_id=99, client_id="a client")
    return bytes(request.encode(framed=True, header=True))


@pytest.mark.parametrize("version", range(3, 14))
def test_writes_the_same_bytes_as_kafka_python_in_every_version(version: int) -> None:
    loads = [Load(p, IDS[p.topic], memoryview(payload)) for p, payload in PAYLOADS.items()]
    request = BatchesRequest(loads, 1234)
    request.API_VERSION = version
    request.with_header(correlation_id=99, client_id="a client")
    assert b"".join(request.pieces()) == as_kafka_python_writes_it(version)


def test_sends_a_batch_from_its_own_memory() -> None:
    payload = memoryview(bytearray(b"d" * 100))
    request = BatchesRequest([Load(TopicPartition("first", 0), IDS["first"], payload)], 1)
    request.API_VERSION = 13
    request.with_header(correlation_id=1, client_id="x")
    assert any(piece is payload for piece in request.pieces())


def test_asks_for_an_older_version_when_a_topic_has_no_id() -> None:
    request = BatchesRequest([Load(TopicPartition("first", 0), None, memoryview(b"e"))], 1)
    assert request._max_version == 12
