"""A source that loses records it had, and takes a right away: told of with offsets, healed without a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.running import Running, admin_of, ends, until, write_file
from tests.flow.test_events import PATIENCE_SECONDS, of_kind, read_all, records, write

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

USER = "User:mirror"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LabCluster]:
    """Three brokers that elect unclean leaders, and check what those may who log in."""
    settings = {
        "unclean.leader.election.enable": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with start("unclean", brokers=3, security=("SASL_PLAIN",), config=settings) as running:
        yield running


def create(cluster: LabCluster, name: str, replicas: list[list[int]]) -> None:
    admin = admin_of(cluster)
    new = NewTopic(name, len(replicas), replica_assignment=replicas, config={"min.insync.replicas": "1"})
    for future in admin.create_topics([new]).values():
        future.result(60)
    until(lambda: len(ends(cluster, name)) == len(replicas), f"leaders of {name}", 60)


def binding(resource: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    pattern = ResourcePatternType.LITERAL
    return AclBinding(resource, name, pattern, USER, "*", operation, AclPermissionType.ALLOW)


def allow(cluster: LabCluster, name: str) -> None:
    admin = admin_of(cluster)
    wanted = [
        binding(ResourceType.TOPIC, name, AclOperation.READ),
        binding(ResourceType.TOPIC, name, AclOperation.DESCRIBE_CONFIGS),
        binding(ResourceType.TOPIC, "sparkmirror.writers.internal", AclOperation.READ),
    ]
    for future in admin.create_acls(wanted).values():
        future.result(60)


def forbid(cluster: LabCluster, name: str) -> None:
    admin = admin_of(cluster)
    some = AclBindingFilter(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, USER, "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    for future in admin.delete_acls([some]).values():
        assert future.result(60)


def leader(admin: AdminClient, name: str) -> tuple[int, list[int]]:
    """The leader and the replicas in sync; -1 and none while the cluster cannot be asked."""
    try:
        partition = admin.list_topics(name, timeout=10).topics[name].partitions[0]
    except (KafkaException, KeyError):
        return -1, []
    return partition.leader, sorted(partition.isrs)


def elect_the_unclean(cluster: LabCluster, name: str, wanted: int) -> None:
    """Makes a replica the leader that has not all records."""
    admin = admin_of(cluster)

    def elected() -> bool:
        if leader(admin, name)[0] == wanted:
            return True
        admin.elect_leaders(ElectionType.UNCLEAN, [TopicPartition(name, 0)]).exception(30)
        return False

    until(elected, f"broker {wanted} leads {name}", PATIENCE_SECONDS)


def test_lost_records_and_lost_rights_are_told_of_and_heal_without_a_restart(cluster, cluster_c, topic, tmp_path):
    torn, guarded = topic("torn"), topic("guarded")
    create(cluster, torn, [[2, 3]])
    create(cluster, guarded, [[1]])
    allow(cluster, torn)
    allow(cluster, guarded)
    write(cluster, torn, (0,), records(100))
    write(cluster, guarded, (0,), records(10))
    source = cluster.client_properties("SASL_PLAIN")
    file = write_file(tmp_path / "mm2.properties", {"u": source, "c": cluster_c}, {"u->c": f"{torn},{guarded}"})

    def holds(name: str, wanted: list[bytes]) -> None:
        until(lambda: read_all(cluster_c, f"u.{name}") == {0: wanted}, f"{name} is copied", PATIENCE_SECONDS)

    with Running(file, log=tmp_path / "run.log") as mirror:
        holds(torn, records(100))
        holds(guarded, records(10))

        forbid(cluster, guarded)
        until(lambda: of_kind(file, guarded, "unauthorized"), "the lost right is told of", PATIENCE_SECONDS)
        write(cluster, guarded, (0,), records(10, 10))
        admin = admin_of(cluster)
        cluster.brokers[2].kill()
        until(lambda: leader(admin, torn) == (2, [2]), "broker 2 is alone", PATIENCE_SECONDS)
        write(cluster, torn, (0,), records(50, 100))
        holds(torn, records(150))
        allow(cluster, guarded)
        cluster.brokers[1].kill()
        cluster.brokers[2].start()
        elect_the_unclean(cluster, torn, 3)
        assert ends(cluster, torn) == {0: 100}, "records are really lost"
        write(cluster, torn, (0,), records(30, 1_000))

        holds(torn, [*records(150), *records(30, 1_000)])
        holds(guarded, records(20))
        until(lambda: of_kind(file, guarded, "goes-on"), "the right is back, and it is told", PATIENCE_SECONDS)
        lost = until(
            lambda: [
                event
                for event in of_kind(file, torn, "source-tail-lost")
                if event.last is not None and event.first == 100
            ],
            "the lost tail is told of",
            PATIENCE_SECONDS,
        )
        mirror.stop_in_time()
    assert (lost[0].first, lost[0].last) == (100, 149)
    assert "going on from offset 100" in lost[0].text
    forbidden = of_kind(file, guarded, "unauthorized")
    # The lane tells where the copy stood, the driver that it may not even look; what was written since ends at 20.
    assert {event.first for event in forbidden} & {10, 20, None}
    assert all("TOPIC_AUTHORIZATION_FAILED" in event.text for event in forbidden)
    assert mirror.output.count(lost[0].text) == 1
    assert "Traceback" not in mirror.output
