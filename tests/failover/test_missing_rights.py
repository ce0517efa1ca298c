"""Rights that are needed and not there, as far as brokers tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.config import Side
from sparkmirror.duties.rights import Right, rights
from sparkmirror.failover.missing_rights import lacking
from sparkmirror.kafka.acls import EVERYTHING, Operation, PatternType, ResourceType
from sparkmirror.model import Alias
from tests.duties.groups import FLOW

B = Alias("B")
READ, WRITE, CREATE, ALTER = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.ALTER
TOPIC, CLUSTER, GROUP = ResourceType.TOPIC, ResourceType.CLUSTER, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPICS = {"A.one": frozenset({READ, WRITE}), "A.two": frozenset({READ}), "own": frozenset({READ}), "x": frozenset()}


@pytest.mark.parametrize(
    ("needed", "on_cluster", "texts"),
    [
        ([Right(TOPIC, "A.", PREFIXED, READ, "copying")], (), []),
        ([Right(TOPIC, "A.", PREFIXED, WRITE, "copying")], (), ["WRITE Topic A.two (copying)"]),
        ([Right(TOPIC, "A.", PREFIXED, ALTER, "copying")], (), ["ALTER Topic A.one and 1 more (copying)"]),
        ([Right(TOPIC, EVERYTHING, LITERAL, READ, "copying")], (), []),
        (
            [Right(TOPIC, "own", LITERAL, WRITE, "sparkmirror's own topics")],
            (),
            ["WRITE Topic own (sparkmirror's own topics)"],
        ),
        ([Right(TOPIC, "not-there", LITERAL, WRITE, "copying")], (), []),
        ([Right(TOPIC, "A.", PREFIXED, CREATE, "creating")], (), ["CREATE Topic A.one and 1 more (creating)"]),
        ([Right(TOPIC, "A.", PREFIXED, CREATE, "creating")], ("CREATE",), []),
        ([Right(CLUSTER, "kafka-cluster", LITERAL, ALTER, "ACLs")], ("DESCRIBE",), ["ALTER the Cluster (ACLs)"]),
        ([Right(CLUSTER, "kafka-cluster", LITERAL, ALTER, "ACLs")], ("ALTER",), []),
        ([Right(CLUSTER, "kafka-cluster", LITERAL, ALTER, "ACLs")], None, []),
        ([Right(GROUP, "g", LITERAL, READ, "group offsets")], (), []),
    ],
)
def test_what_is_missing_is_named_with_its_purpose(needed, on_cluster, texts):
    found = lacking(B, needed, TOPICS, on_cluster, {"A.one", "A.two"})
    assert [lack.text for lack in found] == [f"cluster B: this user is not allowed to {text}" for text in texts]


def test_a_failover_goes_by_copying_and_the_flow_s_own_topics_and_not_by_other_duties():
    every = [right for side in Side for right in rights(replace(FLOW, topics=("orders",)), side)]
    nothing = {name: frozenset[Operation]() for right in every for name in (right.name,) if right.kind is TOPIC}
    found = lacking(B, every, nothing | {"A.one": frozenset()}, (), {"A.one"})
    vital = {lack.reason for lack in found if lack.vital}
    assert vital == {"copying", "sparkmirror's own topics", "checkpoints"}
    assert {lack.reason for lack in found} >= vital | {"ACLs", "creating topics and partitions"}
