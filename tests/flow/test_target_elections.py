"""Unclean elections on the target: what it loses is copied again, what a former leader brings back is not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from sparkmirror.flow.view import EventStatus
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.ports import HOST
from tests.flow import offset_map
from tests.flow.elections import PATIENCE_SECONDS, create, elect_the_unclean, leader
from tests.flow.exact import repeats
from tests.flow.running import Running, admin_of, create_topic, until, write_file
from tests.flow.test_events import of_kind, read_all, records

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OLD_MS = 30 * 86_400_000
INTERNAL = "sparkmirror.a.t.internal"
KEPT = {"retention.ms": "-1"}
"""Or a broker would delete records that are 30 days old, some minutes later."""


@pytest.fixture(scope="module")
def target() -> Iterator[LabCluster]:
    """Three brokers; the first controls, the others may be elected whatever they lack."""
    with start("torn", brokers=3, config={"unclean.leader.election.enable": "true"}) as running:
        yield running


def write(cluster: LabCluster, name: str, values: list[bytes], age_ms: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for value in values:
        producer.produce(name, value, partition=0, timestamp=int(time.time() * 1000) - age_ms)
    assert producer.flush(60) == 0


class Mirrored:
    """Topics of young and of old records, whose writer no broker remembers; copies on brokers 2 and 3."""

    def __init__(self, source: LabCluster, target: LabCluster, ages: dict[str, int], file: Path) -> None:
        self.ages, self.copies = ages, {name: f"a.{name}" for name in ages}
        self.source, self.target, self.file = source, target, file
        self._admin = admin_of(target)
        for name, copy in self.copies.items():
            create_topic(source, name, 1, config=KEPT)
            create(target, copy, [[2, 3]], KEPT)

    def add(self, number: int, start: int) -> None:
        for name, age_ms in self.ages.items():
            write(self.source, name, records(number, start), age_ms)

    def copied(self, number: int) -> None:
        wanted = [{0: records(number)}] * len(self.copies)

        def there() -> bool:
            return [read_all(self.target, copy) for copy in self.copies.values()] == wanted

        until(there, f"{number} records in each copy", PATIENCE_SECONDS)

    def led_by(self, node: int, in_step: list[int] | None = None) -> None:
        """Waits until a broker leads, and, where they are given, until these are in step."""

        def led() -> bool:
            found = [leader(self._admin, copy) for copy in self.copies.values()]
            return all(who == node and in_step in (None, step) for who, step in found)

        until(led, f"broker {node} leads", PATIENCE_SECONDS)

    def elect(self, node: int) -> None:
        for copy in self.copies.values():
            elect_the_unclean(self.target, copy, node)

    def losses(self) -> list[EventStatus]:
        return [event for name in self.ages for event in of_kind(self.file, name, "target-tail-lost")]

    def sizes_on(self, node: int) -> list[int]:
        """Bytes of the logs on one broker, whether anybody acknowledged them or not."""
        place = self.target.brokers[node - 1].directory
        return [sum(f.stat().st_size for f in place.rglob(f"{copy}-0/*.log")) for copy in self.copies.values()]

    def appended_on(self, node: int, before: list[int]) -> None:
        """Waits until each log has grown there."""

        def grown() -> bool:
            return all(now > then for now, then in zip(self.sizes_on(node), before, strict=True))

        until(grown, f"broker {node} has appended", PATIENCE_SECONDS)

    def alone(self, node: int) -> set[str]:
        """Topics whose copies have that broker alone in step, which acknowledges what no other has.

        A slow machine takes long enough for that; what is lost then is told of, and rightly. The first broker is asked,
        and none of those that are stopped.
        """
        asked = AdminClient({"bootstrap.servers": f"{HOST}:{self.target.brokers[0].port}", "log_level": 0})
        return {name for name, copy in self.copies.items() if leader(asked, copy)[1] == [node]}

    def check(self) -> None:
        for name, copy in self.copies.items():
            assert repeats(self.source, self.target, name, copy) == 0
            assert offset_map.check(self.source, self.target, name, copy, INTERNAL)


@pytest.mark.long
def test_elections_lose_nothing_and_repeat_nothing(cluster_a, target, topic, tmp_path):
    ages = {topic("young"): 0, topic("old"): OLD_MS}
    clusters, settings = {"a": cluster_a, "t": target}, {"replication.factor": "3"}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->t": ",".join(ages)}, settings)
    two = Mirrored(cluster_a, target, ages, file)
    second, third = target.brokers[1:]
    third.kill()
    two.led_by(2, [2])
    with Running(file, log=tmp_path / "run.log") as mirror:
        # A leader that has nothing, and so remembers no writer either: it would take whatever sequence comes.
        two.add(100, 0)
        two.copied(100)
        second.kill()
        third.start()
        two.elect(3)
        two.add(50, 100)
        two.copied(150)
        until(lambda: len(two.losses()) == len(ages), "the losses are told", PATIENCE_SECONDS)
        told = two.losses()
        assert {(event.first, event.last) for event in told} == {(0, 99)}
        second.start()
        two.led_by(3, [2, 3])

        # A leader that alone has what nobody acknowledged, while the other one is fenced and written to.
        alone, other, before = third.pid, second.pid, two.sizes_on(3)
        os.kill(other, signal.SIGSTOP)
        try:
            two.add(60, 150)
            two.appended_on(3, before)
            os.kill(alone, signal.SIGSTOP)
            acknowledged = two.alone(3)
        finally:
            os.kill(other, signal.SIGCONT)
        try:
            two.led_by(2)
            for worker in mirror.lane_workers():
                os.kill(worker, signal.SIGKILL)
            two.copied(210)
            second.kill()
        finally:
            os.kill(alone, signal.SIGCONT)
        two.elect(3)
        two.add(40, 210)
        two.copied(250)
        more = {event.topic for event in two.losses() if event not in told}
        assert more <= acknowledged, "what the other one had is all in the log of the one that came back"
        second.start()
        mirror.stop_in_time()
    two.check()
