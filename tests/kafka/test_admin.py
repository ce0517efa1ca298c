"""Topics, configs and offsets of real clusters."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
from confluent_kafka import Producer

from sparkmirror.config import ClientSettings, Isolation
from sparkmirror.errors import BrokerError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.changes import CHANGED_TOPICS
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import topic_configs
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_states import ProducerState
from sparkmirror.kafka.rounds import Results
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import OLDEST_KAFKA_VERSION
from sparkmirror.model import TopicPartition
from tests.flow.running import create_topic

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(cluster_a: LabCluster) -> Iterator[Cluster]:
    settings = ClientSettings(bootstrap_servers=tuple(cluster_a.bootstrap_servers.split(",")))
    cluster = Cluster("A", settings, role="admin")
    yield cluster
    cluster.close()


def _create(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> None:
    wanted = NewTopic(
        name=name,
        partitions=partitions,
        replication_factor=1,
        configs=tuple((key.replace("_", "."), value) for key, value in configs.items()),
    )
    admin.create_topics(cluster, [wanted]).complete()
    admin.wait_for_leaders(cluster, {name: partitions}).complete()


def _refusal(results: Results[str, None], name: str) -> BrokerError:
    failure = results.failed[name]
    assert isinstance(failure, BrokerError)
    return failure


def test_tells_the_id_of_the_cluster(cluster: Cluster, cluster_a: LabCluster) -> None:
    assert admin.cluster_id(cluster) == cluster_a.cluster_id


def test_lists_a_new_topic_with_its_leaders(cluster: Cluster, topic_name: str) -> None:
    _create(cluster, topic_name, 3)
    found = admin.list_topics(cluster)[topic_name]
    assert sorted(found.partitions) == [0, 1, 2]
    assert {leader.node for leader in found.partitions.values()} == {1}
    assert all(leader.epoch >= 0 for leader in found.partitions.values())
    assert isinstance(found.topic_id, uuid.UUID)
    assert not found.internal


def test_asking_for_a_topic_does_not_create_it(cluster: Cluster, topic_name: str) -> None:
    assert admin.list_topics(cluster, [topic_name]) == {}
    assert topic_name not in admin.list_topics(cluster)


def test_topics_that_cannot_be_created_do_not_stop_the_others(cluster: Cluster, topic: Callable[..., str]) -> None:
    good, thin, odd, long = topic("good"), topic("thin"), topic("odd"), "x" * 250
    results = admin.create_topics(
        cluster,
        [
            NewTopic(name=thin, partitions=1, replication_factor=5),
            NewTopic(name=good, partitions=2, replication_factor=admin.BROKER_DEFAULT),
            NewTopic(name=odd, configs=(("no.such.property", "1"),)),
            NewTopic(name=long),
        ],
    )
    assert set(results.found) == {good}
    assert "set replication.factor (it is 5)" in _refusal(results, thin).remedy
    assert "config.properties.exclude" in _refusal(results, odd).remedy
    assert "no.such.property" in _refusal(results, odd).remedy
    assert _refusal(results, long).name == "INVALID_TOPIC_EXCEPTION"
    assert sorted(admin.wait_for_leaders(cluster, {good: 2}).complete()[good].partitions) == [0, 1]


def test_a_topic_that_was_there_before_is_said_to_be(cluster: Cluster, topic_name: str) -> None:
    _create(cluster, topic_name)
    results = admin.create_topics(cluster, [NewTopic(name=topic_name)])
    assert _refusal(results, topic_name).code == admin.TOPIC_ALREADY_EXISTS


def test_hundreds_of_topics_are_created_in_several_requests(cluster: Cluster, topic: Callable[..., str]) -> None:
    names = [topic("many") for _ in range(CHANGED_TOPICS + 20)]
    admin.create_topics(cluster, [NewTopic(name=name, partitions=1, replication_factor=1) for name in names]).complete()
    assert set(admin.wait_for_leaders(cluster, dict.fromkeys(names, 1)).complete()) == set(names)
    assert set(topic_configs(cluster, names)) == set(names)
    assert set(admin.delete_topics(cluster, names).complete()) == set(names)


def test_partitions_are_added_and_never_taken_away(cluster: Cluster, topic: Callable[..., str]) -> None:
    grows, shrinks = topic("grows"), topic("shrinks")
    _create(cluster, grows, 1)
    _create(cluster, shrinks, 2)
    results = admin.create_partitions(cluster, {grows: 4, shrinks: 1})
    assert set(results.found) == {grows}
    assert _refusal(results, shrinks).name == "INVALID_PARTITIONS"
    assert len(admin.wait_for_leaders(cluster, {grows: 4}).complete()[grows].partitions) == 4


def test_offsets_are_those_of_the_leaders(cluster: Cluster, cluster_a: LabCluster, topic_name: str) -> None:
    _create(cluster, topic_name, 2)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers})
    for _ in range(7):
        producer.produce(topic_name, b"value", partition=1)
    assert producer.flush(60) == 0
    wanted = [TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)]
    assert admin.list_offsets(cluster, wanted, OffsetSpec.EARLIEST) == {wanted[0]: 0, wanted[1]: 0}
    assert admin.list_offsets(cluster, wanted, OffsetSpec.LATEST) == {wanted[0]: 0, wanted[1]: 7}


def test_read_committed_ends_before_an_open_transaction(
    cluster: Cluster, cluster_a: LabCluster, topic_name: str
) -> None:
    _create(cluster, topic_name)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "transactional.id": topic_name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic_name, b"1", partition=0)
    producer.commit_transaction(60)
    producer.begin_transaction()
    producer.produce(topic_name, b"2", partition=0)
    assert producer.flush(60) == 0
    end = TopicPartition(topic_name, 0)
    assert admin.list_offsets(cluster, [end], OffsetSpec.LATEST, Isolation.READ_COMMITTED) == {end: 2}
    assert admin.list_offsets(cluster, [end], OffsetSpec.LATEST, Isolation.READ_UNCOMMITTED) == {end: 3}
    producer.abort_transaction(60)


def test_partitions_that_do_not_exist_are_told_from_those_that_do(cluster: Cluster, topic: Callable[..., str]) -> None:
    known, unknown = topic("known"), topic("unknown")
    _create(cluster, known)
    asked = [TopicPartition(known, 0), TopicPartition(known, 1), TopicPartition(unknown, 0)]
    assert admin.absent(cluster, asked) == set(asked[1:])
    assert admin.absent(cluster, []) == frozenset()


@pytest.mark.parametrize("version", [None, pytest.param(OLDEST_KAFKA_VERSION, marks=pytest.mark.slow)])
def test_leaders_tell_what_each_producer_has_written_last(cluster_a: LabCluster, topic_name: str, version: str | None):
    with nullcontext(cluster_a) if version is None else start("oldest", version=version) as lab:
        create_topic(lab, topic_name, 2)
        producer = Producer({"bootstrap.servers": lab.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
        for number in range(3):
            producer.produce(topic_name, b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        written, empty, none = (TopicPartition(topic_name, number) for number in range(3))
        cluster = Cluster("A", ClientSettings(bootstrap_servers=(lab.bootstrap_servers,)), role="test")
        try:
            results = admin.find_producers(cluster, [written, empty, none])
        finally:
            cluster.close()
        assert list(results.found[written].values()) == [ProducerState(epoch=0, last_sequence=2)]
        assert results.found[empty] == {}
        assert set(results.failed) == {none}


def test_a_partition_that_is_not_there_fails_alone(cluster: Cluster, topic_name: str) -> None:
    _create(cluster, topic_name)
    there, none = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    results = admin.find_offsets(cluster, [there, none], OffsetSpec.LATEST)
    assert results.found == {there: 0}
    failure = results.failed[none]
    assert isinstance(failure, BrokerError)
    assert (failure.topic, failure.partition, failure.code) == (topic_name, 1, 3)
