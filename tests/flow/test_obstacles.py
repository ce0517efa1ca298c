"""A mirror that goes on running while something is in its way: one partition, then the whole target."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest
from confluent_kafka import Producer

from sparkmirror.lab.referee import compare
from tests.flow import offset_map
from tests.flow.running import Running, count, create_topic, patience, set_limit, until, write_file
from tests.flow.traffic import Traffic

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RETRIES = 2
PAUSES_SECONDS = 60.0


def test_a_partition_that_stops_is_tried_again_alone_and_a_stop_without_the_target_ends_in_time(
    cluster_a, cluster_c, topic, tmp_path
):
    large, plain = topic("obstacle-large"), topic("obstacle-plain")
    create_topic(cluster_a, large, 2)
    create_topic(cluster_a, plain, 2)
    create_topic(cluster_c, f"a.{large}", 2, {"max.message.bytes": "2000"})
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 3})
    for number in range(20):
        producer.produce(large, b"x" * (50_000 if number == 10 else 50), partition=number % 2)
        producer.flush(60)
    clusters = {"a": cluster_a, "c": cluster_c}
    file = write_file(tmp_path / "mm2.properties", clusters, {"a->c": f"{large},{plain}"}, {"stop.timeout.ms": "8500"})
    with ExitStack() as stack:
        writing = stack.enter_context(Traffic(cluster_a, plain, 2).small(per_turn=2))
        mirror = stack.enter_context(Running(file, log=tmp_path / "run.log"))
        until(lambda: "stands still" in mirror.output, "the obstacle is told")
        until(lambda: count(cluster_c, f"a.{large}") == 15, "what lies before it is copied")
        before = count(cluster_c, f"a.{plain}")
        # It is tried again after 1 s, 2 s and so on, in a lane of its own; lanes that have nothing left to do end.
        tried: set[str] = set()
        until(lambda: len(_add_tries(tried, cluster_c)) > RETRIES, "it is tried again", PAUSES_SECONDS)
        assert count(cluster_c, f"a.{plain}") > before
        assert len(mirror.lane_workers()) <= 2 + 2, "lanes with nothing left to do have ended"
        set_limit(cluster_c, f"a.{large}", 1 << 20)
        until(lambda: count(cluster_c, f"a.{large}") == 20, "it goes on by itself", PAUSES_SECONDS)
        (healed,) = compare(cluster_a.bootstrap_servers, cluster_c.bootstrap_servers, {large: f"a.{large}"})
        assert healed.equal, healed.difference

        cluster_c.brokers[0].kill()
        try:
            time.sleep(1)  # the mirror notices, and begins to wait for the target
            began = time.monotonic()
            code = mirror.stop(seconds=40)
            took = time.monotonic() - began
        finally:
            cluster_c.brokers[0].start()
        assert code == 1, mirror.tail()
        assert took < 10 * patience(), f"took {took:.1f} s: {mirror.tail()}"
        assert "Traceback" not in mirror.output
    with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
        assert last.wait() == 0, last.tail()
    assert count(cluster_c, f"a.{plain}") >= writing.written


def _add_tries(tried, cluster):
    """Adds the lanes that say that the partition stands still; each try has one of its own."""
    entries = offset_map.journal(cluster, "sparkmirror.a.c.internal")
    tried.update(value["lane"] for key, value in entries.items() if key[0] == "progress" and value["error"])
    return tried
