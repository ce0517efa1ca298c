"""Which topics are created and enlarged: decisions on plain data, then rounds between real clusters."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sparkmirror.config import (
    ClientSettings,
    DeadLetters,
    Endpoint,
    FlowConfig,
    PolicyChoice,
    PolicyKind,
    Tolerance,
)
from sparkmirror.duties.topics import (
    AddPartitions,
    CreateTopic,
    Observed,
    Outcome,
    Skip,
    apply,
    choose,
    decide,
    pairs,
    replicate_topics,
)
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic, TopicDescription
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import ConfigEntry, ConfigSource, topic_configs
from sparkmirror.kafka.leaders import Leader
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import Alias, FlowName, TopicPartition
from sparkmirror.naming import DefaultReplicationPolicy

NOWHERE = ClientSettings(bootstrap_servers=("localhost:1",))


def _flow(source: ClientSettings = NOWHERE, target: ClientSettings = NOWHERE) -> FlowConfig:
    a, b = Alias("A"), Alias("B")
    return FlowConfig(
        name=FlowName(source=a, target=b),
        source=Endpoint(alias=a, consumer=source, producer=source, admin=source),
        target=Endpoint(alias=b, consumer=target, producer=target, admin=target),
        replication_factor=1,
    )


FLOW = _flow()
IDENTITY = replace(FLOW, policy=PolicyChoice(kind=PolicyKind.IDENTITY))


def _topic(partitions: int) -> TopicDescription:
    return TopicDescription(uuid.uuid4(), {number: Leader(1, 0) for number in range(partitions)}, internal=False)


def _observed(source: dict[str, int], target: dict[str, int], flow: FlowConfig = FLOW) -> Observed:
    return Observed(
        flow=flow,
        source={name: _topic(count) for name, count in source.items()},
        target={name: _topic(count) for name, count in target.items()},
        configs={},
        unreadable={},
    )


def test_nothing_is_done_when_the_target_has_everything() -> None:
    assert decide(_observed({"orders": 3}, {"A.orders": 3, "other": 1})) == ()


def test_a_missing_topic_is_created_with_as_many_partitions() -> None:
    assert decide(_observed({"orders": 3}, {})) == (
        CreateTopic(source="orders", target="A.orders", partitions=3, replication_factor=1),
    )


def test_partitions_are_added_when_the_source_has_more_and_left_when_it_has_fewer() -> None:
    assert decide(_observed({"grown": 4, "wide": 1}, {"A.grown": 3, "A.wide": 9})) == (
        AddPartitions(source="grown", target="A.grown", present=3, total=4),
    )


def test_nothing_is_copied_onto_the_flows_own_dead_letters() -> None:
    topics = {"dead": _topic(1), "A.dead": _topic(1), "orders": _topic(1)}
    letters = DeadLetters(tolerance=Tolerance.ALL, topic="A.dead")
    assert list(choose(replace(FLOW, dead_letters=letters), topics)) == ["A.dead", "orders"]
    assert list(choose(replace(IDENTITY, dead_letters=letters), topics)) == ["dead", "orders"]
    inactive = replace(letters, tolerance=Tolerance.NONE)
    assert list(choose(replace(FLOW, dead_letters=inactive), topics)) == ["A.dead", "dead", "orders"]


def test_identity_keeps_the_name_but_not_that_of_heartbeats() -> None:
    created = decide(_observed({"orders": 1, "heartbeats": 1}, {}, IDENTITY))
    assert [action.target for action in created] == ["A.heartbeats", "orders"]


def test_only_properties_that_were_set_on_purpose_are_copied() -> None:
    def entry(source: ConfigSource, **more: bool) -> ConfigEntry:
        return ConfigEntry(value="1", source=source, **more)

    configs = {
        "retention.ms": entry(ConfigSource.TOPIC),
        "segment.ms": entry(ConfigSource.DYNAMIC_DEFAULT_BROKER),
        "flush.ms": entry(ConfigSource.DEFAULT),
        "index.interval.bytes": entry(ConfigSource.STATIC_BROKER),
        "min.insync.replicas": entry(ConfigSource.TOPIC),
        "some.secret": entry(ConfigSource.TOPIC, sensitive=True),
        "some.fact": entry(ConfigSource.TOPIC, read_only=True),
        "message.format.version": entry(ConfigSource.TOPIC),
    }
    seen = replace(_observed({"orders": 1}, {}), configs={"orders": configs})
    (created,) = decide(replace(seen, known_properties=frozenset(configs) - {"message.format.version"}))
    assert isinstance(created, CreateTopic)
    assert created.configs == (("retention.ms", "1"), ("segment.ms", "1"))
    assert created.left_out == ("message.format.version",)


def test_a_name_that_is_too_long_with_the_prefix_is_refused_with_the_length() -> None:
    long, fits = "x" * 248, "x" * 247
    skip, created = sorted(decide(_observed({long: 1, fits: 1}, {})), key=lambda action: type(action).__name__)[::-1]
    assert isinstance(skip, Skip)
    assert "250 characters, 249 are allowed" in skip.reason
    assert isinstance(created, CreateTopic)


def test_a_topic_whose_configs_cannot_be_read_is_not_created() -> None:
    (skip,) = decide(replace(_observed({"orders": 1}, {}), unreadable={"orders": "not allowed"}))
    assert isinstance(skip, Skip)
    assert "not allowed" in skip.reason


def test_a_target_topic_belongs_to_one_source_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneNameForAll(DefaultReplicationPolicy):
        """No policy that we have gives two topics one name; a policy to come may."""

        def format_remote_topic(self, source_alias: Alias, topic: str) -> str:  # noqa: ARG002  # as the protocol has it
            return "all"

    monkeypatch.setattr("sparkmirror.duties.topics.policy_for", lambda *_: OneNameForAll())
    observed = _observed({"orders": 1, "payments": 1}, {})
    created, skip = decide(observed)
    assert isinstance(created, CreateTopic)
    assert created.source == "orders"
    assert skip == Skip(
        source="payments",
        target="all",
        reason="orders is copied to all already: exclude one of the two with topics.exclude",
    )
    assert [str(here) for here, _ in pairs(replace(observed, target={"all": _topic(1)}))] == ["orders-0"]


def test_pairs_are_the_partitions_that_both_sides_have() -> None:
    observed = _observed({"orders": 2, "new": 1, "grown": 2}, {"A.orders": 3, "A.grown": 1})
    assert pairs(observed) == (
        (TopicPartition("grown", 0), TopicPartition("A.grown", 0)),
        (TopicPartition("orders", 0), TopicPartition("A.orders", 0)),
        (TopicPartition("orders", 1), TopicPartition("A.orders", 1)),
    )


def test_chooses_by_filter_and_policy() -> None:
    topics = {name: _topic(1) for name in ("orders", "B.orders", "heartbeats", "__secret", "x.replica")}
    assert list(choose(FLOW, topics)) == ["heartbeats", "orders"]
    assert list(choose(replace(FLOW, topics=("none",)), topics)) == ["heartbeats"]
    assert list(choose(replace(FLOW, topics=("none",), heartbeats_replication=False), topics)) == []


# ------------------------------------------------------------------------------------------------------ real clusters


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


@pytest.mark.kafka
def test_a_round_creates_enlarges_and_then_has_nothing_to_do(source: Cluster, target: Cluster, topic_name: str) -> None:
    flow = replace(_flow(), topics=(topic_name,), heartbeats_replication=False)
    _create(source, topic_name, 2, retention_ms="123456", min_insync_replicas="1")
    first = replicate_topics(flow, source, target)
    assert [type(result.action) for result in first.results] == [CreateTopic]
    assert first.problems == ()
    assert [str(there) for _, there in first.pairs] == [f"A.{topic_name}-0", f"A.{topic_name}-1"]
    configs = topic_configs(target, [f"A.{topic_name}"])[f"A.{topic_name}"]
    assert configs["retention.ms"].value == "123456"
    assert configs["min.insync.replicas"].source is not ConfigSource.TOPIC

    admin.create_partitions(source, {topic_name: 4}).complete()
    admin.wait_for_leaders(source, {topic_name: 4}).complete()
    second = replicate_topics(flow, source, target)
    assert [type(result.action) for result in second.results] == [AddPartitions]
    assert len(second.pairs) == 4

    third = replicate_topics(flow, source, target)
    assert third.results == ()
    assert third.pairs == second.pairs


@pytest.mark.kafka
def test_a_topic_that_fails_does_not_stop_the_others(
    source: Cluster, target: Cluster, topic: Callable[..., str]
) -> None:
    good, bad = topic("good"), topic("dot.ted")
    # The target refuses a name that differs from another one in dots and underscores only.
    _create(target, f"A.{bad}".replace(".", "_"), 1)
    _create(source, good, 1)
    _create(source, bad, 1)
    flow = replace(_flow(), topics=(good, bad), heartbeats_replication=False)
    done = replicate_topics(flow, source, target)
    assert {result.action.source: result.outcome for result in done.results} == {
        good: Outcome.DONE,
        bad: Outcome.FAILED,
    }
    (problem,) = done.problems
    assert f"A.{bad}" in problem.reason
    assert "collides" in problem.reason
    assert [str(here) for here, _ in done.pairs] == [f"{good}-0"]


@pytest.mark.kafka
def test_a_topic_that_somebody_else_created_meanwhile_is_used_as_it_is(target: Cluster, topic_name: str) -> None:
    _create(target, topic_name, 1)
    late = CreateTopic(source=topic_name, target=topic_name, partitions=3, replication_factor=1)
    assert [result.outcome for result in apply((late,), target)] == [Outcome.DONE]


@pytest.mark.kafka
def test_a_property_that_only_the_older_source_knows_is_left_out(target: Cluster, topic_name: str) -> None:
    with start("old", version="3.9.1") as lab:
        old = Cluster("A", _settings(lab), role="admin")
        try:
            _create(old, topic_name, 1, message_downconversion_enable="false", retention_ms="777")
            _create(target, f"some-{topic_name}", 1)
            flow = replace(_flow(), topics=(topic_name,), heartbeats_replication=False)
            done = replicate_topics(flow, old, target)
        finally:
            old.close()
    (result,) = done.results
    assert result.outcome is Outcome.DONE
    assert isinstance(result.action, CreateTopic)
    assert result.action.left_out == ("message.downconversion.enable",)
    assert ("retention.ms", "777") in result.action.configs
    assert len(done.pairs) == 1
