"""The target loses the end of the registry of writers while a flow runs: the flow writes there again what it had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer

from sparkmirror.copy.registrations import Registration
from sparkmirror.errors import LinkError
from sparkmirror.events import Kind
from sparkmirror.flow.writers import FOLLOW_AGAIN_SECONDS, FOLLOW_MS, Writers
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import Cursor, Entry, Followed
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.naming import WRITERS_TOPIC
from tests.flow.running import Running, create_topic, ends, until, write_file
from tests.flow.test_events import read_all, told

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
OURS = [Registration(producer_id=n, flow="a->b", cluster="b", origin=("a",), group=n) for n in range(3)]


class Registry:
    """A log that can lose its end; each leader has the next epoch."""

    def __init__(self, *records: Registration) -> None:
        self.log: list[Entry] = []
        self.epoch, self.written = 0, 0
        self.now, self.asked, self.away = 0.0, list[int](), False
        self.append([(one.key, one.value) for one in records])
        self.written = 0

    def append(self, pairs: list[tuple[str, str | None]], _timeout_ms: int = 0) -> None:
        self.written += len(pairs)
        self.log += [Entry(offset=len(self.log) + n, key=key, value=value) for n, (key, value) in enumerate(pairs)]

    def lose(self, end: int) -> None:
        self.log, self.epoch = self.log[:end], self.epoch + 1

    def follow(self, cursor: Cursor, timeout_ms: int) -> Followed:
        self.asked.append(timeout_ms)
        if self.away:
            self.now += timeout_ms / 1000
            raise LinkError(cluster="b", address="", reason="it has no leader")
        end = len(self.log)
        if cursor.offset > end:
            return Followed(entries=(), cursor=cursor, end=end, parted=Cursor(end))
        some = self.log[cursor.offset : cursor.offset + 2]
        following = Cursor(cursor.offset + len(some), self.epoch if some else cursor.leader_epoch)
        return Followed(entries=some, cursor=following, end=end)


class Target:
    alias = "b"

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)


def running(registry: Registry) -> Writers:
    writers = Writers(
        cast("Cluster", Target()),
        flow="a->b",
        target_id="b",
        origin=("a",),
        timeout_ms=60_000,
        clock=lambda: registry.now,
    )
    writers._registry = cast("Any", registry)
    writers._registered = {one.producer_id: one for one in OURS}
    return writers


def test_a_registry_that_is_whole_gets_nothing():
    registry = Registry(*OURS)
    writers = running(registry)
    assert [writers.follow_registry() for _ in range(3)] == [""] * 3
    assert registry.written == 0


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_what_the_registry_has_lost_is_written_again_once_and_told(kept: int):
    registry = Registry(*OURS)
    writers = running(registry)
    writers.follow_registry()
    registry.lose(kept)
    assert f"has lost {3 - kept} registrations of the flow" in writers.follow_registry()
    assert [writers.follow_registry() for _ in range(3)] == [""] * 3
    assert [entry.key for entry in registry.log] == [one.key for one in OURS]


def test_a_loss_before_the_registry_was_read_on_for_the_first_time_is_found_too():
    registry = Registry(*OURS)
    writers = running(registry)
    registry.lose(1)
    assert "has lost 2 registrations" in writers.follow_registry()


def test_a_registration_that_somebody_has_removed_does_not_come_back_after_a_loss():
    registry = Registry(*OURS)
    writers = running(registry)
    registry.append([(OURS[0].key, None)])
    assert writers.follow_registry() == ""
    registry.lose(0)
    assert "has lost 2 registrations" in writers.follow_registry()
    assert [entry.key for entry in registry.log] == [OURS[1].key, OURS[2].key]


def test_a_registry_without_a_leader_holds_the_driver_for_a_few_seconds_and_is_then_left_alone_for_a_while():
    registry = Registry(*OURS)
    writers = running(registry)
    registry.away = True
    with pytest.raises(LinkError):
        writers.follow_registry()
    assert registry.asked == [FOLLOW_MS] == [3_000]
    registry.now = FOLLOW_AGAIN_SECONDS - 1
    assert (writers.follow_registry(), registry.asked) == ("", [FOLLOW_MS])
    registry.now, registry.away = FOLLOW_AGAIN_SECONDS, False
    registry.lose(1)
    assert "has lost 2 registrations" in writers.follow_registry()


def test_a_slow_registry_is_read_on_where_the_last_reading_left_off(monkeypatch: pytest.MonkeyPatch):
    registry = Registry(*OURS, *(replace(OURS[0], producer_id=n) for n in range(10, 21)))
    writers, follow = running(registry), registry.follow

    def slowly(cursor: Cursor, timeout_ms: int) -> Followed:
        registry.now += 1.4
        return follow(cursor, timeout_ms)

    monkeypatch.setattr(registry, "follow", slowly)
    writers._registered |= {50: replace(OURS[0], producer_id=50)}
    assert [writers.follow_registry() for _ in range(2)] == [""] * 2
    assert registry.asked == [3_000, 1_600, 200] * 2
    assert "has lost 1 registrations" in writers.follow_registry()


def write(cluster: LabCluster, mark: bytes, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for number in range(count):
        producer.produce("t", b"%s-%d" % (mark, number), partition=0)
    assert producer.flush(60) == 0


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.long
def test_copies_do_not_come_back_after_a_power_failure_that_the_registry_alone_suffers(tmp_path: Path):
    """The flow forth runs on; the flow back is started when the registry has the flow forth again."""

    def values(cluster: LabCluster) -> Counter[bytes | None]:
        return Counter(read_all(cluster, "t").get(0, []))

    with start("a") as a, start("b") as b:
        for cluster in (a, b):
            create_topic(cluster, "t")
        forth, back = (
            write_file(
                tmp_path / f"{here}.properties",
                {"a": a, "b": b},
                {f"{here}->{there}": "t"},
                {"replication.policy.class": IDENTITY},
            )
            for here, there in ("ab", "ba")
        )
        (broker,) = b.brokers
        with Running(forth, log=tmp_path / "forth.log") as mirror:
            write(a, b"first", 100)
            until(lambda: len(values(b)) == 100, "100 records on b")
            broker.kill()
            (log,) = (broker.directory / "data" / f"{WRITERS_TOPIC}-0").glob("*.log")
            with log.open("r+b") as end:
                end.truncate(0)
            broker.start()
            until(lambda: ends(b, WRITERS_TOPIC)[0] > 0, "the registry has the flow again", 120)
            until(lambda: Kind.NOTE.value in {one.kind for one in told(forth).events}, "an event tells of it", 60)
            with Running(back, log=tmp_path / "back.log") as other:
                write(a, b"second", 50)
                write(b, b"own", 20)
                until(lambda: values(a) >= Counter(b"own-%d" % n for n in range(20)), "20 records of b on a", 120)
                until(lambda: values(b) >= Counter(b"second-%d" % n for n in range(50)), "50 more on b", 120)
                write(b, b"last", 1)
                until(lambda: values(a)[b"last-0"] > 0, "the last one of b on a", 120)
                other.stop_in_time()
            mirror.stop_in_time()
        for cluster in (a, b):
            assert set(values(cluster).values()) == {1}
