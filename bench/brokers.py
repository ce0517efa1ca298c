"""The two brokers of the benchmark: topics made, filled, watched and deleted.

Everything goes through clients that others wrote: Kafka's own ProducerPerformance and librdkafka.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.lab.jvm import Load
from sparkmirror.lab.listeners import Listener
from sparkmirror.spark.java import find_java
from workloads import LINK_DELAY_MS, PARTITIONS, Workload

ANSWER_S = 30.0
LATEST: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent-kafka left its type out
PRODUCE_S = 1_800.0
QUIET = 2  # syslog's critical: at the end the brokers go before the clients, which is no news
SETTINGS = {
    "auto.create.topics.enable": "false",  # asking for a topic that is not there yet may not make it
    "log.segment.delete.delay.ms": "1000",  # what is deleted frees its disk at once
}


@dataclass(slots=True)
class Side:
    """One cluster, with an admin client that is kept."""

    cluster: LabCluster
    admin: AdminClient

    @property
    def servers(self) -> str:
        """Bootstrap servers."""
        return self.cluster.bootstrap_servers

    @property
    def far_servers(self) -> str:
        """Bootstrap servers behind the link."""
        return self.cluster.listener(Listener.LINK)

    def create(self, topic: str, partitions: int = PARTITIONS, config: dict[str, str] | None = None) -> None:
        """Makes a topic."""
        _all(self.admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})]))

    def clear(self, keep: str = "") -> None:
        """Deletes every topic but ``keep`` and the brokers' own, and waits until they are gone."""
        doomed = [name for name in self.topics() if not name.startswith("__") and name != keep]
        if doomed:
            _all(self.admin.delete_topics(doomed, operation_timeout=ANSWER_S))
        deadline = time.monotonic() + ANSWER_S
        while self.topics() & set(doomed):
            if time.monotonic() > deadline:
                raise SystemExit(f"topics of cluster {self.cluster.name} are still there after deleting them: {doomed}")
            time.sleep(0.05)

    def topics(self) -> set[str]:
        """Names of all topics."""
        return set(self.admin.list_topics(timeout=ANSWER_S).topics)

    def ends(self, topic: str) -> dict[int, int]:
        """End offset by partition; empty while there is no such topic."""
        known = self.admin.list_topics(timeout=ANSWER_S).topics.get(topic)
        return self.end_offsets(topic, len(known.partitions)) if known and known.partitions else {}

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """End offset by partition of a topic that is known to exist; empty while a leader is missing."""
        wanted = {TopicPartition(topic, partition): LATEST for partition in range(partitions)}
        try:
            answers = self.admin.list_offsets(wanted, request_timeout=ANSWER_S)
            return {place.partition: future.result(ANSWER_S).offset for place, future in answers.items()}
        except KafkaException:  # a partition is without a leader for a moment; those who wait have a deadline
            return {}

    def log_bytes(self, topic: str) -> int:
        """Bytes of a topic's batches, as they lie in the broker's log."""
        (broker,) = self.cluster.brokers
        return sum(file.stat().st_size for file in (broker.directory / "data").glob(f"{topic}-*/*.log"))

    def drop_before(self, topic: str, ends: dict[int, int]) -> None:
        """Frees the disk of the records below these offsets (DeleteRecords)."""
        _all(self.admin.delete_records([TopicPartition(topic, partition, end) for partition, end in ends.items()]))


@contextmanager
def two_clusters() -> Iterator[tuple[Side, Side]]:
    """Two fresh single-node clusters, source and target; the target can be reached over a link too."""
    with (
        start("source", config=SETTINGS, load=Load.HEAVY) as source,
        start(
            "target", config=SETTINGS, load=Load.HEAVY, security=[Listener.LINK], link_delay_ms=LINK_DELAY_MS
        ) as target,
    ):
        yield _side(source), _side(target)


def _side(cluster: LabCluster) -> Side:
    return Side(cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": QUIET}))


def fill(side: Side, topic: str, workload: Workload, records: int, payload: Path | None) -> None:
    """Writes the records with Kafka's own producer, spread evenly over the partitions."""
    command = [
        str(find_java().executable),
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        f"{mirror_maker_jars()}/*",
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--throughput", "-1"),
        *(("--payload-file", str(payload)) if payload else ("--record-size", str(workload.size))),
        "--producer-props",
        f"bootstrap.servers={side.servers}",
        f"batch.size={workload.batch_size}",
        f"compression.type={workload.codec}",
        f"linger.ms={50 if workload.batch_size else 0}",
        "partitioner.adaptive.partitioning.enable=false",
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PRODUCE_S, check=False)
    written = sum(side.ends(topic).values())
    if run.returncode or written < records:
        raise SystemExit(
            f"ProducerPerformance wrote {written} of {records} records:\n{run.stdout}{run.stderr}"[-4_000:]
        )


def _all(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        future.result(ANSWER_S)
