"""A coordinator that has lost the end of its log hands out epochs again: nobody writes with one a second time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Producer

from sparkmirror.errors import BrokerError, SparkmirrorError
from sparkmirror.flow import writers as flow_writers
from sparkmirror.flow.writers import GROUPS, Fenced, Writers
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.fencing import INVALID_PRODUCER_EPOCH
from sparkmirror.kafka.rounds import Results
from sparkmirror.kafka.tails import Mark
from sparkmirror.lab.broker import Broker
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import TopicPartition, Writer
from tests.flow.running import Running, create_topic, reaches, until, write_file
from tests.flow.test_events import read_all

HERE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = 3
FORGED = 9_000


class Target:
    """A coordinator with one producer id for each transactional id, and leaders that know epochs of that of `GROUP`."""

    alias = "b"

    def __init__(self, epoch: int = -1, leaders: dict[TopicPartition, int] | None = None) -> None:
        self.epochs: dict[str, int] = {}
        self.begins = epoch
        self.leaders = leaders or {}
        self.fences: list[tuple[int, list[TopicPartition]]] = []

    def acquire(self, _cluster: object, name: str, _timeout_ms: int) -> Writer:
        self.epochs[name] = self.epochs.get(name, self.begins) + 1
        return Writer(producer_id=int(name[-1]), epoch=self.epochs[name])

    def fence(
        self, _cluster: object, _name: str, writer: Writer, partitions: list[TopicPartition], _timeout_ms: int
    ) -> Results[TopicPartition, Mark]:
        refusing = [each for each in partitions if self.leaders.get(each, -1) >= writer.epoch]
        fenced = [each for each in partitions if each not in refusing]
        self.fences.append((writer.epoch, fenced))
        self.leaders |= dict.fromkeys(fenced, writer.epoch)
        failure = BrokerError(code=INVALID_PRODUCER_EPOCH, name="INVALID_PRODUCER_EPOCH", cluster="b")
        return Results(
            found={each: Mark(writer.producer_id, writer.epoch, 0) for each in fenced},
            failed=dict.fromkeys(refusing, failure),
        )

    def epochs_of(
        self, _cluster: object, _producer_id: int, partitions: list[TopicPartition], _timeout_ms: int
    ) -> dict[TopicPartition, int]:
        return {each: self.leaders[each] for each in partitions if each in self.leaders}


TIMEOUT_MS = 60_000


def writers_at(
    target: Target, patch: pytest.MonkeyPatch, *on_record: Writer, clock: Callable[[], float] = lambda: 0.0
) -> Writers:
    patch.setattr(flow_writers, "acquire_writer", target.acquire)
    patch.setattr(flow_writers, "fence", target.fence)
    patch.setattr(flow_writers, "epochs_of", target.epochs_of)
    writers = Writers(
        cast("Cluster", target),
        flow="a->b",
        target_id="b",
        origin=("a",),
        timeout_ms=TIMEOUT_MS,
        on_record=on_record,
        clock=clock,
    )
    patch.setattr(writers, "_read_registry", lambda: None)
    patch.setattr(writers, "_register", lambda _groups, since=None: since)
    return writers


def writer(epoch: int, group: int = GROUP) -> Writer:
    return Writer(producer_id=group, epoch=epoch)


def test_a_start_gets_epochs_above_all_that_are_on_record(monkeypatch: pytest.MonkeyPatch):
    writers = writers_at(Target(epoch=4), monkeypatch, writer(7), writer(6), writer(4, 1))
    first = writers.acquire_all()
    assert [one.epoch for one in first] == [5, 5, 5, 8, 5, 5, 5, 5]
    assert writers.newest == first
    assert writers.forgot == {GROUP}


def test_a_coordinator_that_is_far_behind_is_asked_for_as_long_as_one_answer_may_take_and_on_from_there_later(
    monkeypatch: pytest.MonkeyPatch,
):
    """Somebody who may write to the internal topic can name any epoch: each start would take minutes."""
    target = Target()
    writers = writers_at(target, monkeypatch, writer(150), clock=lambda: sum(target.epochs.values()))
    for _ in range(2):
        with pytest.raises(SparkmirrorError, match="and 150 is on record"):
            writers.renew(GROUP)
    assert 120 <= target.epochs[writers.transactional_id(GROUP)] <= 124
    assert writers.renew(GROUP) == writer(151)
    assert writers.forgot == {GROUP}


def test_a_run_gets_no_epoch_again_that_it_has_had(monkeypatch: pytest.MonkeyPatch):
    target = Target()
    writers = writers_at(target, monkeypatch)
    writers.acquire_all()
    assert [cast("Writer", writers.renew(GROUP)).epoch for _ in range(3)] == [1, 2, 3]
    target.epochs.clear()
    assert writers.renew(GROUP) == writer(4)
    target.epochs.clear()
    taken = writers.take_over(GROUP, [HERE], 1)
    assert isinstance(taken, Fenced)
    assert (taken.writer, target.fences) == (writer(5), [(5, [HERE])])
    assert writers.forgot == {GROUP}


@pytest.mark.parametrize("known", [1, 2, 40], ids=["the same", "the next one", "many more"])
def test_epochs_that_only_leaders_know_are_passed_over_before_the_fence(monkeypatch: pytest.MonkeyPatch, known: int):
    target = Target(leaders={HERE: known})
    writers = writers_at(target, monkeypatch)
    writers.acquire_all()
    taken = writers.take_over(GROUP, [HERE, OTHER], 1)
    assert isinstance(taken, Fenced)
    assert taken.writer == writer(known + 1)
    assert {mark.epoch for mark in taken.marks.complete().values()} == {known + 1}


def test_an_epoch_that_is_forged_costs_none(monkeypatch: pytest.MonkeyPatch):
    target = Target(leaders={HERE: FORGED})
    writers = writers_at(target, monkeypatch)
    writers.acquire_all()
    taken = writers.take_over(GROUP, [HERE, OTHER], 1)
    assert isinstance(taken, Fenced)
    assert (taken.writer, list(taken.marks.found), list(taken.marks.failed)) == (writer(1), [OTHER], [HERE])
    assert len(target.epochs) == GROUPS
    assert target.fences == [(1, [OTHER])]


def write(cluster: LabCluster, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for value in values:
        producer.produce("t", value, partition=0)
    assert producer.flush(60) == 0


def coordinators(broker: Broker) -> list[Path]:
    """The logs of the coordinator that know of no driver: the flow's internal topic keeps its owner."""
    logs = sorted((broker.directory / "data").glob("__transaction_state-*/*.log"))
    return [log for log in logs if b".driver" not in log.read_bytes()]


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("starts", [1, 3], ids=["the epoch of the lane is given again", "older ones are given again"])
def test_a_power_failure_that_the_coordinator_alone_suffers_loses_and_repeats_nothing(starts: int, tmp_path: Path):
    """With three starts forgotten the fence's epoch would be one that the leader refuses, and it would never end."""
    values: list[bytes] = []

    def more(cluster: LabCluster, count: int) -> None:
        some = [b"%d" % (len(values) + number) for number in range(count)]
        values.extend(some)
        write(cluster, some)

    with start("a") as a, start("b", config={"transaction.state.log.num.partitions": "50"}) as b:
        create_topic(a, "t")
        file = write_file(tmp_path / "mm2.properties", {"a": a, "b": b}, {"a->b": "t"}, {"tasks.max": "1"})
        (broker,) = b.brokers
        kept: dict[Path, int] = {}
        for number in range(starts):
            with Running(file, log=tmp_path / f"run{number}.log") as mirror:
                more(a, 60)
                reaches(b, "a.t", len(values))
                mirror.stop_in_time()
            kept = kept or {log: log.stat().st_size for log in coordinators(broker)}
        with Running(file, log=tmp_path / "last.log") as mirror:
            more(a, 100)
            reaches(b, "a.t", len(values))
            broker.kill()
            for log in coordinators(broker):
                with log.open("r+b") as end:
                    end.truncate(min(kept.get(log, 0), log.stat().st_size))
            broker.start()
            more(a, 10)
            reaches(b, "a.t", len(values))
            lanes = mirror.lane_workers()
            assert lanes
            for lane in lanes:
                os.kill(lane, signal.SIGKILL)
            more(a, 400)
            until(lambda: len(read_all(b, "a.t").get(0, [])) >= len(values), "all is copied", 180)
            assert "has given epoch" in mirror.output
            mirror.stop_in_time()
        assert read_all(b, "a.t")[0] == values
