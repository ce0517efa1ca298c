"""Bounding the map, with a real source and a real target whose log starts move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from sparkmirror.duties import offset_map
from sparkmirror.duties.offset_map import bound_offset_map, condense_offset_map
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.segments import Bounded, MapRecord
from sparkmirror.offsets.state import state_of
from tests.offsets.segments import Segment, records_of
from tests.offsets.test_condensing import IDS, PLACE, Copy

WRITER = Writer(producer_id=7, epoch=0)


@pytest.mark.kafka
def test_segments_below_both_log_starts_are_removed(
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    name, source, target = topic("bounded"), lab_cluster("A"), lab_cluster("B")
    for cluster, started in ((source, cluster_a), (target, cluster_b)):
        admin.create_topics(cluster, [NewTopic(name=name, partitions=2)]).complete()
        admin.wait_for_leaders(cluster, {name: 2}).complete()
        producer = Producer({"bootstrap.servers": started.bootstrap_servers})
        for number in range(40):
            producer.produce(name, str(number), partition=0)
        assert producer.flush(60) == 0

    def lose(started: LabCluster, start: int) -> None:
        client = AdminClient({"bootstrap.servers": started.bootstrap_servers})
        for deletion in client.delete_records([Place(name, 0, start)]).values():
            assert deletion.result(60).low_watermark == start

    lose(cluster_a, 25)
    lose(cluster_b, 15)

    def segment(partition: int, number: int) -> Segment:
        place = TopicPartition(name, partition)
        return Segment(partition=place, writer=WRITER, sequence=number, source=number, target=number)

    segments = [segment(partition, number) for partition in (0, 1) for number in (0, 10, 20, 30)]
    elsewhere = [
        Segment(partition=TopicPartition(f"{name}-gone", 0), writer=WRITER, sequence=n, source=n, target=n)
        for n in (0, 10)
    ]
    removed: list[str] = []
    bounded: list[MapRecord] = []

    def write(records: Sequence[MapRecord], keys: Sequence[str]) -> None:
        assert len(keys) == 1
        bounded.extend(records)
        removed.extend(keys)

    monkeypatch.setattr(offset_map, "CHUNK", 1)
    here = {TopicPartition(name, n): TopicPartition(name, n) for n in range(3)}
    without = here | {TopicPartition(name, 0): TopicPartition(name, 2)}
    state = state_of(records_of([*segments, *elsewhere]))
    assert bound_offset_map(state, without, (7,), source, target, write, 5_000) == 0, "the copy does not say"
    assert bound_offset_map(state, here, (7,), source, target, write, 60_000) == 2
    assert sorted(removed) == sorted(record.key for record in records_of([segment(0, 0)]))
    assert bounded == [Bounded(partition=TopicPartition(name, 0), source=25, target=15)]
    lose(cluster_b, 38)
    removed.clear()
    assert bound_offset_map(state, here, (7,), source, target, write, 60_000) == 4
    gone = [segment(0, 0), segment(0, 10)]
    assert sorted(removed) == sorted(record.key for record in records_of(gone))


@pytest.mark.kafka
def test_records_that_were_joined_are_read_as_the_map_that_they_were(
    lab_cluster: Callable[[str], Cluster], topic: Callable[[str], str]
) -> None:
    target, name = lab_cluster("B"), topic("joined")
    admin.create_topics(target, [NewTopic(name=name, partitions=1)]).complete()
    admin.wait_for_leaders(target, {name: 1}).complete()
    copy = Copy(Random(7))
    store, reader = Store(target, name, 60_000), Store(target, name, 60_000)
    answers = [copy.answer() for _ in range(60)]
    store.write([record for answer in answers for record in answer])
    store.write([copy.progress(len(copy.lies))])
    store.follow()
    before = len(store.state.map_of(PLACE))
    written = condense_offset_map("A->B", store.state, IDS, 1 << 20, store.write)
    assert 0 < written < before // 4
    for each in (store, reader):
        each.follow()
        assert len(each.state.map_of(PLACE)) < before // 4
        copy.state = each.state
        copy.check()
    assert condense_offset_map("A->B", store.state, IDS, 1 << 20, store.write) == 0
