"""Which partitions have no record, on real brokers: nothing, everything deleted, nothing but a marker."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror.config import ClientSettings
from sparkmirror.duties.empty_partitions import ends_of_empty
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import Alias, TopicPartition
from tests.flow.running import admin_of, create_topic

EMPTY, DELETED, MARKER, WRITTEN, OPEN = range(5)


@pytest.mark.kafka
def test_a_partition_without_a_record_is_empty_whatever_its_log_had(cluster_a, topic):
    name = topic("empty")
    create_topic(cluster_a, name, 5)
    servers = {"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 0}
    producer = Producer(servers | {"transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in (DELETED, MARKER, WRITTEN):
        producer.produce(name, b"value", partition=number)
    producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(name, b"value", partition=OPEN)
    producer.flush(60)
    gone = [Place(name, DELETED, 2), Place(name, MARKER, 1)]
    for done in admin_of(cluster_a).delete_records(gone).values():
        done.result(30)
    places = [TopicPartition(name, number) for number in range(5)]
    client = ClientSettings(bootstrap_servers=(cluster_a.bootstrap_servers,))
    with closing(Cluster(Alias("a"), client, role="test")) as cluster:
        found = ends_of_empty(cluster, places, 60_000)
        assert found == {places[EMPTY]: 0, places[DELETED]: 2, places[MARKER]: 2}
        assert ends_of_empty(cluster, places, 60_000, known=found) == found
    producer.abort_transaction(60)
