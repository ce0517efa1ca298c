"""A chain of two flows with MirrorMaker 2's topics: heartbeats, offset syncs, and what Kafka's client makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from sparkmirror import config
from sparkmirror.config import FlowConfig, PolicyChoice, PolicyKind
from sparkmirror.flow.mirror_client import MirrorClient
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.lab.offset_map import offsets
from sparkmirror.lab.ports import free_ports
from sparkmirror.mm2.heartbeats import read_heartbeat
from sparkmirror.mm2.offset_syncs import OffsetSync, read_offset_sync
from sparkmirror.spark.gateway import Gateway
from tests.flow.running import Running, admin_of, count, create_topic, ends, until, write_file
from tests.flow.traffic import Traffic

pytestmark = pytest.mark.kafka

RECORDS = 600
UNREACHABLE = "heartbeats: cluster n at 127.0.0.1:"
SETTINGS = {
    "emit.heartbeats.enabled": "true",
    "emit.offset-syncs.enabled": "true",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "x->y.offset.lag.max": "20",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """x to y to z, copied, and stopped; the file names n too, which nobody can reach.

    Attributes:
        clusters: by alias.
        flows: by name.
        topic: on x, with transactions.
        output: of the mirror.
    """

    clusters: Mapping[str, LabCluster]
    flows: Mapping[str, FlowConfig]
    topic: str
    output: str


@pytest.fixture(scope="module")
def chain(
    cluster_a: LabCluster, cluster_b: LabCluster, cluster_c: LabCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chain]:
    clusters = {"x": cluster_a, "y": cluster_b, "z": cluster_c}
    for cluster in clusters.values():
        without_heartbeats(cluster)
    directory = tmp_path_factory.mktemp("chain")
    name = f"orders-{directory.name}"
    create_topic(cluster_a, name, 2)
    there = clusters | {"n": {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}}
    file = write_file(directory / "mm2.properties", there, {"x->y": name, "y->z": f"x.{name}"}, SETTINGS)
    writer = Traffic(cluster_a, name, 2, nulls=False)
    with Running(file, log=directory / "run.log") as mirror:
        writer.some("transactions", RECORDS)
        until(lambda: count(cluster_c, f"x.y.{name}", f"y.x.{name}") >= writer.written, "all records on z")
        until(lambda: len(beats(cluster_c, "y.x.heartbeats")) == 3, "heartbeats of x on z")
        ends_of_x = last_records(cluster_a, name)
        until(lambda: newest(syncs(cluster_a, "mm2-offset-syncs.y.internal"), name) == ends_of_x, "syncs")
        until(lambda: mirror.output.count(UNREACHABLE) == 3, "the cluster that is not there is told of")
        mirror.stop_in_time()
        output = mirror.output
    flows = {str(flow.name): flow for flow in config.load([file]).flows}
    yield Chain(clusters=clusters, flows=flows, topic=name, output=output)
    for cluster in clusters.values():
        without_heartbeats(cluster)


def without_heartbeats(cluster: LabCluster) -> None:
    """Other tests' flows would copy them, whatever their files say."""
    admin = admin_of(cluster)
    some = [topic for topic in admin.list_topics(timeout=60).topics if topic.endswith("heartbeats")]
    for future in admin.delete_topics(some).values() if some else ():
        future.result(60)


def messages(cluster: LabCluster, topic: str) -> list[tuple[bytes, bytes]]:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    total = ends(cluster, topic).get(0, 0)
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [(one.key() or b"", one.value() or b"") for one in consumer.consume(total, timeout=20)] if total else []


def syncs(cluster: LabCluster, topic: str) -> list[OffsetSync]:
    return [read_offset_sync(key, value) for key, value in messages(cluster, topic)]


def newest(found: list[OffsetSync], topic: str) -> dict[int, int]:
    """The newest source offset of each partition; heartbeats have syncs too."""
    return {one.partition.partition: one.upstream for one in found if one.partition.topic == topic}


def last_records(cluster: LabCluster, topic: str) -> dict[int, int]:
    return {partition: some[-1] for partition, some in offsets(cluster, topic).items()}


def beats(cluster: LabCluster, topic: str) -> set[tuple[str, str]]:
    found = [read_heartbeat(key, value) for key, value in messages(cluster, topic)]
    return {(one.source, one.target) for one in found}


