"""A source that loses records it had, and takes a right away: told of with offsets, healed without a restart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.elections import create, elect_the_unclean, leader
from tests.flow.rights import GUARDED, allow, forbid
from tests.flow.running import Running, admin_of, ends, until, write_file
from tests.flow.test_events import PATIENCE_SECONDS, of_kind, read_all, records, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LabCluster]:
    """Three brokers that elect unclean leaders, and check what those may who log in."""
    settings = GUARDED | {"unclean.leader.election.enable": "true"}
    with start("unclean", brokers=3, security=("SASL_PLAIN",), config=settings) as running:
        yield running


def allow_topic(cluster: LabCluster, name: str) -> None:
    allow(cluster, ResourceType.TOPIC, name, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)


def test_lost_records_and_lost_rights_are_told_of_and_heal_without_a_restart(cluster, cluster_c, topic, tmp_path):
    torn, guarded = topic("torn"), topic("guarded")
    create(cluster, torn, [[2, 3]])
    create(cluster, guarded, [[1]])
    allow(cluster, ResourceType.TOPIC, "sparkmirror.writers.internal", AclOperation.READ)
    allow_topic(cluster, torn)
    allow_topic(cluster, guarded)
    write(cluster, torn, (0,), records(100))
    write(cluster, guarded, (0,), records(10))
    source = cluster.client_properties("SASL_PLAIN")
    file = write_file(tmp_path / "mm2.properties", {"u": source, "c": cluster_c}, {"u->c": f"{torn},{guarded}"})

    def holds(name: str, wanted: list[bytes]) -> None:
        until(lambda: read_all(cluster_c, f"u.{name}") == {0: wanted}, f"{name} is copied", PATIENCE_SECONDS)

    with Running(file, log=tmp_path / "run.log") as mirror:
        holds(torn, records(100))
        holds(guarded, records(10))

        forbid(cluster, ResourceType.TOPIC, guarded, AclOperation.READ)
        until(lambda: of_kind(file, guarded, "unauthorized"), "the lost right is told of", PATIENCE_SECONDS)
        write(cluster, guarded, (0,), records(10, 10))
        admin = admin_of(cluster)
        cluster.brokers[2].kill()
        until(lambda: leader(admin, torn) == (2, [2]), "broker 2 is alone", PATIENCE_SECONDS)
        write(cluster, torn, (0,), records(50, 100))
        holds(torn, records(150))
        allow_topic(cluster, guarded)
        cluster.brokers[1].kill()
        cluster.brokers[2].start()
        elect_the_unclean(cluster, torn, 3)
        until(lambda: ends(cluster, torn) == {0: 100}, "records are really lost", PATIENCE_SECONDS)
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
