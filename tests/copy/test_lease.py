"""A lane that stood still: it goes on after a round, and sends not a byte more once it was given up."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkmirror.copy.control import RUN_KEY, Announced, lost_key, run_value
from sparkmirror.copy.lease import LEASE_SECONDS, Lease, now
from sparkmirror.copy.receipt import Outcome, Receipt
from sparkmirror.errors import LinkError
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.kafka.journal import Entry, Journal
from sparkmirror.model import Writer
from sparkmirror.offsets.recovery import RecoveryPoint
from sparkmirror.offsets.segments import Segments
from tests.batches.building import log
from tests.copy.making import BEGIN, Bench, batch
from tests.copy.staging import PARTITIONS, WAIT_SECONDS, Stage, wait_until


def test_a_lease_lasts_from_the_beginning_of_its_round():
    lease = Lease()
    assert not lease.holds, "before the first round nothing is sent"
    lease.renew(now() - LEASE_SECONDS + 5)
    assert lease.holds
    lease.renew(now() - LEASE_SECONDS - 0.001)
    assert not lease.holds


def test_a_lane_that_was_given_up_never_holds_the_lease_again():
    lease = Lease()
    lease.renew(now())
    lease.end("the driver heard nothing of it")
    lease.end("another reason")
    lease.renew(now())
    assert not lease.holds
    assert lease.ended == "the driver heard nothing of it"


def test_nothing_is_sent_without_the_lease():
    bench = Bench(1)
    try:
        bench.lane.lease.renew(now() - LEASE_SECONDS - 1)
        bench.bring(0, log([batch(BEGIN, 1)]))
        bench.send()
        assert bench.target.requests == []
        bench.lane.lease.renew(now())
        bench.send()
        assert len(bench.target.requests) == 1
    finally:
        bench.close()


def test_what_goes_on_record_is_not_sent_again_without_the_lease(monkeypatch: pytest.MonkeyPatch):
    """The first request is lost, and the lane given up meanwhile: the next holder's records are not overwritten."""
    bench, sent = Bench(1), 0

    async def produce(journal: IdempotentJournal, payload: bytes, attempt_ms: int) -> int:
        nonlocal sent
        sent += 1
        bench.lane.lease.end("the driver heard nothing of it")
        raise LinkError(cluster="B", address="", reason="the connection broke")

    async def begin(journal: IdempotentJournal) -> None:
        journal._writer, journal._sequence = Writer(producer_id=1, epoch=0), 0

    async def find_leader(journal: IdempotentJournal, timeout_ms: int) -> None:
        journal._leader = 1

    monkeypatch.setattr(IdempotentJournal, "_produce", produce)
    monkeypatch.setattr(IdempotentJournal, "_next_writer", begin)
    monkeypatch.setattr(IdempotentJournal, "_find_leader", find_leader)
    ahead = Segments(partition=bench[0].source, writer=bench[0].plan.writer, sequence=0, source=BEGIN)
    try:
        with pytest.raises(LinkError, match="was not written"):
            bench.run(bench.lane.watch.publisher.write_ahead, [ahead], 1_500)
        assert sent == 1
    finally:
        bench.close()


def test_a_round_that_took_long_counts_from_its_beginning(monkeypatch: pytest.MonkeyPatch):
    """What the driver said after the sign was given may not have been read."""
    clock = 1_000.0
    monkeypatch.setattr("sparkmirror.copy.lease.now", lambda: clock)
    monkeypatch.setattr("sparkmirror.copy.watch.now", lambda: clock)
    bench = Bench(1)
    lane = bench.lane
    lane.lease.renew(clock - LEASE_SECONDS)
    took = 5.0

    async def give_sign(point: RecoveryPoint | None) -> str:
        nonlocal clock
        clock += took
        return ""

    lane.handover.give_sign = give_sign  # type: ignore[method-assign]  # there is no target
    try:
        bench.run(lane.watch._sign)
        assert lane.lease.holds
        clock += LEASE_SECONDS - took
        assert not lane.lease.holds
        took = LEASE_SECONDS + 1
        bench.run(lane.watch._sign)
        assert not lane.lease.holds, "it was over before the round was"
    finally:
        bench.close()


