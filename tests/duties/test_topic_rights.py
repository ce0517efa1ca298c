"""The topic duties on a cluster that grants little: what may not be seen is not gone, a missing right is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, SaslMechanism, Secret, Security, SecurityProtocol
from sparkmirror.duties.configs import TopicConfigs
from sparkmirror.duties.deletions import gone_of
from sparkmirror.duties.duty import Sides, do_round
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.listeners import PASSWORDS, USER
from sparkmirror.model import Alias
from tests.flow.rights import GUARDED, allow, forbid
from tests.flow.running import create_topic, until

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def guarded() -> Iterator[LabCluster]:
    with start("guarded", security=("SASL_PLAIN",), config=GUARDED) as running:
        yield running


@pytest.fixture(scope="module")
def user(guarded: LabCluster) -> Iterator[Cluster]:
    cluster = Cluster("G", _client(guarded), role="test")
    yield cluster
    cluster.close()


def _client(guarded: LabCluster) -> ClientSettings:
    security = Security(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        mechanism=SaslMechanism.PLAIN,
        username=USER,
        password=Secret(PASSWORDS[USER]),
    )
    servers = guarded.client_properties("SASL_PLAIN")["bootstrap.servers"]
    return ClientSettings(bootstrap_servers=tuple(servers.split(",")), security=security)


def test_a_topic_that_this_user_may_no_longer_see_is_not_gone(
    guarded: LabCluster, user: Cluster, topic: Callable[..., str]
) -> None:
    hidden, seen, never = topic("hidden"), topic("seen"), topic("never")
    for name in (hidden, seen):
        create_topic(guarded, name)
    for name in (hidden, seen, never):
        allow(guarded, ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    until(lambda: {hidden, seen} <= set(admin.list_topics(user)), "both are seen", 30)
    assert gone_of(user, {hidden, seen, never}, 10_000) == {never}
    forbid(guarded, ResourceType.TOPIC, hidden, AclOperation.DESCRIBE)
    until(lambda: hidden not in admin.list_topics(user), "one is not listed any more", 30)
    assert gone_of(user, {hidden, seen, never}, 10_000) == {never}


def test_the_right_that_is_missing_to_change_a_copy_is_named(
    lab_flow: FlowConfig,
    lab_cluster: Callable[[str], Cluster],
    cluster_a: LabCluster,
    guarded: LabCluster,
    user: Cluster,
    topic_name: str,
) -> None:
    client = _client(guarded)
    flow = replace(
        lab_flow,
        target=Endpoint(alias=Alias("G"), consumer=client, producer=client, admin=client),
        topics=(topic_name,),
        heartbeats_replication=False,
        admin_timeout_ms=20_000,
    )
    duty = TopicConfigs(Sides(flow=flow, source=lab_cluster("A"), target=user, store=None))
    create_topic(cluster_a, topic_name, config={"retention.ms": "1000", "segment.ms": "70000"})
    create_topic(guarded, f"A.{topic_name}")
    allow(guarded, ResourceType.TOPIC, f"A.{topic_name}", AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    until(lambda: f"A.{topic_name}" in admin.list_topics(user), "the copy is seen", 30)
    refusal = f"cluster G, A.{topic_name}: TOPIC_AUTHORIZATION_FAILED (29): allow ALTER_CONFIGS on Topic A.{topic_name}"
    failures = [result.failure for result in do_round(duty)]
    assert len(failures) == 2
    assert all(failure.startswith(refusal) for failure in failures)
    allow(guarded, ResourceType.TOPIC, f"A.{topic_name}", AclOperation.ALTER_CONFIGS)
    until(lambda: all(result.done for result in do_round(duty)), "the round is done", 30)
    assert duty.look() == ()
