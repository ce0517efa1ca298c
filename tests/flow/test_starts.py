"""Where partitions begin that have no position: as the file says, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sparkmirror.config import AutoOffsetReset, Beginning, FlowConfig, StartPlace, StartPlaces
from sparkmirror.flow.planner import starts_of
from sparkmirror.flow.starts import find_starts
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Progress
from tests.flow.running import create_topic

WHEN = 1_700_000_000_000
LATEST, EARLIEST = StartPlace(kind=Beginning.LATEST), StartPlace(kind=Beginning.EARLIEST)


def moment(number: int) -> StartPlace:
    return StartPlace(kind=Beginning.TIMESTAMP, value=WHEN + number)


def exactly(offset: int) -> StartPlace:
    return StartPlace(kind=Beginning.OFFSET, value=offset)


@pytest.mark.kafka
def test_partitions_begin_where_the_file_says_and_one_that_cannot_says_why(
    lab_flow: FlowConfig,
    cluster_a: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[[str], str],
) -> None:
    name = topic("starts")
    create_topic(cluster_a, name, 6)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 3})
    for number in range(20):
        for partition in range(6):
            producer.produce(name, b"x", partition=partition, timestamp=WHEN + number)
    assert producer.flush(60) == 0
    here = [TopicPartition(name, partition) for partition in range(6)]
    start = StartPlaces(
        position=moment(5),
        partitions=(
            (name, 1, exactly(7)),
            (name, 2, exactly(21)),
            (name, 3, LATEST),
            (name, 4, EARLIEST),
            (name, 5, moment(100)),
        ),
    )
    flow = replace(lab_flow, start=start)
    starts, refused = find_starts(flow, lab_cluster("A"), here, dict.fromkeys(here, 0), dict.fromkeys(here, 20), 60_000)
    assert [starts[place] for place in here if place.partition != 2] == [5, 7, 20, 0, 20]
    assert [(place.partition, event.text.partition(":")[0]) for place, event in refused.items()] == [
        (2, "start.positions says that it begins at offset 21, and the source has offsets 0 to 20")
    ]


@pytest.mark.kafka
def test_a_partition_that_has_a_position_is_not_moved_and_one_that_cannot_begin_stands_still(
    lab_flow: FlowConfig,
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    topic: Callable[[str], str],
) -> None:
    name = topic("starts")
    for cluster, one in ((cluster_a, name), (cluster_b, f"A.{name}")):
        create_topic(cluster, one, 3)
    here = [TopicPartition(name, partition) for partition in range(3)]
    writer = Writer(producer_id=7, epoch=0)
    begun = Progress(partition=here[0], writer=writer, generation=1, position=0, next_sequence=0)
    start = StartPlaces(topics=((name, EARLIEST),), partitions=((name, 0, exactly(9)), (name, 1, exactly(9))))
    plans, waiting = starts_of(
        replace(lab_flow, start=start),
        lab_cluster("A"),
        lab_cluster("B"),
        [(one, TopicPartition(f"A.{name}", one.partition)) for one in here],
        progress={here[0]: begun},
        writers=[writer],
        copied={},
        resumed={},
        moves={},
        floors={},
        once=False,
    )
    assert {one.plan.source: one.plan.position for one in plans} == {here[0]: 0, here[2]: 0}
    assert list(waiting) == [here[1]]
    assert "begins at offset 9, and the source has offsets 0 to 0" in waiting[here[1]].text


@pytest.mark.parametrize(("reset", "expected"), [(AutoOffsetReset.EARLIEST, 3), (AutoOffsetReset.LATEST, 9)])
@pytest.mark.kafka
def test_without_a_start_the_consumers_setting_counts_and_a_topics_start_wins_over_it(
    lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], reset: AutoOffsetReset, expected: int
) -> None:
    here, there = TopicPartition("a", 0), TopicPartition("b", 0)
    flow = replace(lab_flow, auto_offset_reset=reset, start=StartPlaces(topics=(("b", LATEST),)))
    starts, refused = find_starts(
        flow, lab_cluster("A"), [here, there], {here: 3, there: 3}, {here: 9, there: 9}, 1_000
    )
    assert (starts, refused) == ({here: expected, there: 9}, {})
