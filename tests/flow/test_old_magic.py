"""A log from before Kafka 0.11 in the directory of a broker of today, which serves it as it is."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from sparkmirror.batches import Codec
from sparkmirror.lab.jars import jars
from sparkmirror.lab.readers import read_with_java
from sparkmirror.spark.gateway import Gateway
from tests.batches.building import Rec
from tests.batches.old_messages import PACKED, Old
from tests.flow.logs import mirrored
from tests.flow.running import Running, create_topic, halted, write_file

pytestmark = pytest.mark.kafka

NOW_MS = 1_700_000_000_000
PLAIN = 3_000


def rec(offset):
    """Keys and values of every sort."""
    key = None if offset % 5 == 0 else b"k%d" % (offset % 7)
    value = (None, b"", b"v%d-" % offset * 30)[min(offset % 4, 2)]
    return Rec(offset, NOW_MS + offset if offset % 3 else 5, key, value)


def some(*offsets):
    return tuple(map(rec, offsets))


def packed(codec, **more):
    """Compressed messages, the third of which the cleaner has been at."""
    whole = [Old(records=some(*range(9)), base_offset=9 * n, codec=codec, **more) for n in range(2)]
    thinned = Old(records=some(2, 3, 7), base_offset=18, codec=codec, **more)
    return [*whole, thinned, Old(records=some(0), base_offset=40, codec=codec, **more)]


KINDS = {
    "magic 0": [Old(records=some(*range(PLAIN)), magic=0)],
    "magic 1": [Old(records=some(*range(PLAIN)))],
    "magic 1, the broker's time": [Old(records=some(*range(20)), append_time=NOW_MS + 77)],
    "magic 1, compacted": [Old(records=some(0, 1, 5, 6, 7, 30), magic=1), Old(records=some(0, 9), base_offset=31)],
    **{f"magic 0, {codec.name}": packed(codec, magic=0) for codec in PACKED},
    **{f"magic 1, {codec.name}": packed(codec) for codec in PACKED},
    "magic 1, GZIP, the broker's time": packed(Codec.GZIP, append_time=NOW_MS + 99),
    "every format in one log": [
        Old(records=some(*range(5)), magic=0),
        Old(records=some(*range(5)), magic=0, base_offset=5, codec=Codec.SNAPPY),
        Old(records=some(*range(5)), base_offset=10, codec=Codec.LZ4),
        Old(records=some(*range(5)), base_offset=15),
    ],
    "a small message that holds megabytes": [
        Old(records=tuple(Rec(n, NOW_MS, None, b"%d" % n * 300_000) for n in range(8)), codec=Codec.GZIP)
    ],
}
"""What lies in each partition."""

NEW = 7


def lay_down(cluster, topic, logs):
    """Puts logs into the partitions of a broker, which is stopped for it."""
    with halted(cluster.brokers[0]):
        for partition, log in enumerate(logs):
            directory = cluster.brokers[0].directory / "data" / f"{topic}-{partition}"
            (segment,) = directory.glob("*.log")
            segment.write_bytes(b"".join(old.encode() for old in log))
            for index in directory.glob("*index"):
                index.unlink()


def told(records):
    """All but the offset and the type of the time: magic 0 has none, and magic 2 cannot say so."""
    return [(r.timestamp_ms, r.key, r.value, r.headers) for r in records]


def test_old_messages_arrive_as_every_reader_of_the_source_sees_them(cluster_a, cluster_b, topic, tmp_path):
    name = topic("old")
    create_topic(cluster_a, name, len(KINDS), {"retention.ms": "-1"})
    create_topic(cluster_b, f"a.{name}", len(KINDS), {"retention.ms": "-1"})
    lay_down(cluster_a, name, KINDS.values())
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "linger.ms": 50, "log_level": 3})
    for number in range(NEW * len(KINDS)):
        producer.produce(name, b"new", b"%d" % number, number % len(KINDS), timestamp=NOW_MS)
    assert producer.flush(60) == 0

    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()

    # librdkafka calls the time of magic 0 0 and that of its copy -1; to Java they are the same.
    seen = mirrored(cluster_a, cluster_b, {name: f"a.{name}"}, "sparkmirror.a.b.internal", times=False)[name]
    with Gateway(jars(), options=("-Xmx256m",)) as gateway:
        here = read_with_java(gateway, cluster_a.bootstrap_servers, [name])
        there = read_with_java(gateway, cluster_b.bootstrap_servers, [f"a.{name}"])
    for partition, (kind, log) in enumerate(KINDS.items()):
        written = [record for old in log for record in old.seen()]
        source, first = here[name, partition], log[-1].last_offset + 1
        offsets = [record.offset for record in written] + list(range(first, first + NEW))
        assert [record.offset for record in source] == offsets, kind
        assert [record.offset for record in seen.here[partition]] == offsets, kind
        assert told(source[:-NEW]) == [(r.time, r.key, r.value, r.headers) for r in written], kind
        assert told(there[f"a.{name}", partition]) == told(source), kind
