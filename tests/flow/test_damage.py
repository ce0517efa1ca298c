"""A log that a disk has spoilt in many ways: each partition stops where it cannot be believed, the others go on."""

from __future__ import annotations

import struct
from functools import partial

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.referee import compare
from tests.batches.building import sealed
from tests.flow.logs import headers, read
from tests.flow.running import Running, create_topic, halted, until, write_file

pytestmark = pytest.mark.kafka

RECORDS = 10
ATTRIBUTES, COUNT, BODY = 22, 57, 61


def flipped(batch):
    return batch[:70] + bytes([batch[70] ^ 1]) + batch[71:]


def of_no_codec(batch):
    return sealed(batch[:ATTRIBUTES] + b"\x07" + batch[ATTRIBUTES + 1 :])


def of_no_magic(batch):
    return batch[:16] + b"\x09" + batch[17:]


def counting(number):
    return lambda batch: sealed(batch[:COUNT] + struct.pack(">i", number) + batch[BODY:])


def beginning_with(data):
    return lambda batch: sealed(batch[:BODY] + data + batch[BODY + len(data) :])


SMALL, LARGE = 100, 5_000

# A length that lies is left to tests/copy: a broker does not start with it.
KINDS = {
    "its checksum is wrong": (flipped, "none", SMALL),
    "its compressed data is checked too": (flipped, "zstd", SMALL),
    "a codec that does not exist": (of_no_codec, "none", SMALL),
    "a magic that does not exist": (of_no_magic, "none", SMALL),
    "more records than offsets": (counting(1000), "none", SMALL),
    "fewer records than it holds": (counting(RECORDS - 1), "none", SMALL),
    "no number of records": (counting(-1), "none", SMALL),
    "a varint that never ends": (beginning_with(b"\xff" * 12), "none", SMALL),
    "a record with a length that lies": (beginning_with(b"\x02"), "none", SMALL),
    "what gzip cannot read": (beginning_with(bytes(20)), "gzip", SMALL),
    "what snappy cannot read": (beginning_with(bytes(20)), "snappy", SMALL),
    "what lz4 cannot read": (beginning_with(bytes(20)), "lz4", SMALL),
    "what zstd cannot read": (beginning_with(bytes(20)), "zstd", SMALL),
    "a batch that is never opened here": (beginning_with(b"\xff" * 12), "none", LARGE),
}


def produce(cluster, topic, partitions):
    """Three batches in each partition."""
    for partition, (codec, size) in partitions.items():
        # A batch leaves when it is full, and never before: a slow machine would make more of them.
        settings = {"batch.num.messages": RECORDS, "linger.ms": 60_000, "compression.type": codec}
        producer = Producer(settings | {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for number in range(3 * RECORDS):
            producer.produce(topic, b"%d-" % number * (size // 4), b"%d" % number, partition)
        until(partial(is_written, producer), f"{topic}-{partition} is written")


def is_written(producer):
    producer.poll(0.01)
    return not len(producer)


def spoil(cluster, topic, spoilers):
    """Changes the second batch of each partition on the disk of a broker that is stopped for it."""
    with halted(cluster.brokers[0]):
        for partition, spoiler in spoilers.items():
            (segment,) = (cluster.brokers[0].directory / "data" / f"{topic}-{partition}").glob("*.log")
            data = bytearray(segment.read_bytes())
            (_, _), (at, batch), (_, _) = headers(bytes(data))
            assert batch.records == RECORDS
            spoilt = spoiler(bytes(data[at : at + batch.size]))
            assert len(spoilt) == batch.size
            data[at : at + batch.size] = spoilt
            segment.write_bytes(data)


def test_a_damaged_batch_stops_its_partition_with_its_place_and_nothing_of_it_is_written(
    cluster_a, cluster_b, topic, tmp_path
):
    stem = topic("damage")
    name, beside = f"{stem}-spoilt", f"{stem}-beside"
    sound = len(KINDS)
    create_topic(cluster_a, name, sound + 1)
    create_topic(cluster_a, beside, 1)
    produce(cluster_a, beside, {0: ("lz4", SMALL)})
    kinds = dict(enumerate(KINDS.values()))
    produce(cluster_a, name, {number: (codec, size) for number, (_, codec, size) in kinds.items()})
    produce(cluster_a, name, {sound: ("none", SMALL)})
    before = {number: read(cluster_a, name)[number][:RECORDS] for number in kinds}
    spoil(cluster_a, name, {number: spoiler for number, (spoiler, _, _) in kinds.items()})

    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}-.*"})
    for run in ("first", "again, which begins with what is damaged"):
        with Running(file, log=tmp_path / f"{run}.log", options=("--once",)) as mirror:
            assert mirror.wait() == 1, mirror.tail()
            output = " ".join(mirror.output.split())
        for number, kind in enumerate(KINDS):
            told = f"{name}-{number} at offset {RECORDS}:", f"{name}-{number} stands still: source offset {RECORDS}:"
            assert any(text in output for text in told), f"{run}: {kind}: {mirror.tail()}"
        assert "its bytes do not match its CRC32C" in output
        assert "was lost" not in output, "no worker died of it"
        counts = {number: len(records) for number, records in read(cluster_b, f"a.{name}").items()}
        assert counts == dict.fromkeys(kinds, RECORDS) | {sound: 3 * RECORDS}
    (whole,) = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, {beside: f"a.{beside}"})
    assert (whole.difference, whole.records) == ("", 3 * RECORDS)
    there = read(cluster_b, f"a.{name}")
    for number, records in before.items():
        assert [record[1:] for record in there[number]] == [record[1:] for record in records]
