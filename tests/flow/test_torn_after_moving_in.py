"""A target that loses the end of what MirrorMaker 2 had copied: the flow copies it again, and groups go by that."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.mm2.stored_offsets import Owner, StoredOffset
from sparkmirror.model import Alias
from sparkmirror.model import TopicPartition as Place
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_events import of_kind, records
from tests.flow.test_torn_while_idle import cut_log, mirrored, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SETTINGS = {
    "tasks.max": "1",
    "emit.offset-syncs.enabled": "true",
    "offset-syncs.topic.replication.factor": "1",
    "sync.group.offsets.enabled": "true",
    **{
        f"{name}.interval.seconds": "1"
        for name in ("refresh.groups", "refresh.topics", "emit.checkpoints", "sync.group.offsets")
    },
}


def left_by_mirror_maker(
    source: LabCluster, target: LabCluster, alias: str, name: str, synced: Sequence[int] = (0, 20, 50, 90)
) -> None:
    """100 records, each at its own offset, flushed ten at a time; the position behind them, and offset syncs."""
    create_topic(source, name, 1)
    create_topic(target, f"a.{name}", 1)
    create_topic(target, "mm2-offsets.a.internal", 5, {"cleanup.policy": "compact"})
    syncs = f"mm2-offset-syncs.{alias}.internal"
    create_topic(source, syncs, 1, {"cleanup.policy": "compact"})
    copied_ms = int(time.time() * 1000) - 100_000
    for first in range(0, 100, 10):
        for cluster, topic in ((source, name), (target, f"a.{name}")):
            producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
            for number, value in enumerate(records(10, first), first):
                producer.produce(topic, value, partition=0, timestamp=copied_ms + number)
            assert producer.flush(60) == 0
    owner = Owner(connector="MirrorSourceConnector", cluster=Alias("a"))
    stored = StoredOffset(owner=owner, partition=Place(name, 0), offset=99)
    producer = Producer({"bootstrap.servers": target.bootstrap_servers, "partitioner": "murmur2"})
    producer.produce("mm2-offsets.a.internal", stored.value, stored.key)
    assert producer.flush(60) == 0
    producer = Producer({"bootstrap.servers": source.bootstrap_servers})
    for offset in synced:
        sync = OffsetSync(partition=Place(name, 0), upstream=offset, downstream=offset)
        producer.produce(syncs, sync.value, sync.key)
    assert producer.flush(60) == 0


@pytest.mark.parametrize(
    "case", ["idle", pytest.param("copied", marks=pytest.mark.long), pytest.param("stopped", marks=pytest.mark.long)]
)
def test_the_only_broker_loses_what_mirror_maker_had_copied(cluster_a, topic, tmp_path, case):
    """Before the flow has copied anything, after it has, and while it is stopped."""
    name, alias, group = topic("torn"), topic("o"), topic("g")
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        left_by_mirror_maker(cluster_a, one, alias, name)
        settings = SETTINGS | {"groups": group}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, alias: one}, {f"a->{alias}": name}, settings)
        mirror = Running(file, log=tmp_path / "first.log")
        commit(cluster_a, group, name, {0: 95})
        until(lambda: committed(one, group, copy) == {0: 91}, "the group has followed", PATIENCE_SECONDS)
        had = 100 if case == "idle" else 105
        if case != "idle":
            write(cluster_a, name, records(5, 100))
            until(lambda: mirrored(one, copy) == records(105), "five more", PATIENCE_SECONDS)
        if case == "stopped":
            mirror.stop_in_time()
        broker.kill()
        cut_log(broker, copy, 60)
        broker.start()
        # The marker of a fence may lie behind what is left.
        until(lambda: ends(one, copy) in ({0: 60}, {0: 61}), "records are really lost", PATIENCE_SECONDS)
        if case == "stopped":
            mirror = Running(file, log=tmp_path / "second.log")
        write(cluster_a, name, records(20, had))
        # By the sync at offset 50 all behind it is copied again, and so 51 to 59 twice.
        whole = records(60) + records(had + 20 - 51, 51)
        until(lambda: mirrored(one, copy) == whole, "all is there", PATIENCE_SECONDS)
        told = until(lambda: of_kind(file, name, "target-tail-lost"), "the loss is told of", PATIENCE_SECONDS)
        assert (told[0].first, told[0].last) == (60, had - 1)
        assert "everything from source offset 51 on is copied again" in told[0].text
        # Behind the 60 that are left lies the marker of a fence.
        until(lambda: committed(one, group, copy) == {0: 61 + 95 - 51}, "the group goes on there", PATIENCE_SECONDS)
        mirror.stop_in_time()


@pytest.mark.parametrize(
    ("syncs", "more"),
    [((0, 20, 50, 90), 0), pytest.param((), 10, marks=pytest.mark.long)],
    ids=["the source rests and an offset sync tells", "the source goes on and only the records tell"],
)
def test_what_was_lost_before_the_takeover_is_copied_again_and_told(cluster_a, topic, tmp_path, syncs, more):
    name, alias, group = topic("torn"), topic("o"), topic("g")
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        left_by_mirror_maker(cluster_a, one, alias, name, syncs)
        broker.kill()
        cut_log(broker, copy, 60)
        broker.start()
        until(lambda: ends(one, copy) == {0: 60}, "records are really lost", PATIENCE_SECONDS)
        write(cluster_a, name, records(more, 100))
        settings = SETTINGS | {"groups": group}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, alias: one}, {f"a->{alias}": name}, settings)
        commit(cluster_a, group, name, {0: 95})
        with Running(file, log=tmp_path / "run.log") as mirror:
            until(lambda: mirrored(one, copy) == records(100 + more), "each is there once", PATIENCE_SECONDS)
            (told,) = of_kind(file, name, "target-tail-lost")
            assert "source offsets 60 to 99 are copied again, 40 in all" in told.text
            until(lambda: committed(one, group, copy) == {0: 95}, "the group has followed", PATIENCE_SECONDS)
            mirror.stop_in_time()
