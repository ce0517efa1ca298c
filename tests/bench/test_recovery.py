"""Applications go on writing while a benchmark kills what copies; where they cannot, it ends and says why."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer

from brokers import QUIET
from measure import RunFailedError
from recovery import all_grow, write

FULL = 10
"""Records that wait in the producer."""
PARTITIONS = 1_000
"""So many that the next hundred records are due at once."""


class After(threading.Event):
    """Is set once it has been asked for that many times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._left = times

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_a_producer_that_takes_no_more_is_waited_for():
    """The brokers are librdkafka's own, and what waits leaves twice a second."""
    producer = Producer(
        {"test.mock.num.brokers": 1, "queue.buffering.max.messages": FULL, "linger.ms": 500, "log_level": QUIET}
    )
    write(producer, "t", 1, After(5 * FULL))
    assert len(producer) == 0


def test_a_source_that_takes_no_records_ends_it():
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 500, "log_level": QUIET})
    with pytest.raises(RunFailedError, match=r"the source did not take a record: .*timed out"):
        write(producer, "t", PARTITIONS, After(4_000))


def test_a_benchmark_does_not_wait_for_copies_of_what_nobody_writes():
    run: Any = SimpleNamespace(target_topic="copy", tree=SimpleNamespace(ended=lambda: False))
    target: Any = SimpleNamespace(topics=set)
    writing: Future[None] = Future()
    writing.set_exception(RunFailedError("the source did not take a record"))
    with pytest.raises(RunFailedError, match=r"writing to the source ended: .*the source did not take a record"):
        all_grow(run, target, {0: 0}, 1.0, writing)
