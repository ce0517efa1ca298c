"""Producers that go on while a mirror runs, starts, stops and dies: all that a source topic can hold, counted."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from sparkmirror.lab.cluster import LabCluster

PAUSE_SECONDS = 0.05
ACKNOWLEDGED_S = 60.0


class Traffic:
    """Writes to one topic, a little every few milliseconds, from a thread of its own, until it is stopped.

    Attributes:
        topic: it writes to.
        written: committed records so far.

    Args:
        cluster: to write to.
        topic: to write to.
        partitions: in turn.
        mark: values begin with it.
        nulls: whether some keys and values are null; without them no two records are equal.
        age_s: how old the records say they are.
    """

    def __init__(
        self,
        cluster: LabCluster,
        topic: str,
        partitions: int,
        *,
        mark: str = "",
        nulls: bool = True,
        age_s: float = 0.0,
    ) -> None:
        self.topic = topic
        self.written = 0
        self._cluster = cluster
        self._partitions = partitions
        self._mark = mark
        self._nulls = nulls
        self._age_s = age_s
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._numbers = itertools.count()

    def some(self, kind: str, least: int) -> int:
        """Writes at least so many records of a kind, named as the methods below, and gives how many it wrote."""
        with getattr(self, kind)():
            deadline = time.monotonic() + ACKNOWLEDGED_S
            while self.written < least:
                assert time.monotonic() < deadline, f"{self.topic}: {self.written} of {least} records"
                time.sleep(PAUSE_SECONDS)
        return self.written

    @contextmanager
    def small(self, per_turn: int = 8) -> Iterator[Traffic]:
        """Batches of one record."""
        with self._running(lambda: self._plain({"linger.ms": 0, "batch.num.messages": 1}, per_turn, 60)):
            yield self

    @contextmanager
    def large(self, per_turn: int = 300, codec: str = "lz4", size: int = 300) -> Iterator[Traffic]:
        """Batches of hundreds of records."""
        settings = {"linger.ms": 50, "batch.size": 200_000, "compression.type": codec}
        with self._running(lambda: self._plain(settings, per_turn, size)):
            yield self

    @contextmanager
    def transactions(self) -> Iterator[Traffic]:
        """Transactions, of which each third aborts."""
        with self._running(self._transactions):
            yield self

    @contextmanager
    def _running(self, work: Callable[[], None]) -> Iterator[None]:
        def run() -> None:
            try:
                work()
            except BaseException as failure:  # noqa: BLE001 - the test's own thread raises it
                self._failure = failure

        thread = threading.Thread(target=run, name=f"traffic {self.topic}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            thread.join(2 * ACKNOWLEDGED_S)
        assert not thread.is_alive(), f"the producer of {self.topic} does not end"
        if self._failure is not None:
            raise self._failure

    def _producer(self, settings: dict[str, object]) -> Producer:
        given = {"bootstrap.servers": self._cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 3}
        return Producer(given | settings)

    def _write(self, producer: Producer, size: int) -> None:
        number = next(self._numbers)
        key = None if self._nulls and number % 5 == 0 else b"key-%d" % number
        value = None if self._nulls and number % 11 == 0 else f"{self._mark}{number}-".encode().ljust(size, b"x")
        headers: list[tuple[str, str | bytes | None]] = [("number", b"%d" % number), ("empty", b""), ("null", None)]
        some = headers if number % 3 == 0 else []
        when = int((time.time() - self._age_s) * 1000)
        place = number % self._partitions
        while True:
            try:
                producer.produce(self.topic, value, key, partition=place, headers=some, timestamp=when)
            except BufferError:  # the broker is away for long
                producer.poll(PAUSE_SECONDS)
            else:
                return

    def _plain(self, settings: dict[str, object], per_turn: int, size: int) -> None:
        producer = self._producer(settings)
        while not self._stopping.wait(PAUSE_SECONDS):
            for _ in range(per_turn):
                self._write(producer, size)
                self.written += 1
            producer.poll(0)
        assert producer.flush(ACKNOWLEDGED_S) == 0, f"{self.topic}: records were not acknowledged"

    def _transactions(self) -> None:
        producer = self._producer({"transactional.id": f"traffic-{self.topic}", "linger.ms": 1})
        producer.init_transactions(ACKNOWLEDGED_S)
        for turn in itertools.count():
            if self._stopping.wait(PAUSE_SECONDS):
                return
            producer.begin_transaction()
            for _ in range(10):
                self._write(producer, 80)
            if turn % 3 == 2:
                producer.flush(ACKNOWLEDGED_S)
                producer.abort_transaction(ACKNOWLEDGED_S)
            else:
                producer.commit_transaction(ACKNOWLEDGED_S)
                self.written += 10
