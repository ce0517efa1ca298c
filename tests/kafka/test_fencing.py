"""Fences on real brokers of every supported release, also with leaders that are gone, silent, or behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from kafka.protocol.admin import AlterPartitionReassignmentsRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from sparkmirror.batches import Codec
from sparkmirror.config import ClientSettings
from sparkmirror.errors import BrokerError, FencedError
from sparkmirror.kafka.admin import find_offsets, list_topics
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.fencing import _Fencing, fence, fence_and_renew
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.producer_ids import acquire_writer
from sparkmirror.kafka.rounds import Deadline
from sparkmirror.kafka.tails import Mark, last_batches, read_headers
from sparkmirror.lab.broker import Broker
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION
from sparkmirror.model import TopicPartition, Writer
from tests.flow.running import admin_of, until
from tests.kafka.writing import (
    INVALID_PRODUCER_EPOCH,
    ONLY_LEADER,
    TIMEOUT_MS,
    batch,
    new_topic,
    send,
    write,
)

pytestmark = pytest.mark.kafka

SESSION_MS = 25_000
"""How long a broker of the three may be stopped before the controller notices: the tests have to be done by then."""

MANY = 1_500

COORDINATORS = 9
"""Partitions of the transactions' log: transactional ids that fall into one have the same coordinator."""


@pytest.fixture
def cluster(lab_cluster: Callable[[str], Cluster]) -> Cluster:
    return lab_cluster("A")


@pytest.fixture
def name(topic: Callable[..., str]) -> str:
    """A transactional id."""
    return topic("sparkmirror.fence")


def end(cluster: Cluster, partition: TopicPartition) -> int:
    return find_offsets(cluster, [partition], OffsetSpec.LATEST, timeout_ms=TIMEOUT_MS).complete()[partition]


def handed_over(cluster: Cluster, name: str, partitions: list[TopicPartition]) -> tuple[Writer, Writer]:
    """A writer that has written five records to each partition, and the next one."""
    old = acquire_writer(cluster, name, TIMEOUT_MS)
    for partition in partitions:
        assert write(cluster, partition, old, 0, 5).code == 0
    return old, acquire_writer(cluster, name, TIMEOUT_MS)


# --------------------------------------------------------------------------------------------------------- one broker


def test_the_writer_before_is_refused_and_the_next_one_begins_at_0(cluster: Cluster, name: str, topic_name: str):
    (partition,) = new_topic(cluster, topic_name)
    old, new = handed_over(cluster, name, [partition])
    assert fence(cluster, name, new, [partition], TIMEOUT_MS).complete() == {
        partition: Mark(producer_id=new.producer_id, epoch=new.epoch, floor=5)
    }
    assert end(cluster, partition) == 6
    assert write(cluster, partition, old, 5).code == INVALID_PRODUCER_EPOCH
    assert write(cluster, partition, new, 0) == (0, 6)


def test_partitions_of_one_id_may_be_at_different_epochs(cluster: Cluster, name: str, topic_name: str):
    """A takeover of one partition leaves the others of its group alone."""
    lost, kept = new_topic(cluster, topic_name, 2)
    old, new = handed_over(cluster, name, [lost, kept])
    fence(cluster, name, new, [lost], TIMEOUT_MS).complete()
    assert write(cluster, lost, old, 5).code == INVALID_PRODUCER_EPOCH
    assert write(cluster, kept, old, 5).code == 0
    assert write(cluster, lost, new, 0).code == 0


def test_partitions_that_are_not_there_do_not_keep_the_others_from_being_fenced(
    cluster: Cluster, name: str, topic: Callable[..., str]
):
    (partition,) = new_topic(cluster, topic())
    old, new = handed_over(cluster, name, [partition])
    missing = [TopicPartition(topic("missing"), 0), TopicPartition(partition.topic, 7)]
    results = fence(cluster, name, new, [missing[0], partition, missing[1]], TIMEOUT_MS)
    assert list(results.found) == [partition]
    codes = {each: failure.code for each, failure in results.failed.items() if isinstance(failure, BrokerError)}
    assert codes == dict.fromkeys(missing, 3)
    assert write(cluster, partition, old, 5).code == INVALID_PRODUCER_EPOCH


