"""Both producers write what they are given: keys, null values, headers, timestamps, codecs, transactions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.errors import LabError
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import jars
from sparkmirror.lab.producers import JavaProducer, LibrdkafkaProducer, Record, RecordWriter
from sparkmirror.lab.records import Reader, Row, extents, row_of
from sparkmirror.spark.gateway import Gateway

pytestmark = pytest.mark.kafka

TIME_MS = 1_700_000_000_000
RECORDS = (
    Record(b"key", b"value", (("one", b"1"), ("one", None), ("two", b"")), TIME_MS),
    Record(None, b"no key", (), TIME_MS + 1),
    Record(b"deleted", None, (), TIME_MS + 2),
    Record(b"", b"", (), TIME_MS + 3),
)
ROWS = [(record.timestamp_ms, record.key, record.value, list(record.headers) or None) for record in RECORDS]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway(jars()) as running:
        yield running


def _read(cluster: LabCluster, topic: str) -> list[Row]:
    with Reader(cluster.bootstrap_servers, topic, extents(cluster.bootstrap_servers, topic)) as reader:
        return [row_of(message) for messages in reader for message in messages]


def _write(writer: RecordWriter, topic: str) -> None:
    for record in RECORDS:
        writer.write(topic, record)
    writer.flush()
    writer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_java_writes_every_part_of_a_record(
    gateway: Gateway, cluster_a: LabCluster, topic_name: str, codec: str
) -> None:
    _write(JavaProducer(gateway, cluster_a.bootstrap_servers, {"compression.type": codec}), topic_name)
    assert _read(cluster_a, topic_name) == ROWS


def test_librdkafka_writes_every_part_of_a_record(cluster_a: LabCluster, topic_name: str) -> None:
    _write(LibrdkafkaProducer(cluster_a.bootstrap_servers, {"compression.type": "zstd"}), topic_name)
    assert _read(cluster_a, topic_name) == ROWS


def test_a_record_goes_to_the_partition_that_it_names(gateway: Gateway, cluster_a: LabCluster, topic_name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic_name, 3, 1)]).values():
        future.result(60)
    for writer in (
        JavaProducer(gateway, cluster_a.bootstrap_servers, {}),
        LibrdkafkaProducer(cluster_a.bootstrap_servers, {}),
    ):
        for partition in (2, 0, 2):
            writer.write(topic_name, Record(b"key", b"value", partition=partition))
        writer.flush()
        writer.close()
    found = extents(cluster_a.bootstrap_servers, topic_name)
    assert {partition: extent.end for partition, extent in found.items()} == {0: 2, 1: 0, 2: 4}


def test_aborted_records_lie_in_the_log_and_are_not_read(
    gateway: Gateway, cluster_a: LabCluster, topic_name: str
) -> None:
    producer = JavaProducer(gateway, cluster_a.bootstrap_servers, {"transactional.id": topic_name})
    for conclude in (producer.abort, producer.commit):
        producer.begin()
        for record in RECORDS:
            producer.write(topic_name, record)
        conclude()
    producer.close()
    assert _read(cluster_a, topic_name) == ROWS
    (extent,) = extents(cluster_a.bootstrap_servers, topic_name).values()
    assert extent.end == 2 * (len(RECORDS) + 1)


def test_what_java_throws_is_told_in_its_words(gateway: Gateway, cluster_a: LabCluster) -> None:
    with pytest.raises(LabError, match="compression"):
        JavaProducer(gateway, cluster_a.bootstrap_servers, {"compression.type": "brotli"})
