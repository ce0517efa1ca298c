"""Single records of real logs: what librdkafka reads first from an offset on is what is told, in bulk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror.config import Isolation
from sparkmirror.kafka import spots
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.opened_records import Row
from sparkmirror.kafka.spots import Spot, read_spots
from sparkmirror.model import TopicPartition
from tests.flow.logs import read
from tests.flow.running import ANSWER_SECONDS, admin_of, create_topic, ends

pytestmark = pytest.mark.kafka

PLAIN, MIXED, LARGE, ABORTED, EMPTY = range(5)
TIMEOUT_MS = 60_000
LARGE_BYTES = 700_000


def write(servers: str, topic: str) -> None:
    """Small batches; transactions of which each third aborts; large batches; many aborted ones before a record."""
    plain = Producer({"bootstrap.servers": servers, "linger.ms": 0, "compression.type": "lz4", "log_level": 3})
    for number in range(40):
        plain.produce(topic, b"%d" % number, b"k", PLAIN, headers=[("h", b"%d" % number)])
        if number % 4 == 0:
            assert plain.flush(ANSWER_SECONDS) == 0
    flat = Producer({"bootstrap.servers": servers, "linger.ms": 0, "log_level": 3})
    for number in range(6):
        flat.produce(topic, b"%d-" % number * (LARGE_BYTES // 2), b"k", LARGE)
        assert flat.flush(ANSWER_SECONDS) == 0
    writer = Producer({"bootstrap.servers": servers, "transactional.id": topic, "log_level": 3})
    writer.init_transactions(ANSWER_SECONDS)
    for turn in range(9):
        writer.begin_transaction()
        writer.produce(topic, b"%d" % turn, b"k", MIXED)
        writer.produce(topic, b"x" * 60_000, b"k", ABORTED)
        assert writer.flush(ANSWER_SECONDS) == 0
        writer.abort_transaction(ANSWER_SECONDS) if turn % 3 == 0 or turn > 5 else writer.commit_transaction(
            ANSWER_SECONDS
        )
    flat.produce(topic, b"last", b"k", ABORTED)
    assert plain.flush(ANSWER_SECONDS) == flat.flush(ANSWER_SECONDS) == 0


def kept(row: Row) -> tuple[int, bytes]:
    return row.offset, bytes(row.value or b"")


@pytest.fixture
def cluster(lab_cluster: Callable[[str], Cluster]) -> Cluster:
    return lab_cluster("A")


def test_the_first_record_from_each_offset_on_is_what_others_read_there(cluster_a, cluster, topic_name, monkeypatch):
    create_topic(cluster_a, topic_name, 5)
    write(cluster_a.bootstrap_servers, topic_name)
    last = ends(cluster_a, topic_name)
    for isolation in Isolation:
        log = read(cluster_a, topic_name, committed=isolation is Isolation.READ_COMMITTED)
        wanted = [
            Spot(TopicPartition(topic_name, number), offset) for number in last for offset in range(last[number] + 1)
        ]
        found = read_spots(cluster, wanted, kept, TIMEOUT_MS, isolation).complete()
        assert set(found) == set(wanted)
        for (place, offset), record in found.items():
            own = log[place.partition]
            at = bisect_left([each.offset for each in own], offset)
            expected = (own[at].offset, own[at].value) if at < len(own) else None
            assert record == expected, (isolation, place, offset)
    assert last[EMPTY] == 0
    # Nothing is looked for without end: here three answers of a batch each, and the record lies behind more for one.
    monkeypatch.setattr(spots, "LEAST_BYTES", 1)
    monkeypatch.setattr(spots, "MOST_BYTES", 1)
    monkeypatch.setattr(spots, "REACH", 3)
    end = read(cluster_a, topic_name)[ABORTED][-1].offset
    far, near = (Spot(TopicPartition(topic_name, ABORTED), end - back) for back in (5, 2))
    found = read_spots(cluster, [far, near], kept, TIMEOUT_MS).complete()
    assert found == {far: None, near: (end, b"last")}


def test_below_the_log_s_begin_is_nothing_and_a_partition_that_is_not_there_stops_no_other(
    cluster_a, cluster, topic_name
):
    create_topic(cluster_a, topic_name, 1)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 3})
    for number in range(5):
        producer.produce(topic_name, b"%d" % number, partition=0)
    assert producer.flush(ANSWER_SECONDS) == 0
    for future in admin_of(cluster_a).delete_records([Place(topic_name, 0, 3)]).values():
        future.result(ANSWER_SECONDS)
    here, absent = TopicPartition(topic_name, 0), TopicPartition(topic_name, 7)
    found = read_spots(cluster, [Spot(here, 1), Spot(here, 3), Spot(absent, 0)], kept, TIMEOUT_MS)
    assert found.found == {Spot(here, 1): None, Spot(here, 3): (3, b"3")}
    assert f"{topic_name}-7: UNKNOWN_TOPIC_OR_PARTITION" in str(found.failed[Spot(absent, 0)])
