"""Positions of a stopped flow are shown and changed; the next run goes on exactly there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer

from sparkmirror.flow.repositioning import Standing
from sparkmirror.lab.offset_map import journal, offsets, registered, segments, translate
from sparkmirror.model import NO_OFFSET, TopicPartition
from tests.flow.running import Running, count, create_topic, ends, reaches, write_file

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("position", "to", "again", "skipped"),
    [
        (50, 50, 0, 0),
        (50, 20, 30, 0),
        (50, 70, 0, 20),
        (NO_OFFSET, 10, 0, 0),
        (NO_OFFSET, 30, 0, 20),
        (5, 10, 0, 0),
    ],
)
def test_what_a_move_means_is_told_in_offsets(position, to, again, skipped):
    one = Standing(partition=TopicPartition("t", 0), position=position, first=10, end=100, to=to)
    assert (one.again, one.skipped) == (again, skipped)


def write(cluster, topic, first, last, time_ms=None):
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3})
    for number in range(first, last):
        moment = int(time.time() * 1000) if time_ms is None else time_ms + number
        producer.produce(topic, value=b"%d" % number, partition=number % 2, timestamp=moment)
    assert producer.flush(60) == 0


def values(cluster, topic, partition) -> list[int]:
    from confluent_kafka import Consumer
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "log_level": 3})
    consumer.assign([Place(topic, partition, 0)])
    wanted = ends(cluster, topic)[partition]
    found: list[int] = []
    deadline = time.monotonic() + 60
    while len(found) < wanted and time.monotonic() < deadline:
        found += [int(message.value() or b"") for message in consumer.consume(1000, 1.0) if not message.error()]
    consumer.close()
    return found


@pytest.mark.kafka
@pytest.mark.spark
def test_a_flow_goes_on_where_it_was_told_to(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("positions")
    name, copy = f"{stem}-t", f"{stem}.{stem}-t"
    create_topic(cluster_a, name, 2)
    long_ago = int(time.time() * 1000) - 10 * HOUR_MS
    write(cluster_a, name, 0, 100, time_ms=long_ago)
    write(cluster_a, name, 100, 200)
    file = write_file(tmp_path / "mm2.properties", {stem: cluster_a, "b": cluster_b}, {f"{stem}->b": f"{stem}-.*"})

    def positions(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sparkmirror", "positions", words[0], str(file), *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def run_once(number: int) -> None:
        with Running(file, log=tmp_path / f"run-{number}.log", options=("--once",)) as mirror:
            assert mirror.wait() == 0, mirror.tail()

    # A flow that was never started begins at a time.
    begin = datetime.fromtimestamp(long_ago / 1000 + HOUR_MS / 1000, UTC).isoformat()
    dry = positions("set", "--topic", name, "--to", begin, "--dry-run")
    assert dry.stdout.splitlines()[-1] == "would be: 100 offsets are left out", dry.stderr
    told = positions("set", "--topic", name, "--to", begin)
    assert told.returncode == 0, told.stderr
    run_once(1)
    assert [values(cluster_b, copy, number) for number in (0, 1)] == [
        [number for number in range(100, 200) if number % 2 == parity] for parity in (0, 1)
    ]

    # Back, in one partition; and on, in the other.
    back = positions("set", "--topic", name, "--partition", "0", "--to", "90")
    assert back.stdout.splitlines()[-1] == "10 offsets are copied once more", back.stderr
    write(cluster_a, name, 200, 240)
    ahead = positions("set", "--topic", name, "--partition", "1", "--to", "latest")
    assert ahead.stdout.splitlines()[-1] == "20 offsets are left out", ahead.stderr
    write(cluster_a, name, 240, 260)
    run_once(2)
    assert values(cluster_b, copy, 0)[50:] == list(range(180, 260, 2))
    assert values(cluster_b, copy, 1)[50:] == list(range(241, 260, 2))

    # All anew; the map knows the newest copies.
    assert positions("reset", "--topic", name).returncode == 0
    run_once(3)
    assert values(cluster_b, copy, 0)[90:] == list(range(0, 260, 2))
    assert values(cluster_b, copy, 1)[60:] == list(range(1, 260, 2))
    pieces = segments(journal(cluster_b, f"sparkmirror.{stem}.b.internal"), name, registered(cluster_b))
    newest = {number: some[-130:] for number, some in offsets(cluster_b, copy).items()}
    assert translate(name, pieces, offsets(cluster_a, name), newest) == 260

    shown = json.loads(positions("show", "--json").stdout)
    assert [(each["partition"], each["position"], each["end"]) for each in shown["partitions"]] == [
        (0, 130, 130),
        (1, 130, 130),
    ]
    beyond = positions("set", "--topic", name, "--to", "131")
    assert beyond.returncode == 2
    assert "has offsets 0 to 130" in " ".join(beyond.stderr.split())
    assert positions("set", "--topic", "other", "--to", "0").returncode == 2
    assert positions("set", "--topic", name, "--to", "yesterday").returncode == 2

    with Running(file, log=tmp_path / "run-4.log") as mirror:
        write(cluster_a, name, 260, 262)
        reaches(cluster_b, copy, 90 + 130 + 60 + 130 + 2)
        while_it_runs = positions("set", "--topic", name, "--to", "earliest")
        assert while_it_runs.returncode == 2
        assert "runs, or its last run did not end cleanly" in " ".join(while_it_runs.stderr.split())
        assert mirror.stop(seconds=60) == 0
    assert count(cluster_b, copy) == 90 + 130 + 60 + 130 + 2
