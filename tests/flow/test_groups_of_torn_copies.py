"""Groups of two flows that write one topic, while the target has lost copies and the flow has not found that yet."""

from __future__ import annotations

import time

import pytest

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.running import Running, commit, committed, create_topic, until, write_file
from tests.flow.test_torn_while_idle import cut_log, mirrored, write

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CUT, LOCAL = 12, [b"n-%d" % number for number in range(30)]
OLD = [b"a-%d" % number for number in range(40)]
COMMITTED = {"far": 26, "near": 18, "before": 7}
WATCHED_SECONDS = 8.0


def offset(cluster: LabCluster, group: str) -> int:
    return committed(cluster, group, "t").get(0, 0)


def test_no_group_goes_behind_copies_that_are_gone(tmp_path):
    """Others have written at their offsets: behind the cut a group has read nothing."""
    with start("a") as a, start("b") as b:
        create_topic(a, "t", 1)
        create_topic(b, "t", 1)
        settings = {
            "tasks.max": "1",
            "groups": "far|near|before",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        }
        file = write_file(tmp_path / "mm2.properties", {"a": a, "b": b}, {"a->b": "t", "b->a": "t"}, settings)
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            for number in (CUT, len(OLD)):
                write(a, "t", OLD[len(mirrored(b, "t")) : number])
                until(lambda: mirrored(b, "t") == OLD[:number], "copied")  # noqa: B023 - at once
            for group in COMMITTED:
                commit(a, group, "t", {0: 5})
            until(lambda: all(offset(b, group) == 5 for group in COMMITTED), "synced")
            (broker,) = b.brokers
            broker.kill()
            cut_log(broker, "t", CUT)
            broker.start()
            write(b, "t", LOCAL)
            for group, at in COMMITTED.items():
                commit(a, group, "t", {0: at})
            watched = time.monotonic() + WATCHED_SECONDS
            while time.monotonic() < watched:
                assert {group: offset(b, group) for group in ("far", "near") if offset(b, group) > CUT} == {}
                time.sleep(0.2)
            until(lambda: offset(b, "before") == COMMITTED["before"], "groups before the cut go on")
            until(lambda: mirrored(b, "t") == [*OLD[:CUT], *LOCAL, *OLD[CUT:]], "copied again")
            mirror.stop_in_time()
