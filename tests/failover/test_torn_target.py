"""Groups on a target that has lost the end of its log: they follow their records, and a consumer's commit stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.clients import next_records
from tests.flow import offset_map
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.logs import read
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_events import of_kind, records
from tests.flow.test_torn_while_idle import IDENTITY, OTHERS, cut_log, log_of, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SYNCS = ("emit.checkpoints", "sync.group.offsets", "refresh.groups")
COMMITTED = 60
"""What the groups have committed on the source."""


def written(directory: Path, clusters: dict[str, LabCluster], topic: str, *, syncs: bool) -> Path:
    settings = {
        "replication.policy.class": IDENTITY,
        "tasks.max": "1",
        "groups": f"{topic}-.*",
        "sync.group.offsets.enabled": str(syncs).lower(),
    }
    intervals = {f"{each}.interval.seconds": "1" for each in SYNCS}
    name = f"{'with' if syncs else 'without'}-offsets.properties"
    return write_file(directory / name, clusters, {"a->o": topic}, settings | intervals)


def wait_until_copied(target: LabCluster, topic: str, number: int) -> None:
    until(lambda: mirrored(target, topic) == records(number), f"{number} copied", PATIENCE_SECONDS)


def place_of(report: Path, group: str) -> dict[str, Any]:
    (found,) = [one for one in json.loads(report.read_text())["groups"] if one["group"] == group]
    (place,) = found["partitions"]
    return dict(place)


@pytest.mark.parametrize(
    "syncs",
    [True, pytest.param(False, marks=pytest.mark.long)],
    ids=["by the next round", "by the switchover alone"],
)
def test_a_group_follows_its_record_and_one_that_a_consumer_has_used_stays_and_is_told(
    cluster_a, topic, tmp_path, syncs
):
    """Others' records lie between, and are lost with the copies: these come to lie lower. A new driver sees to it."""
    name = topic("torn")
    group, used = f"{name}-g", f"{name}-used"
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), clusters = one.brokers, {"a": cluster_a, "o": one}
        create_topic(one, name, 1)
        first = written(tmp_path, clusters, name, syncs=True)
        with Running(first, log=tmp_path / "first.log") as mirror:
            write(cluster_a, name, records(50))
            wait_until_copied(one, name, 50)
            write(one, name, OTHERS)
            write(cluster_a, name, records(50, 50))
            wait_until_copied(one, name, 100)
            for each in (group, used):
                commit(cluster_a, each, name, {0: COMMITTED})
            there = {0: COMMITTED + len(OTHERS)}
            for each in (group, used):
                until(lambda: committed(one, each, name) == there, f"{each} is on the target", PATIENCE_SECONDS)  # noqa: B023 - at once
            commit(one, used, name, {0: there[0] + 5})
            mirror.stop_in_time()
        broker.kill()
        cut_log(broker, name, 50)
        broker.start()
        until(lambda: ends(one, name) == {0: 50}, "records are really lost", PATIENCE_SECONDS)
        file = written(tmp_path, clusters, name, syncs=syncs)
        with Running(file, log=tmp_path / "second.log") as mirror:
            write(cluster_a, name, records(50, 100))
            wait_until_copied(one, name, 150)
            until(lambda: of_kind(file, name, "target-tail-lost"), "the loss is told of", PATIENCE_SECONDS)
            log = read(one, name)
            (right,) = [each.offset for each in log[0] if each.value == records(1, COMMITTED)[0]]
            assert right < there[0]
            if syncs:
                until(lambda: committed(one, group, name) == {0: right}, "the group follows", PATIENCE_SECONDS)
                until(lambda: f"group {group}" in " ".join(mirror.output.split()), "the log says so", PATIENCE_SECONDS)
            else:
                assert committed(one, group, name) == there
            done = sparkmirror(
                "switchover", file, "--from", "a", "--to", "o", "--wait-for-idle", "1", "--yes", "--report", tmp_path
            )
            assert done.returncode == 0, done.stdout + done.stderr
            mirror.stop_in_time()
        assert next_records(one, group, name, log) == {0: records(1, COMMITTED)[0]}, "no record is skipped"
        (report,) = tmp_path.glob("switchover-*.json")
        place = place_of(report, group)
        assert (place["offset"], place["exact"], place["further"]) == (right, True, 0)
        left = place_of(report, used)
        assert (left["offset"], left["exact"], left["further"]) == (there[0] + 5, False, there[0] + 5 - right)
        assert "by a commit that is not the flow's" in left["text"]
        assert committed(one, used, name) == {0: there[0] + 5}, "what a consumer has committed is never set back"
        assert f"{used} at {name}-0" in report.with_suffix(".md").read_text()


