"""The internal topic loses the segments of batches that are not acknowledged, and the lane lives on for a while."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.link import Way
from tests.flow.elections import PATIENCE_SECONDS, create
from tests.flow.logs import read
from tests.flow.running import Running, create_topic, ends, until, write_file
from tests.flow.test_events import of_kind, records
from tests.flow.test_torn_while_idle import cut_log

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

INTERNAL = "sparkmirror.a.o.internal"
EACH = 20


class Writing:
    """Transactions of the source, some records each; what is committed."""

    def __init__(self, cluster: LabCluster, name: str) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 0}
        self._name, self._producer, self.number = name, Producer(settings | {"linger.ms": 0}), 0
        self._producer.init_transactions(60)

    def write(self, *, abort: bool = False) -> None:
        self._producer.begin_transaction()
        for value in records(EACH, self.number):
            self._producer.produce(self._name, value, partition=0)
        assert self._producer.flush(30) == 0
        if abort:
            self._producer.abort_transaction(60)
        else:
            self._producer.commit_transaction(60)
            self.number += EACH

    @contextmanager
    def going_on(self) -> Iterator[None]:
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                self.write()
                time.sleep(0.02)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def of_internal(cluster: LabCluster, kind: str, name: str) -> list[tuple[int, int, list[int]]]:
    """Where records of a kind lie; the sequence number in the key, and the last record of progress."""
    found = [(each.offset, json.loads(each.key or b"[]"), each.value) for each in read(cluster, INTERNAL)[0]]
    return [
        (offset, key[5] if kind == "segments" else -1, json.loads(value).get("last", []))
        for offset, key, value in found
        if key[:2] == [kind, name] and value
    ]


def values(cluster: LabCluster, name: str) -> list[bytes | None]:
    return [each.value for each in read(cluster, name)[0]]


def test_progress_that_came_after_a_loss_does_not_vouch_for_segments_behind_its_last_record(cluster_a, topic, tmp_path):
    """Answers about the copy vanish; the segments of what was appended are lost, and the source's end moves on."""
    name = topic("ahead")
    create_topic(cluster_a, name, 1)
    with start("o", brokers=3, security=["LINK"], link_delay_ms=0) as other:
        copy, link, second = f"a.{name}", other.links[3], other.brokers[1]
        create(other, copy, [[3]])
        create(other, INTERNAL, [[2]], {"cleanup.policy": "compact"})
        for own in ("sparkmirror.a.o.control.internal", "sparkmirror.writers.internal", "a.checkpoints.internal"):
            create(other, own, [[1]], {"cleanup.policy": "compact"})
        clusters = {"a": cluster_a, "o": {"bootstrap.servers": other.listener("LINK")}}
        file = write_file(tmp_path / "mm2.properties", clusters, {"a->o": name}, {"tasks.max": "1"})
        source = Writing(cluster_a, name)
        mirror = Running(file, log=tmp_path / "first.log")
        source.write()
        until(lambda: ends(other, copy) == {0: EACH}, "it copies", PATIENCE_SECONDS)
        with source.going_on():
            time.sleep(3)
            link.lose(Way.FROM_BROKER)
            time.sleep(0.5)
        time.sleep(1.5)
        acknowledged = max(last[0] for _, _, last in of_internal(other, "progress", name))
        ahead = [offset for offset, at, _ in of_internal(other, "segments", name) if at > acknowledged]
        assert ahead
        assert ends(other, copy)[0] > acknowledged + 1, "batches were appended"
        second.kill()
        cut_log(second, INTERNAL, ahead[0])
        second.start()
        time.sleep(2)
        source.write(abort=True)
        until(
            lambda: [offset for offset, _, _ in of_internal(other, "progress", name) if offset >= ahead[0]],
            "progress after the loss",
            PATIENCE_SECONDS,
        )
        mirror.kill_all()
        link.mend()
        with Running(file, log=tmp_path / "second.log") as mirror:
            (told,) = until(lambda: of_kind(file, name, "may-repeat"), "the loss is told of", PATIENCE_SECONDS)
            assert "has lost the newest entries of the offset map" in told.text
            until(lambda: set(records(source.number)) <= set(values(other, copy)), "all", PATIENCE_SECONDS)
            mirror.stop_in_time()
