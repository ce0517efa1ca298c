"""Groups whose coordinator is away: no broker lists them, and they are not gone.

The partition of ``__consumer_offsets`` that has them has one replica, on a broker that is dead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparkmirror.errors import BrokerError
from sparkmirror.kafka.groups import list_groups
from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.test_changed_home import marked
from tests.flow.running import Running, admin_of, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror
from tests.kafka.test_groups import connected

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

GROUPS = [f"g{number}" for number in range(6)]
ONE_REPLICA = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}


def coordinators(cluster: LabCluster) -> dict[str, int]:
    described = admin_of(cluster).describe_consumer_groups(GROUPS)
    return {group: found.result(30).coordinator.id for group, found in described.items()}


@contextmanager
def away(cluster: LabCluster, node: int) -> Iterator[None]:
    """A broker is dead, and every client knows."""
    (broker,) = (one for one in cluster.brokers if one.node == node)
    broker.kill()
    until(lambda: node not in admin_of(cluster).list_topics(timeout=10).brokers, "out of the metadata")
    try:
        yield
    finally:
        broker.start()


def check_list(cluster: LabCluster, expected: set[str]) -> None:
    """The list says that it lacks groups, and whoever wants all of them is refused."""
    with connected(cluster) as client:
        listed = list_groups(client)
        assert listed.keys() & set(GROUPS) == expected
        assert len(listed.leaderless) == 1
        with pytest.raises(BrokerError, match=rf"no leader for partitions {listed.leaderless[0]} .*start the brokers"):
            list_groups(client, 2_000, complete=True)


def stand(cluster: LabCluster, name: str, offset: int) -> bool:
    return all(committed(cluster, group, name) == {0: offset} for group in GROUPS)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.long
def test_a_group_without_a_coordinator_is_not_forgotten(tmp_path: Path, kept: bool):
    """Not by the flow, which has committed for it, nor by a failback, which is refused, nor by a release."""
    with start("a") as a, start("b", brokers=3, config=ONE_REPLICA) as b:
        copy = "t" if kept else "a.t"
        create_topic(a, "t", 1)
        create_topic(b, "t", 1, replicas=3)
        policy = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
        file = write_file(
            tmp_path / "mm2.properties",
            {"a": a, "b": b},
            {"a->b": "t", "b->a": "t"},
            {
                "tasks.max": "1",
                "groups": "g.*",
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
                "refresh.groups.interval.seconds": "1",
                "heartbeats.replication.enabled": "false",
                "a->b.replication.factor": "3",
                "b->a.replication.factor": "1",
                "b->a.checkpoints.topic.replication.factor": "1",
                **(policy if kept else {}),
            },
        )
        report = ("--yes", "--report", str(tmp_path))
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            write(a, "t", marked("old", 20))
            until(lambda: mirrored(b, copy) == marked("old", 20), "copied")
            for group in GROUPS:
                commit(a, group, "t", {0: 10})
            until(lambda: stand(b, copy, 10), "synced")
            nodes = coordinators(b)
            hidden = [group for group in GROUPS if nodes[group] == nodes[GROUPS[0]]]
            with away(b, nodes[GROUPS[0]]):
                check_list(b, set(GROUPS) - set(hidden))
                mark = len(mirror.output)
                until(lambda: "its offsets on the target cannot be read" in status(file, hidden[0]), "a round without")
                for group in GROUPS:
                    commit(a, group, "t", {0: 4})
            until(lambda: stand(b, copy, 4), "the flow's own commits go back with the source")
            assert stand(a, "t", 4)
            assert "goes back" in mirror.output[mark:]

            left = sparkmirror("switchover", file, "--from", "a", "--to", "b", "--wait-for-idle", "1", *report)
            assert left.returncode == 0, left.stdout + left.stderr
            for group in GROUPS:
                commit(b, group, copy, {0: 12})
                commit(a, group, "t", {0: 15})  # consumers that were never stopped
            with away(b, nodes[GROUPS[0]]):
                back = sparkmirror("failback", file, "--to", "a", "--wait-for-idle", "1", "--timeout", "40", *report)
                assert back.returncode == 1, back.stdout + back.stderr
                assert "__consumer_offsets has no leader for partitions" in back.stdout + back.stderr
                released = sparkmirror("release", file, "--flow", "a->b", "--yes")
                assert released.returncode == 0, released.stdout + released.stderr
            write(a, "t", marked("then", 1))
            until(lambda: marked("then", 1)[0] in mirrored(b, copy), "the flow goes on")
            until(lambda: ends(b, copy)[0] >= 21, "all of it")
            assert stand(b, copy, 12)
            mirror.stop_in_time()


def status(file: Path, group: str) -> str:
    return sparkmirror("explain", file, "--flow", "a->b", "--group", group).stdout
