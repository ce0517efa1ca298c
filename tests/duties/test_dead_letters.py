"""The dead-letter topic: what it is created with, and that one which exists is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sparkmirror.config import DeadLetters, FlowConfig, Tolerance
from sparkmirror.duties.creations import observe
from sparkmirror.duties.dead_letters import decide, ensure_dead_letter_topic, missing_dead_letter_topic
from sparkmirror.duties.missing_topics import Observed
from sparkmirror.errors import BrokerError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.configs import topic_configs
from tests.duties.test_topics import FLOW
from tests.kafka.hostile_broker import HostileBroker, cluster_of

LETTERS = DeadLetters(tolerance=Tolerance.ALL, topic="dead", replication_factor=1)


@pytest.mark.parametrize(
    ("limits", "largest"),
    [([], 2_097_176), ([10, 20], 2_097_176), ([10, 5_000_000], 10_000_000), ([2**31 - 1], 2**31 - 1)],
)
def test_it_takes_more_than_any_topic_of_the_source_and_deletes_nothing(limits: list[int], largest: int) -> None:
    flow = replace(FLOW, dead_letters=replace(LETTERS, replication_factor=-1))
    configs = (("max.message.bytes", str(largest)), ("retention.ms", "-1"))
    assert decide(flow, limits) == NewTopic(name="dead", partitions=1, replication_factor=-1, configs=configs)


@pytest.mark.parametrize(("value", "largest"), [("7000000", 14_000_000), ("many", 2_097_176), ("9" * 5_000, 2_097_176)])
def test_a_limit_of_the_source_that_is_no_number_counts_for_nothing(value: str, largest: int) -> None:
    broker = HostileBroker()
    broker.model.configs = {"max.message.bytes": value}
    source = cluster_of(broker)
    topics = {"t": admin.TopicDescription(broker.model.topic_id("t"), {}, internal=False)}
    observed = Observed(flow=replace(FLOW, dead_letters=LETTERS), source=topics)
    try:
        wanted = missing_dead_letter_topic(observed, source)
    finally:
        source.close()
        broker.close()
    assert wanted is not None
    assert dict(wanted.configs)["max.message.bytes"] == str(largest)


@pytest.mark.kafka
def test_it_is_created_once_and_used_as_it_is(
    lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[[str], str]
) -> None:
    name, large = topic("dead"), topic("large")
    source, target = lab_cluster("A"), lab_cluster("B")
    admin.create_topics(source, [NewTopic(name=large, configs=(("max.message.bytes", "7000000"),))]).complete()
    admin.wait_for_leaders(source, {large: 1}).complete()
    flow = replace(lab_flow, topics=(large,), dead_letters=replace(LETTERS, topic=name))

    def ensure(**more: object) -> dict[str, admin.TopicDescription]:
        changed = replace(flow, dead_letters=replace(flow.dead_letters, **more))  # type: ignore[arg-type]  # its fields
        ensure_dead_letter_topic(observe(changed, source, target), source, target)
        return admin.list_topics(target, [name])

    assert ensure(tolerance=Tolerance.NONE) == {}
    with pytest.raises(BrokerError, match=r"errors\.deadletterqueue\.topic\.replication\.factor \(it is 3\)"):
        ensure(replication_factor=3)
    created = ensure()
    assert len(created[name].partitions) == 1
    (configs,) = topic_configs(target, [name]).values()
    assert (configs["max.message.bytes"].value, configs["retention.ms"].value) == ("14000000", "-1")
    assert ensure(replication_factor=3) == created
