"""Groups that lag behind what retention has left of a copy: they are put at its log start, and stay there.

Where only the source's log has lost what they have not read, they stay where they are.
"""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.offsets.translation import Place
from tests.flow.offset_map import journal
from tests.flow.running import (
    ANSWER_SECONDS,
    Running,
    admin_of,
    commit,
    committed,
    count,
    create_topic,
    until,
    write_file,
)
from tests.flow.test_groups import as_java_tells
from tests.flow.test_torn_while_idle import write
from tests.invoking import sparkmirror

pytestmark = pytest.mark.kafka

INTERNAL = "sparkmirror.a.b.internal"
START, END = 10, 30
"""What retention leaves of the copy."""


def delete_records(cluster: LabCluster, name: str, until_offset: int) -> None:
    for future in admin_of(cluster).delete_records([TopicPartition(name, 0, until_offset)]).values():
        future.result(ANSWER_SECONDS)


def first_value(cluster: LabCluster, group: str, name: str) -> bytes | None:
    """What a group reads first with Kafka's default, which skips all there is where the offset is out of range."""
    told = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "latest", "log_level": 3}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers} | told)
    try:
        consumer.subscribe([name])
        message = consumer.poll(ANSWER_SECONDS)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_no_group_is_put_below_the_log_start_of_the_copy_nor_taken_back_there(cluster_a, cluster_b, topic, tmp_path):
    """By the periodic group offsets, by checkpoints, and after an operation has put it at the log start."""
    name, stem = topic("short"), topic("laggards")
    copy, before, since, later = f"a.{name}", f"{stem}-before", f"{stem}-since", f"{stem}-later"
    create_topic(cluster_a, name)
    intervals = ("refresh.groups", "emit.checkpoints", "sync.group.offsets")
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b},
        {"a->b": name},
        {"groups": f"{stem}.*", "sync.group.offsets.enabled": "true"}
        | {f"{each}.interval.seconds": "1" for each in intervals},
    )

    def there(group: str) -> int:
        return committed(cluster_b, group, copy).get(0, -1)

    with Running(file, log=tmp_path / "run.log") as mirror:
        write(cluster_a, name, [b"%d" % number for number in range(END)])
        until(lambda: count(cluster_b, copy) == END, "copied")
        commit(cluster_a, before, name, {0: 3})
        until(lambda: there(before) == 3, "synced while the record was there")
        delete_records(cluster_b, copy, START)
        commit(cluster_a, since, name, {0: 5})
        until(lambda: there(since) != -1, "synced since")
        assert there(since) == START
        until(lambda: there(before) == START, "retention has passed it")
        told = {group: {0: (START, "")} for group in (before, since)}
        until(lambda: as_java_tells(cluster_b.bootstrap_servers, [before, since], copy) == told, "checkpoints")
        for words in (("failover", "--from", "a", "--to", "b", "--force"), ("release", "--flow", "a->b")):
            report = ("--report", str(tmp_path)) if words[0] == "failover" else ()
            done = sparkmirror(words[0], file, *words[1:], "--yes", *report)
            assert done.returncode == 0, done.stdout + done.stderr
        commit(cluster_a, later, name, {0: 25})
        until(lambda: there(later) == 25, "the flow puts groups again")
        assert [there(before), there(since)] == [START, START]
        assert first_value(cluster_b, since, copy) == b"%d" % START
        mirror.stop_in_time()


def test_a_group_that_the_sources_retention_has_passed_skips_nothing_that_the_copy_has(
    cluster_a, cluster_b, topic, tmp_path
):
    """With a piece of the offset map for each transaction; what the copy has lost too leaves the map."""
    name, stem = topic("passed"), topic("stopped")
    copy, before, since = f"a.{name}", f"{stem}-before", f"{stem}-since"
    create_topic(cluster_a, name)
    intervals = ("refresh.groups", "emit.checkpoints", "sync.group.offsets", "refresh.topics")
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b},
        {"a->b": name},
        {"groups": f"{stem}.*", "sync.group.offsets.enabled": "true"}
        | {f"{each}.interval.seconds": "1" for each in intervals},
    )

    def there(group: str) -> int:
        return committed(cluster_b, group, copy).get(0, -1)

    def pieces() -> int:
        kinds = [key for key in journal(cluster_b, INTERNAL) if key[:2] == ("segments", name)]
        return len(kinds)

    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(ANSWER_SECONDS)
    with Running(file, log=tmp_path / "run.log") as mirror:
        for number in range(7):
            producer.begin_transaction()
            for turn in range(3):
                producer.produce(name, b"%d" % (3 * number + turn), partition=0)
            producer.commit_transaction(ANSWER_SECONDS)
            until(lambda: count(cluster_b, copy) == 3 * (number + 1), "copied")  # noqa: B023  # done before the next
        commit(cluster_a, before, name, {0: 8})
        until(lambda: there(before) == 6, "synced while the source had the record")
        known = pieces()
        assert known == 7
        delete_records(cluster_a, name, 26)
        commit(cluster_a, since, name, {0: 8})
        until(lambda: there(since) != -1, "synced since")
        time.sleep(4)  # some rounds, in which the map is bounded
        assert [there(before), there(since), pieces()] == [6, 6, known]
        told = {group: {0: (6, "")} for group in (before, since)}
        assert as_java_tells(cluster_b.bootstrap_servers, [before, since], copy) == told
        done = sparkmirror("offsets", file, "--group", before)
        assert Place.RECORD.value in done.stdout, done.stdout + done.stderr
        delete_records(cluster_b, copy, 12)
        until(lambda: [there(before), there(since)] == [12, 12], "at what the copy has left")
        until(lambda: pieces() == known - 4, "what neither has is not on the map")
        mirror.stop_in_time()
    assert first_value(cluster_b, before, copy) == b"12"
