"""The flow's internal topic loses its newest entries while the copies are whole: groups skip nothing as exact."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from sparkmirror.errors import LabError
from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.logs import read
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic, of_kind, records
from tests.flow.test_torn_while_idle import cut_log, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

INTERNAL = "sparkmirror.a.o.internal"
SETTINGS = {
    "tasks.max": "1",
    "sync.group.offsets.enabled": "true",
    **{f"{name}.interval.seconds": "1" for name in ("refresh.groups", "emit.checkpoints", "sync.group.offsets")},
}


def write_transactions(cluster: LabCluster, name: str, number: int, first: int) -> None:
    """Four records each, so that a marker lies behind every fourth."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    for begin in range(first, first + 4 * number, 4):
        producer.begin_transaction()
        for value in records(4, begin):
            producer.produce(name, value, partition=0)
        producer.commit_transaction(60)


def copied(cluster: LabCluster, copy: str) -> list[tuple[int, bytes | None]]:
    """Offsets and values; nothing while a client does not know of the broker's restart."""
    try:
        return [(each.offset, each.value) for each in read(cluster, copy)[0]]
    except LabError:
        return []


def test_a_group_reads_on_at_its_record_after_the_map_has_lost_its_newest_entries(cluster_a, topic, tmp_path):
    name, group = topic("mapped"), topic("g")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        settings = SETTINGS | {"groups": group}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        mirror = Running(file, log=tmp_path / "first.log")
        write_transactions(cluster_a, name, 1, 0)
        until(lambda: ends(one, copy) == {0: 4}, "the first four", PATIENCE_SECONDS)
        until(lambda: not ends(one, INTERNAL)[0] < 8, "they are on record", PATIENCE_SECONDS)
        kept = ends(one, INTERNAL)[0]
        write_transactions(cluster_a, name, 6, 4)
        until(lambda: ends(one, copy) == {0: 28}, "all", PATIENCE_SECONDS)
        mirror.kill_all()
        broker.kill()
        cut_log(broker, INTERNAL, kept)
        broker.start()
        due = next(record for record in read(cluster_a, name)[0] if record.value == records(1, 14)[0])
        commit(cluster_a, group, name, {0: due.offset})
        with Running(file, log=tmp_path / "second.log") as mirror:
            (told,) = until(lambda: of_kind(file, name, "may-repeat"), "the loss is told of", PATIENCE_SECONDS)
            assert "has lost the newest entries of the offset map" in told.text
            until(lambda: committed(one, group, copy), "the group has followed", PATIENCE_SECONDS)
            log = until(lambda: copied(one, copy), "the copy can be read", PATIENCE_SECONDS)
            behind = [value for offset, value in log if offset >= committed(one, group, copy)[0]]
            assert behind[0] == due.value
            assert set(records(28)) <= {value for _, value in log}
            mirror.stop_in_time()


def test_a_source_topic_that_is_another_one_by_now_contradicts_no_copy_and_is_copied_as_a_whole(
    cluster_a, topic, tmp_path
):
    """The takeover has a doubt of the map, and where the record lay that was copied last the new topic has another."""
    name = topic("again")
    create_topic(cluster_a, name, 1)
    new = [b"new-%d" % number for number in range(60)]
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        settings = {"tasks.max": "1", "sync.group.offsets.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        mirror = Running(file, log=tmp_path / "first.log")
        write_transactions(cluster_a, name, 1, 0)
        until(lambda: ends(one, copy) == {0: 4}, "the first four", PATIENCE_SECONDS)
        until(lambda: not ends(one, INTERNAL)[0] < 8, "they are on record", PATIENCE_SECONDS)
        kept = ends(one, INTERNAL)[0]
        write_transactions(cluster_a, name, 6, 4)
        until(lambda: ends(one, copy) == {0: 28}, "all", PATIENCE_SECONDS)
        mirror.kill_all()
        broker.kill()
        cut_log(broker, INTERNAL, kept)
        delete_topic(cluster_a, name)
        create_topic(cluster_a, name, 1)
        write(cluster_a, name, new)
        broker.start()
        with Running(file, log=tmp_path / "second.log") as mirror:
            whole = [*records(28), *new]
            until(lambda: [value for _, value in copied(one, copy)] == whole, "all of the new one", PATIENCE_SECONDS)
            write(cluster_a, name, [b"more"])
            until(lambda: [value for _, value in copied(one, copy)] == [*whole, b"more"], "goes on", PATIENCE_SECONDS)
            assert len(of_kind(file, name, "source-recreated")) == 1
            assert of_kind(file, name, "may-repeat") == []
            mirror.stop_in_time()
