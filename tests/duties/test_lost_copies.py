"""What of a target's log was the flow's, by its leader epochs: a log that ends where it did has lost nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place

from sparkmirror.duties import lost_copies
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.epochs import newest_epochs
from sparkmirror.kafka.rounds import Results
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import Reached, TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from sparkmirror.offsets.source_history import UNDEFINED, EpochEnd
from tests.duties.groups import FLOW
from tests.flow.running import admin_of, create_topic
from tests.flow.test_torn_while_idle import write

HERE, THERE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
PROGRESS = Progress(
    partition=HERE,
    writer=Writer(producer_id=1, epoch=0),
    generation=1,
    position=90,
    next_sequence=90,
    reached=Reached(4, 50),
)


@pytest.mark.parametrize(
    ("end", "record", "lost"),
    [
        (EpochEnd(4, 50), False, {}),
        (EpochEnd(4, 70), True, {}),
        (EpochEnd(4, 49), False, {HERE: 49}),
        (EpochEnd(3, 49), True, {HERE: 49}),
        pytest.param(EpochEnd(3, 60), True, {HERE: 49}, id="a former leader has another record there"),
        pytest.param(EpochEnd(3, 60), False, {}, id="the log cleaner took the epoch, and a replica was built since"),
        (EpochEnd(UNDEFINED, UNDEFINED), False, {HERE: 0}),
    ],
)
def test_a_log_has_lost_copies_where_it_is_shorter_or_another_record_lies_where_it_ended(
    monkeypatch: pytest.MonkeyPatch, end: EpochEnd, record: bool, lost: dict[TopicPartition, int]
) -> None:
    asked: list[Any] = []

    def there(_target: Any, offsets: Any, _timeout_ms: int) -> Results[TopicPartition, bool]:
        assert offsets == {THERE: 49}
        return Results(found={THERE: record}, failed={})

    def told(_target: Any, epochs: Any, _timeout_ms: int) -> Results[TopicPartition, EpochEnd]:
        asked.append(epochs)
        return Results(found=dict.fromkeys(epochs, end), failed={})

    monkeypatch.setattr(lost_copies, "believed_ends", told)
    monkeypatch.setattr(lost_copies, "records_at", there)
    target: Any = None
    assert lost_copies.lost_copies(FLOW, target, {HERE: PROGRESS}, 1_000).found == lost
    assert asked == [{THERE: 4}]
    unknown = replace(PROGRESS, reached=Reached())
    assert lost_copies.lost_copies(FLOW, target, {HERE: unknown}, 1_000).found == {}


@pytest.mark.kafka
def test_a_log_whose_start_has_moved_has_lost_nothing(
    cluster_a: LabCluster, lab_cluster: Callable[[str], Cluster], topic_name: str
) -> None:
    cluster, place = lab_cluster("A"), TopicPartition(topic_name, 0)
    create_topic(cluster_a, topic_name, 1)
    write(cluster_a, topic_name, [b"%d" % number for number in range(10)])
    (epoch,) = newest_epochs(cluster, [place]).values()
    assert lost_copies.records_at(cluster, {place: 9}, 10_000).found == {place: True}
    for start in (4, 10):
        client = admin_of(cluster_a)
        for deletion in client.delete_records([Place(topic_name, 0, start)]).values():
            assert deletion.result(60).low_watermark == start
        assert lost_copies.lost_ends(cluster, {place: Reached(epoch, 10)}, 10_000).found == {}
        assert lost_copies.lost_ends(cluster, {place: Reached(epoch, 12)}, 10_000).found == {place: 10}
    assert lost_copies.records_at(cluster, {place: 9}, 10_000).found == {place: False}
