"""Producers are kept from a real cluster, and let in again, by rules that leave those of others alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourcePatternType
from confluent_kafka.admin import ResourceType as Resource

from sparkmirror.config import load
from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover import fence
from sparkmirror.kafka.acls import ResourceType, create_acls, describe_acls
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.rights import GUARDED, allow
from tests.flow.running import create_topic, until, write_file
from tests.lab.test_cluster import client_of

pytestmark = pytest.mark.kafka

ADMIN_MS = 30_000
TOPIC = Resource.TOPIC


@pytest.fixture(scope="module")
def guarded() -> Iterator[LabCluster]:
    with start("guarded-fence", security=("SASL_SCRAM",), config=GUARDED) as running:
        yield running


@pytest.fixture
def administrator(guarded: LabCluster, tmp_path) -> Iterator[Cluster]:
    with connected_to(guarded, tmp_path) as cluster:
        yield cluster


@contextmanager
def connected_to(guarded: LabCluster, tmp_path) -> Iterator[Cluster]:
    """As one who may do everything."""
    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    path = write_file(tmp_path / "mm2.properties", {"a": guarded, "b": nowhere}, {"a->b": ".*"})
    (flow,) = load([path]).flows
    cluster = Cluster(flow.source.alias, flow.source.admin, role="test")
    yield cluster
    cluster.close()


def writes(cluster: LabCluster, topic: str) -> bool:
    """Whether a user other than the administrator may write."""
    said: list[object] = []
    login = client_of(cluster.client_properties("SASL_SCRAM"))
    producer = Producer({**login, "log_level": 0, "message.timeout.ms": 5_000})
    producer.produce(topic, b"value", on_delivery=lambda error, _: said.append(error))
    producer.flush(20)
    assert said, "no answer"
    return said == [None]


def test_nobody_writes_until_the_rules_are_gone_and_rules_of_others_stay(guarded, administrator, topic):
    mine, other = topic("fenced"), topic("denied")
    for name in (mine, other):
        create_topic(guarded, name)
        allow(guarded, TOPIC, name, AclOperation.WRITE)
    until(lambda: writes(guarded, mine), "writing is allowed")
    (theirs,) = fence.missing(administrator, [other], ADMIN_MS)
    create_acls(administrator, [theirs], ADMIN_MS).complete()
    until(lambda: fence.missing(administrator, [other], ADMIN_MS) == (), "the rule of somebody else")
    rules = fence.missing(administrator, [mine, other], ADMIN_MS)
    assert [rule.name for rule in rules] == [mine], "a rule that is there already is not ours"
    fence.put_up(administrator, rules, ADMIN_MS)
    until(lambda: not writes(guarded, mine), "writing is denied")
    kept = fence.rules_of(fence.rows_of(rules))
    assert kept == rules
    fence.take_down(administrator, kept, ADMIN_MS)
    until(lambda: writes(guarded, mine), "writing is allowed again")
    left = describe_acls(administrator, [ResourceType.TOPIC], ADMIN_MS)
    assert left is not None
    assert theirs in left
    assert not left.intersection(rules)


def test_a_topic_without_rules_gets_none_where_nobody_may_write_to_it(guarded, administrator, topic):
    stem = topic("bare")
    create_topic(guarded, f"{stem}-prefixed")
    allow(guarded, TOPIC, f"{stem}-pre", AclOperation.WRITE, pattern=ResourcePatternType.PREFIXED)
    until(lambda: writes(guarded, f"{stem}-prefixed"), "writing is allowed")
    (rule,) = fence.missing(administrator, [f"{stem}-prefixed", stem], ADMIN_MS)
    assert rule.name == f"{stem}-prefixed"


def test_no_topic_gets_its_first_rule_where_that_would_keep_its_readers_out(topic, tmp_path):
    """Kafka's authorizer lets everybody do everything with a topic, until the first ACL is about it."""
    config = GUARDED | {"allow.everyone.if.no.acl.found": "true"}
    with (
        start("open-fence", security=("SASL_SCRAM",), config=config) as cluster,
        connected_to(cluster, tmp_path) as user,
    ):
        bare, ruled = topic("bare"), topic("ruled")
        for name in (bare, ruled):
            create_topic(cluster, name)
        assert writes(cluster, bare)
        allow(cluster, TOPIC, ruled, AclOperation.WRITE)
        until(lambda: len(fence.missing(user, [ruled], ADMIN_MS)) == 1, "the rule is known")
        with pytest.raises(SparkmirrorError, match=rf"no ACL of cluster a is about topic {bare}, and .*readers out"):
            fence.missing(user, [bare, ruled], ADMIN_MS)


def test_a_cluster_without_an_authorizer_is_told_of_before_anything_is_done(lab_cluster: Callable[[str], Cluster]):
    with pytest.raises(SparkmirrorError, match=r"has no authorizer.*leave out --fence-by-acl"):
        fence.missing(lab_cluster("A"), ["orders"], ADMIN_MS)
