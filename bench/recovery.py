"""How long partitions stand still when a lane, or the driver, is killed while applications write to all of them.

A partition flows again when its target end has grown by two: one may be the control record of the fence. *Killed lane*:
from SIGKILL of a lane's Python worker until every partition flows. *Takeover*: the driver is killed and gone; from
starting the same command until every partition flows.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median

from confluent_kafka import KafkaError, Message, Producer

from brokers import Side
from measure import FIRST_RECORD_S, SILENCE_S, Figures, RunFailedError, costs
from peers import Run
from sparkmirror.lab.processes import command_line, descendants, is_there, lane_workers

LOOK_S = 0.05
PER_PARTITION_S = 2.0
"""Records per second for each partition."""
GROWN = 2
LANE_KILLS = 3


def recovery(run: Run, again: Callable[[], Run], source: Side, target: Side, topic: str, partitions: int) -> Figures:
    """Kills a lane's worker a few times, then the driver, and starts the same command anew by ``again``."""
    stop = threading.Event()
    producer = Producer({"bootstrap.servers": source.servers, "linger.ms": 5, "acks": "all"})
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, producer, topic, partitions, stop)
        try:
            all_grow(run, target, dict.fromkeys(range(partitions), 0), FIRST_RECORD_S, writing)
            lanes = [_kill_a_lane(run, target, partitions, writing) for _ in range(LANE_KILLS)]
            kill_the_driver(run)
            before = target.end_offsets(run.target_topic, partitions)
            following = again()
            with following.tree:
                all_grow(following, target, before, FIRST_RECORD_S, writing)
                takeover_s = time.monotonic() - following.tree.started
                account = following.tree.stop()
        finally:
            stop.set()
    return {"lane_back_s": median(lanes), "lane_back_most_s": max(lanes), "takeover_s": takeover_s} | costs(account)


def write(producer: Producer, topic: str, partitions: int, stop: threading.Event) -> None:
    """Writes to every partition in turn, at a fixed rate; slower where the source takes no more.

    Raises:
        RunFailedError: the source did not take a record.
    """
    began, number = time.monotonic(), 0
    while not stop.is_set():
        try:
            producer.produce(topic, b"%d" % number, partition=number % partitions, on_delivery=_delivered)
        except BufferError:
            producer.poll(LOOK_S)
            continue
        producer.poll(0)
        number += 1
        if number % 100 == 0:
            time.sleep(max(0.0, began + number / (partitions * PER_PARTITION_S) - time.monotonic()))
    producer.flush(SILENCE_S)


def _delivered(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise RunFailedError(f"the source did not take a record: {error}")


def all_grow(run: Run, target: Side, before: dict[int, int], seconds: float, writing: Future[None]) -> None:
    """Waits until every partition flows.

    Raises:
        RunFailedError: one stands still for that many seconds, or the run or what writes to the source has ended.
    """
    deadline = time.monotonic() + seconds
    while True:
        ends = target.end_offsets(run.target_topic, len(before)) if run.target_topic in target.topics() else {}
        behind = [partition for partition, end in before.items() if ends.get(partition, 0) < end + GROWN]
        if not behind:
            return
        if writing.done():
            raise RunFailedError(f"writing to the source ended: {writing.exception()!r}") from writing.exception()
        if run.tree.ended():
            raise RunFailedError(f"it ended, see {run.tree.log}:\n{run.tree.tail()}")
        if time.monotonic() > deadline:
            raise RunFailedError(
                f"{len(behind)} partitions stand still for {seconds:.0f} s, see {run.tree.log}:\n{run.tree.tail()}"
            )
        time.sleep(LOOK_S)


def _kill_a_lane(run: Run, target: Side, partitions: int, writing: Future[None]) -> float:
    """Seconds until every partition has grown again."""
    workers = lane_workers(_driver(run))
    before = target.end_offsets(run.target_topic, partitions)
    began = time.monotonic()
    os.kill(max(workers), signal.SIGKILL)
    all_grow(run, target, before, SILENCE_S, writing)
    return time.monotonic() - began


def _driver(run: Run) -> int:
    """The command itself."""
    (driver,) = (pid for pid in descendants(run.tree.pid) if run.command[0] in command_line(pid))
    return driver


def kill_the_driver(run: Run) -> None:
    """SIGKILL for the command; its processes end with it.

    Raises:
        RunFailedError: they do not.
    """
    family = descendants(run.tree.pid)
    os.kill(_driver(run), signal.SIGKILL)
    deadline = time.monotonic() + SILENCE_S
    while any(is_there(pid) for pid in family):
        if time.monotonic() > deadline:
            raise RunFailedError("processes of a killed driver live on")
        time.sleep(LOOK_S)
