"""A copy that began again, in a new source topic or by an order, and then loses its target's end or a lane."""

from __future__ import annotations

import signal
import time

import pytest

from sparkmirror.lab.cluster import start
from sparkmirror.lab.processes import send
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic, of_kind, records
from tests.flow.test_torn_while_idle import cut_log, mirrored, progress_of, write
from tests.invoking import sparkmirror

QUIET_SECONDS = 4.0
"""Lanes hear of orders within a second."""

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_lost_tail_that_reaches_below_the_newer_source_is_told_and_hides_nothing_of_it(cluster_a, topic, tmp_path):
    """What was copied of the older source is gone for good; all that the newer one has comes again."""
    name = topic("again")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, {"tasks.max": "1"})
        with Running(file, log=tmp_path / "run.log") as mirror:
            for first in (0, 50):
                write(cluster_a, name, records(50, first))
                until(lambda: mirrored(one, copy) == records(first + 50), "50 more", PATIENCE_SECONDS)  # noqa: B023 - at once
            delete_topic(cluster_a, name)
            create_topic(cluster_a, name, 1)
            write(cluster_a, name, records(30, 1000))
            until(lambda: mirrored(one, copy)[100:] == records(30, 1000), "the newer ones", PATIENCE_SECONDS)
            broker.kill()
            cut_log(broker, copy, 50)
            broker.start()
            until(lambda: ends(one, copy) == {0: 50}, "records are really lost")
            write(cluster_a, name, records(5, 1030))
            whole = [*records(50), *records(35, 1000)]
            until(lambda: mirrored(one, copy) == whole, "all that the source has, once", PATIENCE_SECONDS)
            told = until(lambda: of_kind(file, name, "target-tail-lost"), "the loss is told of", PATIENCE_SECONDS)
            mirror.stop_in_time()
        assert (told[0].first, told[0].last) in [(50, end) for end in (129, 130, 131)]


def test_an_order_that_is_corrected_repeats_nothing_and_has_groups_skip_nothing(cluster_a, cluster_b, topic, tmp_path):
    """Back to the beginning by mistake, and on again; then the lane dies."""
    alias, name, group = topic("c"), topic("corrected"), topic("g")
    copy, internal = f"{alias}.{name}", f"sparkmirror.{alias}.b.internal"
    create_topic(cluster_a, name, 1)
    every = {f"{each}.interval.seconds": "1" for each in ("sync.group.offsets", "refresh.groups")}
    settings = {"tasks.max": "1", "sync.group.offsets.enabled": "true", "groups": group} | every
    file = write_file(tmp_path / "mm2.properties", {alias: cluster_a, "b": cluster_b}, {f"{alias}->b": name}, settings)

    def moved(to: str, place: int) -> None:
        done = sparkmirror("positions", "set", file, "--topic", name, "--to", to)
        assert done.returncode == 0, done.stderr
        until(lambda: progress_of(cluster_b, internal, name).get("position") == place, f"it is moved to {place}")

    def stands_at(offset: int) -> None:
        commit(cluster_a, group, name, {0: offset})
        until(lambda: committed(cluster_b, group, copy) == {0: offset}, f"the group is at {offset}", PATIENCE_SECONDS)

    write(cluster_a, name, records(100))
    with Running(file, log=tmp_path / "run.log") as mirror:
        until(lambda: mirrored(cluster_b, copy) == records(100), "100 copied", PATIENCE_SECONDS)
        stands_at(30)
        assert sparkmirror("pause", file, "--topic", name).returncode == 0
        time.sleep(QUIET_SECONDS)
        moved("earliest", 0)
        moved("latest", 100)
        for worker in mirror.lane_workers():
            send(worker, signal.SIGKILL)
        assert sparkmirror("resume", file, "--topic", name).returncode == 0
        write(cluster_a, name, records(5, 100))
        until(lambda: mirrored(cluster_b, copy)[-1:] == records(1, 104), "it goes on", PATIENCE_SECONDS)
        assert mirrored(cluster_b, copy) == records(105)
        stands_at(60)
        mirror.stop_in_time()
