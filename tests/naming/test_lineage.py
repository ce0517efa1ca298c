"""MirrorMaker 2's questions about a cluster, from the names of its topics."""

from __future__ import annotations

from sparkmirror.config import PolicyChoice, PolicyKind
from sparkmirror.model import Alias
from sparkmirror.naming import Lineage, lineage, policy_for

TOPICS = [
    "orders",
    "A.orders",
    "A.X.orders",
    "A.heartbeats",
    "A.X.heartbeats",
    "X.heartbeats",
    "heartbeats",
    "A.checkpoints.internal",
    "sparkmirror.A.B.internal",
    "mm2-offset-syncs.B.internal",
    "__consumer_offsets",
]


def test_names_tell_the_clusters_before_and_what_came_from_them():
    assert lineage(policy_for(PolicyChoice(), Alias("A")), TOPICS) == Lineage(
        upstream={"A": 1, "X": 1},
        remote={"A.X.heartbeats": "A", "A.X.orders": "A", "A.heartbeats": "A", "A.orders": "A", "X.heartbeats": "X"},
        checkpoints=("A.checkpoints.internal",),
        heartbeats=("A.X.heartbeats", "A.heartbeats", "X.heartbeats", "heartbeats"),
    )


def test_the_shortest_way_counts():
    policy = policy_for(PolicyChoice(), Alias("A"))
    assert lineage(policy, ["A.X.heartbeats", "A.Z.X.heartbeats"]).upstream == {"A": 1, "X": 2, "Z": 2}


def test_under_identity_naming_every_topic_counts_as_remote():
    found = lineage(policy_for(PolicyChoice(kind=PolicyKind.IDENTITY), Alias("A")), ["orders", "A.heartbeats"])
    assert (found.upstream, found.remote) == ({"A": 1}, {"A.heartbeats": "A", "orders": "A"})


def test_a_cluster_without_topics_has_nothing_upstream():
    assert lineage(policy_for(PolicyChoice(), Alias("A")), []) == Lineage()
