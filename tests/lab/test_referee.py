"""The referee finds every way in which a copy can differ, on two real clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.referee import Comparison, compare

pytestmark = pytest.mark.kafka

PARTITIONS = 2
BASE_TIME = int(time.time() * 1000) - 60_000
Record = dict[str, Any]


def _record(number: int) -> Record:
    return {
        "partition": number % PARTITIONS,
        "key": None if number % 5 == 0 else b"key-%d" % number,
        "value": None if number % 7 == 0 else b"value-%d" % number,
        "headers": [("trace", b"%d" % number), ("trace", None)] if number % 3 == 0 else [],
        "timestamp": BASE_TIME + number,
    }


RECORDS = [_record(number) for number in range(400)]


def _create(cluster: LabCluster, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(60)


def _produce(cluster: LabCluster, topic: str, records: Sequence[Record], **settings: object) -> None:
    _create(cluster, topic)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "max.in.flight": 1, **settings})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(60) == 0


@pytest.fixture
def judge(cluster_a: LabCluster, cluster_b: LabCluster, topic_name: str) -> Callable[[Sequence[Record]], Comparison]:
    """Writes RECORDS to one cluster and the given records to the other, and asks the referee."""

    def write_and_compare(copy: Sequence[Record]) -> Comparison:
        _produce(cluster_a, topic_name, RECORDS)
        _produce(cluster_b, f"copy.{topic_name}", copy, **{"compression.type": "zstd"})
        servers = cluster_a.bootstrap_servers, cluster_b.bootstrap_servers
        return compare(*servers, {topic_name: f"copy.{topic_name}"})[0]

    return write_and_compare


def _changed(index: int, **fields: object) -> list[Record]:
    return [record | fields if number == index else record for number, record in enumerate(RECORDS)]


def test_equal_topics_are_equal_whatever_their_batches_look_like(judge: Callable[..., Comparison]) -> None:
    verdict = judge(RECORDS)
    assert verdict.equal, verdict.difference
    assert verdict.records == verdict.target_records == len(RECORDS)
    assert verdict.bytes == sum(len(record["key"] or b"") + len(record["value"] or b"") for record in RECORDS)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"value": b"other"}, "value is b'value-201'"),
        ({"value": b""}, "value is b'value-201'"),
        ({"key": b"other"}, "key is b'key-201'"),
        ({"key": None}, "key is b'key-201' on the source and None"),
        ({"timestamp": BASE_TIME}, f"timestamp is {BASE_TIME + 201}"),
        ({"headers": [("trace", b"201")]}, "headers is"),
        ({"headers": [("trace", None), ("trace", b"201")]}, "headers is"),
        ({"headers": [("trace", b"201"), ("trace", b"")]}, "headers is"),
    ],
    ids="value empty-value key no-key timestamp header null-header two-headers".split(),
)
def test_a_changed_field_is_found_and_named(
    judge: Callable[..., Comparison], fields: dict[str, object], named: str
) -> None:
    verdict = judge(_changed(201, **fields))
    assert not verdict.equal
    assert "-1, record 100:" in verdict.difference
    assert named in verdict.difference


def test_a_missing_record_is_found(judge: Callable[..., Comparison]) -> None:
    verdict = judge([*RECORDS[:200], *RECORDS[201:]])
    assert verdict.target_records == len(RECORDS) - 1
    assert "1 records are missing on the target; source offset 100 " in verdict.difference


def test_a_missing_end_is_found(judge: Callable[..., Comparison]) -> None:
    assert "the target ends here, the source goes on with source offset 199 " in judge(RECORDS[:-1]).difference


def test_an_extra_record_is_found(judge: Callable[..., Comparison]) -> None:
    verdict = judge([*RECORDS[:200], RECORDS[198], *RECORDS[200:]])
    assert verdict.target_records == len(RECORDS) + 1
    assert "1 records too many on the target" in verdict.difference


def test_a_repeated_end_is_found(judge: Callable[..., Comparison]) -> None:
    assert "the source ends here, the target goes on" in judge([*RECORDS, RECORDS[-1]]).difference


def test_two_swapped_records_are_found(judge: Callable[..., Comparison]) -> None:
    verdict = judge([*RECORDS[:200], RECORDS[202], RECORDS[201], RECORDS[200], *RECORDS[203:]])
    assert verdict.records == verdict.target_records
    assert "out of order: the source's record lies 1 further on the target" in verdict.difference


def test_a_record_in_another_partition_is_found(judge: Callable[..., Comparison]) -> None:
    assert not judge(_changed(200, partition=1)).equal


def test_a_topic_that_is_missing_on_one_side_is_named(
    cluster_a: LabCluster, cluster_b: LabCluster, topic_name: str
) -> None:
    _produce(cluster_a, topic_name, RECORDS[:10])
    verdict = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {topic_name: topic_name})[0]
    assert verdict.difference == f"there is no topic {topic_name} on the target"


def test_another_number_of_partitions_is_named(cluster_a: LabCluster, cluster_b: LabCluster, topic_name: str) -> None:
    _create(cluster_a, topic_name, 2)
    _create(cluster_b, topic_name, 3)
    verdict = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {topic_name: topic_name})[0]
    assert "has 2 partitions on the source" in verdict.difference


def test_aborted_transactions_count_on_neither_side(
    cluster_a: LabCluster, cluster_b: LabCluster, topic_name: str
) -> None:
    _create(cluster_a, topic_name)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "transactional.id": topic_name})
    producer.init_transactions(60)
    for records, end in (
        (RECORDS[:100], producer.commit_transaction),
        (RECORDS[100:200], producer.abort_transaction),
        (RECORDS[200:], producer.commit_transaction),
        (RECORDS[:50], producer.abort_transaction),
    ):
        producer.begin_transaction()
        for record in records:
            producer.produce(topic_name, **record)
        producer.flush(60)
        end(30)
    _produce(cluster_b, topic_name, [*RECORDS[:100], *RECORDS[200:]])
    verdict = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {topic_name: topic_name})[0]
    assert verdict.equal, verdict.difference
    assert verdict.records == len(RECORDS) - 100
