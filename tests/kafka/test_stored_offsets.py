"""Kafka Connect's topic of positions on a real broker: written as a Java producer would, read as Connect would."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.stored_offsets import home, read_stored, write_stored
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset
from sparkmirror.model import Alias, TopicPartition

pytestmark = pytest.mark.kafka

OURS = Owner(connector="MirrorSourceConnector", cluster=Alias("A"))
PARTITIONS = 5


def stored(number: int, offset: int | None) -> StoredOffset:
    return StoredOffset(owner=OURS, partition=TopicPartition("orders", number), offset=offset)


@pytest.fixture
def offsets_topic(lab_cluster: Callable[[str], Cluster], topic: Callable[[str], str]) -> str:
    name = topic("mm2-offsets")
    admin.create_topics(lab_cluster("B"), [NewTopic(name=name, partitions=PARTITIONS)]).complete()
    admin.wait_for_leaders(lab_cluster("B"), {name: PARTITIONS}).complete()
    return name


def test_what_is_written_is_read_and_lies_where_a_producer_with_murmur2_puts_it(
    cluster_b: LabCluster, lab_cluster: Callable[[str], Cluster], offsets_topic: str
) -> None:
    target = lab_cluster("B")
    write_stored(target, offsets_topic, PARTITIONS, [stored(number, number * 10) for number in range(20)], 60_000)
    write_stored(target, offsets_topic, PARTITIONS, [stored(3, 7), stored(4, None)], 60_000)
    expected = {TopicPartition("orders", n): n * 10 for n in range(20) if n != 4} | {TopicPartition("orders", 3): 7}
    assert read_stored(target, offsets_topic, 60_000) == {OURS: expected}

    consumer = Consumer({"bootstrap.servers": cluster_b.bootstrap_servers, "group.id": "reader", "log_level": 3})
    consumer.assign([Place(offsets_topic, number, 0) for number in range(PARTITIONS)])
    found: list[tuple[bytes, int]] = []
    while len(found) < 22:
        found += [(m.key() or b"", m.partition() or 0) for m in consumer.consume(100, 10.0) if not m.error()]
    consumer.close()
    lies: dict[bytes, int] = {}
    producer = Producer(
        {"bootstrap.servers": cluster_b.bootstrap_servers, "partitioner": "murmur2_random", "log_level": 3}
    )
    for key, _ in found:
        producer.produce(
            offsets_topic, b"{}", key, on_delivery=lambda _, m: lies.update({m.key() or b"": m.partition() or 0})
        )
    assert producer.flush(60) == 0
    assert dict(found) == lies


def test_aborted_positions_do_not_count_and_those_at_home_win(
    cluster_b: LabCluster, lab_cluster: Callable[[str], Cluster], offsets_topic: str
) -> None:
    target, one = lab_cluster("B"), stored(0, 5)
    at_home = home(one.key, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": cluster_b.bootstrap_servers, "transactional.id": offsets_topic, "log_level": 3}
    )
    producer.init_transactions(60)
    for value, place, commit in ((b'{"offset":5}', at_home, True), (b'{"offset":9}', at_home, False)):
        producer.begin_transaction()
        producer.produce(offsets_topic, value, one.key, place)
        producer.flush(60)
        producer.commit_transaction(60) if commit else producer.abort_transaction(60)
    plain = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "log_level": 3})
    plain.produce(offsets_topic, b'{"offset":3}', one.key, (at_home + 1) % PARTITIONS)  # from when it was smaller
    plain.produce(
        offsets_topic, b'{"offset":4}', stored(1, 4).key, (home(stored(1, 4).key, PARTITIONS) + 1) % PARTITIONS
    )
    assert plain.flush(60) == 0
    found = read_stored(target, offsets_topic, 60_000)
    assert found == {OURS: {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 4}}


def test_a_position_that_cannot_be_read_is_named_with_its_place(
    cluster_b: LabCluster, lab_cluster: Callable[[str], Cluster], offsets_topic: str
) -> None:
    plain = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "log_level": 3})
    plain.produce(offsets_topic, b'{"offset":"x"}', stored(0, 0).key)
    assert plain.flush(60) == 0
    with pytest.raises(SparkmirrorError, match=rf"cluster B, {offsets_topic}: the position of .*orders"):
        read_stored(lab_cluster("B"), offsets_topic, 60_000)
