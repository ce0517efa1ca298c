"""Topics whose replicas are chosen, and leaders that are elected although they lack records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.lab.cluster import LabCluster
from tests.flow.running import admin_of, ends, until

PATIENCE_SECONDS = 240.0


def create(
    cluster: LabCluster, name: str, replicas: Sequence[Sequence[int]], config: Mapping[str, str] | None = None
) -> None:
    """Makes a topic with these replicas for each partition, one of which is enough to acknowledge."""
    settings = {"min.insync.replicas": "1"} | dict(config or {})
    new = NewTopic(name, len(replicas), replica_assignment=[list(some) for some in replicas], config=settings)
    admin = admin_of(cluster)
    for future in admin.create_topics([new]).values():
        future.result(60)
    until(lambda: len(ends(cluster, name)) == len(replicas), f"leaders of {name}", 240)


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