def on_record(target: LabCluster, group: str, topic: str) -> list[int]:
    """The last commit of the flow's, partition 0, as it is on record and as the target has taken it."""
    rows = (offset_map.journal(target, "sparkmirror.a.o.internal").get(("committed", group, topic)) or {}).get(
        "offsets"
    )
    return rows[0][1:] if rows else []


@pytest.mark.parametrize(
    "syncs",
    [pytest.param(True, marks=pytest.mark.long), False],
    ids=["by the next round", "by the switchover alone"],
)
def test_a_group_follows_its_record_where_the_target_has_lost_the_last_commit_too(cluster_a, topic, tmp_path, syncs):
    """One power failure takes the end of both logs: the group has an earlier commit of the flow's."""
    name = topic("fallen")
    group, there = f"{name}-g", COMMITTED + len(OTHERS)
    create_topic(cluster_a, name, 1)
    with start("fallen") as one:
        (broker,), clusters = one.brokers, {"a": cluster_a, "o": one}
        create_topic(one, name, 1)
        with Running(written(tmp_path, clusters, name, syncs=True), log=tmp_path / "first.log") as mirror:
            write(cluster_a, name, records(50))
            wait_until_copied(one, name, 50)
            write(one, name, OTHERS)
            write(cluster_a, name, records(50, 50))
            wait_until_copied(one, name, 100)
            sizes = []
            for number in range(2):
                commit(cluster_a, group, name, {0: COMMITTED + number})
                row = [there + number, COMMITTED + number]
                until(lambda: on_record(one, group, name) == row, f"{row} is on record", PATIENCE_SECONDS)  # noqa: B023 - at once
                assert committed(one, group, name) == {0: row[0]}
                sizes.append(log_of(broker, "__consumer_offsets").stat().st_size)
            mirror.stop_in_time()
        broker.kill()
        cut_log(broker, name, 50)
        os.truncate(log_of(broker, "__consumer_offsets"), sizes[0])
        broker.start()
        until(lambda: ends(one, name) == {0: 50}, "records are really lost", PATIENCE_SECONDS)
        until(lambda: committed(one, group, name) == {0: there}, "the last commit too", PATIENCE_SECONDS)
        file = written(tmp_path, clusters, name, syncs=syncs)
        with Running(file, log=tmp_path / "second.log") as mirror:
            write(cluster_a, name, records(50, 100))
            wait_until_copied(one, name, 150)
            log = read(one, name)
            (right,) = [each.offset for each in log[0] if each.value == records(1, COMMITTED + 1)[0]]
            assert right < there
            if syncs:
                until(lambda: committed(one, group, name) == {0: right}, "the group follows", PATIENCE_SECONDS)
            else:
                assert committed(one, group, name) == {0: there}
            done = sparkmirror(
                "switchover", file, "--from", "a", "--to", "o", "--wait-for-idle", "1", "--yes", "--report", tmp_path
            )
            assert done.returncode == 0, done.stdout + done.stderr
            mirror.stop_in_time()
        assert next_records(one, group, name, log) == {0: records(1, COMMITTED + 1)[0]}, "no record is skipped"
        (report,) = tmp_path.glob("switchover-*.json")
        place = place_of(report, group)
        assert (place["offset"], place["exact"], place["further"]) == (right, True, 0)
