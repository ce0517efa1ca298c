"""Names on the target, held against what MirrorMaker 2's own classes printed."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sparkmirror.config import PolicyChoice, PolicyKind
from sparkmirror.model import Alias
from sparkmirror.naming import ReplicationPolicy, policy_for

A, B = Alias("A"), Alias("B")


def _policy(kind: PolicyKind, separator: str = ".", *, follows: bool = True) -> ReplicationPolicy:
    return policy_for(PolicyChoice(kind=kind, separator=separator, internal_separator_follows=follows), A)


def _kind(identity: str) -> PolicyKind:
    return PolicyKind.IDENTITY if identity == "true" else PolicyKind.DEFAULT


def _java(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def test_names_are_those_of_mirror_maker_2() -> None:
    lines = (Path(__file__).parent / "mm2-names.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(rows) > 200
    for separator, follows, identity, topic, *expected in rows:
        policy = _policy(_kind(identity), separator, follows=follows == "true")
        answers = [
            policy.format_remote_topic(A, topic),
            policy.topic_source(topic),
            policy.upstream_topic(topic),
            policy.original_topic(topic),
            policy.is_internal_topic(topic),
            policy.is_heartbeats_topic(topic),
        ]
        assert [_java(answer) for answer in answers] == expected, (separator, follows, identity, topic)


@pytest.mark.parametrize("kind", [PolicyKind.DEFAULT, PolicyKind.IDENTITY])
@pytest.mark.parametrize("separator", [".", "_", "--"])
def test_our_own_topics_are_internal_under_every_policy(kind: PolicyKind, separator: str) -> None:
    policy = _policy(kind, separator, follows=True)
    for topic in ("sparkmirror.A.B.internal", "sparkmirror.A.B.control.internal", "sparkmirror.writers.internal"):
        assert policy.is_internal_topic(topic)


def test_a_topic_that_came_from_the_target_is_a_cycle() -> None:
    policy = _policy(PolicyKind.DEFAULT)
    assert policy.is_cycle("B.orders", B)
    assert policy.is_cycle("C.B.orders", B)
    assert not policy.is_cycle("C.orders", B)
    assert not policy.is_cycle("orders", B)
    assert not policy.is_cycle("orders.B", B)


def test_identity_sees_cycles_in_heartbeats_only() -> None:
    policy = _policy(PolicyKind.IDENTITY)
    assert policy.is_cycle("B.heartbeats", B)
    assert policy.is_cycle("C.B.heartbeats", B)
    assert not policy.is_cycle("C.heartbeats", B)
    assert not policy.is_cycle("B.orders", B)


@pytest.mark.parametrize("kind", [PolicyKind.DEFAULT, PolicyKind.IDENTITY])
def test_policies_pickle(kind: PolicyKind) -> None:
    policy = _policy(kind, "_")
    assert pickle.loads(pickle.dumps(policy)) == policy
