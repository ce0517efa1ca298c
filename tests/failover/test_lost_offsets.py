"""The cluster that groups were moved to loses the end of ``__consumer_offsets`` before the operation has ended."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_switching import begun, died
from tests.flow.running import Running, commit, committed, ends, until
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OFFSETS = "__consumer_offsets"


def put(cluster: LabCluster, group: str, topic: str, offset: int) -> None:
    def done() -> bool:
        with suppress(KafkaException):  # a coordinator that is not there yet
            commit(cluster, group, topic, {0: offset})
        with suppress(KafkaException):
            return committed(cluster, group, topic) == {0: offset}
        return False

    until(done, f"{group} has committed {offset}", 60)


def newest(directory: Path, kind: str) -> dict[str, Any]:
    found = (path for path in directory.glob(f"{kind}-*.json") if "interrupted" not in path.name)
    return dict(json.loads(max(found, key=lambda path: path.stat().st_mtime).read_text()))


@pytest.mark.parametrize("kind", [pytest.param("switchover", marks=pytest.mark.long), "failback"])
def test_groups_that_have_what_they_had_before_they_were_moved_are_moved_once_more(
    cluster_a, cluster_b, topic, tmp_path, kind
):
    """A power failure with replication factor 1: one group would skip records, and one read some again."""
    name = topic("lostoffsets")
    with start("lost") as losing:
        left, taken = (cluster_a, losing) if kind == "switchover" else (losing, cluster_b)
        home = Home(left, taken, name, tmp_path, kept=False)
        home.file.write_text(home.file.read_text() + "sync.group.offsets.enabled = false\n")
        on, back = f"{name}-on", f"{name}-back"
        there = home.copy if kind == "switchover" else name
        words: tuple[str, ...] = home.back
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(left, name, marked("old", 10))
            until(lambda: mirrored(taken, home.copy) == marked("old", 10), "copied")
            for group, before, after in ((on, 2, 8), (back, 9, 4)):
                put(losing, group, there, before)
                if kind == "switchover":
                    put(left, group, name, after)
            if kind == "switchover":
                words = ("--from", name, "--to", "b", *home.back[2:])
            else:
                home.leave("switchover", "--wait-for-idle", "1")
                for group, after in ((on, 8), (back, 4)):
                    put(taken, group, home.copy, after)
            end = ends(losing, OFFSETS)[0]
            died(begun(home.file, kind, *words, dies_in=Step.VERIFYING))
            moved = {on: {0: 8}, back: {0: 9 if kind == "switchover" else 4}}
            assert {group: committed(losing, group, there) for group in moved} == moved
            (broker,) = losing.brokers
            broker.kill()
            cut_log(broker, OFFSETS, end)
            broker.start()
            until(lambda: committed(losing, on, there) == {0: 2}, "it has lost what was committed", 60)
            again = sparkmirror(kind, home.file, *words)
            assert again.returncode == 1, again.stdout + again.stderr
            assert {group: committed(losing, group, there) for group in moved} == moved
            report = newest(tmp_path, kind)
            (trouble,) = report["troubles"]
            assert f"groups had the offsets on {'b' if kind == 'switchover' else name} again that they had" in trouble
            assert f"{on} at {there}-0 (2)" in trouble
            exact = {each["group"]: each["partitions"][0]["exact"] for each in report["groups"]}
            assert exact[on] is False
            mirror.stop_in_time()
