"""What batches are compressed with on the target, and what becomes of one that would fill the memory if opened."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import cramjam
import pytest
from kafka.record.util import encode_varint

from sparkmirror.batches import Codec
from tests.batches.building import Rec, Written, sealed
from tests.flow.logs import append, difference, raw, read
from tests.flow.running import LOOK_SECONDS, Running, create_topic, write_file

pytestmark = pytest.mark.kafka

LIMIT = 2_000
NOW_MS = int(time.time() * 1000)
BOMB_BYTES = 300 << 20
CHUNK = bytes(4 << 20)
MOST_MEMORY = 640 << 20
"""Of a lane's worker: what it has without data, lane.memory.bytes, and the 256 MiB that a batch may decompress to."""


def bomb():
    """A batch of one record with a value of zeros, which a broker takes for what it is: a few KiB."""
    head, length = bytearray(b"\0\0\0\1"), bytearray()  # attributes, time delta, offset delta, no key
    encode_varint(BOMB_BYTES, head.append)
    encode_varint(len(head) + BOMB_BYTES + 1, length.append)
    packer = cramjam.zstd.Compressor(level=3)
    packer.compress(bytes(length + head))
    for _ in range(BOMB_BYTES // len(CHUNK)):
        packer.compress(CHUNK)
    packer.compress(b"\0")  # no headers
    outside = Written(records=(Rec(0, NOW_MS),), codec=Codec.ZSTD).encode()[:61]
    return sealed(outside + bytes(packer.finish()))


def some(count, codec, size=100):
    records = tuple(Rec(number, NOW_MS + number, b"%d" % number, b"v" * size) for number in range(count))
    return Written(records=records, codec=codec).encode()


def most_memory(mirror, seen):
    """The most that a worker of the mirror has had in memory, in bytes, as often as it is asked while it runs."""
    for worker in mirror.lane_workers():
        try:
            told = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{worker}/status").read_text())
        except OSError:
            continue
        seen = max(seen, int(told[1]) << 10 if told else 0)
    return seen


def test_batches_arrive_in_the_codec_of_the_topic_else_of_the_producer_and_what_cannot_stops_its_partition_alone(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    stem = topic("codecs")
    kinds = {"plain": "uncompressed", "packed": "gzip", "free": "producer"}
    for kind, codec in kinds.items():
        create_topic(cluster_a, f"{stem}-{kind}", 1)
        settings = {"compression.type": codec, "max.message.bytes": str(LIMIT)}
        create_topic(cluster_b, f"a.{stem}-{kind}", 1, settings)
        append(lab_cluster("A"), f"{stem}-{kind}", 0, [some(90, Codec.ZSTD), some(3, Codec.NONE), some(90, Codec.GZIP)])
    bombs = f"{stem}-bombs"
    create_topic(cluster_a, bombs, 2)
    batch = bomb()
    assert len(batch) < 64 << 10
    append(lab_cluster("A"), bombs, 0, [some(5, Codec.NONE), batch, some(5, Codec.NONE)])
    append(lab_cluster("A"), bombs, 1, [some(5, Codec.NONE), some(5, Codec.SNAPPY)])

    large = f"{stem}-large"
    create_topic(cluster_a, large, 2)
    create_topic(cluster_b, f"a.{large}", 2, {"max.message.bytes": str(LIMIT)})
    huge = Written(records=(Rec(0, NOW_MS), Rec(1, NOW_MS, None, random.Random(2).randbytes(5_000)))).encode()
    alone = len(Written(records=(Rec(0, NOW_MS, None, bytes(5_000)),)).encode())
    append(lab_cluster("A"), large, 0, [some(5, Codec.NONE), huge, some(5, Codec.NONE)])
    append(lab_cluster("A"), large, 1, [some(5, Codec.NONE)])

    clusters, flows = {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}-.*"}
    settings = {
        "b.producer.compression.type": "lz4",
        "b.producer.compression.lz4.level": "9",
        "b.producer.compression.gzip.level": "1",
    }
    file, memory = write_file(tmp_path / "mm2.properties", clusters, flows, settings), 0
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        while mirror.running:
            memory = most_memory(mirror, memory)
            time.sleep(LOOK_SECONDS)
        assert mirror.wait() == 1, mirror.tail()
        output = " ".join(mirror.output.split())
    place = f"{bombs}-0 at offset 5"
    told = f"{place}: the batch cannot be opened: it decompresses to more than {256 << 20} bytes"
    assert told in output, mirror.tail()
    assert "batch.decompression.max.bytes" in output
    assert "was lost" not in output, "no worker died of it"
    assert 0 < memory < MOST_MEMORY
    there = read(cluster_b, f"a.{bombs}")
    assert (len(there[0]), len(there[1])) == (5, 10)
    told = (
        f"{large}-0 at offset 6: the record is larger than the target topic's max.message.bytes, {LIMIT}: by itself it"
    )
    assert f"{told} takes a batch of {alone} bytes (raise max.message.bytes on the target topic" in output
    there = read(cluster_b, f"a.{large}")
    assert (len(there[0]), len(there[1])) == (5, 5)

    codecs = {}
    for kind in kinds:
        name = f"{stem}-{kind}"
        assert difference(read(cluster_a, name)[0], read(cluster_b, f"a.{name}")[0]) == ""
        kept = raw(lab_cluster("B"), f"a.{name}", 0)
        assert all(one.size <= LIMIT for one in kept)
        codecs[kind] = {one.codec for one in kept}
    assert codecs == {"plain": {Codec.NONE}, "packed": {Codec.GZIP}, "free": {Codec.LZ4}}
