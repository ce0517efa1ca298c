"""Whose time a record carries: its producer's or the broker's, on either side."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from sparkmirror.batches import Codec
from tests.batches.building import Rec, Written
from tests.flow.logs import append, mirrored, raw
from tests.flow.running import Running, create_topic, write_file

pytestmark = pytest.mark.kafka

CREATED, APPENDED = "CreateTime", "LogAppendTime"
LONG_AGO_MS, YEAR_1_MS = 1_500_000_000_000, -62_135_596_800_000
KEPT = {"retention.ms": "-1"}
KINDS = [(Codec.NONE, 1), (Codec.ZSTD, 1), (Codec.NONE, 400), (Codec.ZSTD, 400)]
"""Codec and most records of a batch, a partition for each: batches to be merged, and batches that pass as they are."""

BY_HAND = len(KINDS)


def produce(cluster, topic, partition, codec, together):
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 60_000, "batch.num.messages": together}
    settings["log_level"] = 0
    producer = Producer(settings | {"compression.type": codec.name.lower()})
    now = int(time.time() * 1000)
    for turn in range(12 // min(together, 4)):
        for number in range(together):
            at = now - number * 1000 if turn % 2 else LONG_AGO_MS + number
            value = (b"%d-%d-" % (turn, number)).ljust(250, b"%d" % (number % 7))
            producer.produce(topic, value, None, partition, timestamp=at)
        assert producer.flush(60) == 0


def by_hand(codec):
    """Times that no producer would think of: none, before 1970, centuries apart, backwards."""
    now = int(time.time() * 1000)
    times = [(-1,), (-1, now, -1), (0, 1), (now, 5, now - 86_400_000), (YEAR_1_MS, now), (now, now), (7,)]
    for number, some in enumerate(times):
        recs = tuple(Rec(at, ms, b"%d" % number, b"by hand") for at, ms in enumerate(some))
        yield Written(records=recs, codec=codec).encode()


def test_the_time_is_the_sources_unless_the_target_sets_its_own(cluster_a, cluster_b, lab_cluster, topic, tmp_path):
    stem = topic("times")
    names = {f"{stem}-{here}-{there}": (here, there) for here in (CREATED, APPENDED) for there in (CREATED, APPENDED)}
    a = lab_cluster("A")
    for name, (here, there) in names.items():
        create_topic(cluster_a, name, BY_HAND + 2, KEPT | {"message.timestamp.type": here})
        create_topic(cluster_b, f"a.{name}", BY_HAND + 2, KEPT | {"message.timestamp.type": there})
        for partition, (codec, together) in enumerate(KINDS):
            produce(cluster_a, name, partition, codec, together)
            _is_cut_as_meant(raw(a, name, partition), codec, together)
        for partition, codec in enumerate((Codec.NONE, Codec.LZ4), BY_HAND):
            append(a, name, partition, by_hand(codec))
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}-.*"})
    began = time.time() * 1000
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    ended = time.time() * 1000
    for name, (here, there) in names.items():
        kept = there == CREATED
        pair = mirrored(cluster_a, cluster_b, {name: f"a.{name}"}, "sparkmirror.a.b.internal", times=kept)[name]
        assert sum(map(len, pair.there.values())) == _records()
        for side, kind in ((pair.here, here), (pair.there, there)):
            assert {record.stamped for rows in side.values() for record in rows} == {kind == APPENDED}
        if not kept:
            assert all(began - 1 <= record.time <= ended + 1 for rows in pair.there.values() for record in rows)


def _is_cut_as_meant(batches, codec, together):
    """A producer may send fewer records together than it was asked to, never more."""
    assert {batch.codec for batch in batches} == {codec}
    assert sum(batch.records for batch in batches) == 12 // min(together, 4) * together
    assert together // 4 < max(batch.records for batch in batches) <= together


def _records() -> int:
    """What one topic holds."""
    produced = sum(12 // min(together, 4) * together for _, together in KINDS)
    return produced + 2 * sum(int.from_bytes(batch[57:61], "big") for batch in by_hand(Codec.NONE))