def test_what_the_coordinator_refuses_is_left_out_of_the_transaction(
    cluster: Cluster, name: str, topic: Callable[..., str]
):
    """One unknown partition makes it refuse all of them; leaders that were just asked may be gone the next moment."""
    (partition,) = new_topic(cluster, topic())
    gone = TopicPartition(topic("gone"), 0)
    old, new = handed_over(cluster, name, [partition])
    fencing = _Fencing(cluster=cluster, transactional_id=name, writer=new)
    answers = fencing.by_abort([gone, partition], {gone: 0, partition: 5}, Deadline(TIMEOUT_MS, cluster.backoff))
    assert {answer.key: answer.code for answer in answers} == {gone: 3, partition: 0}
    assert write(cluster, partition, old, 5).code == INVALID_PRODUCER_EPOCH


def test_an_epoch_that_somebody_has_forged_keeps_its_own_partition_only(cluster: Cluster, name: str, topic_name: str):
    """Its leader refuses the control record, and the coordinator would complete no transaction of the id any more."""
    forged, sound = new_topic(cluster, topic_name, 2)
    old, new = handed_over(cluster, name, [forged, sound])
    assert write(cluster, forged, replace(new, epoch=new.epoch + 100), 0).code == 0
    results = fence(cluster, name, new, [forged, sound], TIMEOUT_MS)
    assert list(results.found) == [sound]
    failure = results.failed[forged]
    assert isinstance(failure, BrokerError)
    assert failure.code == INVALID_PRODUCER_EPOCH
    assert f"its leader knows epoch {new.epoch + 100} of producer id {new.producer_id}" in str(failure)
    assert write(cluster, sound, old, 5).code == INVALID_PRODUCER_EPOCH
    assert acquire_writer(cluster, name, TIMEOUT_MS).epoch == new.epoch + 1


def test_the_transaction_of_a_driver_that_died_inside_a_fence_is_ended_by_the_next_one(
    cluster: Cluster, name: str, topic_name: str
):
    first, second = new_topic(cluster, topic_name, 2)
    old, dead = handed_over(cluster, name, [first, second])
    inside = _Fencing(cluster=cluster, transactional_id=name, writer=dead)
    assert inside.add([first], Deadline(TIMEOUT_MS, cluster.backoff)) == ([first], {})
    new = acquire_writer(cluster, name, TIMEOUT_MS)
    assert new.producer_id == dead.producer_id
    assert new.epoch > dead.epoch + 1, "the coordinator spends an epoch of its own on the abort"
    marks = fence(cluster, name, new, [first, second], TIMEOUT_MS).complete()
    assert last_batches(cluster, [first, second], TIMEOUT_MS, fenced=marks).failed == {}
    assert {write(cluster, each, late, 5).code for each in (first, second) for late in (old, dead)} == {
        INVALID_PRODUCER_EPOCH
    }
    with pytest.raises(FencedError, match=f"PRODUCER_FENCED for transactional id {name}"):
        inside._end(Deadline(TIMEOUT_MS, cluster.backoff))


def test_a_driver_whose_epoch_is_not_the_newest_may_not_fence(cluster: Cluster, name: str, topic_name: str):
    (partition,) = new_topic(cluster, topic_name)
    old, new = handed_over(cluster, name, [partition])
    with pytest.raises(FencedError, match="another driver has raised the epoch"):
        fence(cluster, name, old, [partition], TIMEOUT_MS)
    assert end(cluster, partition) == 5
    assert fence(cluster, name, new, [partition], TIMEOUT_MS).failed == {}


def test_a_writer_of_another_transactional_id_is_not_known(cluster: Cluster, name: str, topic: Callable[..., str]):
    (partition,) = new_topic(cluster, topic())
    stranger = acquire_writer(cluster, topic("sparkmirror.other"), TIMEOUT_MS)
    acquire_writer(cluster, name, TIMEOUT_MS)
    with pytest.raises(FencedError, match="INVALID_PRODUCER_ID_MAPPING"):
        fence(cluster, name, stranger, [partition], TIMEOUT_MS)


def test_the_next_writer_instead_of_an_end_fences_as_well(cluster: Cluster, name: str, topic: Callable[..., str]):
    (partition,) = new_topic(cluster, topic())
    missing = TopicPartition(topic("missing"), 0)
    old, last = handed_over(cluster, name, [partition])
    results, following = fence_and_renew(cluster, name, last, [partition, missing], TIMEOUT_MS)
    assert results.found == {partition: Mark(last.producer_id, last.epoch + 1, 5)}
    assert list(results.failed) == [missing]
    assert last_batches(cluster, [partition], TIMEOUT_MS, fenced=results.found).failed == {}
    assert {write(cluster, partition, late, 5).code for late in (old, last)} == {INVALID_PRODUCER_EPOCH}
    assert write(cluster, partition, following, 0).code == 0


