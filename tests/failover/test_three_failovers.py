"""Three failovers in turn, a->b, b->a and a->b: the second leaves nothing on the record by which the third goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.test_changed_home import marked
from tests.flow.offset_map import journal
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long]

SETTINGS = {
    "groups": "g-.*",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "tasks.max": "1",
}
RECORDS, LEFT = 20, 5
"""How many records each cluster writes, and where groups stand when they leave a."""

AWAY = {"g-on": 10, "g-end": 10, "g-back": 10, "g-far": 3}
"""Where they stand when they leave b; one was set back there, and is further on a."""

SINCE = {"g-on": 15, "g-end": 20, "g-back": 7, "g-far": 12}
"""Where they stand on a when that is lost once more."""

FOLLOWED = ("g-on", "g-end", "g-far")
"""Those that are further on a than where they stand on b."""

NEW = "g-new"
"""A group that came to a while the flow was held."""


class Pair:
    """Cluster a has topic t, cluster b has topic l, and each has the other one's copy."""

    def __init__(self, a: LabCluster, b: LabCluster, directory: Path) -> None:
        self.a, self.b, self.directory = a, b, directory
        self.file = write_file(directory / "mm2.properties", {"a": a, "b": b}, {"a->b": "t", "b->a": "l"}, SETTINGS)
        for cluster, name in ((a, "t"), (b, "l")):
            create_topic(cluster, name, 1)
            write(cluster, name, marked(name, RECORDS))

    def stand_at(self, cluster: LabCluster, offsets: Mapping[str, int]) -> None:
        for group, offset in offsets.items():
            for name in ("t", "b.l") if cluster is self.a else ("a.t", "l"):
                commit(cluster, group, name, {0: offset})

    def stands(self, cluster: LabCluster) -> list[dict[str, int]]:
        names = ("t", "b.l") if cluster is self.a else ("a.t", "l")
        return [{group: committed(cluster, group, name).get(0, -1) for group in SINCE} for name in names]

    def are_on_record(self, source: LabCluster, target: LabCluster, offsets: Mapping[str, int]) -> bool:
        """Whether the flow has seen all groups there on its source."""
        entries = journal(target, f"sparkmirror.{source.name}.{target.name}.internal")
        rows = {tuple(key[1:]): value["offsets"] for key, value in entries.items() if key[0] == "group"}
        names = ("t", "b.l") if source is self.a else ("a.t", "l")
        seen = {place: {number: at for number, at, *_ in each} for place, each in rows.items()}
        return all(seen.get((group, name)) == {0: at} for group, at in offsets.items() for name in names)

    def goes_over(self, source: LabCluster, target: LabCluster, code: int = 0) -> dict[str, Any]:
        """The source is lost, and a failover leaves it; gives what that reports."""
        for broker in source.brokers:
            broker.kill()
        ways, known = ("--from", source.name, "--to", target.name), set(self.directory.glob("failover-*.json"))
        planned = sparkmirror("failover", self.file, *ways, "--dry-run")
        done = sparkmirror("failover", self.file, *ways, "--yes", "--report", self.directory)
        assert done.returncode == code, done.stdout + done.stderr
        (path,) = set(self.directory.glob("failover-*.json")) - known
        report = dict(json.loads(path.read_text()))
        for text in (*report["troubles"], *report["notes"]):
            assert all(text in " ".join(one.stdout.split()) for one in (planned, done)), "on each screen too"
        return report

    def comes_back(self, cluster: LabCluster, name: str) -> None:
        for broker in cluster.brokers:
            broker.start()
        until(lambda: bool(ends(cluster, name)), f"{cluster.name} is back")


@pytest.mark.parametrize("released", [False, True])
def test_the_third_calls_no_place_exact_unless_the_flow_was_released_after_the_second(tmp_path, released):
    """With the fault it called the places exact at which groups had stood on b, and ended with 0.

    Once the flow was released, that was so for a group that the second had left further on a.
    """
    with start("a") as a, start("b") as b:
        pair = Pair(a, b, tmp_path)
        with Running(pair.file, log=tmp_path / "run.log") as mirror:
            until(lambda: len(mirrored(b, "a.t")) == len(mirrored(a, "b.l")) == RECORDS, "copied")
            pair.stand_at(a, dict.fromkeys(SINCE, LEFT))
            until(lambda: pair.are_on_record(a, b, dict.fromkeys(SINCE, LEFT)), "groups are followed", 90)
            assert pair.goes_over(a, b)["troubles"] == []
            pair.comes_back(a, "t")
            pair.stand_at(b, AWAY)
            until(lambda: pair.are_on_record(b, a, AWAY), "groups are followed back", 90)
            (said,) = pair.goes_over(b, a)["notes"]
            assert f"sparkmirror release {pair.file} --flow 'a->b' ends that" in said
            pair.comes_back(b, "l")
            pair.stand_at(a, SINCE | {NEW: 3})
            if released:
                done = sparkmirror("release", pair.file, "--flow", "a->b", "--yes")
                assert done.returncode == 0, done.stdout + done.stderr
                until(lambda: pair.are_on_record(a, b, SINCE), "groups are followed", 90)
            report = pair.goes_over(a, b, code=int(not released))
            mirror.stop(seconds=60)
        exact = {one["group"]: {place["exact"] for place in one["partitions"]} for one in report["groups"]}
        assert [exact[group] for group in FOLLOWED] == [{released}] * len(FOLLOWED)
        if released:
            assert report["troubles"] == []
            assert all([own[group] for group in FOLLOWED] == [15, 20, 12] for own in pair.stands(b))
            return
        assert exact["g-back"] == {False}
        (trouble,) = report["troubles"]
        assert "a->b was stopped at" in trouble
        assert trouble.endswith(f"groups that are new there are not known: {', '.join(sorted(SINCE))}")
        assert pair.stands(b) == [AWAY, AWAY], "where their owners had left them"
        assert NEW not in {one["group"] for one in report["groups"]}