def test_a_sign_that_the_control_topic_has_lost_before_it_was_read_is_given_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sparkmirror.copy.handover.SIGN_SECONDS", 0.2)
    bench = Bench(1)
    handover, end, cut = bench.lane.handover, 9, 5

    async def append(entries: object) -> int:
        return end

    async def read(offset: int, max_wait_ms: int) -> tuple[list[Entry], int, int]:
        await handover.journal.cluster.loop.sleep(0.01)
        return [], cut, cut

    monkeypatch.setattr(handover.journal, "append", append)
    monkeypatch.setattr(handover.journal, "read", read)
    try:
        with pytest.raises(LinkError, match="was not read up to offset 9 within"):
            bench.run(handover.give_sign, None)
        end = 4
        assert bench.run(handover.give_sign, None) == ""
    finally:
        bench.close()


@pytest.fixture
def load(stage: Stage) -> Iterator[None]:
    """Records that come all the time."""
    over = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": stage.source_servers, "linger.ms": 1})
        number = 0
        while not over.is_set():
            for _ in range(60):
                producer.produce(stage.topic, b"%d" % number + b"v" * 500, None, number % PARTITIONS)
                number += 1
            producer.flush(WAIT_SECONDS)
        assert producer.flush(WAIT_SECONDS) == 0

    thread = threading.Thread(target=write)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture
def result(tmp_path: Path) -> Path:
    return tmp_path / "receipts"


@pytest.fixture
def lane(stage: Stage, tmp_path: Path, result: Path) -> Iterator[subprocess.Popen[bytes]]:
    given = tmp_path / "given"
    given.write_bytes(pickle.dumps((stage.shift("lane-0.0", stage.plans()), stage.config)))
    command = [sys.executable, "-m", "tests.copy.lane_process", str(given), str(result)]
    with subprocess.Popen(command) as process:
        yield process
        process.send_signal(signal.SIGCONT)
        process.kill()


def stand_still(process: subprocess.Popen[bytes]) -> None:
    """Stops the process until its lease has run out."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    begin = now()
    while now() < begin + LEASE_SECONDS + 0.5:
        time.sleep(0.1)


def tell(stage: Stage, key: str, value: str) -> None:
    cluster = stage.clusters("B")
    cluster.run(Journal(cluster, stage.control).append, [(key, value)])


@pytest.mark.kafka
@pytest.mark.usefixtures("load")
@pytest.mark.parametrize("word", [(lost_key("run", "lane-0.0"), "{}"), (RUN_KEY, run_value(Announced(run="another")))])
def test_a_lane_that_stood_still_sends_nothing_once_it_was_given_up(
    stage: Stage, lane: subprocess.Popen[bytes], result: Path, word: tuple[str, str]
):
    wait_until(partial(moved, stage, stage.target_ends()))
    stand_still(lane)
    standing = stage.target_ends()
    tell(stage, *word)
    lane.send_signal(signal.SIGCONT)
    assert lane.wait(WAIT_SECONDS) == 0
    assert stage.target_ends() == standing
    receipts: tuple[Receipt, ...] = pickle.loads(result.read_bytes())
    assert {(receipt.outcome, receipt.settled) for receipt in receipts} == {(Outcome.STOPPED, False)}
    assert all("given up" in receipt.error for receipt in receipts)


@pytest.mark.kafka
@pytest.mark.usefixtures("load")
def test_a_lane_that_only_stood_still_goes_on(stage: Stage, lane: subprocess.Popen[bytes], result: Path):
    wait_until(partial(moved, stage, stage.target_ends()))
    stand_still(lane)
    standing = stage.target_ends()
    lane.send_signal(signal.SIGCONT)
    wait_until(partial(moved, stage, standing))
    stage.drain()
    assert lane.wait(WAIT_SECONDS) == 0
    receipts: tuple[Receipt, ...] = pickle.loads(result.read_bytes())
    assert {(receipt.outcome, receipt.settled) for receipt in receipts} == {(Outcome.HANDED_ON, True)}


def moved(stage: Stage, before: object) -> bool:
    return stage.target_ends() != before
