"""Members of consumer groups (librdkafka) that read and commit all the time, at paces of their own.

Invariant: they commit what they were given; a group's offset never lies beyond a record that it did not get.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException

from sparkmirror.errors import LabError

STOP_S = 60.0
POLL_S = 0.1
SESSION_MS = 6_000
MOST = 40
"""Records that a member takes at once, at most: it stands at some place within a batch."""

COMMITS = 0.7
"""How often it commits what it took."""


class Members:
    """One member of each group, each with a thread of its own; a context manager that has them leave.

    Args:
        servers: bootstrap servers.
        topics: that they read.
        groups: their names.
        seed: of their paces.
    """

    def __init__(self, servers: str, topics: Sequence[str], groups: Sequence[str], seed: int) -> None:
        self._servers, self._topics = servers, list(topics)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=(group, random.Random(seed + number)), name=group, daemon=True)
            for number, group in enumerate(groups)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def leave(self) -> None:
        """Has them leave their groups, which takes as long as their cluster is not there."""
        self._stop.set()

    def stop(self) -> None:
        """Has them leave, and waits until they have. May be called again.

        Raises:
            LabError: one does not end.
        """
        self.leave()
        for thread in self._threads:
            thread.join(STOP_S)
            if thread.is_alive():
                raise LabError(f"the member of group {thread.name} does not end within {STOP_S:.0f} s")

    def _read(self, group: str, chance: random.Random) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": SESSION_MS,
                "log_level": 0,
            }
        )
        consumer.subscribe(self._topics)
        try:
            while not self._stop.is_set():
                read = consumer.consume(chance.randint(1, MOST), POLL_S)
                if any(message.error() is None for message in read) and chance.random() < COMMITS:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=False)
        except KafkaException:  # nothing to commit, or the cluster is gone
            self._stop.wait(2 * POLL_S)
