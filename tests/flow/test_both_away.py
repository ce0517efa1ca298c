"""Both clusters are away for a while, and the source is back first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sparkmirror.kafka.cluster import CALL_MS
from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.running import Running, create_topic, halted, reaches, write_file
from tests.flow.test_events import read_all

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

AWAY_SECONDS = 2 * CALL_MS / 1000 + 15
"""The target is away for longer than a lane waits for two answers in a row, from when the source is back: the first one
may have been asked for before the source told that its leader is another one."""


def write(cluster: LabCluster, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for value in values:
        producer.produce("t", value, partition=0)
    assert producer.flush(60) == 0


def test_what_a_source_takes_that_is_back_before_the_target_is_copied(tmp_path: Path):
    """Its leader is learnt anew while the target cannot be asked, for longer than a question waits."""
    values = [b"%d" % number for number in range(30)]
    with start("a") as a, start("b") as b:
        create_topic(a, "t")
        file = write_file(tmp_path / "mm2.properties", {"a": a, "b": b}, {"a->b": "t"}, {"tasks.max": "1"})
        with Running(file, log=tmp_path / "run.log") as mirror:
            write(a, values[:20])
            reaches(b, "a.t", 20)
            with halted(b.brokers[0]):
                a.brokers[0].stop()
                a.brokers[0].start()
                write(a, values[20:])
                time.sleep(AWAY_SECONDS)
            reaches(b, "a.t", len(values))
            assert read_all(b, "a.t")[0] == values
            mirror.stop_in_time()
