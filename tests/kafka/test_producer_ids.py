"""Producer ids from a real coordinator: the same id again, and a greater epoch each time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaException, Producer

from sparkmirror.errors import BrokerError, FencedError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.producer_ids import acquire_writer, renew_writer
from sparkmirror.lab.cluster import LabCluster
from tests.kafka.writing import new_topic, write

pytestmark = pytest.mark.kafka


def test_the_epoch_rises_each_time_and_the_id_stays(lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]):
    name = topic("sparkmirror.writer")
    first, second, third = (acquire_writer(lab_cluster("A"), name, 20_000) for _ in range(3))
    assert first.producer_id == second.producer_id == third.producer_id >= 0
    assert (second.epoch, third.epoch) == (first.epoch + 1, first.epoch + 2)


def test_other_names_get_other_ids(lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]):
    """Asked for side by side, as a flow does at its start."""
    names = [topic("sparkmirror.writer") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        writers = list(pool.map(lambda name: acquire_writer(lab_cluster("A"), name, 20_000), names))
    assert len({writer.producer_id for writer in writers}) == 8


def test_two_drivers_never_get_the_same_epoch(lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]):
    name = topic("sparkmirror.writer")
    with ThreadPoolExecutor(4) as pool:
        writers = list(pool.map(lambda _: acquire_writer(lab_cluster("A"), name, 20_000), range(6)))
    assert len({writer.producer_id for writer in writers}) == 1
    assert len({writer.epoch for writer in writers}) == 6


def test_a_producer_of_librdkafka_with_the_id_is_fenced(
    cluster_a: LabCluster, lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]
):
    """Another implementation sees the new epoch too."""
    name = topic("sparkmirror.writer")
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic("fenced"), b"v")
    acquire_writer(lab_cluster("A"), name, 20_000)
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(60)
    assert caught.value.args[0].name() in ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")


def test_an_empty_name_is_refused_with_its_name(lab_cluster: Callable[[str], Cluster]):
    with pytest.raises(BrokerError, match="for transactional id"):
        acquire_writer(lab_cluster("A"), "", 3_000)


def test_who_holds_the_newest_epoch_renews_it(lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]):
    """An answer that was lost may be asked for again: the same question has the same answer."""
    name = topic("sparkmirror.writer")
    first = acquire_writer(lab_cluster("A"), name, 20_000)
    second, again = (renew_writer(lab_cluster("A"), name, first, 20_000) for _ in range(2))
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)
    assert again == second
    assert renew_writer(lab_cluster("A"), name, second, 20_000).epoch == first.epoch + 2


def test_a_driver_whose_flow_another_one_took_cannot_renew(
    lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]
):
    name = topic("sparkmirror.writer")
    mine = acquire_writer(lab_cluster("A"), name, 20_000)
    theirs = acquire_writer(lab_cluster("A"), name, 20_000)
    with pytest.raises(FencedError, match=f"for transactional id {name}.*another driver"):
        renew_writer(lab_cluster("A"), name, mine, 20_000)
    assert renew_writer(lab_cluster("A"), name, theirs, 20_000).epoch == theirs.epoch + 1


def test_a_renewal_does_not_disturb_who_writes_with_the_epoch_before(
    lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]
):
    name = topic("sparkmirror.writer")
    (partition,) = new_topic(lab_cluster("A"), topic())
    writer = acquire_writer(lab_cluster("A"), name, 20_000)
    assert write(lab_cluster("A"), partition, writer, 0, 3) == (0, 0)
    renew_writer(lab_cluster("A"), name, writer, 20_000)
    assert write(lab_cluster("A"), partition, writer, 3, 3) == (0, 3)