def test_fifteen_hundred_partitions_are_fenced_and_read_together(cluster: Cluster, name: str, topic_name: str):
    """When the fence is done, each control record is below its high watermark: nothing is waited for afterwards."""
    partitions = new_topic(cluster, topic_name, MANY)
    writer = acquire_writer(cluster, name, TIMEOUT_MS)
    began = time.monotonic()
    marks = fence(cluster, name, writer, partitions, TIMEOUT_MS).complete()
    ends = find_offsets(cluster, partitions, OffsetSpec.LATEST, timeout_ms=TIMEOUT_MS).complete()
    tails = last_batches(cluster, partitions, TIMEOUT_MS, fenced=marks).complete()
    assert time.monotonic() - began < 30
    assert set(ends.values()) == {1}
    assert {(tail.start, tail.high_watermark, tail.since, len(tail.batches)) for tail in tails.values()} == {
        (0, 1, 0, 1)
    }
    assert {tail.batches[0].control for tail in tails.values()} == {True}


# ----------------------------------------------------------------------------------------------------- older releases


@pytest.mark.parametrize("version", [OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION])
def test_older_brokers_fence_and_tell_their_tails_too(version: str, name: str, topic_name: str):
    """With messages of magic 1 before, where the broker still keeps a log in that format."""
    magic_1 = version == OLDEST_KAFKA_VERSION
    with start("older", version=version) as lab, connected(lab) as older:
        configs = [("message.format.version", "0.10.2")] if magic_1 else []
        (partition,) = new_topic(older, topic_name, 1, configs)
        assert send(older, partition, batch(records=3)) == (0, 0)
        assert send(older, partition, batch(records=4, codec=Codec.GZIP)) == (0, 3)
        if magic_1:
            set_config(lab, topic_name, "message.format.version", "2.8")
        before, new = handed_over(older, name, [partition])
        marks = fence(older, name, new, [partition], TIMEOUT_MS).complete()
        assert end(older, partition) == 13
        assert write(older, partition, before, 5).code == INVALID_PRODUCER_EPOCH
        tail = last_batches(older, [partition], TIMEOUT_MS, fenced=marks).complete()[partition]
        assert [
            (b.base_offset, b.last_offset, b.producer_id, b.epoch, b.sequence, b.control) for b in tail.batches
        ] == [
            (7, 11, before.producer_id, before.epoch, 0, False),
            (12, 12, new.producer_id, new.epoch, -1, True),
        ]
        whole = read_headers(older, {partition: 0}, TIMEOUT_MS).complete()[partition]
        assert {batch.producer_id for batch in whole.batches[:-2]} == {-1}
        assert [batch.last_offset for batch in whole.batches[:-2]] == ([0, 1, 2, 6] if magic_1 else [2, 6])
        assert whole.batches[-2:] == tail.batches
        assert write(older, partition, new, 0) == (0, 13)


# ------------------------------------------------------------------------------------------------------ three brokers


@pytest.fixture(scope="module")
def three() -> Iterator[LabCluster]:
    """Three brokers; each transactional id has its coordinator on one of them alone."""
    config = {
        "broker.session.timeout.ms": str(SESSION_MS),
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": str(COORDINATORS),
    }
    with start("fencing", brokers=3, config=config) as lab:
        yield lab


@pytest.fixture
def trio(three: LabCluster) -> Iterator[Cluster]:
    for broker in three.brokers:
        if not broker.running:
            broker.start()
    with connected(three) as cluster:
        yield cluster


@contextmanager
def connected(lab: LabCluster) -> Iterator[Cluster]:
    cluster = Cluster(lab.name, ClientSettings(bootstrap_servers=tuple(lab.bootstrap_servers.split(","))), role="test")
    yield cluster
    cluster.close()


