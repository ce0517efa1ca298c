"""Groups that a failover takes over and that are brought back, and whose cluster is lost once more after that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.dying import COMMITTED
from tests.failover.test_changed_home import NAMES_KEPT, marked
from tests.failover.test_switching import begun, died
from tests.flow import offset_map
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
RECORDS = 20
ON_A, ON_B = {"g-back": 8, "g-on": 8, "g-still": 8, "g-far": 20}, {"g-back": 4, "g-on": 12, "g-still": 8, "g-far": 3}
"""Where groups stand when they leave a, and where consumers and owners have brought them on b."""

SINCE = {"g-back": 2, "g-on": 7, "g-still": 8, "g-far": 6}
"""Where they stand on a when that is lost once more."""

IDLE = ("--wait-for-idle", "1")


class Pair:
    """Cluster a has topic t, cluster b has topic l, and each has the other one's copy.

    Attributes:
        topics: by cluster the names of both.
    """

    def __init__(self, a: LabCluster, b: LabCluster, directory: Path, *, kept: bool) -> None:
        self.a, self.b, self.directory = a, b, directory
        self.topics = {a.name: ("t", "l" if kept else "b.l"), b.name: ("t" if kept else "a.t", "l")}
        more = NAMES_KEPT if kept else {}
        self.file = write_file(
            directory / "mm2.properties", {"a": a, "b": b}, {"a->b": "t, l", "b->a": "t, l"}, SETTINGS | more
        )
        create_topic(a, "t", 1)
        create_topic(b, "l", 1)
        write(a, "t", marked("t", RECORDS))
        write(b, "l", marked("l", RECORDS))

    def is_copied(self) -> bool:
        return all(len(mirrored(one, name)) >= RECORDS for one in (self.a, self.b) for name in self.topics[one.name])

    def stand_at(self, cluster: LabCluster, offsets: Mapping[str, int]) -> None:
        for group, offset in offsets.items():
            for name in self.topics[cluster.name]:
                commit(cluster, group, name, {0: offset})

    def stands(self, cluster: LabCluster, name: str) -> dict[str, int | None]:
        return {group: committed(cluster, group, name).get(0) for group in ON_A}

    def is_on_record(self) -> bool:
        """Whether b has on record where all groups stand on a, and where that leads to in what b itself has written."""
        entries = offset_map.journal(self.b, "sparkmirror.a.b.internal")
        for group, offset in ON_A.items():
            for name in self.topics[self.a.name]:
                value = entries.get(("group", group, name)) or {"offsets": []}
                leads = [row[3] for row in value.get("upstream", [])]
                known = [row[:2] for row in value["offsets"]]
                if known != [[0, offset]] or not all(leads) or (name != "t" and not leads):
                    return False
        return True

    def lose(self, cluster: LabCluster) -> None:
        for broker in cluster.brokers:
            broker.kill()

    def bring_back(self, cluster: LabCluster) -> None:
        for broker in cluster.brokers:
            broker.start()
        until(lambda: bool(ends(cluster, self.topics[cluster.name][0])), f"{cluster.name} is back")

    def does(self, kind: str, source: str, target: str, *more: str, code: int = 0) -> dict[str, Any]:
        """Carries an operation out, and gives its report."""
        known = set(self.directory.glob(f"{kind}-*.json"))
        ways = ("--to", target) if kind == "failback" else ("--from", source, "--to", target)
        done = sparkmirror(kind, self.file, *ways, "--yes", "--report", self.directory, *more)
        assert done.returncode == code, done.stdout + done.stderr
        (report,) = set(self.directory.glob(f"{kind}-*.json")) - known
        return dict(json.loads(report.read_text()))


@contextmanager
def left(directory: Path, *, kept: bool = False) -> Iterator[Pair]:
    """Groups were taken to b by a failover, and both clusters are there again."""
    with start("a") as a, start("b") as b:
        home = Pair(a, b, directory, kept=kept)
        with Running(home.file, log=directory / "run.log") as mirror:
            until(home.is_copied, "copied")
            home.stand_at(a, ON_A)
            until(home.is_on_record, "groups are on record")
            home.lose(a)
            home.does("failover", "a", "b")
            home.bring_back(a)
            home.stand_at(b, ON_B)
            yield home
            mirror.kill_all()  # one of its clusters is gone


def places_of(report: dict[str, Any]) -> list[dict[str, Any]]:
    return [place for one in report["groups"] for place in one["partitions"]]


@pytest.mark.parametrize("kept", [False, True])
def test_what_a_group_has_left_behind_holds_it_no_further_where_it_is_set_back_and_returns(tmp_path, kept):
    """With the fault, it stayed where it had left and skipped what its owner wanted read again, each time."""
    with left(tmp_path, kept=kept) as home:
        report = home.does("switchover", "b", "a", *IDLE)
        assert (report["offsets_left_further"], report["troubles"]) == (0, [])
        assert all(place["exact"] for place in places_of(report))
        assert [home.stands(home.a, name) for name in home.topics["a"]] == [ON_B, ON_B]
        released = sparkmirror("release", home.file, "--flow", "a->b", "--yes")
        assert released.returncode == 0, released.stdout + released.stderr
        home.stand_at(home.a, SINCE)
        until(lambda: home.stands(home.b, home.topics["b"][0]) == SINCE, "groups are followed", 60)
        home.lose(home.a)
        report = home.does("failover", "a", "b")
        assert (report["offsets_left_further"], report["troubles"]) == (0, [])
        assert all(place["exact"] for place in places_of(report))
        assert [home.stands(home.b, name) for name in home.topics["b"]] == [SINCE, SINCE]


@pytest.mark.parametrize(
    ("kind", "dies_in"),
    [
        ("switchover", None),
        ("switchover", COMMITTED),
        ("failback", COMMITTED),
        ("failback", Step.MOVING),
        ("failback", Step.VERIFYING),
    ],
)
def test_no_place_is_exact_where_groups_were_brought_back_and_the_flow_has_not_gone_on(
    tmp_path, kind: str, dies_in: Step | str | None
):
    """Their cluster is lost again: what they have read there is on nobody's record.

    With the fault, a failover called the places exact at which they had stood before, and ended with 0.
    """
    with left(tmp_path) as home:
        words = ("--to", "a") if kind == "failback" else ("--from", "b", "--to", "a")
        if dies_in is None:
            home.does(kind, "b", "a", *IDLE)
        else:
            died(begun(home.file, kind, *words, "--yes", "--report", str(tmp_path), *IDLE, dies_in=dies_in))
        moved = [group for group in ON_B if committed(home.a, group, "t").get(0) == ON_B[group]]
        assert "g-back" in moved, "at least the first portion is there"
        home.stand_at(home.a, SINCE)
        home.lose(home.a)
        planned = sparkmirror("failover", home.file, "--from", "a", "--to", "b", "--dry-run")
        said = " ".join(planned.stdout.split())
        assert f"groups were brought back to a by {kind}-" in said, said
        report = home.does("failover", "a", "b", code=1)
        assert [home.stands(home.b, name) for name in home.topics["b"]] == [ON_B, ON_B], "where they stood"
        assert not any(place["exact"] for place in places_of(report))
        assert any(f"groups were brought back to a by {kind}-" in text for text in report["troubles"])


def test_a_failback_that_dies_when_the_flow_goes_on_leaves_groups_to_be_followed(tmp_path):
    with left(tmp_path) as home:
        words = ("--to", "a", "--yes", "--report", str(tmp_path), *IDLE)
        died(begun(home.file, "failback", *words, dies_in=Step.RELEASING))
        home.stand_at(home.a, SINCE)
        until(lambda: home.stands(home.b, home.topics["b"][0]) == SINCE, "groups are followed", 60)
        home.lose(home.a)
        report = home.does("failover", "a", "b")
        assert report["troubles"] == []
        assert all(place["exact"] for place in places_of(report))
        assert [home.stands(home.b, name) for name in home.topics["b"]] == [SINCE, SINCE]


def test_a_switchover_that_is_taken_back_counts_as_none_that_has_brought_groups_back(tmp_path):
    """The source was there since the flow is held, and nobody knows what has been done there since."""
    with left(tmp_path) as home:
        words = ("--from", "b", "--to", "a", "--yes", "--report", str(tmp_path))
        died(begun(home.file, "switchover", *words, *IDLE, dies_in=COMMITTED))
        done = sparkmirror("switchover", home.file, *words, "--abandon", "--force")
        assert done.returncode == 0, done.stdout + done.stderr
        home.lose(home.a)
        report = home.does("failover", "a", "b", code=1)
        (trouble,) = report["troubles"]
        assert "what 4 groups have done on a since is not on record" in trouble
        assert not any(place["exact"] for place in places_of(report))
        assert [home.stands(home.b, name) for name in home.topics["b"]] == [ON_B, ON_B]
