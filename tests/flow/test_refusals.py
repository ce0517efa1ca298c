"""Records that the target's broker does not take: the first of them is named, and what is beside it goes on."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer

from tests.batches.building import Rec, Written
from tests.flow.logs import append, mirrored, read
from tests.flow.running import Running, create_topic, ends, write_file

pytestmark = pytest.mark.kafka

DAY_MS = 86_400_000
RECORDS, REFUSED, LATE = 30, 17, 7


def test_a_record_that_the_target_refuses_is_named_with_its_offset(cluster_a, cluster_b, lab_cluster, topic, tmp_path):
    stem = topic("refused")
    keyless, future, sound = (f"{stem}-{kind}" for kind in ("keyless", "future", "sound"))
    create_topic(cluster_a, keyless, 2)
    create_topic(cluster_b, f"a.{keyless}", 2, {"cleanup.policy": "compact"})
    create_topic(cluster_a, future, 1, {"message.timestamp.after.max.ms": str(10 * DAY_MS)})
    create_topic(cluster_b, f"a.{future}", 1)
    create_topic(cluster_a, sound, 1)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "linger.ms": 1000, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(keyless, b"%d" % number, None if number == REFUSED else b"k%d" % number, 0)
        producer.produce(keyless, b"%d" % number, b"k%d" % number, 1)
        producer.produce(sound, b"%d" % number, None, 0)
    assert producer.flush(60) == 0
    now = int(time.time() * 1000)
    recs = tuple(Rec(at, now + (DAY_MS if at == LATE else at), b"k") for at in range(10))
    append(lab_cluster("A"), future, 0, [Written(records=recs).encode()])

    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{stem}-.*"})
    with Running(file, log=tmp_path / "run.log", options=("--once",)) as mirror:
        assert mirror.wait() == 1, mirror.tail()
        output = " ".join(mirror.output.split())
    assert f"{keyless}-0 stands still: source offset {REFUSED}: " in output
    assert "Compacted topic cannot accept message without key" in output
    assert f"{future}-0 stands still: source offset {LATE}: " in output
    assert "message.timestamp.after.max.ms" in output
    assert output.count("stands still") == 2, mirror.tail()
    assert ends(cluster_b, f"a.{keyless}") == {0: 0, 1: RECORDS}
    mirrored(cluster_a, cluster_b, {sound: f"a.{sound}"}, "sparkmirror.a.b.internal")
    assert len(read(cluster_b, f"a.{keyless}")[1]) == RECORDS
