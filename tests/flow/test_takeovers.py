"""Partitions are taken over from whoever had them: another driver, a lane that sleeps, a lane with old data."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack

import pytest

from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.records import Reader, extents
from tests.flow import offset_map
from tests.flow.exact import repeats, rows
from tests.flow.running import Running, count, create_topic, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

INTERNAL = "sparkmirror.a.b.internal"
OLD_SECONDS = 30 * 86_400.0
REPLACED_SECONDS = 120.0


def goes_on(cluster, *topics):
    before = count(cluster, *topics)
    until(lambda: count(cluster, *topics) > before + 100, f"{', '.join(topics)} goes on", REPLACED_SECONDS)


def generations(cluster: LabCluster, internal: str) -> list[int]:
    """Of every record in which a driver says which start of the flow it is, in the order of the log."""
    found = []
    with Reader(cluster.bootstrap_servers, internal, extents(cluster.bootstrap_servers, internal)) as reader:
        for message in (message for messages in reader for message in messages):
            key, value = json.loads(message.key() or b"[0]")[0], json.loads(message.value() or b"{}")
            if key in ("flow", "life", "stopped") and value:
                found.append(int(value["generation"]))
    return found


def test_a_driver_that_stood_still_while_another_took_the_flow_writes_nothing_more(
    cluster_a, cluster_b, topic, tmp_path
):
    """A virtual machine that was paused, say: it wakes in the midst of whatever it did."""
    name = topic("woken")
    create_topic(cluster_a, name, 2)
    file = write_file(tmp_path / "mm2.properties", {"w": cluster_a, "b": cluster_b}, {"w->b": name})
    with ExitStack() as stack:
        writing = stack.enter_context(ExitStack())
        writing.enter_context(Traffic(cluster_a, name, 2, nulls=False).small())
        first = stack.enter_context(Running(file, log=tmp_path / "first.log"))
        until(lambda: count(cluster_b, f"w.{name}") > 100, "the first copies")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            second = stack.enter_context(Running(file, log=tmp_path / "second.log"))
            goes_on(cluster_b, f"w.{name}")
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert first.wait(REPLACED_SECONDS) == 1
        assert "has taken the flow over" in first.output
        goes_on(cluster_b, f"w.{name}")
        writing.close()
        second.stop_in_time()
    found = generations(cluster_b, "sparkmirror.w.b.internal")
    assert found == sorted(found)
    assert set(found) == {1, 2}
    with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
        assert last.wait() == 0, last.tail()
    assert rows(cluster_b, f"w.{name}") == rows(cluster_a, name)


def test_a_second_driver_takes_the_flow_and_the_first_ends_and_says_so(cluster_a, cluster_b, topic, tmp_path):
    name = topic("two-drivers")
    create_topic(cluster_a, name, 4)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": name})
    with ExitStack() as stack:
        writing = stack.enter_context(ExitStack())
        writing.enter_context(Traffic(cluster_a, name, 4, nulls=False).small())
        first = stack.enter_context(Running(file, log=tmp_path / "first.log"))
        until(lambda: count(cluster_b, f"a.{name}") > 100, "the first copies")
        second = stack.enter_context(Running(file, log=tmp_path / "second.log"))
        assert first.wait(REPLACED_SECONDS) == 1
        assert "has taken the flow over" in first.output
        goes_on(cluster_b, f"a.{name}")
        writing.close()
        second.stop_in_time()
        assert "taking partitions over" in second.output
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
    assert repeats(cluster_a, cluster_b, name, f"a.{name}") == 0
    assert offset_map.check(cluster_a, cluster_b, name, f"a.{name}", INTERNAL)


def test_a_lane_that_sleeps_is_replaced_and_sends_nothing_when_it_wakes(cluster_a, cluster_b, topic, tmp_path):
    """Old records too, which no broker guards: there the lease is the only fence."""
    names = topic("sleeper"), topic("old-sleeper")
    copies = [f"a.{name}" for name in names]
    for name in names:
        create_topic(cluster_a, name, 2, {"retention.ms": "-1"})
    file = write_file(
        tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": ",".join(names)}, {"tasks.max": "2"}
    )
    with ExitStack() as stack:
        writing = stack.enter_context(ExitStack())
        writing.enter_context(Traffic(cluster_a, names[0], 2, nulls=False).small())
        writing.enter_context(Traffic(cluster_a, names[1], 2, nulls=False, age_s=OLD_SECONDS).large(per_turn=20))
        mirror = stack.enter_context(Running(file, log=tmp_path / "run.log", spark=True))
        until(lambda: all(count(cluster_b, copy) > 100 for copy in copies), "both topics are copied")
        until(lambda: len(mirror.lane_workers()) >= 2, "two lanes, two workers")
        sleepers = mirror.lane_workers()
        for sleeper in sleepers:
            os.kill(sleeper, signal.SIGSTOP)
        until(lambda: mirror.output.count("was lost") >= 2, "the sleepers are missed", REPLACED_SECONDS)
        goes_on(cluster_b, copies[0])
        goes_on(cluster_b, copies[1])
        for sleeper in sleepers:
            if sleeper in mirror.lane_workers():
                os.kill(sleeper, signal.SIGCONT)
        goes_on(cluster_b, *copies)
        writing.close()
        mirror.stop_in_time()
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
    for name, copy in zip(names, copies, strict=True):
        assert repeats(cluster_a, cluster_b, name, copy) == 0
        assert offset_map.check(cluster_a, cluster_b, name, copy, INTERNAL)


@pytest.mark.long
def test_a_backfill_of_old_records_survives_killed_workers_and_a_restart_of_the_target(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("backfill")
    create_topic(cluster_a, name, 4, {"retention.ms": "-1"})
    written = Traffic(cluster_a, name, 4, nulls=False, age_s=OLD_SECONDS).some("large", 30_000)
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b},
        {"a->b": name},
        {"producer.batch.size": "20000", "b.producer.batch.size": "20000"},
    )
    with ExitStack() as stack:
        writing = stack.enter_context(ExitStack())
        writing.enter_context(Traffic(cluster_a, name, 4, nulls=False, mark="more-", age_s=OLD_SECONDS).large())
        mirror = stack.enter_context(Running(file, log=tmp_path / "run.log", spark=True))
        until(lambda: count(cluster_b, f"a.{name}") > 100, "the copy runs")
        os.kill(mirror.lane_workers()[0], signal.SIGKILL)
        cluster_b.brokers[0].stop()
        cluster_b.brokers[0].start()
        until(lambda: count(cluster_b, f"a.{name}") > written, "the copy goes on", REPLACED_SECONDS)
        cluster_b.brokers[0].kill()
        cluster_b.brokers[0].start()
        goes_on(cluster_b, f"a.{name}")
        writing.close()
        mirror.stop_in_time()
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
    assert repeats(cluster_a, cluster_b, name, f"a.{name}") == 0
    assert offset_map.check(cluster_a, cluster_b, name, f"a.{name}", INTERNAL)
