"""Kafka Connect's topic of positions on a real broker: written as a Java producer would, read as Connect would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror import batches
from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka import admin, stored_offsets
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.stored_offsets import Positions, home, read_stored, write_stored
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset
from sparkmirror.model import Alias, TopicPartition
from tests.batches.building import Rec, Written

OURS = Owner(connector="MirrorSourceConnector", cluster=Alias("A"))
PARTITIONS = 5


def stored(number: int, offset: int | None) -> StoredOffset:
    return StoredOffset(owner=OURS, partition=TopicPartition("orders", number), offset=offset)


def table(*pairs: tuple[bytes, bytes | None]) -> Any:
    records = tuple(Rec(number, 1, key, value) for number, (key, value) in enumerate(pairs))
    return batches.decode(batches.index(Written(records=records).encode()))


def test_of_each_key_the_newest_position_is_kept_and_at_home_it_wins():
    one, other = stored(0, 5), stored(1, 7)
    at_home, gone = home(one.key, PARTITIONS), home(other.key, PARTITIONS)
    held = Positions(PARTITIONS)
    for _ in range(2):  # a partition may be read again from its begin
        assert held.take(at_home, table((one.key, b"{}"), (one.key, b'{"offset":4}'), (one.key, one.value))) == []
    held.take((at_home + 1) % PARTITIONS, table((one.key, b'{"offset":9}')))
    held.take((gone + 1) % PARTITIONS, table((other.key, other.value)))
    held.take(gone, table((other.key, None)))
    assert held.found() == {OURS: {TopicPartition("orders", 0): 5}}


def test_keys_of_other_connectors_are_not_hashed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stored_offsets, "home", None)
    held = Positions(PARTITIONS)
    held.take(0, table((b'["file-source",{"filename":"x"}]', b"{}"), (b"x" * 60_000, b"{}")))
    assert held.found() == {}


@pytest.mark.parametrize("limit", ["MOST_POSITIONS", "MOST_BYTES"])
def test_more_positions_than_a_cluster_has_partitions_are_refused_and_not_kept(
    limit: str, monkeypatch: pytest.MonkeyPatch
):
    most = {"MOST_POSITIONS": 100, "MOST_BYTES": 100 * len(stored(100, 0).key)}[limit]
    monkeypatch.setattr(stored_offsets, limit, most)
    held = Positions(PARTITIONS)
    for number in range(100, 1_000):
        held.take(number % PARTITIONS, table((stored(number, 1).key, stored(number, 1).value)))
    assert 100 <= sum(map(len, (held._at_home, *held._elsewhere.values()))) <= 101
    with pytest.raises(ValueError, match=r"more than .* positions"):
        held.found()


@pytest.fixture
def offsets_topic(lab_cluster: Callable[[str], Cluster], topic: Callable[[str], str]) -> str:
    name = topic("mm2-offsets")
    admin.create_topics(lab_cluster("B"), [NewTopic(name=name, partitions=PARTITIONS)]).complete()
    admin.wait_for_leaders(lab_cluster("B"), {name: PARTITIONS}).complete()
    return name


@pytest.mark.kafka
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


@pytest.mark.kafka
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


@pytest.mark.kafka
def test_a_position_that_cannot_be_read_is_named_with_its_place(
    cluster_b: LabCluster, lab_cluster: Callable[[str], Cluster], offsets_topic: str
) -> None:
    plain = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "log_level": 3})
    plain.produce(offsets_topic, b'{"offset":"x"}', stored(0, 0).key)
    assert plain.flush(60) == 0
    with pytest.raises(SparkmirrorError, match=rf"cluster B, {offsets_topic}: the position of .*orders"):
        read_stored(lab_cluster("B"), offsets_topic, 60_000)
