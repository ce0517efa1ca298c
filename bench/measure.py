"""How a run is measured: copying by the target's end offsets, latency by a producer and a consumer of librdkafka.

Definitions, the same for every peer:

- *start*: from starting the process to the first record that a request for the target's end offsets reports.
- *rate*: the records that appear after that moment, divided by the time until the last one has appeared, or by the time
  that the workload allows; the backlog was there before the process. So it is copying alone, warm-up of compilers
  included, start-up not.
- *CPU per GB*: CPU seconds of the whole process tree between the same two moments, by GB of keys and values.
- *latency*: from the call that hands a record to the producer on the source to the call that hands its copy out of the
  consumer on the target, by one clock, at a fixed rate that is kept whatever the answers do.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from brokers import Side, fill
from meter import Account, Tree
from peers import Run
from workloads import PARTITIONS, SCALE, Workload

POLL_S = 0.02
FIRST_RECORD_S, SILENCE_S, FOREVER_S = 120.0, 60.0, 1e9
STILL_S = 3.0
RATE_PER_S, LATE_S = 200, 30.0
WARM_UP_S = max(5.0, 30.0 * min(1.0, SCALE))
STAMP = struct.Struct(">qq")
MIB, GB = 1 << 20, 1e9
PIECE_RECORDS = 1_000_000
LOAD_MAP, LOAD_MAP_S = Path(__file__).with_name("load_map.py"), 600.0

Figures = dict[str, float]


class RunFailedError(Exception):
    """One run of one peer has failed; the others go on."""


@dataclass(slots=True)
class Progress:
    """What has appeared on the target, and what it has cost."""

    at: float
    records: int
    cpu_s: float


def rate(run: Run, target: Side, workload: Workload, size: float, records: int = 0) -> Figures:
    """Waits until all records are on the target, or the time is over; figures of the copying.

    ``records`` is how many were written, if not as many as the workload says.

    ``whole`` is 1 when all are there. ``line_share`` is the bytes that went into the target's log each second, by what
    full batches could bring over the link.
    """
    records = records or workload.scaled_records
    first = wait(run, target, 1, FIRST_RECORD_S)
    start_s = first.at - run.tree.started
    last = wait(run, target, records, SILENCE_S, until=first.at + (workload.at_most_s or FOREVER_S))
    if workload.transactions:
        last = replace(_stands_still(run, target, last), records=records)
    if last.records > records:
        raise RunFailedError(f"{run.target_topic} holds {last.records} records, {records} were written")
    copied, seconds = last.records - first.records, last.at - first.at
    log_mb_per_s = target.log_bytes(run.target_topic) * (copied / last.records) / 1e6 / max(seconds, POLL_S)
    account = run.tree.stop()
    whole = float(last.records == records)
    if not copied:  # all of it came between two looks: nothing to divide
        return {"start_s": start_s, "whole": whole} | costs(account)
    line = {"log_mb_per_s": log_mb_per_s, "line_share": log_mb_per_s * 1e6 / workload.line_bytes_per_s}
    return {
        "records_per_s": copied / seconds,
        "mb_per_s": copied * size / 1e6 / seconds,
        "cpu_s_per_gb": (last.cpu_s - first.cpu_s) / (copied * size / GB),
        "start_s": start_s,
        "whole": whole,
        **(line if workload.link else {}),
    } | costs(account)


def start_time(run: Run, target: Side) -> Figures:
    """Waits for the first record on the target."""
    first = wait(run, target, 1, FIRST_RECORD_S)
    return {"start_s": first.at - run.tree.started, "start_cpu_s": first.cpu_s} | costs(run.tree.stop())


def memory(run: Run, source: Side, target: Side, topic: str, workload: Workload) -> Figures:
    """Copies piece after piece and frees both disks after each; memory of the lane's worker over the whole run.

    ``growth`` is its greatest memory in the last quarter by that in the second quarter, which has warmed up.
    """
    written, pieces = 0, max(4, round(workload.scaled_records / PIECE_RECORDS))
    for _ in range(pieces):
        fill(source, topic, workload, workload.scaled_records // pieces, None)
        written += workload.scaled_records // pieces
        wait(run, target, written, FIRST_RECORD_S)
        for side, name in ((source, topic), (target, run.target_topic)):
            side.drop_before(name, side.ends(name))
    account = run.tree.stop()
    looks = [look for look in account.looks if look.worker]
    quarter = len(looks) // 4
    warm, late = looks[quarter : 2 * quarter], looks[3 * quarter :]
    figures = {"copied_gb": written * workload.size / GB} | costs(account)
    if warm and late:
        figures["growth"] = max(look.worker_now for look in late) / max(look.worker_now for look in warm)
    return figures


def costs(account: Account) -> Figures:
    """What a whole run has cost."""
    return {
        "peak_mib": account.peak_tree / MIB,
        "worker_mib": account.peak_worker / MIB,
        "cpu_s_of_run": account.cpu_s,
        "exit_code": account.exit_code,
    }


def wait(run: Run, target: Side, enough: int, silence_s: float, until: float = FOREVER_S) -> Progress:
    """Looks every POLL_S, until there is enough or that moment; a run that ended, or stands still, has failed."""
    seen, last_sign, partitions = 0, time.monotonic(), 0
    while True:
        ends = target.end_offsets(run.target_topic, partitions) if partitions else target.ends(run.target_topic)
        partitions = partitions or len(ends)
        now, count = time.monotonic(), sum(ends.values())
        if count >= enough or now >= until:
            return Progress(now, count, run.tree.cpu_s())
        if count > seen:
            seen, last_sign = count, now
        if run.tree.ended():
            raise RunFailedError(f"it ended with {count} records on the target, see {run.tree.log}:\n{run.tree.tail()}")
        if now - last_sign > silence_s:
            raise RunFailedError(
                f"nothing for {silence_s:.0f} s, {count} records, see {run.tree.log}:\n{run.tree.tail()}"
            )
        time.sleep(POLL_S)


def _stands_still(run: Run, target: Side, reached: Progress) -> Progress:
    """The moment of the last growth: the end offsets count markers of transactions too, so they do not show the end."""
    last, partitions = reached, len(target.ends(run.target_topic))
    while time.monotonic() - last.at < STILL_S:
        time.sleep(POLL_S)
        count = sum(target.end_offsets(run.target_topic, partitions).values())
        if count > last.records:
            last = Progress(time.monotonic(), count, run.tree.cpu_s())
    return last


@dataclass(slots=True)
class _Latencies:
    """Filled by the consumer: seconds from send to receipt, by the record's number."""

    seconds: dict[int, float] = field(default_factory=dict)
    repeated: int = 0
    problem: str = ""

    def take(self, message: Message) -> None:
        """Notes one record."""
        now = time.monotonic_ns()
        number, sent = STAMP.unpack_from(message.value() or b"")
        self.repeated += number in self.seconds
        self.seconds.setdefault(number, (now - sent) / 1e9)


