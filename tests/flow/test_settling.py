"""A flow whose driver is dead is settled by an operation, on real brokers."""

from __future__ import annotations

import time

import pytest

from sparkmirror.config import load
from sparkmirror.failover import look
from sparkmirror.flow.settling import settle
from sparkmirror.flow.sides import connected, record
from tests.failover.test_changed_home import marked
from tests.flow.running import Running, create_topic, until, write_file
from tests.flow.test_events import delete_topic
from tests.flow.test_torn_while_idle import mirrored, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TIMEOUT_SECONDS = 60.0


def test_copies_that_do_not_exist_are_not_waited_for_and_stay_in_doubt(cluster_a, cluster_b, topic, tmp_path):
    alias, kept, gone, dropped = topic("s"), topic("kept"), topic("gone"), topic("dropped")
    path, names = tmp_path / "mm2.properties", (kept, gone, dropped)
    clusters, settings = {alias: cluster_a, "b": cluster_b}, {"tasks.max": "1"}
    file = write_file(path, clusters, {f"{alias}->b": "|".join(names)}, settings)
    for name in names:
        create_topic(cluster_a, name)
        write(cluster_a, name, marked("old", 10))
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: all(len(mirrored(cluster_b, f"{alias}.{name}")) == 10 for name in names), "copied")
        mirror.kill()
    for name in (gone, dropped):
        delete_topic(cluster_b, f"{alias}.{name}")
    (flow,) = load([write_file(path, clusters, {f"{alias}->b": f"{kept}|{gone}"}, settings)]).flows
    with connected(flow, role="operator") as sides:
        assert record(sides) is not None
        began = time.monotonic()
        assert settle(flow, sides.target, str(file), TIMEOUT_SECONDS) == {}
        assert time.monotonic() - began < TIMEOUT_SECONDS / 2
        state = record(sides)
        assert state is not None
        assert state.ended_cleanly
        assert {place.topic for place in state.in_doubt()} == {gone, dropped}
        told = look.with_absent(sides, look.partitions(flow, state, look.SourceState(failure="not asked")))
        assert [one.partition.topic for one in told if one.absent] == [gone], "the report names it"
