"""Sparkmirror's own topics on real clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig
from sparkmirror.duties.internal_topics import CONFIGS, ensure_internal_topics
from sparkmirror.errors import BrokerError, ConfigError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import topic_configs
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import Alias, FlowName
from sparkmirror.naming import WRITERS_TOPIC, control_topic, internal_topic

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def target(cluster_b: LabCluster) -> Iterator[Cluster]:
    settings = ClientSettings(bootstrap_servers=tuple(cluster_b.bootstrap_servers.split(",")))
    cluster = Cluster("B", settings, role="admin")
    yield cluster
    cluster.close()


@pytest.fixture
def flow(target: Cluster, topic: Callable[..., str]) -> FlowConfig:
    def endpoint(alias: str) -> Endpoint:
        given = target.settings
        return Endpoint(alias=Alias(alias), consumer=given, producer=given, admin=given)

    name = FlowName(source=Alias(topic("from")), target=Alias("B"))
    return FlowConfig(name=name, source=endpoint(name.source), target=endpoint("B"), internal_replication_factor=1)


def test_creates_what_is_missing_and_leaves_it_the_second_time(target: Cluster, flow: FlowConfig) -> None:
    first = ensure_internal_topics(flow, target, target)
    assert set(first) == {internal_topic(flow.name), control_topic(flow.name), WRITERS_TOPIC}
    assert all(len(topic.partitions) == 1 for topic in first.values())
    configs = topic_configs(target, [internal_topic(flow.name)])[internal_topic(flow.name)]
    assert {name: configs[name].value for name, _ in CONFIGS} == dict(CONFIGS)
    second = ensure_internal_topics(flow, target, target)
    assert {name: topic.topic_id for name, topic in second.items()} == {
        name: topic.topic_id for name, topic in first.items()
    }


def test_retention_on_one_of_them_stops_the_flow(target: Cluster, flow: FlowConfig) -> None:
    name = internal_topic(flow.name)
    topic = NewTopic(name=name, partitions=1, configs=(("cleanup.policy", "compact,delete"),))
    admin.create_topics(target, [topic]).complete()
    with pytest.raises(ConfigError, match=r"cleanup\.policy is compact,delete: retention would delete") as refused:
        ensure_internal_topics(flow, target)
    assert name in str(refused.value)
    assert "--add-config cleanup.policy=compact" in refused.value.remedy


def test_several_partitions_stop_the_flow(target: Cluster, flow: FlowConfig) -> None:
    topic = NewTopic(name=control_topic(flow.name), partitions=2, configs=(("cleanup.policy", "compact"),))
    admin.create_topics(target, [topic]).complete()
    with pytest.raises(ConfigError, match="it has 2 partitions"):
        ensure_internal_topics(flow, target)


def test_too_many_replicas_name_the_key_to_change(target: Cluster, flow: FlowConfig) -> None:
    with pytest.raises(BrokerError, match=r"set internal\.topic\.replication\.factor \(it is 3\)"):
        ensure_internal_topics(replace(flow, internal_replication_factor=3), target)
