"""Consumer groups of Kafka's own Java client, of both group protocols, beside those of librdkafka in ``clients``.

They run in one JVM of their own, driven through the lab's gateway: no Java source, no compiler.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import jars
from sparkmirror.lab.members import Members
from sparkmirror.spark.gateway import Gateway, JavaFailure
from tests.flow.logs import Log

PROTOCOLS = ("classic", "consumer")
"""Values of ``group.protocol``: the second one is that of KIP-848."""

POLL_MS, COMMIT_MS, CLOSE_MS = 100, 2_000, 3_000
FIRST_SECONDS = 60.0
MOST_AT_ONCE = 40

_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class JavaReaders(Members):
    """Members of groups, one each, that read a topic slowly and commit now and then; a context manager.

    Args:
        cluster: to read from.
        topic: to read.
        groups: their names, and the protocol of each.
        seed: of their paces.

    Attributes:
        commits: how often each group has committed.
    """

    def __init__(self, cluster: LabCluster, topic: str, groups: Mapping[str, str], seed: int) -> None:
        self.commits = dict.fromkeys(groups, 0)
        self._cluster, self._topic, self._groups = cluster, topic, groups
        self._gateway = Gateway(jars(), options=("-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"))
        super().__init__(cluster.bootstrap_servers, [topic], list(groups), seed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._gateway.__exit__(kind, error, trace)

    def first(self, cluster: LabCluster, group: str, topic: str, log: Log) -> dict[int, bytes | None]:
        """The value of the first record that a new member of a group gets, by partition; None where there is none.

        The group must have an offset in every partition: one without would begin anywhere, and Java throws here.
        """
        consumer = self._consumer(cluster, group, {"auto.offset.reset": "none"})
        found: dict[int, bytes | None] = {}
        try:
            consumer.subscribe(self._gateway.jvm.java.util.List.of(topic))
            deadline = time.monotonic() + FIRST_SECONDS
            while len(found) < len(log):
                assert time.monotonic() < deadline, f"{group} on {cluster.name}: only {sorted(found)} of {len(log)}"
                records = consumer.poll(self._ms(POLL_MS))
                for place in records.partitions():
                    found.setdefault(place.partition(), records.records(place).get(0).value())
                places = consumer.assignment()
                ends = consumer.endOffsets(places)
                for place in places:
                    if consumer.position(place) >= ends.get(place):
                        found.setdefault(place.partition(), None)
        finally:
            consumer.close(self._ms(CLOSE_MS))
        return found

    def _read(self, group: str, chance: random.Random) -> None:
        paced = {"auto.offset.reset": "earliest", "max.poll.records": str(chance.randint(5, MOST_AT_ONCE))}
        consumer = self._consumer(self._cluster, group, paced)
        consumer.subscribe(self._gateway.jvm.java.util.List.of(self._topic))
        try:
            while not self._stop.is_set():
                if consumer.poll(self._ms(POLL_MS)).count() and chance.random() < 0.7:
                    self._commit_sync(consumer, group)
        finally:
            consumer.close(self._ms(CLOSE_MS))

    def _commit_sync(self, consumer: Any, group: str) -> None:
        try:
            consumer.commitSync(self._ms(COMMIT_MS))
            self.commits[group] += 1
        except JavaFailure:  # the cluster is gone
            self._stop.wait(0.2)

    def _consumer(self, cluster: LabCluster, group: str, further: Mapping[str, str]) -> Any:
        told = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "group.protocol": self._groups[group],
            "enable.auto.commit": "false",
            "isolation.level": "read_committed",
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
            **({"session.timeout.ms": "6000"} if self._groups[group] == "classic" else {}),
        }
        settings = self._gateway.jvm.java.util.Properties()
        for key, value in {**told, **further}.items():
            settings.setProperty(key, value)
        return self._gateway.jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)

    def _ms(self, number: int) -> Any:
        return self._gateway.jvm.java.time.Duration.ofMillis(number)