def test_every_pair_of_clusters_gets_heartbeats_and_flows_carry_them_on(chain: Chain) -> None:
    for alias, cluster in chain.clusters.items():
        assert beats(cluster, "heartbeats") == {(other, alias) for other in "xyzn" if other != alias}
    assert beats(chain.clusters["y"], "x.heartbeats") == {("y", "x"), ("z", "x"), ("n", "x")}
    assert beats(chain.clusters["z"], "y.x.heartbeats") == {("y", "x"), ("z", "x"), ("n", "x")}


def test_a_pair_whose_target_is_away_is_told_once_and_holds_nobody_up(chain: Chain) -> None:
    assert chain.output.count(UNREACHABLE) == chain.output.count("heartbeats:") == 3


def test_every_offset_sync_names_one_record_on_both_sides(chain: Chain) -> None:
    here = offsets(chain.clusters["x"], chain.topic)
    there = offsets(chain.clusters["y"], f"x.{chain.topic}")
    found = syncs(chain.clusters["x"], "mm2-offset-syncs.y.internal")
    assert {one.partition.topic for one in found} >= {chain.topic, "heartbeats"}
    compared = 0
    for one in found:
        if one.partition.topic == chain.topic:
            place = one.partition.partition
            assert here[place].index(one.upstream) == there[place].index(one.downstream)
            compared += 1
    assert compared > 10
    assert "offset syncs:" not in chain.output


def java(jvm: Any, flow: FlowConfig) -> Any:
    """Kafka's client of the flow's target."""
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", ",".join(flow.target.admin.bootstrap_servers))
    settings.put("replication.policy.class", f"org.apache.kafka.connect.mirror.{flow.policy.kind.value}")
    settings.put("source.cluster.alias", str(flow.source.alias))
    return jvm.org.apache.kafka.connect.mirror.MirrorClient(settings)


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


@pytest.mark.parametrize("kind", [PolicyKind.DEFAULT, PolicyKind.IDENTITY])
@pytest.mark.parametrize("name", ["x->y", "y->z"])
def test_kafka_s_own_client_gives_the_same_answers(chain: Chain, jvm: Any, name: str, kind: PolicyKind) -> None:
    flow = replace(chain.flows[name], policy=PolicyChoice(kind=kind))
    theirs = java(jvm, flow)
    with MirrorClient.of(flow) as ours, closing(theirs):
        assert ours.upstream_clusters() == set(theirs.upstreamClusters()) > set()
        assert ours.heartbeat_topics() == set(theirs.heartbeatTopics()) > {"heartbeats"}
        assert ours.checkpoint_topics() == set(theirs.checkpointTopics())
        remote = {topic for topic in theirs.remoteTopics() if not topic.startswith("sparkmirror.")}
        assert ours.remote_topics() == remote > set()
        for alias in ("x", "y", "z", "nobody"):
            assert ours.replication_hops(alias) == theirs.replicationHops(alias)
            direct = {topic for topic in theirs.remoteTopics(alias) if not topic.startswith("sparkmirror.")}
            assert ours.remote_topics(alias) == direct


def test_the_way_is_told_over_both_flows(chain: Chain) -> None:
    with MirrorClient.of(chain.flows["y->z"]) as client:
        assert client.upstream_clusters() == {"x", "y"}
        assert [client.replication_hops(alias) for alias in ("y", "x", "z")] == [1, 2, -1]
        assert f"y.x.{chain.topic}" in client.remote_topics("y")
        assert client.remote_topics("x") == set()


def test_a_copy_for_once_ends_with_its_offset_syncs_and_without_heartbeats(
    cluster_a: LabCluster, cluster_b: LabCluster, topic_name: str, tmp_path: Path
) -> None:
    create_topic(cluster_a, topic_name)
    written = Traffic(cluster_a, topic_name, 1, nulls=False).some("large", RECORDS)
    settings = SETTINGS | {"offset-syncs.topic.location": "target", "heartbeats.replication.enabled": "false"}
    clusters = {"o": cluster_a, "p": cluster_b}
    file = write_file(tmp_path / "mm2.properties", clusters, {"o->p": topic_name}, settings)
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    found = syncs(cluster_b, "mm2-offset-syncs.o.internal")
    assert (found[-1].upstream, found[-1].downstream) == (written - 1, written - 1)
    assert ("o", "p") not in beats(cluster_b, "heartbeats")
    assert ("p", "o") not in beats(cluster_a, "heartbeats")
