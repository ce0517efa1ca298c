"""Bounding the map, with a real source whose log start moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from sparkmirror.duties import offset_map
from sparkmirror.duties.offset_map import bound_offset_map
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Segment
from sparkmirror.offsets.state import state_of

WRITER = Writer(producer_id=7, epoch=0)


@pytest.mark.kafka
def test_segments_below_the_sources_log_start_are_removed(
    cluster_a: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka import TopicPartition as Place
    from confluent_kafka.admin import AdminClient

    name, source = topic("bounded"), lab_cluster("A")
    admin.create_topics(source, [NewTopic(name=name, partitions=2)]).complete()
    admin.wait_for_leaders(source, {name: 2}).complete()
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers})
    for number in range(40):
        producer.produce(name, str(number), partition=0)
    assert producer.flush(60) == 0
    client = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
    for deletion in client.delete_records([Place(name, 0, 25)]).values():
        assert deletion.result(60).low_watermark == 25

    def segment(partition: int, number: int) -> Segment:
        place = TopicPartition(name, partition)
        return Segment(partition=place, writer=WRITER, sequence=number, source=number, target=number)

    segments = [segment(partition, number) for partition in (0, 1) for number in (0, 10, 20, 30)]
    elsewhere = [
        Segment(partition=TopicPartition(f"{name}-gone", 0), writer=WRITER, sequence=n, source=n, target=n)
        for n in (0, 10)
    ]
    removed: list[str] = []

    def remove(keys: Sequence[str]) -> None:
        assert len(keys) == 1
        removed.extend(keys)

    monkeypatch.setattr(offset_map, "CHUNK", 1)
    here = [TopicPartition(name, partition) for partition in range(3)]
    assert bound_offset_map(state_of([*segments, *elsewhere]), here, (7,), source, remove, 60_000) == 2
    assert removed == [segment(0, 0).key, segment(0, 10).key]
