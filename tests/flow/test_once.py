"""``run --once``: what a topic can hold arrives as a reader sees it, what cannot be copied says so, exit codes."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.referee import compare
from tests.flow.running import Running, count, create_topic, set_limit, write_file

pytestmark = pytest.mark.kafka

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
    assert producer.flush(60) == 0


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
    # One that stops: a record that the target does not take.
    large = f"{stem}-large"
    create_topic(cluster_a, large, 2)
    create_topic(cluster_b, f"a.{large}", 2, {"max.message.bytes": "2000"})
    produce(cluster_a, large, records=40, partitions=2)
    produce(cluster_a, large, records=1, size=30_000, first=44)
    produce(cluster_a, large, records=40, partitions=2, first=50)

    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}-.*"})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
        output = " ".join(mirror.output.split())
    results = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, copies)
    assert {result.topic: result.difference for result in results if result.difference} == {}
    assert sum(result.records for result in results) == RECORDS * len(CODECS)
    # What lies before the obstacle is copied, and the other partition wholly.
    assert count(cluster_b, f"a.{large}") == 20 + 40
    assert f"{large}-0 at offset 20" in output
    assert "max.message.bytes" in output

    # A second run copies nothing twice, and says the same again.
    with Running(file, log=tmp_path / "again.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
    results = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, copies)
    assert {result.topic: result.difference for result in results if result.difference} == {}
    # The obstacle goes: the topic may hold larger records now.
    set_limit(cluster_b, f"a.{large}", 1 << 20)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": large})
    with Running(file, log=tmp_path / "mended.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    (mended,) = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {large: f"a.{large}"})
    assert (mended.difference, mended.records) == ("", 81)