@contextmanager
def silent(broker: Broker) -> Iterator[None]:
    """A broker that is there and does nothing, as on a machine that hangs."""
    threads = Path(f"/proc/{broker.pid}/task")
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        until(lambda: {_state(thread) for thread in threads.iterdir()} == {"T"}, "every thread stands still", 60)
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def set_config(lab: LabCluster, name: str, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
    admin = admin_of(lab)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)


def placed(lab: LabCluster, cluster: Cluster, name: str, assignment: list[list[int]]) -> list[TopicPartition]:
    """A topic whose replicas lie on these brokers, the leader's first."""
    wanted = NewTopic(name, len(assignment), replica_assignment=assignment)
    admin = admin_of(lab)
    for future in admin.create_topics([wanted]).values():
        future.result(60)
    leaders = dict(enumerate(replicas[0] for replicas in assignment))

    def elected() -> bool:
        found = list_topics(cluster, [name], TIMEOUT_MS).get(name)
        return found is not None and {number: leader.node for number, leader in found.partitions.items()} == leaders

    until(elected, f"leaders of {name}", 60)
    return [TopicPartition(name, number) for number in leaders]


def coordinated_by(cluster: Cluster, node: int, topic: Callable[..., str]) -> str:
    """A transactional id whose coordinator is this broker."""

    def found() -> str:
        name = topic("sparkmirror.fence")
        kind = CoordinatorType.TRANSACTION.value
        request = FindCoordinatorRequest(key=name, key_type=kind, coordinator_keys=[name])
        place = cluster.call(request, timeout_ms=TIMEOUT_MS).coordinators[0]
        return name if place.error_code == 0 and place.node_id == node else ""

    return until(found, f"a transactional id at broker {node}", 60)


def test_a_partition_without_a_leader_is_left_out_and_the_next_epoch_is_free(
    three: LabCluster, trio: Cluster, topic: Callable[..., str]
):
    here, there = placed(three, trio, topic(), [[1], [3]])
    name = coordinated_by(trio, 2, topic)
    old, new = handed_over(trio, name, [here, there])
    three.brokers[2].stop()
    until(lambda: list_topics(trio, [here.topic])[here.topic].partitions[1].node < 0, "no leader", 60)
    began = time.monotonic()
    results = fence(trio, name, new, [here, there], TIMEOUT_MS)
    assert time.monotonic() - began < TIMEOUT_MS / 1000 / 2
    assert list(results.found) == [here]
    assert "LEADER_NOT_AVAILABLE" in str(results.failed[there])
    assert write(trio, here, old, 5).code == INVALID_PRODUCER_EPOCH
    assert acquire_writer(trio, name, TIMEOUT_MS).epoch == new.epoch + 1, "no transaction was left open"


@pytest.mark.long
def test_a_leader_that_falls_silent_inside_a_fence_keeps_its_own_partition_only(
    three: LabCluster, trio: Cluster, topic: Callable[..., str]
):
    here, there = placed(three, trio, topic(), [[1], [3]])
    name = coordinated_by(trio, 2, topic)
    old, new = handed_over(trio, name, [here, there])
    fencing = _Fencing(cluster=trio, transactional_id=name, writer=new)
    floors = {here: 5, there: 5}
    with silent(three.brokers[2]):
        answers = list(fencing.by_abort([here, there], floors, Deadline(20_000, trio.backoff)))
    assert [answer.key for answer in answers if answer.value is not None] == [here]
    assert [answer.key for answer in answers if answer.value is None] == [there]
    assert write(trio, here, old, 5).code == INVALID_PRODUCER_EPOCH
    marks = fencing.marks([there], floors, new.epoch)
    assert last_batches(trio, [there], TIMEOUT_MS, fenced=marks).failed == {}, "it is fenced when it is back"
    assert write(trio, there, old, 5).code == INVALID_PRODUCER_EPOCH


