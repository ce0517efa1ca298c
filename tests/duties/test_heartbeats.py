"""Heartbeats: what is decided, and what lies on a real target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ConfigResource

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, HeartbeatSettings
from sparkmirror.duties import heartbeats, mirror_topics, roster
from sparkmirror.duties.duty import Sides, do_round
from sparkmirror.duties.heartbeats import Beat, Heartbeats, decide
from sparkmirror.duties.mirror_topics import CreateTopic
from sparkmirror.flow.schedule import Schedule
from sparkmirror.flow.sides import connected
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.ports import free_ports
from sparkmirror.mm2.heartbeats import Heartbeat, read_heartbeat
from sparkmirror.model import Alias, FlowName
from tests.flow.running import admin_of, ends, until

HERE = "heartbeats"


@pytest.fixture
def flow(lab_flow: FlowConfig) -> FlowConfig:
    return replace(lab_flow, heartbeats=HeartbeatSettings(replication_factor=1))


@pytest.fixture
def target(cluster_b: LabCluster) -> Iterator[LabCluster]:
    """The target without a topic of heartbeats, before and after."""
    without_heartbeats(cluster_b)
    yield cluster_b
    without_heartbeats(cluster_b)


def without_heartbeats(cluster: LabCluster) -> None:
    admin = admin_of(cluster)
    for future in admin.delete_topics([HERE]).values():
        future.exception(60)
    until(lambda: HERE not in admin_of(cluster).list_topics(timeout=60).topics, "no heartbeats topic")


def far_flow(settings: HeartbeatSettings) -> FlowConfig:
    """A flow between clusters that are not there."""
    client = ClientSettings(bootstrap_servers=(f"127.0.0.1:{free_ports(1)[0]}",))
    ends = [Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client) for alias in ("A", "B")]
    name = FlowName(source=Alias("A"), target=Alias("B"))
    return FlowConfig(name=name, source=ends[0], target=ends[1], heartbeats=settings)


def sides(flow: FlowConfig, lab_cluster: Callable[[str], Cluster]) -> Sides:
    return Sides(flow=flow, source=lab_cluster("A"), target=lab_cluster("B"), store=None)


def beats(cluster: LabCluster) -> list[Heartbeat]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(HERE, 0, 0)])
        messages = consumer.consume(ends(cluster, HERE)[0], timeout=20)
    return [read_heartbeat(message.key() or b"", message.value() or b"") for message in messages]


def test_the_topic_comes_before_the_first_heartbeat() -> None:
    flow = far_flow(HeartbeatSettings(replication_factor=2))
    assert decide(flow, there=True) == (Beat(),)
    (creation,) = decide(flow, there=False)
    assert creation == CreateTopic(
        cluster=Alias("B"), topic=HERE, replication_factor=2, key="heartbeats.topic.replication.factor"
    )


@pytest.mark.parametrize("enabled", [True, False])
def test_a_flow_has_the_duty_unless_it_is_switched_off(enabled: bool) -> None:
    flow = far_flow(HeartbeatSettings(enabled=enabled, interval_s=7.0))
    with connected(flow, role="test", started=False) as sides:
        duties = roster.heartbeats(sides)
        assert [duty.interval_s for duty in duties] == ([7.0] if enabled else [])
        assert [duty.name for duty in roster.pulse(sides) if duty.name == "heartbeats"] == [
            duty.name for duty in duties
        ]


@pytest.mark.kafka
def test_the_topic_is_made_as_mm2_makes_it_and_written_to(
    flow: FlowConfig, target: LabCluster, lab_cluster: Callable[[str], Cluster]
) -> None:
    duty = Heartbeats(sides(flow, lab_cluster))
    (creation,) = do_round(duty)
    assert creation.done
    assert creation.action.change is not None
    assert creation.action.change.text == "+ B: topic heartbeats  1 partition, compacted"
    before = int(time.time() * 1000)
    written = [result for _ in range(2) for result in do_round(duty)]
    assert [(result.done, result.action.change) for result in written] == [(True, None)] * 2
    first, second = beats(target)
    assert (first.source, first.target) == (second.source, second.target) == ("A", "B")
    assert before <= first.timestamp_ms <= second.timestamp_ms <= time.time() * 1000
    resource = ConfigResource(ConfigResource.Type.TOPIC, HERE)
    admin = admin_of(target)
    (configs,) = admin.describe_configs([resource]).values()
    assert configs.result(60)["cleanup.policy"].value == "compact"


@pytest.mark.kafka
def test_a_topic_that_was_deleted_is_made_again(
    flow: FlowConfig,
    target: LabCluster,
    lab_cluster: Callable[[str], Cluster],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeats, "BEAT_MS", 1_000)
    duty = Heartbeats(sides(flow, lab_cluster))
    assert [result.done for _ in range(2) for result in do_round(duty)] == [True, True]
    without_heartbeats(target)
    (lost,) = do_round(duty)
    assert "heartbeats" in lost.failure
    assert [result.done for _ in range(2) for result in do_round(duty)] == [True, True]
    assert len(beats(target)) == 1


@pytest.mark.kafka
def test_a_target_with_fewer_brokers_is_told_which_key_to_set(
    flow: FlowConfig, target: LabCluster, lab_cluster: Callable[[str], Cluster]
) -> None:
    many = replace(flow, heartbeats=HeartbeatSettings())
    (refused,) = do_round(Heartbeats(sides(many, lab_cluster)))
    assert "set heartbeats.topic.replication.factor (it is 3) to the number of brokers at most" in refused.failure


def test_a_target_that_cannot_be_reached_is_told_once_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def exists(cluster: Cluster, topic: str, _timeout_ms: int) -> bool:
        asked.append(topic)
        return mirror_topics.exists(cluster, topic, 300)

    monkeypatch.setattr(heartbeats, "exists", exists)
    flow = far_flow(HeartbeatSettings(interval_s=0.1))
    told: list[str] = []
    schedule = Schedule(
        flow,
        roster.heartbeats,
        name="heartbeats",
        note=told.append,
        started=False,
    )
    schedule.start()
    until(lambda: len(asked) > 3, "further attempts", seconds=30)
    schedule.stop()
    assert schedule.join(10)
    assert len(told) == 1
    assert told[0].startswith("heartbeats: cluster B at 127.0.0.1:")
