"""Which topics are created and enlarged: decisions on plain data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import FlowConfig, PolicyChoice, PolicyKind
from sparkmirror.duties.missing_topics import Action, AddPartitions, CreateTopic, KeepPartitions, Observed, Skip, decide
from sparkmirror.duties.topics import Begun
from sparkmirror.kafka.configs import ConfigEntry, ConfigSource
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.naming import DefaultReplicationPolicy
from tests.duties.test_topics import FLOW, topic_of

IDENTITY = replace(FLOW, policy=PolicyChoice(kind=PolicyKind.IDENTITY))
B = Alias("B")


def _observed(source: dict[str, int], target: dict[str, int], flow: FlowConfig = FLOW) -> Observed:
    return Observed(
        flow=flow,
        source={name: topic_of(count) for name, count in source.items()},
        target={name: topic_of(count) for name, count in target.items()},
    )


def test_nothing_is_done_when_the_target_has_everything() -> None:
    assert decide(_observed({"orders": 3}, {"A.orders": 3, "other": 1})) == ()


def test_a_missing_topic_is_created_with_as_many_partitions() -> None:
    assert decide(_observed({"orders": 3}, {})) == (
        CreateTopic(cluster=B, source="orders", topic="A.orders", partitions=3, replication_factor=1),
    )


def test_partitions_are_added_when_the_source_has_more_and_left_when_it_has_fewer() -> None:
    assert decide(_observed({"grown": 4, "wide": 1}, {"A.grown": 3, "A.wide": 9})) == (
        AddPartitions(cluster=B, source="grown", topic="A.grown", present=3, partitions=4),
    )


def test_a_topic_that_is_not_the_flows_copy_gets_no_partitions() -> None:
    seen = _observed({"grown": 4, "ours": 2, "wide": 1, "new": 2}, {"A.grown": 3, "A.ours": 1, "A.wide": 9})
    assert seen.grown == (("grown", "A.grown"), ("ours", "A.ours"))
    kept, added = decide(replace(seen, others=frozenset({"A.grown", "A.new"})))[::2]
    assert kept == KeepPartitions(cluster=B, source="grown", topic="A.grown", present=3, partitions=4)
    assert kept.change.text.startswith(
        "! B: topic A.grown  partitions from 3 on of grown are not copied: A.grown holds"
    )
    assert added == AddPartitions(cluster=B, source="ours", topic="A.ours", present=1, partitions=2)


def test_identity_keeps_the_name_but_not_that_of_heartbeats() -> None:
    created = decide(_observed({"orders": 1, "heartbeats": 1}, {}, IDENTITY))
    assert [action.topic for action in created] == ["A.heartbeats", "orders"]


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
        cluster=B,
        source="payments",
        topic="all",
        reason="orders is copied to all already: exclude one of the two with topics.exclude",
    )
    assert [str(here) for here, _ in replace(observed, target={"all": topic_of(1)}).pairs] == ["orders-0"]
    names = frozenset({"payments"})
    begun = replace(observed, target={"all": topic_of(1)}, begun=Begun(names, names))
    assert [str(here) for here, _ in begun.pairs] == ["payments-0"], "a topic that comes later takes no name away"
    assert [action.source for action in decide(begun)] == ["orders"]
    left_out = replace(begun, source={"orders": topic_of(1)})
    (skip,) = decide(left_out)
    assert isinstance(skip, Skip)
    assert skip.reason.startswith("all is the copy of payments, which the flow does not copy any more: exclude orders ")
    assert left_out.pairs == (), "nor does it where the file leaves out by now what was copied"
    (created,) = decide(replace(left_out, target={}, begun=Begun(names)))
    assert isinstance(created, CreateTopic)
    assert created.source == "orders", "a copy that was deleted holds no name"


def test_pairs_are_the_partitions_that_both_sides_have() -> None:
    observed = _observed({"orders": 2, "new": 1, "grown": 2}, {"A.orders": 3, "A.grown": 1})
    assert observed.pairs == (
        (TopicPartition("grown", 0), TopicPartition("A.grown", 0)),
        (TopicPartition("orders", 0), TopicPartition("A.orders", 0)),
        (TopicPartition("orders", 1), TopicPartition("A.orders", 1)),
    )


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (
            CreateTopic(
                cluster=B,
                source="t",
                topic="A.t",
                partitions=3,
                replication_factor=-1,
                configs=(("retention.ms", "1"),),
                left_out=("new.property",),
            ),
            (
                "+ B: topic A.t  partitions: 3, replication factor: the brokers' default, retention.ms: 1, "
                "(without new.property, which its brokers do not know)"
            ),
        ),
        (
            AddPartitions(cluster=B, source="t", topic="A.t", present=1, partitions=4),
            "~ B: topic A.t  partitions: 1 -> 4",
        ),
        (Skip(cluster=B, source="t", topic="A.t", reason="no room"), "! B: topic A.t  t is not copied: no room"),
    ],
)
def test_each_action_is_a_line(action: Action, line: str) -> None:
    assert action.change.text == line
