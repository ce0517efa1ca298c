"""Batches and records of every size: at a limit, above it, above what is fetched at once or what a lane may hold."""

from __future__ import annotations

import functools
import random
import time

import pytest
from confluent_kafka import Producer

from sparkmirror.batches import Codec
from tests.batches.building import Rec, Written
from tests.flow.logs import append, difference, mirrored, raw, read
from tests.flow.running import Running, create_topic, write_file

pytestmark = pytest.mark.kafka

KINDS = ("split", "exact", "wide", "huge", "plain", "packed")
LIMIT = 20_000
HUGE = 17 << 20
HUGE_LIMIT = 40 << 20
FETCH_BYTES = 65_536
LANE_BYTES = 1 << 20


@functools.cache
def noise():
    """Bytes that no codec makes smaller."""
    return random.Random(4).randbytes(HUGE + 1000)


def produce(cluster, topic, partition, values, *, codec="none", together=1):
    """Batches of so many records each."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1000, "log_level": 0}
    producer = Producer(settings | {"compression.type": codec, "message.max.bytes": HUGE_LIMIT})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"%d" % number, partition)
        if (number + 1) % together == 0:
            assert producer.flush(60) == 0
    assert producer.flush(60) == 0


def some(count, size, *, packs=True):
    """So many values of a size; half is left of those that do not pack well."""
    if not packs:
        return [noise()[number * size // 2 : (number + 1) * size // 2].hex().encode() for number in range(count)]
    return [(b"%d-" % number).ljust(size, b"v") for number in range(count)]


def sized(goal, records, codec):
    """A batch of exactly ``goal`` bytes."""
    size, now = goal // records, int(time.time() * 1000)
    while True:
        values = [noise()[size // records * number :][: size // records] for number in range(records - 1)]
        values.append(noise()[-(size - sum(map(len, values))) :])
        batch = Written(records=tuple(Rec(at, now + at, None, v) for at, v in enumerate(values)), codec=codec).encode()
        if len(batch) == goal:
            return batch
        size += goal - len(batch)


def write_logs(cluster_a, cluster_b, a, stem):
    """One topic of each kind, and for most the topic on the target."""
    split, exact, wide, huge, plain, packed = (f"{stem}-{kind}" for kind in KINDS)
    create_topic(cluster_a, split, 4)
    create_topic(cluster_b, f"a.{split}", 4, {"max.message.bytes": str(LIMIT)})
    produce(cluster_a, split, 0, some(900, 250), together=300)
    produce(cluster_a, split, 1, some(90, 1_000, packs=False), codec="gzip", together=45)
    produce(cluster_a, split, 2, some(900, 250), codec="zstd", together=300)
    produce(cluster_a, split, 3, some(90, 1_000, packs=False), codec="lz4", together=3)
    create_topic(cluster_a, exact, 3)
    create_topic(cluster_b, f"a.{exact}", 3, {"max.message.bytes": str(LIMIT)})
    for partition, kind in enumerate((Codec.NONE, Codec.LZ4)):
        append(a, exact, partition, [sized(LIMIT + more, 1 + (more > 0), kind) for more in (-1, 0, 1, 0)])
    append(a, exact, 2, (sized(LIMIT + more, 1, Codec.NONE) for more in (0, 1, -1)))
    create_topic(cluster_a, wide, 6)
    for partition in range(6):
        packs, codec = (False, "lz4") if partition % 2 else (True, "none")
        produce(cluster_a, wide, partition, some(60, 40_000, packs=packs), codec=codec, together=20)
    assert min(batch.size for partition in range(6) for batch in raw(a, wide, partition)) > 10 * FETCH_BYTES
    create_topic(cluster_a, huge, 3, {"max.message.bytes": str(HUGE_LIMIT)})
    now = int(time.time() * 1000)
    for partition, (key, value) in enumerate(((HUGE, 3), (3, HUGE), (HUGE, HUGE))):
        recs = (Rec(0, now, noise()[:key], noise()[-value:]),)
        before, after = (Written(records=(Rec(0, now, None, text),)).encode() for text in (b"before", b"after"))
        append(a, huge, partition, (before, Written(records=recs, codec=Codec.ZSTD).encode(), after))
    for name, codec in ((plain, "uncompressed"), (packed, "gzip")):
        create_topic(cluster_a, name, 1)
        create_topic(cluster_b, f"a.{name}", 1, {"max.message.bytes": str(LIMIT), "compression.type": codec})
        produce(cluster_a, name, 0, some(300, 1_000), codec="zstd", together=100)


def test_whatever_its_size_a_batch_arrives_or_stops_its_partition_alone(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    stem = topic("sizes")
    split, exact, wide, huge, plain, packed = (f"{stem}-{kind}" for kind in KINDS)
    write_logs(cluster_a, cluster_b, lab_cluster("A"), stem)
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b},
        {"a->b": f"{stem}-.*"},
        {
            "lane.memory.bytes": str(LANE_BYTES),
            "a.consumer.max.partition.fetch.bytes": str(FETCH_BYTES),
            "a.consumer.fetch.max.bytes": str(FETCH_BYTES),
            "b.producer.max.request.size": str(FETCH_BYTES),
        },
    )
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
        output = " ".join(mirror.output.split())
    assert f"{exact}-2 at offset 1: the record is larger than" in output
    assert output.count("stands still") == 1, mirror.tail()
    copies = {name: f"a.{name}" for name in (split, wide, huge, plain, packed)}
    mirrored(cluster_a, cluster_b, copies, "sparkmirror.a.b.internal")
    here, there = read(cluster_a, exact), read(cluster_b, f"a.{exact}")
    assert [difference(here[number], there[number]) for number in (0, 1)] == ["", ""]
    assert [record.value for record in there[2]] == [here[2][0].value]

    b = lab_cluster("B")
    sides = ((split, 4), (exact, 2), (plain, 1), (packed, 1))
    kept = {(name, number): raw(b, f"a.{name}", number) for name, count in sides for number in range(count)}
    assert all(batch.size <= LIMIT for batches in kept.values() for batch in batches)
    assert all(batch.records % 300 == 0 for batch in kept[split, 2]), "compressed, they are below the limit"
    assert {batch.codec for batch in kept[split, 1]} == {Codec.GZIP}
    for number in (0, 1):
        sizes = [batch.size for batch in kept[exact, number]]
        assert sizes[:2] == [LIMIT - 1, LIMIT]
        assert sizes[-1] == LIMIT
        assert sum(batch.records for batch in kept[exact, number]) == 5
    assert len(kept[exact, 0]) == 5, "the one above the limit became two"
    assert {batch.codec for batch in kept[plain, 0]} == {Codec.NONE}
    assert {batch.codec for batch in kept[packed, 0]} == {Codec.GZIP}
