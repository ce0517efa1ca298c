"""Orders to a mirror that runs: topics paused and resumed, a rate changed, all without a restart and across one."""

from __future__ import annotations

import time

import pytest

from sparkmirror.lab.referee import compare
from tests.flow.running import Running, count, create_topic, reaches, until, write_file
from tests.flow.test_once import produce
from tests.invoking import sparkmirror

pytestmark = pytest.mark.kafka

QUIET_SECONDS = 4.0
RATE = 200_000


def stands_still(cluster, topic) -> bool:
    before = count(cluster, topic)
    time.sleep(QUIET_SECONDS)
    return count(cluster, topic) == before


def test_a_topic_is_paused_and_resumed_while_others_go_on_and_a_restart_keeps_the_order(
    cluster_a, cluster_b, topic, tmp_path
):
    stem = topic("orders")
    still, other = f"{stem}-still", f"{stem}-other"
    for name in (still, other):
        create_topic(cluster_a, name, 2)
        produce(cluster_a, name, partitions=2)
    file = write_file(tmp_path / "mm2.properties", {stem: cluster_a, "b": cluster_b}, {f"{stem}->b": f"{stem}-.*"})
    copies = {name: f"{stem}.{name}" for name in (still, other)}

    early = sparkmirror("pause", file, "--topic", still)
    assert early.returncode == 2, "nothing can be ordered of a flow that was never started"
    assert "was never started" in early.stderr

    with Running(file, log=tmp_path / "first.log") as mirror:
        for copy in copies.values():
            reaches(cluster_b, copy, 300)
        paused = sparkmirror("pause", file, "--topic", still)
        assert paused.stdout == f"{stem}->b: {still} is paused, within seconds\n", paused.stderr
        time.sleep(QUIET_SECONDS)
        for name in copies:
            produce(cluster_a, name, partitions=2, first=300)
        reaches(cluster_b, copies[other], 600)
        assert stands_still(cluster_b, copies[still])
        status = sparkmirror("status", file)
        assert f"{still} is paused since" in " ".join(status.stdout.split())
        assert mirror.stop(seconds=60) == 0

    with Running(file, log=tmp_path / "second.log") as mirror:
        produce(cluster_a, other, partitions=2, first=600)
        reaches(cluster_b, copies[other], 900)
        assert count(cluster_b, copies[still]) == 300
        resumed = sparkmirror("resume", file, "--topic", still)
        assert resumed.stdout == f"{stem}->b: {still} is copied again, within seconds\n", resumed.stderr
        reaches(cluster_b, copies[still], 600)
        assert mirror.stop(seconds=60) == 0
    results = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, copies)
    assert {result.topic: result.difference for result in results if result.difference} == {}
    late = sparkmirror("pause", file, "--topic", other)
    assert late.stdout == f"{stem}->b: {other} is paused, when it is started: it does not run now\n"
    unknown = sparkmirror("pause", file, "--topic", "nobody-has-it")
    assert unknown.returncode == 2
    assert "copies a topic named nobody-has-it" in unknown.stderr
    assert sparkmirror("limit", file).returncode == 2


def test_a_rate_holds_and_is_changed_without_a_restart(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("rate")
    name, copy = f"{stem}-t", f"{stem}.{stem}-t"
    create_topic(cluster_a, name, 4)
    produce(cluster_a, name, {"compression.type": "none"}, records=40_000, partitions=4, size=400)
    size = 40_000 * 400
    clusters, flows = {stem: cluster_a, "b": cluster_b}, {f"{stem}->b": name}
    file = write_file(tmp_path / "mm2.properties", clusters, flows, {"max.bytes.per.second": str(RATE)})
    with Running(file, log=tmp_path / "run.log") as mirror:
        reaches(cluster_b, copy, 1)
        began, first = time.monotonic(), count(cluster_b, copy)
        time.sleep(8)
        copied = (count(cluster_b, copy) - first) / 40_000 * size
        seconds = time.monotonic() - began
        assert copied < 3 * RATE * seconds, "one batch for each lane may be large"
        assert count(cluster_b, copy) < 40_000 / 2
        freed = sparkmirror("limit", file, "--no-limit")
        assert freed.returncode == 0, freed.stderr
        until(lambda: count(cluster_b, copy) == 40_000, "everything once there is no limit", 30)
        assert mirror.stop(seconds=60) == 0
