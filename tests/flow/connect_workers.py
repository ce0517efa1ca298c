"""MirrorMaker 2's three connectors on a real Kafka Connect worker, told over REST as its users and Strimzi do."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import KAFKA_VERSION
from sparkmirror.lab.ports import HOST, free_ports
from tests.flow.mirror_makers import JavaProcess
from tests.flow.moves import Move
from tests.flow.running import until

ANSWER_SECONDS = 30.0
START_SECONDS = 120.0

SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

Config = dict[str, str]

OWN: Mapping[str, Config] = {
    SOURCE: {
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "2",
        "sync.topic.acls.enabled": "false",
        "heartbeats.replication.enabled": "false",
    },
    CHECKPOINT: {
        "checkpoints.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    },
    HEARTBEAT: {"heartbeats.topic.replication.factor": "1"},
}
"""What each connector needs on one broker, and for a test that does not want to wait."""


class Worker(JavaProcess):
    """A worker of ``connect-distributed.sh``.

    Args:
        cluster: where it keeps its topics.
        directory: for its file and its log.
        names: the settings that name its group and its topics.
    """

    def __init__(self, cluster: LabCluster, directory: Path, names: Mapping[str, str]) -> None:
        (port,) = free_ports(1)
        self._url = f"http://{HOST}:{port}"
        keys = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "listeners": self._url,
            "plugin.discovery": "service_load",
            "offset.storage.partitions": "5",
            "offset.flush.interval.ms": "2000",
            **{f"{kind}.storage.replication.factor": "1" for kind in ("offset", "status", "config")},
            **names,
        }
        file = directory / f"connect-{port}.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        super().__init__("cli.ConnectDistributed", file, directory / f"connect-{port}.log")

    def run(self, connectors: Mapping[str, Config]) -> None:
        """Creates the connectors, or leaves those that a worker before it has created, and waits until they run."""
        until(self._answers, "the worker answers", START_SECONDS)
        for name, config in connectors.items():
            self._call("PUT", f"{quote(name)}/config", config)
        for name in connectors:
            self._reaches(name, "RUNNING")

    def has_stored(self, name: str, partitions: int) -> bool:
        """Whether the positions of so many partitions are stored, as Connect itself tells."""
        return len(self._call("GET", f"{quote(name)}/offsets")["offsets"]) >= partitions

    def stop_connectors(self, *names: str) -> None:
        """As an operator would who leaves the worker to other connectors."""
        for name in names:
            self._call("PUT", f"{quote(name)}/stop")
            self._reaches(name, "STOPPED")

    def resume_connectors(self, *names: str) -> None:
        for name in names:
            self._call("PUT", f"{quote(name)}/resume")
            self._reaches(name, "RUNNING")

    def _answers(self) -> bool:
        try:
            self._call("GET", "")
        except OSError:
            return False
        return True

    def _reaches(self, name: str, state: str) -> None:
        def reached() -> bool:
            try:
                status = self._call("GET", f"{quote(name)}/status")
            except urllib.error.HTTPError:  # not there yet, or the workers are dealing it out
                return False
            tasks = {task["state"] for task in status["tasks"]}
            return status["connector"]["state"] == state and tasks <= ({state} if state == "RUNNING" else set())

        until(reached, f"{name} is {state}", START_SECONDS)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self._url}/connectors/{path}".rstrip("/"),
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None


class OnWorkers:
    """A flow whose three connectors run on workers of Kafka Connect; what sparkmirror reads is written by subclasses.

    Attributes:
        names: of the connectors by class.
        offsets: the workers' topic of offsets.
        take_over, hand_over: the options for sparkmirror where the files do not tell that topic.
    """

    take_over: tuple[str, ...] = ()
    hand_over: tuple[str, ...] = ()

    def __init__(self, move: Move, stem: str, names: Mapping[str, str]) -> None:
        self.move, self.names, self.offsets = move, names, f"{stem}-offsets"
        topics = {"offset": "offsets", "status": "status", "config": "configs"}
        self._worker = {f"{kind}.storage.topic": f"{stem}-{topic}" for kind, topic in topics.items()}
        self._worker |= {"group.id": stem, "key.converter": BYTES, "value.converter": BYTES}

    @property
    def connectors(self) -> dict[str, Config]:
        """As they are handed to Connect, by name."""
        pair = {
            "source.cluster.alias": self.move.alias,
            "source.cluster.bootstrap.servers": self.move.source.bootstrap_servers,
            "target.cluster.alias": "b",
            "target.cluster.bootstrap.servers": self.move.target.bootstrap_servers,
            "tasks.max": "2",
        }
        package = "org.apache.kafka.connect.mirror"
        return {
            self.names[kind]: {"connector.class": f"{package}.{kind}", **pair, **own, **self._patterns(kind)}
            for kind, own in OWN.items()
        }

    def worker(self) -> Worker:
        return Worker(self.move.target, self.move.directory, self._worker)

    def _patterns(self, kind: str) -> Config:
        return {"topics": f"{self.move.alias}-.*"} if kind == SOURCE else {}


class OnConnect(OnWorkers):
    """Connectors that people created over REST; the file of each, as it was handed to Connect, is sparkmirror's too."""

    def __init__(self, move: Move) -> None:
        super().__init__(move, f"{move.alias}-connect", {kind: f"{move.alias}-{kind}" for kind in OWN})
        self.hand_over = ("--offsets-topic", self.offsets)
        self.take_over = ("--take-over", "mm2", *self.hand_over)
        self.write_files()

    def write_files(self, **more: str) -> None:
        """Writes the files.

        Args:
            more: what the source connector's says beside what Connect was handed, for sparkmirror.
        """
        files = {self.move.directory / f"{name}.json": (name, config) for name, config in self.connectors.items()}
        for file, (name, config) in files.items():
            own = more if name == self.names[SOURCE] else {}
            file.write_text(json.dumps({"name": name, "config": config | own}))
        self.move.files = list(files)


class OnStrimzi(OnWorkers):
    """A ``KafkaMirrorMaker2`` resource; worker and connectors have the names that Strimzi's operator gives them."""

    def __init__(self, move: Move) -> None:
        names = {kind: f"{move.alias}->b.{kind}" for kind in OWN}
        super().__init__(move, "mirrormaker2-cluster", names)
        file = move.directory / "mirror-maker-2.yaml"
        file.write_text(yaml.safe_dump(self._resource()))
        move.files = [file]

    def _resource(self) -> dict[str, Any]:
        clusters = {self.move.alias: self.move.source, "b": self.move.target}
        sections = {f"{kind[6].lower()}{kind[7:]}": {"config": own} for kind, own in OWN.items()}
        mirror = {"sourceCluster": self.move.alias, "targetCluster": "b", **self._patterns(SOURCE)}
        mirror["topicsPattern"] = mirror.pop("topics")
        return {
            "apiVersion": "kafka.strimzi.io/v1beta2",
            "kind": "KafkaMirrorMaker2",
            "metadata": {"name": "mirror-maker-2", "namespace": "streams"},
            "spec": {
                "version": KAFKA_VERSION,
                "replicas": 1,
                "connectCluster": "b",
                "clusters": [
                    {"alias": alias, "bootstrapServers": cluster.bootstrap_servers}
                    for alias, cluster in clusters.items()
                ],
                "mirrors": [{**mirror, **sections}],
            },
        }
