"""Rounds between real clusters that create and enlarge topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from sparkmirror.config import ClientSettings
from sparkmirror.duties.creations import TopicCreations, problems
from sparkmirror.duties.duty import Sides, do_round
from sparkmirror.duties.missing_topics import AddPartitions, CreateTopic
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic, TopicDescription, wait_for_leaders
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import ConfigSource, topic_configs
from sparkmirror.kafka.rounds import Results
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import OLDER_KAFKA_VERSION
from sparkmirror.model import Alias
from tests.duties.test_topics import FLOW

pytestmark = pytest.mark.kafka


def _settings(lab: LabCluster) -> ClientSettings:
    return ClientSettings(bootstrap_servers=tuple(lab.bootstrap_servers.split(",")))


@pytest.fixture(scope="module")
def source(cluster_a: LabCluster) -> Iterator[Cluster]:
    cluster = Cluster("A", _settings(cluster_a), role="admin")
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def target(cluster_b: LabCluster) -> Iterator[Cluster]:
    cluster = Cluster("B", _settings(cluster_b), role="admin")
    yield cluster
    cluster.close()


def _create(cluster: Cluster, name: str, partitions: int, **configs: str) -> None:
    pairs = tuple((key.replace("_", "."), value) for key, value in configs.items())
    wanted = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=pairs)
    admin.create_topics(cluster, [wanted]).complete()
    admin.wait_for_leaders(cluster, {name: partitions}).complete()


def test_a_round_creates_enlarges_and_then_has_nothing_to_do(source: Cluster, target: Cluster, topic_name: str) -> None:
    flow = replace(FLOW, topics=(topic_name,), heartbeats_replication=False)
    _create(source, topic_name, 2, retention_ms="123456", min_insync_replicas="1")
    duty = TopicCreations(Sides(flow=flow, source=source, target=target, store=None))
    first = do_round(duty)
    assert [type(result.action) for result in first] == [CreateTopic]
    assert problems(first) == {}
    assert [str(there) for _, there in duty.observed.pairs] == [f"A.{topic_name}-0", f"A.{topic_name}-1"]
    configs = topic_configs(target, [f"A.{topic_name}"])[f"A.{topic_name}"]
    assert configs["retention.ms"].value == "123456"
    assert configs["min.insync.replicas"].source is not ConfigSource.TOPIC

    admin.create_partitions(source, {topic_name: 4}).complete()
    admin.wait_for_leaders(source, {topic_name: 4}).complete()
    assert [type(result.action) for result in do_round(duty)] == [AddPartitions]
    enlarged = duty.observed.pairs
    assert len(enlarged) == 4

    assert do_round(duty) == ()
    assert duty.observed.pairs == enlarged


def test_a_topic_that_fails_does_not_stop_the_others(
    source: Cluster, target: Cluster, topic: Callable[..., str]
) -> None:
    good, bad = topic("good"), topic("dot.ted")
    # The target refuses a name that differs from another one in dots and underscores only.
    _create(target, f"A.{bad}".replace(".", "_"), 1)
    _create(source, good, 1)
    _create(source, bad, 1)
    flow = replace(FLOW, topics=(good, bad), heartbeats_replication=False)
    duty = TopicCreations(Sides(flow=flow, source=source, target=target, store=None))
    results = do_round(duty)
    assert [result.done for result in results] == [name == good for name in sorted([good, bad])]
    ((topic_with_a_problem, reason),) = problems(results).items()
    assert topic_with_a_problem == bad
    assert f"A.{bad}" in reason
    assert "collides" in reason
    assert [str(here) for here, _ in duty.observed.pairs] == [f"{good}-0"]


def test_a_topic_that_somebody_else_created_meanwhile_is_used_as_it_is(
    source: Cluster, target: Cluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[Mapping[str, int]] = []

    def waits(cluster: Cluster, partitions: Mapping[str, int], timeout_ms: int) -> Results[str, TopicDescription]:
        waited.append(partitions)
        return wait_for_leaders(cluster, partitions, timeout_ms)

    _create(target, topic_name, 1)
    monkeypatch.setattr(admin, "wait_for_leaders", waits)
    late = CreateTopic(cluster=Alias("B"), source=topic_name, topic=topic_name, partitions=3, replication_factor=1)
    duty = TopicCreations(Sides(flow=FLOW, source=source, target=target, store=None))
    (result,) = duty.apply((late,))
    assert result.done, result.failure
    assert len(duty.observed.target[topic_name].partitions) == 1
    assert waited[-1] == {topic_name: 1}, "the partitions that it lacks are not waited for"


def test_a_property_that_only_the_older_source_knows_is_left_out(target: Cluster, topic_name: str) -> None:
    with start("old", version=OLDER_KAFKA_VERSION) as lab:
        old = Cluster("A", _settings(lab), role="admin")
        try:
            _create(old, topic_name, 1, message_downconversion_enable="false", retention_ms="777")
            _create(target, f"some-{topic_name}", 1)
            flow = replace(FLOW, topics=(topic_name,), heartbeats_replication=False)
            duty = TopicCreations(Sides(flow=flow, source=old, target=target, store=None))
            (result,) = do_round(duty)
        finally:
            old.close()
    assert result.done, result.failure
    assert isinstance(result.action, CreateTopic)
    assert result.action.left_out == ("message.downconversion.enable",)
    assert ("retention.ms", "777") in result.action.configs
    assert len(duty.observed.pairs) == 1
