"""Rights that are needed and not there, as far as brokers tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation
from confluent_kafka.admin import ResourceType as ResourceTypes

from sparkmirror.config import GroupSettings, Side
from sparkmirror.duties.rights import OPERATIONS, Right, rights
from sparkmirror.failover.missing_rights import lacking, lacking_of_groups
from sparkmirror.kafka.acls import EVERYTHING, Operation, PatternType, ResourceType
from sparkmirror.lab.cluster import start_all
from sparkmirror.model import Alias
from tests.duties.groups import FLOW
from tests.flow.rights import GUARDED, allow
from tests.flow.running import Running, commit, create_topic, until, write_file
from tests.flow.test_torn_while_idle import write
from tests.invoking import sparkmirror

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


@pytest.mark.parametrize("sync", [False, True])
def test_operations_commit_for_groups_whether_the_flow_does_or_not(sync: bool):
    flow = replace(FLOW, groups=GroupSettings(include=("team-.*", "one"), sync_enabled=sync))
    allowed = {"team-a": frozenset[Operation](), "team-b": frozenset({READ}), "one": frozenset({READ})}
    found = lacking_of_groups(B, rights(flow, Side.TARGET), allowed)
    texts = [lack.text for lack in found if lack.vital]
    assert texts == [f"cluster B: this user is not allowed to READ Group team-a ({OPERATIONS})"]
    assert lacking_of_groups(B, rights(flow, Side.TARGET), dict.fromkeys(allowed, frozenset({READ}))) == ()


def test_a_failover_goes_by_copying_and_the_flow_s_own_topics_and_not_by_other_duties():
    every = [right for side in Side for right in rights(replace(FLOW, topics=("orders",)), side)]
    nothing = {name: frozenset[Operation]() for right in every for name in (right.name,) if right.kind is TOPIC}
    found = lacking(B, every, nothing | {"A.one": frozenset()}, (), {"A.one"})
    vital = {lack.reason for lack in found if lack.vital}
    assert vital == {"copying", "sparkmirror's own topics", "checkpoints"}
    assert {lack.reason for lack in found} >= vital | {"ACLs", "creating topics and partitions"}


@pytest.mark.kafka
@pytest.mark.slow
def test_a_rehearsal_says_that_operations_may_not_commit_for_a_group(topic, tmp_path):
    both = start_all(["lacking-a", "lacking-b"], security=("SASL_SCRAM",), config=GUARDED)
    try:
        for cluster in both:
            for kind in (ResourceTypes.TOPIC, ResourceTypes.TRANSACTIONAL_ID):
                allow(cluster, kind, "*", AclOperation.ALL)
            allow(cluster, ResourceTypes.BROKER, "kafka-cluster", AclOperation.ALL)
        a, b = both
        name = topic("lacking")
        group = f"{name}-g"
        allow(a, ResourceTypes.GROUP, "*", AclOperation.DESCRIBE)
        create_topic(a, name, 1)
        write(a, name, [b"one", b"two"])
        commit(a, group, name, {0: 1})
        login = [each.client_properties("SASL_SCRAM") for each in both]
        quiet = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {"a": login[0], "b": login[1]}, {"a->b": name}, quiet)
        with Running(file, log=tmp_path / "once.log", options=("--once",)) as mirror:
            assert mirror.wait() == 0, mirror.tail()
        lack = f"this user is not allowed to READ Group {group}"
        assert lack in " ".join(sparkmirror("rehearse", file).stdout.split())
        allow(b, ResourceTypes.GROUP, group, AclOperation.READ)
        until(lambda: lack not in " ".join(sparkmirror("rehearse", file).stdout.split()), "it may", 60)
    finally:
        for cluster in both:
            cluster.stop()