def load_map(target: Side, topic: str, partitions: int) -> Figures:
    """Writes positions and map of so many partitions to a compacted topic, and reads them as a driver does."""
    target.create(topic, 1, {"cleanup.policy": "compact"})
    for step in ("fill", "load"):
        command = [sys.executable, str(LOAD_MAP), step, target.servers, topic, str(partitions)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_MAP_S, check=False)
        if run.returncode:
            raise RunFailedError(f"load_map.py {step} failed:\n{run.stderr}"[-4_000:])
    figures: Figures = json.loads(run.stdout)
    return figures


def latency(run: Run, source: Side, target: Side, topic: str, seconds: float) -> Figures:
    """Keeps RATE_PER_S records a second going, first until copies arrive and then for ``seconds``."""
    found, stop = _Latencies(), threading.Event()
    consumer = threading.Thread(target=_consume, args=(run, target, found, stop), daemon=True)
    consumer.start()
    producer = Producer(
        {"bootstrap.servers": source.servers, "linger.ms": 0, "acks": "all", "socket.nagle.disable": True}
    )
    try:
        sent = _send(producer, topic, 0, lambda: bool(found.seconds), run.tree, FIRST_RECORD_S)
        sent = _send(producer, topic, sent, lambda: False, run.tree, WARM_UP_S)
        cpu_s, from_number, began = run.tree.cpu_s(), sent, time.monotonic()
        sent = _send(producer, topic, sent, lambda: False, run.tree, seconds)
        cpu_s, took = run.tree.cpu_s() - cpu_s, time.monotonic() - began
        if producer.flush(LATE_S):
            raise RunFailedError("the source did not take all records")
        deadline = time.monotonic() + LATE_S
        while len(found.seconds) < sent and time.monotonic() < deadline and consumer.is_alive():
            time.sleep(0.05)
    finally:
        stop.set()
        consumer.join(LATE_S)
    lost = sent - len(found.seconds)
    if lost:
        raise RunFailedError(
            f"{lost} of {sent} records did not arrive {found.problem}, see {run.tree.log}:\n{run.tree.tail()}"
        )
    ordered = sorted(seconds for number, seconds in found.seconds.items() if number >= from_number)
    figures = {
        f"{name}_ms": 1e3 * ordered[min(len(ordered) - 1, int(len(ordered) * share))]
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999), ("max", 1.0))
    }
    return figures | {"cores_used": cpu_s / took, "repeated": found.repeated} | costs(run.tree.stop())


def _send(producer: Producer, topic: str, number: int, enough: Callable[[], bool], tree: Tree, seconds: float) -> int:
    """Sends at the fixed rate until ``enough`` or for ``seconds``; returns the next record's number."""
    began, first = time.monotonic(), number
    while not enough():
        due = began + (number - first) / RATE_PER_S
        if due - began >= seconds:
            break
        time.sleep(max(0.0, due - time.monotonic()))
        value = STAMP.pack(number, time.monotonic_ns()).ljust(100, b".")
        producer.produce(topic, value, partition=number % PARTITIONS)
        producer.poll(0)
        number += 1
        if number % RATE_PER_S == 0 and tree.ended():
            raise RunFailedError(f"it ended, see {tree.log}:\n{tree.tail()}")
    return number


def _consume(run: Run, target: Side, found: _Latencies, stop: threading.Event) -> None:
    while not stop.is_set() and len(target.ends(run.target_topic)) < PARTITIONS:
        time.sleep(0.1)
    consumer = Consumer(
        {
            "bootstrap.servers": target.servers,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 500,
            "socket.nagle.disable": True,
        }
    )
    consumer.assign([TopicPartition(run.target_topic, partition, 0) for partition in range(PARTITIONS)])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.take(message)
        elif error.code() != KafkaError._PARTITION_EOF:
            found.problem = str(error)
            break
    consumer.close()
