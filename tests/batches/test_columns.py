"""Tables on their way through a real broker, with librdkafka at the other end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sparkmirror.batches import Codec, TimestampType, column_schema, decode, encode, index
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from tests.raw_batches import fetch, produce

NOW = 1_700_000_000_000
HEADERS: list[tuple[str, str | bytes | None]] = [("h", b"1"), ("h", None), ("ä", b"")]


def test_the_columns_are_those_that_others_build_on() -> None:
    assert [(field.name, str(field.type), field.nullable) for field in column_schema()] == [
        ("offset", "int64", False),
        ("timestamp", "int64", False),
        ("timestamp_type", "int8", False),
        ("key", "binary", True),
        ("value", "binary", True),
        ("headers", "list<item: struct<key: binary not null, value: binary> not null>", False),
    ]
    assert [kind.value for kind in TimestampType] == [-1, 0, 1]


def test_pyarrow_is_left_to_the_first_table() -> None:
    """It starts threads, which the process that forks Spark's workers must not do."""
    program = "import sys, sparkmirror.batches as b; b.warm(); assert 'pyarrow' not in sys.modules; b.column_schema()"
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


def read(cluster: Cluster, topic: str) -> pa.Table:
    """The rows as we have them."""
    found = index(fetch(cluster, topic))
    assert found.error is None
    return decode(found)


def consume(servers: str, topic: str, count: int) -> list[dict[str, Any]]:
    """The rows as librdkafka has them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=60)
    consumer.close()
    assert len(messages) == count
    return [
        {
            "offset": m.offset(),
            "timestamp": m.timestamp()[1],
            "timestamp_type": m.timestamp()[0] - 1,  # librdkafka counts from 0 for none
            "key": m.key(),
            "value": m.value(),
            "headers": [{"key": key.encode(), "value": value} for key, value in m.headers() or ()],  # type: ignore[str-unpack]  # librdkafka types headers loosely
        }
        for m in messages
    ]


def create(cluster: Cluster, topic: str, **configs: str) -> None:
    new = NewTopic(name=topic, partitions=1, replication_factor=1, configs=tuple(configs.items()))
    admin.create_topics(cluster, [new]).complete()
    admin.wait_for_leaders(cluster, {topic: 1}).complete()


@pytest.mark.kafka
def test_librdkafka_reads_tables_and_we_read_what_it_writes(
    cluster_a: LabCluster, lab_cluster: Callable[[str], Cluster], topic_name: str
) -> None:
    cluster, servers = lab_cluster("A"), cluster_a.bootstrap_servers
    create(cluster, topic_name)
    headers = [{"key": key.encode(), "value": value} for key, value in HEADERS]
    rows: list[dict[str, Any]] = [
        {"timestamp": NOW, "key": b"k", "value": b"v" * 300, "headers": headers},
        {"timestamp": NOW - 7, "key": None, "value": None, "headers": []},
        {"timestamp": NOW + 5, "key": b"", "value": b"x" * 70_000, "headers": headers[1:2]},
    ]
    offset = 0
    for codec in Codec:
        full = [{"offset": offset + i, "timestamp_type": 0, **row} for i, row in enumerate(rows)]
        table = pa.Table.from_pylist(full, schema=column_schema())
        for made in encode(table, codec=codec, batch_size=1000):
            produce(cluster, topic_name, made.batch)
        offset += len(rows)
    for codec in Codec:
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec.name.lower(), "linger.ms": 20})
        for n, row in enumerate(rows):
            key, value, time = row["key"], row["value"], NOW + n
            producer.produce(topic_name, value, key, headers=HEADERS if row["headers"] else None, timestamp=time)
        assert producer.flush(60) == 0
    table = read(cluster, topic_name)
    got = consume(servers, topic_name, 10 * len(rows))
    assert table.to_pylist() == got
    ours = [{key: row[key] for key in rows[0]} for row in got[: 5 * len(rows)]]
    assert ours == rows * 5


@pytest.mark.kafka
def test_the_broker_s_time_is_read_as_such(
    cluster_a: LabCluster, lab_cluster: Callable[[str], Cluster], topic_name: str
) -> None:
    cluster = lab_cluster("A")
    create(cluster, topic_name, **{"message.timestamp.type": "LogAppendTime"})
    table = pa.table({"timestamp": [NOW, NOW + 1], "value": [b"a", b"b"]})
    (made,) = encode(table, codec=Codec.ZSTD)
    produce(cluster, topic_name, made.batch)
    found = read(cluster, topic_name).to_pylist()
    assert found == consume(cluster_a.bootstrap_servers, topic_name, 2)
    assert {row["timestamp_type"] for row in found} == {TimestampType.LOG_APPEND_TIME}
    assert min(row["timestamp"] for row in found) > NOW + 1000
