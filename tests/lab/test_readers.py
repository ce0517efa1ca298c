"""Both readers show everything of a record, each in its own way and both the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.errors import LabError
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import jars
from sparkmirror.lab.producers import JavaProducer, Record
from sparkmirror.lab.readers import Seen, read_with_java, read_with_librdkafka, records_in
from sparkmirror.spark.gateway import Gateway

EVERY_BYTE = bytes(range(256))
TIME_MS = 1_700_000_000_000
RECORDS = (
    Record(b"key", b"value", (("one", b"1"), ("one", None), ("two", b""), ("", b"\xff\x00\x7f\x80")), TIME_MS, 0),
    Record(None, None, (), 0, 0),
    Record(b"", b"", (("ä €", b"a, b"),), 1, 0),
    Record(b"null", b"a, value = b)]", (), TIME_MS, 0),
    Record(EVERY_BYTE, EVERY_BYTE * 3, (("all", EVERY_BYTE),), TIME_MS - 5, 1),
    Record(b"\\n\n\r\\", b"), ConsumerRecord(topic = ", (), TIME_MS + 5, 1),
)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway(jars()) as running:
        yield running


def create(cluster: LabCluster, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, 3, 1, config={"retention.ms": "-1"} | config)]).values():
        future.result(60)


@pytest.mark.kafka
def test_both_show_all_that_was_written_and_the_end_of_an_empty_partition(
    gateway: Gateway, cluster_a: LabCluster, topic_name: str
):
    servers, expected = cluster_a.bootstrap_servers, {(topic_name, partition): list[Seen]() for partition in range(3)}
    create(cluster_a, topic_name)
    producer = JavaProducer(gateway, servers, {"compression.type": "snappy"})
    for record in RECORDS:
        producer.write(topic_name, record)
        log = expected[topic_name, record.partition or 0]
        log.append(Seen(len(log), "CreateTime", record.timestamp_ms or 0, record.key, record.value, record.headers))
    producer.flush()
    producer.close()
    assert read_with_java(gateway, servers, [topic_name]) == expected
    assert read_with_librdkafka(servers, [topic_name]) == expected


@pytest.mark.kafka
def test_the_broker_s_time_is_told_apart_and_aborted_records_are_not_shown(
    gateway: Gateway, cluster_a: LabCluster, topic_name: str
):
    create(cluster_a, topic_name, **{"message.timestamp.type": "LogAppendTime"})
    producer = JavaProducer(gateway, cluster_a.bootstrap_servers, {"transactional.id": topic_name})
    for conclude in (producer.abort, producer.commit, producer.abort):
        producer.begin()
        producer.write(topic_name, RECORDS[0])
        conclude()
    producer.close()
    by_java = read_with_java(gateway, cluster_a.bootstrap_servers, [topic_name])
    assert by_java == read_with_librdkafka(cluster_a.bootstrap_servers, [topic_name])
    (only,) = by_java[topic_name, 0]
    assert (only.offset, only.timestamp_type, only.key) == (2, "LogAppendTime", b"key")
    assert only.timestamp_ms > TIME_MS


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_an_error(gateway: Gateway, cluster_a: LabCluster, topic_name: str):
    with pytest.raises(LabError, match=f"no topic {topic_name}"):
        read_with_java(gateway, cluster_a.bootstrap_servers, [topic_name])
    with pytest.raises(LabError, match=f"no topic {topic_name}"):
        read_with_librdkafka(cluster_a.bootstrap_servers, [topic_name])


def java_text(*records: str) -> str:
    return f"[{', '.join(records)}]"


def java_record(rest: str, *, sizes: tuple[int, int], headers: str = "") -> str:
    return (
        "ConsumerRecord(topic = a.t-1, partition = 2, leaderEpoch = 0, offset = 17, CreateTime = -1, "
        f"deliveryCount = null, serialized key size = {sizes[0]}, serialized value size = {sizes[1]}, "
        f"headers = RecordHeaders(headers = [{headers}], isReadOnly = false), {rest})"
    )


def test_sizes_tell_null_from_its_name_and_a_value_from_the_end():
    text = java_text(
        java_record("key = null, value = null", sizes=(-1, -1)),
        java_record("key = null, value = ", sizes=(4, 0)),
        java_record("key = a, value = b, value = )], ÿ", sizes=(12, 5)),
    )
    assert [(record.key, record.value) for record in records_in(text)] == [
        (None, None),
        (b"null", b""),
        (b"a, value = b", b")], \xff"),
    ]
    assert records_in("[]") == []


def test_headers_are_read_in_order_with_their_nulls():
    headers = (
        "RecordHeader(key = h, value = [1, -1]), RecordHeader(key = , value = null), RecordHeader(key = h, value = [])"
    )
    (record,) = records_in(java_text(java_record("key = k, value = v", sizes=(1, 1), headers=headers)))
    assert record == Seen(17, "CreateTime", -1, b"k", b"v", (("h", b"\x01\xff"), ("", None), ("h", b"")))


def test_another_form_is_refused():
    with pytest.raises(LabError, match="expected form"):
        records_in(java_text(java_record("key = k, value = vv", sizes=(1, 1))))
