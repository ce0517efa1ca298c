"""Groups that read copies of the flow back go on in the originals, which have lost their end or are others by now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.clients import next_records
from tests.failover.test_changed_home import NAMES_KEPT, Home, marked
from tests.failover.test_lost_copies import taken
from tests.failover.test_switching import begun, died
from tests.flow import offset_map
from tests.flow.logs import read
from tests.flow.running import Running, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OLD, AWAY, NEW = marked("old", 50), marked("away", 50), marked("new", 80)
CUT = 25
"""So many of ``AWAY`` are left of the log that has lost its end."""


class Originals:
    """Cluster b, to which groups go whose topic was copied from there; under kept names it has records of a too."""

    def __init__(self, a: LabCluster, b: LabCluster, name: str, directory: Path, *, kept: bool) -> None:
        self.a, self.b, self.name, self.directory = a, b, name, directory
        self.copy, self.before = (name, OLD) if kept else (f"b.{name}", [])
        intervals = {"sync.group.offsets.interval.seconds": "1", "emit.checkpoints.interval.seconds": "1"}
        settings = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
        create_topic(b, name, 1)
        if kept:
            create_topic(a, name, 1)
        self.file = write_file(
            directory / "mm2.properties",
            {"a": a, "b": b},
            {"a->b": name, "b->a": name},
            settings | intervals | (NAMES_KEPT if kept else {}),
        )
        self.words = ("--from", "a", "--to", "b", "--yes", "--report", str(directory))

    def copied(self) -> None:
        """In parts, so that the log can be cut between them; one group has read all of it, one only the first ones."""
        if self.before:
            write(self.a, self.name, self.before)
            until(lambda: mirrored(self.b, self.name) == self.before, "copied")
        for part in (AWAY[:CUT], AWAY[CUT:]):
            write(self.b, self.name, part)
            until(lambda: part[-1] in mirrored(self.a, self.copy), "copied back")  # noqa: B023 - at once
        for group, left in (("late", 0), ("early", len(AWAY) - CUT + 5)):
            offsets = {0: ends(self.a, self.copy)[0] - left}
            until(lambda: taken(self.a, f"{self.name}-{group}", self.copy, offsets), "the coordinator has begun")  # noqa: B023 - at once
            until(lambda: self.on_record(group) == self.end - left, "it is on record")  # noqa: B023 - at once

    @property
    def end(self) -> int:
        return len(self.before) + len(AWAY)

    @property
    def cut(self) -> int:
        return len(self.before) + CUT

    def on_record(self, group: str) -> int | None:
        """Where a group goes on on b, as it is on record there."""
        value = offset_map.journal(self.b, "sparkmirror.a.b.internal").get(("group", f"{self.name}-{group}", self.copy))
        rows = [] if value is None else value.get("upstream", [])
        return int(rows[0][1]) if rows else None

    def tear(self, *, again: bool) -> None:
        """The log on b loses its end, or all of it, and applications go on there."""
        if again:
            delete_topic(self.b, self.name)
            create_topic(self.b, self.name, 1)
        else:
            (broker,) = self.b.brokers
            broker.kill()
            cut_log(broker, self.name, self.cut)
            broker.start()
            until(lambda: ends(self.b, self.name) == {0: self.cut}, "records are really lost")
        write(self.b, self.name, NEW)

    def fail_over(self, code: int, *words: str) -> str:
        done = sparkmirror("failover", self.file, *self.words, *words)
        assert done.returncode == code, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    def places(self) -> dict[str, tuple[int, bool]]:
        (file,) = self.directory.glob("failover-*.json")
        report: dict[str, Any] = json.loads(file.read_text())
        found = {}
        for each in report["groups"]:
            (place,) = each["partitions"]
            found[each["group"].rpartition("-")[2]] = (place["offset"], place["exact"])
        return found

    def stands(self, group: str) -> int:
        return committed(self.b, f"{self.name}-{group}", self.name)[0]


@pytest.mark.parametrize(
    ("kept", "again", "dies_in"),
    [
        (False, False, None),
        pytest.param(True, False, None, marks=pytest.mark.long),
        pytest.param(False, True, None, marks=pytest.mark.long),
        pytest.param(False, False, Step.MOVING, marks=pytest.mark.long),
        (True, False, Step.VERIFYING),
    ],
)
def test_no_group_goes_behind_what_came_in_place_of_lost_records(topic, tmp_path, kept, again, dies_in):
    """Before the failover, or when its command has died: before it has ended, groups may have been moved."""
    with start("left") as a, start("taken") as b:
        originals = Originals(a, b, topic("own"), tmp_path, kept=kept)
        with Running(originals.file, log=tmp_path / "mirror.log") as mirror:
            originals.copied()
            a.brokers[0].kill()
            healthy = originals.fail_over(0, "--dry-run")
            assert "may read some records twice" not in healthy
            if dies_in is not None:
                died(begun(originals.file, "failover", *originals.words, dies_in=dies_in))
            if dies_in is Step.VERIFYING:
                assert originals.stands("late") == originals.end
            originals.tear(again=again)
            said = originals.fail_over(1)
            early = originals.end - (len(AWAY) - CUT + 5)
            expected = {"late": (0 if again else originals.cut, False), "early": (0 if again else early, not again)}
            assert originals.places() == expected
            assert {group: originals.stands(group) for group in expected} == {
                group: offset for group, (offset, _) in expected.items()
            }
            copies = "b has lost the end of its copies" in said  # settling has left a marker behind them
            assert copies or "b has lost records of its own topics since b->a has read them" in said
            mirror.stop(seconds=60)


@pytest.mark.long
def test_a_failback_moves_groups_once_more_where_home_has_lost_what_was_copied_from_it(cluster_b, topic, tmp_path):
    """The command has died when groups had been moved, and others have written at the offsets since."""
    with start("home") as cluster:
        home = Home(cluster, cluster_b, topic("torn"), tmp_path, kept=False)
        (broker,), name, group = cluster.brokers, home.name, f"{home.name}-g"
        for value in marked("old", 10):
            write(cluster, name, [value])
        until(lambda: taken(cluster, group, name, {0: 10}), "the coordinator has begun")
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            home.leave("switchover", "--wait-for-idle", "1")
            died(begun(home.file, "failback", *home.back, dies_in=Step.VERIFYING))
            assert committed(cluster, group, name) == {0: 10}
            broker.kill()
            cut_log(broker, name, 6)
            broker.start()
            until(lambda: ends(cluster, name) == {0: 6}, "records are really lost")
            write(cluster, name, marked("fresh", 8))
            report = home.go_back(code=1)
            assert f"{name} has lost {name}-0 from offset 6 on since groups were moved" in str(report["troubles"])
            assert home.next_on_a(group) == marked("fresh", 1)[0]
            until(lambda: mirrored(cluster_b, home.copy) == [*marked("old", 10), *marked("fresh", 8)], "goes on")
            mirror.stop_in_time()


@pytest.mark.long
@pytest.mark.parametrize("how", ["dead", "forced", "restarted", "torn"])
def test_a_cluster_that_comes_back_with_all_its_records_is_told_of_no_loss(tmp_path, how):
    """It was left, and comes back under higher leader epochs, which the flow back that is held has never met.

    With the fault, that was told as a loss, and groups went back to where it seemed to begin. Where it has lost some of
    its own records, and others have written in their place, groups go before these, and are not called exact.
    """
    with start("stays") as a, start("returns") as b:
        (broker,), name, report = b.brokers, "q-own", ("--report", tmp_path)
        settings = {"tasks.max": "1", "groups": "q-.*", "sync.group.offsets.interval.seconds": "1", **NAMES_KEPT}
        settings |= {"sync.group.offsets.enabled": "true", "refresh.groups.interval.seconds": "1"}
        file = write_file(tmp_path / "mm2.properties", {"a": a, "b": b}, {"a->b": name, "b->a": name}, settings)
        for cluster in (a, b):
            create_topic(cluster, name, 1)
        for value in marked("b", 6):
            write(b, name, [value])
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            until(lambda: mirrored(a, name) == marked("b", 6), "copied")
            for group in ("q-end", "q-mid"):
                until(lambda: taken(b, group, name, {0: 6}), "the coordinator has begun")  # noqa: B023 - at once
            until(lambda: committed(a, "q-mid", name) == {0: 6}, "groups are followed")
            if how in ("dead", "torn"):
                broker.kill()
            if how == "restarted":
                broker.stop()
            else:
                left = sparkmirror("failover", file, "--from", "b", "--to", "a", "--yes", "--force", *report)
                assert left.returncode == 0, left.stdout + left.stderr
            if how == "torn":
                cut_log(broker, name, 4)
            if how != "forced":
                broker.start()
            until(lambda: bool(ends(b, name)), "it is there again")
            write(b, name, marked("x", 3 if how == "torn" else 0))
            write(a, name, marked("a", 10))
            until(lambda: mirrored(b, name)[-1] == marked("a", 10)[-1], "copied behind them")
            away = read(a, name)[0]
            commit(a, "q-end", name, {0: away[-1].offset + 1})
            commit(a, "q-mid", name, {0: away[11].offset})
            kind, idle = ("failover", ()) if how == "restarted" else ("switchover", ("--wait-for-idle", "1"))
            if how == "restarted":
                until(lambda: committed(b, "q-end", name) == {0: 16}, "groups are followed")
                a.brokers[0].kill()
            done = sparkmirror(kind, file, "--from", "a", "--to", "b", "--yes", *idle, *report)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "has lost records of its own topics" not in done.stdout
            (path,) = tmp_path.glob(f"{kind}-*.json")
            exact = {place["exact"] for one in json.loads(path.read_text())["groups"] for place in one["partitions"]}
            assert exact == {how != "torn"}
            expected = [marked("x", 1)[0]] * 2 if how == "torn" else [marked("a", 10)[5], None]
            log = read(b, name)
            assert [next_records(b, group, name, log)[0] for group in ("q-mid", "q-end")] == expected
            mirror.stop(seconds=60)
