"""Which topics a flow copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, PolicyChoice, PolicyKind
from sparkmirror.failover.divergence import kept_as
from sparkmirror.model import Alias, FlowName
from sparkmirror.naming import (
    WRITERS_TOPIC,
    Decision,
    control_topic,
    internal_topic,
    policy_for,
    should_replicate,
    topic_filter,
)

CLIENT = ClientSettings(bootstrap_servers=("localhost:9092",))


def _endpoint(alias: str) -> Endpoint:
    return Endpoint(alias=Alias(alias), consumer=CLIENT, producer=CLIENT, admin=CLIENT)


FLOW = FlowConfig(
    name=FlowName(source=Alias("A"), target=Alias("B")),
    source=_endpoint("A"),
    target=_endpoint("B"),
    topics=("or.*", "B.*"),
)
IDENTITY = replace(FLOW, policy=PolicyChoice(kind=PolicyKind.IDENTITY))


def _decision(topic: str, flow: FlowConfig = FLOW) -> Decision:
    return should_replicate(topic, flow, policy_for(flow.policy, flow.source.alias), topic_filter(flow))


@pytest.mark.parametrize(
    ("topic", "decision"),
    [
        ("orders", Decision.CHOSEN),
        ("orders.internal", Decision.CHOSEN),
        ("payments", Decision.NOT_INCLUDED),
        ("orders.replica", Decision.EXCLUDED),
        ("heartbeats", Decision.HEARTBEATS),
        ("C.heartbeats", Decision.HEARTBEATS),
        ("B.heartbeats", Decision.CYCLE),
        ("B.orders", Decision.CYCLE),
        ("__consumer_offsets", Decision.INTERNAL),
        ("mm2-offset-syncs.B.internal", Decision.INTERNAL),
        ("C.checkpoints.internal", Decision.INTERNAL),
        ("orders.divergent.20261122-031502", Decision.DIVERGENT),
        ("orders.divergent.20261122-031502-2", Decision.DIVERGENT),
        ("C.orders.divergent.20261122-031502", Decision.NOT_INCLUDED),
        ("orders.divergent", Decision.CHOSEN),
        (WRITERS_TOPIC, Decision.INTERNAL),
        (internal_topic(FLOW.name), Decision.INTERNAL),
        (control_topic(FLOW.name), Decision.INTERNAL),
    ],
)
def test_decides_as_mirror_maker_2_does(topic: str, decision: Decision) -> None:
    assert _decision(topic) is decision
    assert decision.replicate is (decision in (Decision.CHOSEN, Decision.HEARTBEATS))


@pytest.mark.parametrize(
    ("alias", "topic"),
    [
        ("A", "checkpoints.internal"),
        ("sparkmirror", "writers.internal"),
        ("sparkmirror", "C.D.internal"),
        ("mm2-offsets", "A.internal"),
        ("mm2-offset-syncs", "C.internal"),
    ],
)
def test_no_topic_is_copied_to_where_mirrors_keep_records_of_their_own(alias: str, topic: str) -> None:
    """Any client of the source that may create topics chooses their names."""
    source = replace(FLOW.source, alias=Alias(alias))
    assert _decision(topic, replace(FLOW, source=source, topics=(".*",))) is Decision.RESERVED
    assert _decision(f"x-{topic}", replace(FLOW, topics=(".*",))) is Decision.CHOSEN


def test_what_a_failback_put_aside_is_copied_only_where_topics_means_it() -> None:
    name = kept_as("orders", 1_764_000_000_000)
    assert _decision(name) is Decision.DIVERGENT
    assert _decision(name, IDENTITY) is Decision.DIVERGENT
    for meant in (r"orders\.divergent\..*", name):
        assert _decision(name, replace(FLOW, topics=("or.*", meant))) is Decision.CHOSEN


def test_heartbeats_are_left_out_when_their_replication_is_off() -> None:
    off = replace(FLOW, heartbeats_replication=False)
    assert _decision("heartbeats", off) is Decision.NOT_INCLUDED
    assert _decision("heartbeats", replace(off, topics=("heart.*",))) is Decision.CHOSEN


def test_an_exclude_does_not_stop_heartbeats() -> None:
    assert _decision("heartbeats", replace(FLOW, topics_exclude=("heartbeats",))) is Decision.HEARTBEATS


def test_identity_copies_names_that_look_like_copies() -> None:
    assert _decision("B.orders", IDENTITY) is Decision.CHOSEN
    assert _decision("B.heartbeats", IDENTITY) is Decision.CYCLE
    assert _decision(internal_topic(FLOW.name), replace(IDENTITY, topics=(".*",))) is Decision.INTERNAL


def test_own_topics_are_named_by_the_flow() -> None:
    assert internal_topic(FLOW.name) == "sparkmirror.A.B.internal"
    assert control_topic(FLOW.name) == "sparkmirror.A.B.control.internal"


def test_checkpoints_are_where_mirror_maker_2_s_clients_look_for_them() -> None:
    def named(choice: PolicyChoice) -> str:
        return policy_for(choice, FLOW.source.alias).checkpoints_topic(FLOW.source.alias)

    assert named(FLOW.policy) == "A.checkpoints.internal"
    assert named(PolicyChoice(separator="_")) == "A_checkpoints_internal"
    assert named(PolicyChoice(separator="_", internal_separator_follows=False)) == "A.checkpoints.internal"
