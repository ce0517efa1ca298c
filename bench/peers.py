"""The three that copy: how each is started for one run.

MirrorMaker 2 and sparkmirror are given the very same file. Both start from nothing at every run: the aliases are new,
so no topic of an earlier run is theirs.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from brokers import Side
from meter import Tree
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.lab.ports import free_ports
from sparkmirror.spark.java import find_java
from workloads import Peer, Workload

HERE = Path(__file__).parent

# What bin/connect-mirror-maker.sh and bin/kafka-run-class.sh of Kafka 4.3.1 pass by default, but for the logging.
JVM = (
    "-Xms256M",
    "-Xmx2G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

FILE = """\
clusters = {source}, {target}
{source}.bootstrap.servers = {source_servers}
{target}.bootstrap.servers = {target_servers}
{source}->{target}.enabled = true
{source}->{target}.topics = {topic}
{target}->{source}.enabled = false
tasks.max = 2
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
{source}.consumer.auto.offset.reset = earliest
"""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one peer that has been started.

    Attributes:
        tree: its processes.
        target_topic: where the copy appears.
        command, environment: how it was started.
    """

    tree: Tree
    target_topic: str
    command: Sequence[str]
    environment: Mapping[str, str]


def again(run: Run) -> Run:
    """Starts the same command once more."""
    log = run.tree.log.with_suffix(".again.log")
    return replace(run, tree=Tree(run.command, log=log, environment=run.environment))


def launch(peer: Peer, workload: Workload, topic: str, source: Side, target: Side, directory: Path) -> Run:
    """Starts a peer on a topic that exists on the source."""
    number = next(_numbers)
    log = directory / f"{number}-{workload.name}-{peer.value}.log"
    environment = {**find_java().environment(), "PYTHONUNBUFFERED": "1"}
    if peer is Peer.RAW:
        target.create(topic, workload.partitions)
        told = (source.servers, target.servers, topic, topic, str(workload.partitions))
        command = [sys.executable, str(HERE / "raw.py"), *told]
        return _started(command, log, environment, topic)
    aliases = {"source": f"s{number}", "target": f"t{number}"}
    file = directory / f"{number}-mm2.properties"
    target_servers = target.far_servers if workload.link else target.servers
    text = FILE.format(topic=topic, source_servers=source.servers, target_servers=target_servers, **aliases)
    names = aliases | {"port": str(free_ports(1)[0])}
    settings = (f"{key.format(**names)} = {value.format(**names)}\n" for key, value in workload.settings.items())
    file.write_text(text + "".join(settings))
    if peer is Peer.MIRROR_MAKER:
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        command = [str(find_java().executable), *JVM, "-cp", f"{mirror_maker_jars()}{os.sep}*", main, str(file)]
    else:
        command = [str(Path(sys.executable).with_name("sparkmirror")), "run", str(file)]
    return _started(command, log, environment, f"{aliases['source']}.{topic}")


def _started(command: Sequence[str], log: Path, environment: Mapping[str, str], target_topic: str) -> Run:
    tree = Tree(command, log=log, environment=environment)
    return Run(tree=tree, target_topic=target_topic, command=command, environment=environment)
