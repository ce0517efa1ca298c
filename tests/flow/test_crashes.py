"""Kills and restarts in the middle of a copy: nothing is lost, nothing repeats, order is kept."""

from __future__ import annotations

import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkmirror.lab.cluster import start
from sparkmirror.lab.processes import descendants
from tests.flow import offset_map
from tests.flow.exact import repeats
from tests.flow.running import Running, admin_of, count, create_topic, ends, reaches, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

INTERNAL = "sparkmirror.a.b.internal"


def leads(cluster, node, *topics):
    """Whether a broker leads any partition of these topics."""
    known = admin_of(cluster).list_topics(timeout=60).topics
    return any(part.leader == node for topic in topics for part in known[topic].partitions.values())


def epochs(target, internal):
    """The newest writer epoch of each producer id."""
    newest: dict[int, int] = {}
    for key in offset_map.journal(target, internal):
        if key[0] == "progress":
            newest[key[3]] = max(newest.get(key[3], 0), key[4])
    return newest


def grows(cluster, *topics):
    """Waits until more has arrived."""
    before = count(cluster, *topics)
    until(lambda: count(cluster, *topics) > before + 50, f"{', '.join(topics)} goes on")


def test_workers_brokers_and_drivers_are_killed_and_nothing_is_lost_or_repeated(cluster_a, cluster_b, topic, tmp_path):
    names = topic("killed-small"), topic("killed-large")
    copies = [f"a.{name}" for name in names]
    for name in names:
        create_topic(cluster_a, name, 2)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": ",".join(names)})
    writers = [Traffic(cluster_a, name, 2, nulls=False) for name in names]
    with ExitStack() as stack:
        stack.enter_context(writers[0].small(per_turn=4))
        stack.enter_context(writers[1].large(per_turn=60))
        mirror = stack.enter_context(Running(file, log=tmp_path / "killed.log", spark=True))
        until(lambda: count(cluster_b, *copies) > 200, "the copy runs")

        until(lambda: len(mirror.lane_workers()) >= 2, "two lanes, two workers")
        os.kill(mirror.lane_workers()[0], signal.SIGKILL)
        until(lambda: "was lost" in mirror.output, "the lost lane is seen")
        before = [ends(cluster_b, copy) for copy in copies]
        until(
            lambda: all(
                ends(cluster_b, copy).get(partition, 0) > end
                for copy, was in zip(copies, before, strict=True)
                for partition, end in was.items()
            ),
            "every partition goes on",
        )
        assert len(re.findall(r"lane-\d+\.\d+ was lost", mirror.output)) == 1, "the other lane is not disturbed"

        cluster_a.brokers[0].kill()
        cluster_a.brokers[0].start()
        grows(cluster_b, *copies)
        cluster_b.brokers[0].kill()
        cluster_b.brokers[0].start()
        grows(cluster_b, *copies)

        old = epochs(cluster_b, INTERNAL)
        children = descendants(mirror.pid)
        mirror.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "no child outlives the driver")
        following = stack.enter_context(Running(file, log=tmp_path / "following.log", spark=True))
        grows(cluster_b, *copies)
        until(
            lambda: any(old.get(writer, epoch) < epoch for writer, epoch in epochs(cluster_b, INTERNAL).items()),
            "a raised epoch",
        )
        following.stop_in_time()
        assert "did not end cleanly" in following.output
    with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
        assert last.wait() == 0, last.tail()
    for name, copy in zip(names, copies, strict=True):
        assert repeats(cluster_a, cluster_b, name, copy) == 0


def test_leaders_change_on_a_cluster_of_three_as_source_and_as_target(cluster_a, topic, tmp_path):
    out, back = topic("three-out"), topic("three-back")
    with start("three", brokers=3) as three, ExitStack() as stack:
        create_topic(three, out, 4, {"min.insync.replicas": "2"}, replicas=3)
        create_topic(cluster_a, back, 4)
        create_topic(three, f"a.{back}", 4, {"min.insync.replicas": "2"}, replicas=3)
        file = write_file(
            tmp_path / "mm2.properties",
            {"a": cluster_a, "three": three},
            {"three->a": out, "a->three": back},
            {"tasks.max": "1", "a->three.replication.factor": "3"},
        )
        writers = Traffic(three, out, 4, nulls=False), Traffic(cluster_a, back, 4, nulls=False)
        for writer in writers:
            stack.enter_context(writer.small(per_turn=4))
        mirror = stack.enter_context(Running(file, log=tmp_path / "run.log"))
        sides = (cluster_a, f"three.{out}"), (three, f"a.{back}")
        for cluster, copy in sides:
            reaches(cluster, copy, 50)
        for broker in three.brokers[:2]:
            broker.kill()
            broker.start()
            # It is let in again when its session has ended, and then others lead.
            until(lambda: not leads(three, broker.node, out, f"a.{back}"), "other leaders")  # noqa: B023 - called in this turn
            for cluster, copy in sides:
                grows(cluster, copy)
        mirror.stop_in_time()
        stack.pop_all().__exit__(None, None, None)
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
        assert repeats(three, cluster_a, out, f"three.{out}") == 0
        assert repeats(cluster_a, three, back, f"a.{back}") == 0