def test_a_fence_holds_only_when_the_followers_have_it_and_a_tail_survives_its_leader(
    three: LabCluster, trio: Cluster, topic: Callable[..., str]
):
    """The follower hangs: what the leader alone has is not told, and a fence that it alone has is none."""
    leader, follower = three.brokers[0], three.brokers[2]
    (partition,) = placed(three, trio, topic(), [[leader.node, follower.node]])
    name = coordinated_by(trio, 2, topic)
    old = acquire_writer(trio, name, TIMEOUT_MS)
    assert write(trio, partition, old, 0, 3).code == 0
    new = acquire_writer(trio, name, TIMEOUT_MS)
    with silent(follower):
        assert write(trio, partition, old, 3, 2, acks=ONLY_LEADER) == (0, 3), "the leader has sequence 4"
        shown = last_batches(trio, [partition], 10_000).complete()[partition]
        assert shown.high_watermark == 3
        assert [batch.last_offset for batch in shown.batches] == [2]
        results = fence(trio, name, new, [partition], 8_000)
        assert not results.found
        leader.kill()
    hand_leadership(trio, partition, follower.node)
    ghost = Mark(new.producer_id, new.epoch, 3)
    tail = last_batches(trio, [partition], TIMEOUT_MS, fenced={partition: ghost}).complete()[partition]
    *own, marker = tail.batches
    assert marker.control
    assert tail.high_watermark == end(trio, partition)
    # Sequences 3 and 4 may have been on their way to the follower already; then they, and only then, are told.
    assert own[-1].sequence + own[-1].count == own[-1].last_offset + 1 == marker.base_offset
    assert write(trio, partition, old, marker.base_offset).code == INVALID_PRODUCER_EPOCH
    assert write(trio, partition, new, 0) == (0, tail.high_watermark)


def hand_leadership(cluster: Cluster, partition: TopicPartition, node: int) -> None:
    """Makes a broker the only replica, and so the leader, before the controller notices that the old one is dead."""
    wire = AlterPartitionReassignmentsRequest.ReassignableTopic
    part = wire.ReassignablePartition(partition_index=partition.partition, replicas=[node])

    def accepted() -> bool:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=[wire(name=partition.topic, partitions=[part])], max_version=0
        )
        answer = cluster.call(request, timeout_ms=TIMEOUT_MS)
        return (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)

    until(accepted, f"{partition} moves to broker {node}", 60)

    def leads() -> bool:
        described = list_topics(cluster, [partition.topic], TIMEOUT_MS)[partition.topic]
        return described.partitions[partition.partition].node == node

    until(leads, f"broker {node} leads", 60)


def log_of(name: str) -> TopicPartition:
    """The partition of the transactions' log that a transactional id falls into, by Java's hash of a text."""
    value = 0
    for letter in name.encode("ascii"):
        value = (31 * value + letter) % 2**32
    value = value - 2**32 if value >= 2**31 else value
    return TopicPartition("__transaction_state", abs(value) % COORDINATORS)


def test_a_coordinator_that_moves_inside_a_fence_changes_nothing(
    three: LabCluster, trio: Cluster, topic: Callable[..., str]
):
    (here,) = placed(three, trio, topic(), [[1]])
    name = coordinated_by(trio, 2, topic)
    old, new = handed_over(trio, name, [here])
    fencing = _Fencing(cluster=trio, transactional_id=name, writer=new)
    assert fencing.add([here], Deadline(TIMEOUT_MS, trio.backoff)) == ([here], {})
    assert write(trio, here, old, 5).code == 0, "not yet"
    hand_leadership(trio, log_of(name), 3)
    fencing._end(Deadline(TIMEOUT_MS, trio.backoff))
    marks = fencing.marks([here], {here: 5}, new.epoch)
    tail = last_batches(trio, [here], TIMEOUT_MS, fenced=marks).complete()[here]
    assert [(batch.last_offset, batch.control) for batch in tail.batches] == [(4, False), (5, False), (6, True)]
    assert write(trio, here, old, 6).code == INVALID_PRODUCER_EPOCH
    assert write(trio, here, new, 0) == (0, 7)
    assert acquire_writer(trio, name, TIMEOUT_MS).epoch == new.epoch + 1, "no transaction was left open"


def test_a_leader_that_is_dead_does_not_get_into_the_transaction(
    three: LabCluster, trio: Cluster, topic: Callable[..., str]
):
    """Nobody has noticed yet, and the metadata still name it."""
    here, there = placed(three, trio, topic(), [[1], [3]])
    name = coordinated_by(trio, 2, topic)
    old, new = handed_over(trio, name, [here, there])
    three.brokers[2].kill()
    results = fence(trio, name, new, [here, there], 30_000)
    assert list(results.found) == [here]
    assert list(results.failed) == [there]
    assert write(trio, here, old, 5).code == INVALID_PRODUCER_EPOCH
    assert acquire_writer(trio, name, TIMEOUT_MS).epoch == new.epoch + 1, "no transaction was left open"
