"""Applications that go on writing whatever happens to the brokers: records with unique ids, until they are stopped.

An application never hands a record over twice: what was not acknowledged is given up and the next id taken, so that a
record that is on the source twice would be a broker's mistake. What counts is what the source holds in the end.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from enum import StrEnum

from confluent_kafka import KafkaException, Producer

from sparkmirror.errors import LabError
from sparkmirror.lab.chaos.accounts import key_of
from sparkmirror.lab.tally import BEHIND_THE_ID

ANSWER_SECONDS = 30.0
STOP_SECONDS = 180.0
PAUSE_SECONDS = 0.1
QUIET = 0
OLD_MS = 30 * 86_400_000


class Style(StrEnum):
    """How an application writes."""

    SMALL = "batches of one record"
    LARGE = "large compressed batches"
    TRANSACTIONS = "transactions, of which each third aborts"
    OLD = "records that are 30 days old"
    COMPACTED = "few keys, compacted"


_SETTINGS: Mapping[Style, Mapping[str, object]] = {
    Style.SMALL: {"linger.ms": 0, "batch.num.messages": 1},
    Style.LARGE: {"linger.ms": 50, "compression.type": "lz4"},
    Style.TRANSACTIONS: {"linger.ms": 1, "transaction.timeout.ms": 15_000},
    Style.OLD: {"linger.ms": 20},
    Style.COMPACTED: {"linger.ms": 5},
}
_PER_TURN: Mapping[Style, int] = {
    Style.SMALL: 3,
    Style.LARGE: 60,
    Style.TRANSACTIONS: 9,
    Style.OLD: 9,
    Style.COMPACTED: 9,
}
_SIZE: Mapping[Style, int] = {
    Style.SMALL: 60,
    Style.LARGE: 300,
    Style.TRANSACTIONS: 80,
    Style.OLD: 80,
    Style.COMPACTED: 60,
}


class Application:
    """Writes to one topic from a thread of its own.

    Args:
        servers: bootstrap servers.
        topic: that it writes to, all partitions in turn.
        partitions: of the topic.
        style: how it writes.
        first: its first id.

    Attributes:
        topic: as given.
        written: ids that were handed over so far.
        failures: how often it had to begin with a new producer.
    """

    def __init__(self, servers: str, topic: str, partitions: int, style: Style, first: int = 0) -> None:
        self.topic, self.written, self.failures = topic, 0, 0
        self._servers, self._partitions, self._style = servers, partitions, style
        self._ids = itertools.count(first)
        self._stopping = threading.Event()
        self._paused = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"application {topic}", daemon=True)

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def pause(self) -> None:
        """Begins no new turn until `go_on`; what was handed over is still sent."""
        self._paused.set()

    def go_on(self) -> None:
        """Writes again after `pause`."""
        self._paused.clear()

    def stop(self) -> None:
        """Ends when all is acknowledged or given up.

        Raises:
            LabError: it does not end.
        """
        self._stopping.set()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            raise LabError(f"the application that writes to {self.topic} does not end")

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._write_on()
            except (KafkaException, BufferError):
                self.failures += 1
                time.sleep(PAUSE_SECONDS)

    def _write_on(self) -> None:
        """Writes with one producer until it fails or the application is stopped."""
        given = {"bootstrap.servers": self._servers, "enable.idempotence": True, "log_level": QUIET}
        if self._style is Style.TRANSACTIONS:
            given["transactional.id"] = f"application-{self.topic}"
        producer = Producer(given | dict(_SETTINGS[self._style]))
        if self._style is Style.TRANSACTIONS:
            producer.init_transactions(ANSWER_SECONDS)
        for turn in itertools.count():
            if self._stopping.wait(PAUSE_SECONDS):
                break
            if self._paused.is_set():
                producer.poll(0)
                continue
            if self._style is Style.TRANSACTIONS:
                self._transaction(producer, abort=turn % 3 == 2)
            else:
                self._turn(producer)
                producer.poll(0)
        producer.flush(ANSWER_SECONDS)

    def _transaction(self, producer: Producer, *, abort: bool) -> None:
        producer.begin_transaction()
        self._turn(producer)
        if abort:
            producer.flush(ANSWER_SECONDS)
            producer.abort_transaction(ANSWER_SECONDS)
        else:
            producer.commit_transaction(ANSWER_SECONDS)

    def _turn(self, producer: Producer) -> None:
        aged = OLD_MS if self._style is Style.OLD else 0
        for _ in range(_PER_TURN[self._style]):
            number = next(self._ids)
            value = (b"%d" % number + BEHIND_THE_ID).ljust(_SIZE[self._style], b"x")
            timestamp = int(time.time() * 1000) - aged
            key = b"%d-%d" % key_of(number) if self._style is Style.COMPACTED else b"key-%d" % number
            producer.produce(self.topic, value, key, partition=number % self._partitions, timestamp=timestamp)
            self.written += 1
