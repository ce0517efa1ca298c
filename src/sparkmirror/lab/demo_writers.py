"""The applications of the demo: one producer per topic, open from the first record to the last.

Invariant: a topic's records are numbered, and each number is written once; so the records that must arrive are known
without asking anyone.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from types import TracebackType

from confluent_kafka.admin import AdminClient, NewTopic

from sparkmirror.lab.demo_topics import RECORDS, TOPICS, Client, DemoTopic
from sparkmirror.lab.jars import jars
from sparkmirror.lab.producers import JavaProducer, LibrdkafkaProducer, RecordWriter
from sparkmirror.spark.gateway import Gateway

WAITING_SHARE = 0.75
LIVE_S, SLICES = 4.0, 10
ANSWER_S = 30.0
QUIET = 2


class DemoWriters:
    """Fills the demo's topics on one cluster; a context manager that closes the producers.

    Args:
        servers: bootstrap servers.
        records: committed records in all, about.

    Attributes:
        committed: by topic, how many committed records there will be in the end.
        waiting: by topic, how many of them `write_waiting` writes.
    """

    def __init__(self, servers: str, records: int) -> None:
        self.committed = {topic.name: max(8, round(topic.share * records / RECORDS)) for topic in TOPICS}
        self.waiting = {
            topic.name: self.committed[topic.name]
            if topic.transactions
            else round(self.committed[topic.name] * WAITING_SHARE)
            for topic in TOPICS
        }
        self._servers = servers
        self._stack = ExitStack()
        self._writers: dict[str, RecordWriter] = {}
        self._transactional: dict[str, JavaProducer] = {}

    def __enter__(self) -> DemoWriters:
        self._create_topics()
        gateway = self._stack.enter_context(Gateway(jars(), options=("-Xmx256m",)))
        for topic in TOPICS:
            settings = {"compression.type": topic.codec}
            if topic.transactions:
                transactional = JavaProducer(
                    gateway, self._servers, settings | {"transactional.id": f"demo-{topic.name}"}
                )
                self._transactional[topic.name] = self._stack.enter_context(closing(transactional))
            elif topic.client is Client.JAVA:
                self._writers[topic.name] = self._stack.enter_context(
                    closing(JavaProducer(gateway, self._servers, settings))
                )
            else:
                self._writers[topic.name] = self._stack.enter_context(
                    closing(LibrdkafkaProducer(self._servers, settings))
                )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the producers."""
        self._stack.close()

    def write_waiting(self) -> None:
        """Writes the records that wait for the mirror, and the transactions; both kinds of producers at once."""

        def write(client: Client) -> None:
            for topic in TOPICS:
                if topic.client is client and topic.transactions:
                    self._write_transactions(topic)
                elif topic.client is client:
                    self._write(topic, 0, self.waiting[topic.name])

        with ThreadPoolExecutor(len(Client)) as pool:
            for job in [pool.submit(write, client) for client in Client]:
                job.result()

    def write_live(self) -> None:
        """Writes the other records, spread over LIVE_S."""
        began = time.monotonic()
        for number in range(SLICES):
            time.sleep(max(0.0, began + number * LIVE_S / SLICES - time.monotonic()))
            for topic in TOPICS:
                first, end = self.waiting[topic.name], self.committed[topic.name]
                step = (end - first) / SLICES
                if not topic.transactions:
                    self._write(topic, first + round(number * step), first + round((number + 1) * step))

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": QUIET})
        topics = [NewTopic(topic.name, topic.partitions, 1, config=dict(topic.settings)) for topic in TOPICS]
        for future in admin.create_topics(topics).values():
            future.result(ANSWER_S)

    def _write(self, topic: DemoTopic, first: int, end: int) -> None:
        writer = self._writers[topic.name]
        for record in topic.records(first, end):
            writer.write(topic.name, record)
        writer.flush()

    def _write_transactions(self, topic: DemoTopic) -> None:
        """One that commits, then one that aborts: the aborted records lie in the log and may not arrive."""
        producer, count = self._transactional[topic.name], self.committed[topic.name]
        for first, end, conclude in ((0, count, producer.commit), (count, count + count // 4, producer.abort)):
            producer.begin()
            for record in topic.records(first, end):
                producer.write(topic.name, record)
            conclude()
