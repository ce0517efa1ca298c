"""A group whose offsets the target does not take keeps no other from being moved, nor the operation from its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.lab.cluster import start
from tests.failover.test_lost_offsets import newest, put
from tests.flow.running import Running, commit, committed, create_topic, ends, set_property, until, write_file
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_group_that_the_target_does_not_take_is_named_and_all_others_are_moved(
    cluster_a, topic, tmp_path: Path
) -> None:
    name, partitions = topic("small"), 20
    fat, slim = f"{name}-fat", f"{name}-slim"
    create_topic(cluster_a, name, partitions)
    with start("small") as small:
        settings = {"groups": f"{name}-.*", "tasks.max": "1", "emit.checkpoints.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "s": small}, {"a->s": name}, settings)
        create_topic(small, "any", 1)
        put(small, "any", "any", 0)  # there is a topic with offsets of groups then
        put(cluster_a, slim, name, 0)
        commit(cluster_a, fat, name, dict.fromkeys(range(partitions), 0), "x" * 1_000)
        set_property(small, "__consumer_offsets", "max.message.bytes", "5000")
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: len(ends(small, f"a.{name}")) == partitions, "copied")
            words = ("--from", "a", "--to", "s", "--yes", "--wait-for-idle", "1", "--report", str(tmp_path))
            done = sparkmirror("switchover", file, *words)
            assert done.returncode == 1, done.stdout + done.stderr
            assert "moved: 1 of 2 groups, with 1 offsets" in done.stdout
            assert committed(small, slim, f"a.{name}") == {0: 0}
            report = newest(tmp_path, "switchover")
            assert report["result"] == "done"
            (trouble,) = report["troubles"]
            assert trouble.startswith(f"group {fat} was not moved: cluster s: ")
            assert {each["group"]: each["moved"] for each in report["groups"]} == {slim: True, fat: False}
            mirror.kill()
