"""Groups that lag behind what retention has left of a copy: they are put at its log start, and stay there."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from sparkmirror.lab.cluster import LabCluster
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
