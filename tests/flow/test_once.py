"""``run --once``: what a topic can hold arrives as a reader sees it, what cannot be copied says so, exit codes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from sparkmirror.lab.referee import compare
from tests.flow.running import Running, admin_of, count, create_topic, until, write_file

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LONG_AGO_MS = 1_500_000_000_000
RECORDS = 300


def produce(cluster, topic, settings=None, *, records=RECORDS, partitions=1, size=50, first=0):
    given = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "log_level": 3}
    producer = Producer(given | (settings or {}))
    for number in range(first, first + records):
        producer.produce(
            topic,
            value=None if number % 7 == 0 else b"v%d-" % number * (size // 4),
            key=None if number % 5 == 0 else b"k%d" % number,
            partition=number % partitions,
            headers=[("one", b"1"), ("one", b"2"), ("null", None), ("", b"")] if number % 2 else [],
            timestamp=LONG_AGO_MS + number if number % 3 else int(time.time() * 1000) - number,
        )
    assert producer.flush(30) == 0


def compacted(cluster, name):
    """A topic whose first segment has holes: the cleaner has been there."""
    admin = admin_of(cluster)
    broker = ConfigResource(
        ConfigResource.Type.BROKER,
        str(cluster.brokers[0].node),
        incremental_configs=[ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)],
    )
    for future in admin.incremental_alter_configs([broker]).values():
        future.result(30)
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.bytes": "1048576"}
    create_topic(cluster, name, 1, settings)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "compression.type": "lz4"})
    for number in range(60_000):  # the active segment is never cleaned: several must fill
        key = b"only-%d" % number if number % 10 == 0 else b"often-%d" % (number % 7)
        producer.produce(name, b"%d-" % number + number.to_bytes(8, "big") * 9, key)
        producer.poll(0)
    assert producer.flush(30) == 0
    directory = cluster.brokers[0].directory / "data"
    until(lambda: _cleaned(directory, name), f"the cleaner has been at {name}", 60)


def _cleaned(directory, name):
    """The checkpoint says up to which offset the log is clean: ``topic partition offset``."""
    lines = (directory / "cleaner-offset-checkpoint").read_text().splitlines()
    return any(line.startswith(f"{name} 0 ") and int(line.split()[2]) > 0 for line in lines)


def transactional(cluster, name):
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "compression.type": "zstd"}
    )
    producer.init_transactions(30)
    for turn in range(20):
        producer.begin_transaction()
        for number in range(turn + 1):
            producer.produce(name, b"%d-%d" % (turn, number))
        producer.flush(30)
        if turn % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def corrupt(cluster, topic, marker):
    """Turns one bit of a record on the disk of a stopped broker, as a bad disk would."""
    cluster.brokers[0].stop()
    (segment,) = (cluster.brokers[0].directory / "data" / f"{topic}-0").glob("*.log")
    data = bytearray(segment.read_bytes())
    place = data.index(marker)
    data[place] ^= 1
    segment.write_bytes(data)
    cluster.brokers[0].start()


def test_what_a_reader_sees_arrives_and_what_cannot_be_copied_stops_its_partition_alone(
    cluster_a, cluster_b, topic, tmp_path
):
    stem = topic("once")
    copies = {}
    for codec in CODECS:
        name = f"{stem}-{codec}"
        copies[name] = f"a.{name}"
        create_topic(cluster_a, name, 2)
        produce(cluster_a, name, {"compression.type": codec}, partitions=2)
    stamped = f"{stem}-stamped"
    create_topic(cluster_a, stamped, 1, {"message.timestamp.type": "LogAppendTime"})
    create_topic(cluster_b, f"a.{stamped}", 1)
    produce(cluster_a, stamped, {"compression.type": "gzip"})
    compacted(cluster_a, f"{stem}-compacted")
    create_topic(cluster_a, f"{stem}-transactional", 1)
    transactional(cluster_a, f"{stem}-transactional")
    copies |= {f"{stem}-{kind}": f"a.{stem}-{kind}" for kind in ("stamped", "compacted", "transactional")}
    # Two that stop: a record that the target does not take, and a batch that the disk has spoilt.
    large, broken = f"{stem}-large", f"{stem}-broken"
    for name in (large, broken):
        create_topic(cluster_a, name, 2)
    create_topic(cluster_b, f"a.{large}", 2, {"max.message.bytes": "2000"})
    produce(cluster_a, large, records=40, partitions=2)
    produce(cluster_a, large, records=1, size=30_000, first=44)
    produce(cluster_a, large, records=40, partitions=2, first=50)
    for first, size in ((1, 20), (1001, 40), (2001, 20)):
        produce(cluster_a, broken, records=20, partitions=2, size=size, first=first)
    corrupt(cluster_a, broken, b"v1002-")

    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}-.*"})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
        output = " ".join(mirror.output.split())
    results = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, copies)
    assert {result.topic: result.difference for result in results if result.difference} == {}
    assert results[-1].records == sum(range(1, 21, 2))
    # What lies before the obstacle is copied, and the other partition wholly.
    assert count(cluster_b, f"a.{large}") == 20 + 40
    assert count(cluster_b, f"a.{broken}") == 10 + 30
    assert f"{large}-0 at offset 20" in output
    assert "max.message.bytes" in output
    assert f"{broken}-0 at offset 10" in output
    assert "CRC" in output or "corrupt" in output

    # A second run copies nothing twice, and says the same again.
    with Running(file, log=tmp_path / "again.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
    results = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, copies)
    assert {result.topic: result.difference for result in results if result.difference} == {}
    # The obstacle goes: the topic may hold larger records now.
    admin = admin_of(cluster_b)
    larger = ConfigEntry("max.message.bytes", "1048576", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, f"a.{large}", incremental_configs=[larger])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": large})
    with Running(file, log=tmp_path / "mended.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    (mended,) = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {large: f"a.{large}"})
    assert (mended.difference, mended.records) == ("", 81)


def test_a_wrong_file_ends_with_2_and_a_cluster_that_is_not_there_with_1_in_time(cluster_b, tmp_path):
    def run(file):
        command = [sys.executable, "-m", "sparkmirror", "run", "--once", str(file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    wrong = write_file(
        tmp_path / "wrong.properties", {"a": cluster_b, "b": cluster_b}, {"a->b": ".*"}, {"transforms": "mask"}
    )
    answer = run(wrong)
    assert answer.returncode == 2
    assert "wrong.properties: transforms" in answer.stderr
    one = write_file(tmp_path / "one.properties", {"a": cluster_b, "b": cluster_b}, {"a->b": ".*"})
    answer = run(one)
    assert answer.returncode == 2
    assert "one cluster" in answer.stderr
    nowhere = {"bootstrap.servers": "127.0.0.1:1"}
    away = write_file(
        tmp_path / "away.properties", {"a": nowhere, "b": cluster_b}, {"a->b": ".*"}, {"admin.timeout.ms": "3000"}
    )
    began = time.monotonic()
    answer = run(away)
    assert answer.returncode == 1
    assert "cluster a at 127.0.0.1:1" in answer.stderr
    assert time.monotonic() - began < 40
