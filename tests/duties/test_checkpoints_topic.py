"""The checkpoints topic of a real target: created, followed, made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Producer

from sparkmirror.config import FlowConfig, GroupSettings
from sparkmirror.duties.checkpoints_topic import CheckpointsTopic
from sparkmirror.duties.duty import Sides
from sparkmirror.duties.groups import GroupPlace
from sparkmirror.errors import BrokerError
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.mm2.checkpoints import Checkpoint
from sparkmirror.model import Alias, TopicPartition
from tests.flow.running import until

pytestmark = pytest.mark.kafka


def checkpoint(group: str, downstream: int) -> Checkpoint:
    return Checkpoint(group=group, partition=TopicPartition("A.orders", 0), upstream=7, downstream=downstream)


@pytest.fixture
def sides(lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]) -> Iterator[Sides]:
    """Of a flow whose source has an alias, and so a checkpoints topic, of its own."""
    source = replace(lab_flow.source, alias=Alias(topic("s")))
    flow = replace(lab_flow, source=source, groups=GroupSettings(checkpoints_replication_factor=1))
    a, b = lab_cluster("A"), lab_cluster("B")
    yield Sides(flow=flow, source=a, target=b, store=None)
    admin.delete_topics(b, [f"{source.alias}.checkpoints.internal"])


def is_gone(topic: CheckpointsTopic) -> bool:
    """Whether a topic that was deleted is known to be: brokers learn of it one after the other."""
    try:
        return not topic.follow()
    except BrokerError:
        return False


def test_what_is_written_is_read_back_and_what_others_removed_is_forgotten(sides: Sides, cluster_b: LabCluster) -> None:
    mine, other = CheckpointsTopic(sides), CheckpointsTopic(sides)
    assert not mine.follow()
    mine.create(mine.creation)
    mine.create(mine.creation)
    mine.write([checkpoint(f"group-{number}", number) for number in range(9)] + [checkpoint("group-3", 33)])
    assert mine.follow()
    assert other.follow()
    assert mine.newest == other.newest
    place = TopicPartition("A.orders", 0)
    assert {group.group: each.downstream for group, each in mine.newest.items()} == {
        f"group-{number}": 33 if number == 3 else number for number in range(9)
    }
    producer = Producer({"bootstrap.servers": cluster_b.bootstrap_servers, "log_level": 3})
    producer.produce(mine.name, None, checkpoint("group-3", 0).key())
    producer.produce(mine.name, b"no checkpoint", b"at all")
    assert producer.flush(30) == 0
    assert mine.follow()
    assert GroupPlace("group-3", place) not in mine.newest
    assert len(mine.newest) == 8

    admin.delete_topics(sides.target, [mine.name]).complete()
    until(lambda: is_gone(mine), "the topic is gone")
    assert mine.newest == {}
    mine.create(mine.creation)
    mine.write([checkpoint("group-1", 5)])
    assert mine.follow()
    assert other.follow()
    assert mine.newest == other.newest == {GroupPlace("group-1", place): checkpoint("group-1", 5)}


def test_too_few_brokers_are_told_with_the_key_that_helps(sides: Sides) -> None:
    three = replace(sides.flow, groups=GroupSettings())
    refused = CheckpointsTopic(replace(sides, flow=three))
    with pytest.raises(BrokerError, match=r"set checkpoints\.topic\.replication\.factor \(it is 3\)"):
        refused.create(refused.creation)
