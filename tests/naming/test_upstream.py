"""What names tell of the way that a topic has come."""

from __future__ import annotations

import pytest

from sparkmirror.config import PolicyChoice, PolicyKind
from sparkmirror.model import Alias
from sparkmirror.naming import NO_WAY, hops, policy_for, sources

DEFAULT = policy_for(PolicyChoice(), Alias("A"))
IDENTITY = policy_for(PolicyChoice(kind=PolicyKind.IDENTITY), Alias("A"))


@pytest.mark.parametrize(
    ("topic", "way"),
    [
        ("heartbeats", ()),
        ("B.heartbeats", ("B",)),
        ("B.A.heartbeats", ("B", "A")),
        ("B.A.B.heartbeats", ("B", "A")),
    ],
)
@pytest.mark.parametrize("policy", [DEFAULT, IDENTITY], ids=["default", "identity"])
def test_the_nearest_cluster_comes_first(policy, topic, way):
    assert sources(policy, topic) == way
    assert [hops(policy, topic, Alias(alias)) for alias in way] == list(range(1, len(way) + 1))
    assert hops(policy, topic, Alias("C")) == NO_WAY


def test_under_identity_naming_each_topic_comes_from_the_source_and_no_further():
    assert sources(IDENTITY, "B.orders") == ("A",)
    assert hops(IDENTITY, "orders", Alias("A")) == 1
    assert hops(IDENTITY, "orders", Alias("B")) == NO_WAY
