"""Every duty with exactly the rights that ``sparkmirror acls`` prints, and what each says when one of them is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.cli.acls import by_cluster
from sparkmirror.config import Side, load
from sparkmirror.lab.cluster import LabCluster, start_all
from tests.cli.test_acls import bindings
from tests.flow.rights import GUARDED, allow, forbid
from tests.flow.running import (
    Running,
    add_partitions,
    admin_of,
    commit,
    committed,
    count,
    create_topic,
    ends,
    reaches,
    until,
    write_file,
)
from tests.flow.test_events import delete_topic, records, write
from tests.flow.test_flows import config_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, WRITE = ResourceType.BROKER, AclOperation.WRITE
CHECKPOINTS, SYNCS = "a.checkpoints.internal", "mm2-offset-syncs.g.internal"
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
ALICE = "User:alice"

SETTINGS = {
    "refresh.topics.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "sync.topic.configs.enabled": "true",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.deletes.enabled": "true",
    "emit.heartbeats.enabled": "true",
    "heartbeats.topic.replication.factor": "1",
    "g->a.emit.heartbeats.enabled": "false",
    "emit.offset-syncs.enabled": "true",
    "offset-syncs.topic.replication.factor": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}


@dataclass(frozen=True)
class Right:
    """A right that can be taken, and what has to be said of it then."""

    cluster: LabCluster
    kind: ResourceType
    name: str
    operation: AclOperation
    told: str
    pattern: ResourcePatternType = LITERAL


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[LabCluster, LabCluster]]:
    source, target = start_all(["duties-source", "duties-target"], security=("SASL_PLAIN",), config=GUARDED)
    yield source, target
    source.stop()
    target.stop()


def grant_exactly(file: Path, side: Side, cluster: LabCluster) -> None:
    (needed,) = by_cluster(load([file]), side)
    for one in needed.grants:
        operations = [AclOperation(int(each)) for each in one.operations]
        pattern = ResourcePatternType(int(one.pattern))
        allow(cluster, ResourceType(int(one.kind)), one.name, *operations, pattern=pattern)


def set_retention(cluster: LabCluster, topic: str, value: str) -> None:
    entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = admin_of(cluster)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def says(mirror: Running, words: str) -> None:
    until(lambda: words in " ".join(mirror.output.split()), f"it says {words!r}")


def may_read(cluster: LabCluster, topic: str) -> bool:
    return (TOPIC.value, topic, LITERAL.value, "*", AclOperation.READ.value) in bindings(cluster, ALICE)


@dataclass(frozen=True)
class Scene:
    """A source whose topics begin with the stem, its copies ``a.…`` on a target, and what others see of them."""

    source: LabCluster
    target: LabCluster
    stem: str

    @property
    def orders(self) -> str:
        return f"{self.stem}-orders"

    @property
    def group(self) -> str:
        return f"{self.stem}-team"

    def prepare(self) -> None:
        create_topic(self.source, self.orders)
        write(self.source, self.orders, (0,), records(50))
        allow(self.source, TOPIC, self.orders, AclOperation.READ, principal=ALICE)
        commit(self.source, self.group, self.orders, {0: 30})

    def see(self, *, partitions: int, retention: str, syncs: int, offset: int) -> None:
        """What an independent client sees of each duty, but for creations, deletions and checkpoints."""
        copy, beats = f"a.{self.orders}", count(self.target, "heartbeats")
        until(lambda: len(ends(self.target, copy)) == partitions, "topic creations: partitions")
        until(lambda: config_of(self.target, copy)["retention.ms"] == retention, "topic configs")
        until(lambda: may_read(self.target, copy), "ACLs")
        until(lambda: committed(self.target, self.group, copy).get(0) == offset, "group offsets")
        until(lambda: count(self.source, SYNCS) > syncs, "offset syncs")
        until(lambda: count(self.target, "heartbeats") > beats + 1, "heartbeats")

    def rights(self) -> tuple[Right, ...]:
        """One right of each duty, and what it says without it."""
        copy, copies = f"a.{self.orders}", f"a.{self.stem}"
        alter, configs, create = AclOperation.ALTER, AclOperation.ALTER_CONFIGS, AclOperation.CREATE
        return (
            Right(self.target, TOPIC, copies, create, f"allow CREATE on Topic a.{self.stem}-late to", PREFIXED),
            Right(self.target, TOPIC, copies, alter, f"allow ALTER on Topic {copy} to", PREFIXED),
            Right(self.target, TOPIC, copies, configs, f"allow ALTER_CONFIGS on Topic {copy} to", PREFIXED),
            Right(self.target, CLUSTER, "kafka-cluster", alter, "on the Cluster to this user"),
            Right(self.target, TOPIC, "heartbeats", WRITE, "allow WRITE, DESCRIBE and CREATE on Topic heartbeats to"),
            Right(self.target, TOPIC, CHECKPOINTS, WRITE, f"allow WRITE on Topic {CHECKPOINTS} to"),
            Right(self.source, TOPIC, SYNCS, WRITE, f"allow WRITE, DESCRIBE and CREATE on Topic {SYNCS} to"),
            Right(self.target, GROUP, self.stem, AclOperation.READ, f"on Group {self.group} to", PREFIXED),
        )


def test_every_duty_does_its_work_with_exactly_these_rights_and_names_the_one_that_is_gone(
    guarded: tuple[LabCluster, LabCluster], topic: Callable[..., str], tmp_path: Path
):
    scene = Scene(*guarded, topic("duty"))
    source, target, stem, orders = scene.source, scene.target, scene.stem, scene.orders
    copy, late, gone = f"a.{orders}", f"{stem}-late", f"{stem}-gone"
    scene.prepare()
    create_topic(source, gone)
    write(source, gone, (0,), records(5))
    clusters = {"a": source.client_properties("SASL_PLAIN"), "g": target.client_properties("SASL_PLAIN")}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->g": f"{stem}.*"}, SETTINGS | {"groups": f"{stem}.*"})
    grant_exactly(file, Side.SOURCE, source)
    grant_exactly(file, Side.TARGET, target)
    with Running(file, log=tmp_path / "run.log") as mirror:
        reaches(target, copy, 50)
        reaches(target, f"a.{gone}", 5)
        delete_topic(source, gone)
        add_partitions(source, orders, 2)
        set_retention(source, orders, "111000111")
        scene.see(partitions=2, retention="111000111", syncs=0, offset=30)
        until(lambda: not ends(target, f"a.{gone}"), "topic deletions")
        until(lambda: count(target, CHECKPOINTS), "checkpoints")
        assert "AUTHORIZATION" not in mirror.output, mirror.tail()

        told = count(target, CHECKPOINTS)
        syncs = count(source, SYNCS)
        allow(
            target, TOPIC, f"a.{stem}", AclOperation.DESCRIBE_CONFIGS, pattern=PREFIXED
        )  # else it goes with the other
        for right in scene.rights():
            forbid(right.cluster, right.kind, right.name, right.operation, right.pattern)
        add_partitions(source, orders, 3)
        set_retention(source, orders, "222000222")
        commit(source, scene.group, orders, {0: 40})
        create_topic(source, late)
        write(source, orders, (0,), records(10))
        reaches(target, copy, 60)
        for right in scene.rights():
            says(mirror, right.told)
        says(mirror, "(the user is mirror; sparkmirror acls --for target prints all that it needs)")
        for right in scene.rights():
            allow(right.cluster, right.kind, right.name, right.operation, pattern=right.pattern)
        scene.see(partitions=3, retention="222000222", syncs=syncs, offset=40)
        until(lambda: ends(target, f"a.{late}"), "topic creations")
        until(lambda: count(target, CHECKPOINTS) > told, "checkpoints")

        forbid(target, TOPIC, f"a.{stem}", AclOperation.DELETE, PREFIXED)
        delete_topic(source, late)
        says(mirror, f"allow DELETE on Topic a.{late} to this user")
        allow(target, TOPIC, f"a.{stem}", AclOperation.DELETE, pattern=PREFIXED)
        until(lambda: not ends(target, f"a.{late}"), "topic deletions")
        mirror.stop_in_time()
    assert "Traceback" not in mirror.output
