"""ACL bindings on real clusters, with an authorizer and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sparkmirror.config import load
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    create_acls,
    delete_acls,
    describe_acls,
    scram_users,
)
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.rights import GUARDED
from tests.flow.running import until, write_file

pytestmark = pytest.mark.kafka

TOPICS = (ResourceType.TOPIC,)


@pytest.fixture(scope="module")
def guarded() -> Iterator[LabCluster]:
    with start("guarded-acls", security=("SASL_SCRAM",), config=GUARDED) as running:
        yield running


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory, guarded: LabCluster) -> Iterator[Callable[[str], Cluster]]:
    """Connections of the administrator (PLAINTEXT) or of a user without rights (SASL_SCRAM)."""
    path = tmp_path_factory.mktemp("acls") / "mm2.properties"
    sides = {"admin": guarded.client_properties(), "user": guarded.client_properties("SASL_SCRAM")}
    (flow,) = load([write_file(path, sides, {"admin->user": ".*"})]).flows
    known = {end.alias: Cluster(end.alias, end.admin, role="test") for end in (flow.source, flow.target)}
    yield lambda name: {str(alias): cluster for alias, cluster in known.items()}[name]
    for cluster in known.values():
        cluster.close()


def binding(name: str, *, operation: Operation = Operation.READ, host: str = "*") -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, PatternType.LITERAL, "User:alice", host, operation, Permission.ALLOW)


def test_what_is_created_is_described_and_what_is_deleted_is_not(connect, topic):
    name = topic("acl")
    kept = replace(binding(name), pattern=PatternType.PREFIXED, permission=Permission.DENY, principal="Group:größe x")
    group = AclBinding(
        ResourceType.GROUP, name, PatternType.LITERAL, "User:bob", "10.0.0.1", Operation.DESCRIBE, Permission.ALLOW
    )
    gone = binding(name)
    cluster = connect("admin")
    assert create_acls(cluster, [kept, gone, group, gone]).complete() == {kept: None, gone: None, group: None}
    assert create_acls(cluster, [gone]).complete() == {gone: None}, "one that is there is fine"
    kinds = (ResourceType.TOPIC, ResourceType.GROUP)

    def there(*kinds: ResourceType) -> set[AclBinding]:
        return {each for each in describe_acls(cluster, kinds) or () if each.name == name}

    until(lambda: there(*kinds) == {kept, gone, group}, "the broker has heard of them", 20)
    assert there(ResourceType.TOPIC) == {kept, gone}
    assert delete_acls(cluster, [gone, binding(name, operation=Operation.WRITE)]).failed == {}
    until(lambda: there(*kinds) == {kept, group}, "one is gone", 20)


def test_more_than_a_request_takes_go_in_several(connect, topic):
    many = [binding(topic("many"), host=f"10.0.{number // 250}.{number % 250}") for number in range(1_100)]
    cluster = connect("admin")
    assert not create_acls(cluster, many).failed
    until(lambda: set(many) <= (describe_acls(cluster, TOPICS) or set()), "all are there", 20)
    assert not delete_acls(cluster, many).failed
    until(lambda: not set(many) & (describe_acls(cluster, TOPICS) or set()), "all are gone", 20)


def test_one_that_the_cluster_does_not_take_does_not_stop_the_others(connect, topic):
    good, bad = binding(topic("good")), replace(binding(topic("bad")), kind=ResourceType.CLUSTER)
    results = create_acls(connect("admin"), [bad, good])
    assert list(results.found) == [good]
    assert f"{bad.name}: INVALID_REQUEST (42): the cluster does not take the binding" in str(results.failed[bad])


def test_a_user_without_rights_is_told_which_is_missing(connect, topic):
    with pytest.raises(BrokerError, match=r"cluster user: CLUSTER_AUTHORIZATION_FAILED \(31\): allow DESCRIBE on the"):
        describe_acls(connect("user"), TOPICS)
    some = binding(topic("acl"))
    assert "allow ALTER on the Cluster to this user" in str(create_acls(connect("user"), [some]).failed[some])
    assert "allow ALTER on the Cluster to this user" in str(delete_acls(connect("user"), [some]).failed[some])
    assert scram_users(connect("user"), ["alice"]) is None


def test_a_cluster_without_an_authorizer_is_a_value(lab_cluster, topic):
    assert describe_acls(lab_cluster("A"), TOPICS) is None
    some = binding(topic("acl"))
    assert "the cluster has no authorizer" in str(create_acls(lab_cluster("A"), [some]).failed[some])


def test_scram_users_are_listed_by_name(connect):
    assert scram_users(connect("admin"), ["mirror", "nobody", "alice"]) == frozenset({"mirror", "alice"})
