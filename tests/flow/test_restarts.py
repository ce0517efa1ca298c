"""Stops and starts in the middle of a copy, through the real command: equality, and a right offset map."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack

import pytest

from sparkmirror.lab.referee import compare
from tests.flow import offset_map
from tests.flow.running import Running, count, create_topic, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STOPS = 10
INTERNAL = "sparkmirror.a.b.internal"


def run_and_stop(file, log, target, topics, moment, *, early):
    """Stops while it still starts, or a moment after it copied something."""
    before = count(target, *topics)
    with Running(file, log=log) as mirror:
        if early:
            until(lambda: mirror.listens, "it takes signals")
        else:
            until(lambda: count(target, *topics) > before, "the copy goes on")
        time.sleep(moment)
        mirror.stop_in_time()
        assert "Traceback" not in mirror.output, mirror.output


def test_ten_stops_in_the_middle_of_a_copy_leave_the_target_equal_and_the_map_right(
    cluster_a, cluster_b, topic, tmp_path
):
    names = small, large, transactional = [topic(kind) for kind in ("small", "large", "transactional")]
    targets = {name: f"a.{name}" for name in names}
    for name, partitions in zip(names, (4, 2, 3), strict=True):
        create_topic(cluster_a, name, partitions)
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": ",".join(names)})
    traffic = [Traffic(cluster_a, small, 4), Traffic(cluster_a, large, 2), Traffic(cluster_a, transactional, 3)]
    dice = random.Random(7)
    with ExitStack() as writing:
        writing.enter_context(traffic[0].small())
        writing.enter_context(traffic[1].large())
        writing.enter_context(traffic[2].transactions())
        for stop in range(STOPS):
            log = tmp_path / f"run-{stop}.log"
            run_and_stop(file, log, cluster_b, targets.values(), dice.uniform(0.0, 2.5), early=stop % 2 == 1)
    with Running(file, log=tmp_path / "last.log", options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()
    results = compare(cluster_a.bootstrap_servers, cluster_b.bootstrap_servers, targets)
    assert [result.difference for result in results] == ["", "", ""]
    assert [result.records for result in results] == [each.written for each in traffic]
    for name, target in targets.items():
        assert offset_map.check(cluster_a, cluster_b, name, target, INTERNAL) > 1_000
