"""A partition that stops and goes on in another lane while its old lane lives: nothing of the old one counts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.flow import offset_map
from tests.flow.exact import rows
from tests.flow.running import Running, commit, count, create_topic, set_property, until, write_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
FIRST, LARGE, LAST = 20, 40, 5


def command(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sparkmirror", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


class Transactions:
    """One record each, so every second offset of the source is a marker."""

    def __init__(self, servers: str, topic: str) -> None:
        keys = {"bootstrap.servers": servers, "transactional.id": topic, "log_level": 0}
        self._producer, self._topic, self._made = Producer(keys), topic, 0
        self._producer.init_transactions(60)

    def write(self, number: int, size: int = 1) -> None:
        for _ in range(number):
            self._producer.begin_transaction()
            self._producer.produce(self._topic, b"%05d" % self._made + b"v" * size, partition=0)
            self._producer.commit_transaction(60)
            self._made += 1


def translated(file: Path, group: str) -> Any:
    (place,) = json.loads(command("offsets", file, "--group", group, "--json"))["partitions"]
    return place["offset"]


def progress(cluster: Any, internal: str, topic: str) -> list[dict[str, Any]]:
    entries = offset_map.journal(cluster, internal)
    return [value for key, value in entries.items() if value and key[0] == "progress" and key[1] == topic]


@pytest.mark.parametrize("kept", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_stop_that_healed_and_then_a_clean_end_repeat_nothing_and_leave_groups_right(
    cluster_a, cluster_c, kept, topic, tmp_path
):
    """The old lane's worker stands still for a moment at the end, so it is the last one to publish."""
    alias, name, other = ("h" if kept else "g"), topic("healed"), topic("other")
    copy = name if kept else f"{alias}.{name}"
    for each in (name, other):
        create_topic(cluster_a, each, 1)
    settings = {"tasks.max": "1", "c.producer.delivery.timeout.ms": "3000"}
    if kept:
        settings["replication.policy.class"] = IDENTITY
    flows = {f"{alias}->c": f"{name},{other}"}
    file = write_file(tmp_path / "mm2.properties", {alias: cluster_a, "c": cluster_c}, flows, settings)
    transactions = Transactions(cluster_a.bootstrap_servers, name)
    transactions.write(FIRST)
    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: count(cluster_c, copy) >= FIRST, "the first records")
        command("pause", file, "--topic", name)
        time.sleep(3)
        transactions.write(LARGE, 40_000)
        set_property(cluster_c, copy, "max.message.bytes", "20000")
        command("resume", file, "--topic", name)
        until(lambda: "stands still" in mirror.output, "the partition stops")
        set_property(cluster_c, copy, "max.message.bytes", "1048588")
        until(lambda: count(cluster_c, copy) == FIRST + LARGE, "the partition goes on")
        until(lambda: len(mirror.lane_workers()) == 2, "both lanes live")
        oldest = min(mirror.lane_workers())
        os.kill(oldest, signal.SIGSTOP)
        threading.Timer(1.5, os.kill, (oldest, signal.SIGCONT)).start()
        mirror.stop_in_time()
    internal = f"sparkmirror.{alias}.c.internal"
    (stood,) = progress(cluster_c, internal, name)
    assert (stood["position"], stood["settled"], stood["error"]) == (2 * (FIRST + LARGE), True, "")
    for place in (0, 7, FIRST, FIRST + LARGE - 1):
        commit(cluster_a, f"group-{name}", name, {0: 2 * place})
        assert translated(file, f"group-{name}") == place
    assert offset_map.check(cluster_a, cluster_c, name, copy, internal)
    transactions.write(LAST)
    with Running(file, log=tmp_path / "second.log") as mirror:
        until(lambda: rows(cluster_c, copy)[0][-1:] == rows(cluster_a, name)[0][-1:], "the last record")
        mirror.stop_in_time()
    assert rows(cluster_c, copy)[0] == rows(cluster_a, name)[0]
