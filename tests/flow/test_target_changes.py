"""Target topics, and the target's brokers, that are set otherwise while a flow copies to them."""

from __future__ import annotations

import random
import time

import pytest
from confluent_kafka import Producer

from tests.flow import offset_map
from tests.flow.logs import difference, raw, read
from tests.flow.running import (
    ANSWER_SECONDS,
    Running,
    commit,
    committed,
    create_topic,
    reaches,
    set_limit,
    set_property,
    until,
    write_file,
)
from tests.kafka.remembering import remember

pytestmark = pytest.mark.kafka

CREATED, APPENDED, TYPE = "CreateTime", "LogAppendTime", "message.timestamp.type"
HOUR_MS = 3_600_000
LONG_AGO_MS = int(time.time() * 1000) - 3 * HOUR_MS // 2
INTERNAL = "sparkmirror.a.b.internal"


def produce(cluster, topic, count, *, size=100, together=1, at=LONG_AGO_MS):
    """Batches of so many records, which are old."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 60_000, "log_level": 0}
    producer = Producer(settings | {"batch.num.messages": together})
    for number in range(count):
        producer.produce(topic, random.Random(number).randbytes(size), None, 0, timestamp=at + number)
    assert producer.flush(ANSWER_SECONDS) == 0


def test_a_flow_copies_as_its_target_is_set_now(cluster_a, cluster_b, lab_cluster, topic, tmp_path):
    times, sizes, codecs, old = (
        topic(name) for name in ("change-times", "change-sizes", "change-codecs", "change-old")
    )
    for name, stamps in ((times, APPENDED), (sizes, CREATED), (codecs, CREATED), (old, CREATED)):
        create_topic(cluster_a, name, 1, {TYPE: stamps, "retention.ms": "-1"})
        create_topic(cluster_b, f"a.{name}", 1, {TYPE: stamps, "retention.ms": "-1"})
        produce(cluster_a, name, 3)
    clusters = {"a": cluster_a, "b": cluster_b}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->b": f"{times},{sizes},{codecs},{old}"})
    with Running(file, log=tmp_path / "run.log") as mirror:
        for name in (times, sizes, codecs, old):
            reaches(cluster_b, f"a.{name}", 3)
        the_first_answer_shows_the_type(mirror, cluster_a, cluster_b, times)
        what_nothing_is_written_to_is_seen_by_looking(mirror, cluster_a, cluster_b, times, sizes, codecs)
        a_limit_that_is_lowered_under_a_batch_is_no_error(mirror, cluster_a, cluster_b, sizes)
        assert "stands still" not in mirror.output
        a_shorter_memory_counts_while_lanes_copy(mirror, cluster_a, cluster_b, lab_cluster("B"), old)
        assert mirror.stop(seconds=60) == 0, mirror.tail()
    for name in (sizes, codecs, old):
        assert difference(read(cluster_a, name)[0], read(cluster_b, f"a.{name}")[0]) == ""
    cut = [batch.records for batch in raw(lab_cluster("B"), f"a.{sizes}", 0)[3:]]
    assert max(cut[:-1]) <= 9, "as the limit was"
    assert cut[-1] == 20, "and as it is"


def test_groups_stand_in_what_an_epoch_has_copied_that_was_planned_again_before_its_first_record(
    cluster_a, cluster_b, topic, tmp_path
):
    """Each start begins an epoch; a setting of the copy is changed while it has nothing to copy yet."""
    names, group = [topic("planned") for _ in range(3)], topic("g")
    name, count = names[0], 20
    for each in names:
        create_topic(cluster_a, each, 1)
    settings = {"tasks.max": "1", "groups": group, "sync.group.offsets.enabled": "true"}
    settings |= {"sync.group.offsets.interval.seconds": "1", "refresh.groups.interval.seconds": "1"}
    file = write_file(
        tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": ",".join(names)}, settings
    )
    with Running(file, log=tmp_path / "first.log") as mirror:
        produce(cluster_a, name, count)
        reaches(cluster_b, f"a.{name}", count)
        mirror.stop_in_time()
    with Running(file, log=tmp_path / "second.log") as mirror:
        until(lambda: "running" in mirror.output, "the lanes copy")
        set_limit(cluster_b, f"a.{name}", 2_000_000)
        told(mirror, name, "max.message.bytes from 1048588 to 2000000")
        produce(cluster_a, name, count)
        reaches(cluster_b, f"a.{name}", 2 * count)
        mirror.stop_in_time()
    with Running(file, log=tmp_path / "third.log") as mirror:
        produce(cluster_a, name, count)
        reaches(cluster_b, f"a.{name}", 3 * count)
        source, copy = (read(cluster, each)[0] for cluster, each in ((cluster_a, name), (cluster_b, f"a.{name}")))
        next_one = source[count + count // 2]
        commit(cluster_a, group, name, {0: next_one.offset})
        found = until(lambda: committed(cluster_b, group, f"a.{name}"), "the group is there", ANSWER_SECONDS)
        assert found == {0: copy[count + count // 2].offset}
        mirror.stop_in_time()


def told(mirror, topic, change):
    line = f"the target topic a.{topic} was changed: {change}"
    until(lambda: line in " ".join(mirror.output.split()), line)


def the_first_answer_shows_the_type(mirror, a, b, topic):
    set_property(b, f"a.{topic}", TYPE, CREATED)
    produce(a, topic, 3)
    reaches(b, f"a.{topic}", 6)
    told(mirror, topic, f"{TYPE} from {APPENDED} to {CREATED}")
    produce(a, topic, 3)
    reaches(b, f"a.{topic}", 9)
    here, there = read(a, topic)[0], read(b, f"a.{topic}")[0]
    assert difference(here[6:], there[6:]) == ""
    assert [record.stamped for record in there[6:]] == [False] * 3
    assert difference(here, there, times=False) == ""


def what_nothing_is_written_to_is_seen_by_looking(mirror, a, b, times, sizes, codecs):
    set_property(b, f"a.{times}", TYPE, APPENDED)
    set_limit(b, f"a.{sizes}", 5_000)
    set_property(b, f"a.{codecs}", "compression.type", "gzip")
    told(mirror, times, f"{TYPE} from {CREATED} to {APPENDED}")
    told(mirror, sizes, "max.message.bytes from 1048588 to 5000")
    told(mirror, codecs, "compression.type from producer to gzip")
    produce(a, times, 3)
    produce(a, sizes, 20, size=500, together=20)
    produce(a, codecs, 20, size=500, together=20)
    reaches(b, f"a.{times}", 12)
    reaches(b, f"a.{sizes}", 23)
    reaches(b, f"a.{codecs}", 23)
    assert all(record.stamped for record in read(b, f"a.{times}")[0][9:])


def a_limit_that_is_lowered_under_a_batch_is_no_error(mirror, a, b, topic):
    set_limit(b, f"a.{topic}", 2_000)
    produce(a, topic, 20, size=500, together=20)
    reaches(b, f"a.{topic}", 43)
    set_limit(b, f"a.{topic}", 100_000)
    told(mirror, topic, "max.message.bytes from 2000 to 100000")
    produce(a, topic, 20, size=500, together=20)
    reaches(b, f"a.{topic}", 63)


def a_shorter_memory_counts_while_lanes_copy(mirror, a, b, brokers, topic):
    def unguarded():
        entries = offset_map.journal(b, INTERNAL)
        return [v["source"] for k, v in entries.items() if k[0] == "segments" and k[1] == topic and "unguarded" in v]

    def more_are_unguarded():
        produce(a, topic, 1)
        return unguarded()

    assert unguarded() == []
    remember(brokers, 2 * HOUR_MS)
    try:
        until(lambda: f"remembers producers for {2 * HOUR_MS} ms now" in mirror.output, "the window is seen")
        assert until(more_are_unguarded, "lanes obey")[0] >= 3
    finally:
        remember(brokers, None)
