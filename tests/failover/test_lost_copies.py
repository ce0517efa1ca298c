"""Going back from a cluster that has lost the end of a copy: no group goes behind what it has not read."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkmirror import config
from sparkmirror.failover.states import Step
from sparkmirror.flow import status
from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.halting import halted
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_switching import begun, died
from tests.flow import offset_map
from tests.flow.logs import read
from tests.flow.running import Running, commit, committed, ends, stopped, until
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CUT = 7
"""From this offset on the copy is lost; the switchover had put ten records there."""

OLD, AWAY = marked("old", 10), marked("away", 5)


class Torn(Home):
    """Cluster b loses the end of the copy while applications are there.

    Groups have committed what the name says on a before the switchover, and the second number on b since, if there is
    one. What each of them reads next on a is in `firsts`, by the end of its name.
    """

    firsts: ClassVar = {"5": OLD[5], "10": AWAY[0], "8": OLD[8], "3-6": OLD[6], "5-7": OLD[7], "5-9": OLD[7]}

    def copied(self) -> None:
        """In two batches, so that the log can be cut between them."""
        for end in self.firsts:
            offsets = {0: int(end.partition("-")[0])}
            until(lambda: taken(self.a, f"{self.name}-{end}", self.name, offsets), "the coordinator has begun")  # noqa: B023 - at once
        for number in (CUT, len(OLD)):
            write(self.a, self.name, OLD[len(mirrored(self.b, self.copy)) : number])
            until(lambda: mirrored(self.b, self.copy) == OLD[:number], "copied")  # noqa: B023 - at once

    def tear(self, *, onward: bool = True) -> None:
        """Loses the end, and applications go on at the offsets that have become free."""
        (broker,) = self.b.brokers
        broker.kill()
        cut_log(broker, self.copy, CUT)
        broker.start()
        until(lambda: ends(self.b, self.copy) == {0: CUT}, "records are really lost")
        for value in AWAY if onward else ():
            write(self.b, self.name, [value])

    def use(self) -> None:
        """Consumers commit on b."""
        for end in self.firsts:
            if "-" in end:
                commit(self.b, f"{self.name}-{end}", self.copy, {0: int(end.partition("-")[2])})

    def brought(self) -> None:
        until(
            lambda: AWAY[-1] in mirrored(self.a, self.name if self.copy == self.name else f"b.{self.name}"), "brought"
        )

    def check(self, report: dict[str, Any]) -> None:
        (trouble,) = report["troubles"]
        assert f"{self.copy}-0: b has lost what had been copied there from offset {CUT} on" in trouble
        assert f"offsets 7 to 9 of {self.name}-0 on {self.name}" in trouble
        assert report["offsets_skipped"] == 0
        kept = self.copy == self.name
        firsts = {end: first if kept or first in OLD else None for end, first in self.firsts.items()}
        assert {end: self.next_on_a(f"{self.name}-{end}") for end in firsts} == firsts

    def goes_on(self) -> None:
        """The flow copies again what is lost, and what comes."""
        write(self.a, self.name, marked("then", 2))
        until(lambda: mirrored(self.b, self.copy)[-1] == marked("then", 2)[-1], "goes on")
        away = AWAY if self.copy == self.name else []
        assert mirrored(self.b, self.copy) == [*OLD[:CUT], *away, *OLD[CUT:], *marked("then", 2)]
        events = [event.kind for flow in status.read(config.load([str(self.file)])) for event in flow.events]
        assert "target-tail-lost" in events


@pytest.mark.parametrize(
    ("kept", "when"),
    [
        pytest.param(False, None, marks=pytest.mark.long),
        pytest.param(True, None, marks=pytest.mark.long),
        pytest.param(True, Step.IDLING, marks=pytest.mark.long),
        pytest.param(False, Step.MOVING, marks=pytest.mark.long),
        (True, Step.MOVING),
    ],
)
def test_groups_read_what_was_lost_where_it_still_is(topic, tmp_path, kept, when):
    """Before the failback, or when the command has died and before it is given again; groups may have been moved."""
    with start("home") as a, start("away") as b:
        home = Torn(a, b, topic("torn"), tmp_path, kept=kept)
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            home.copied()
            home.leave("switchover", "--wait-for-idle", "1")
            home.use()
            if when is not None:
                died(begun(home.file, "failback", *home.back, dies_in=when))
            home.tear()
            home.brought()
            home.check(home.go_back(code=1))
            home.goes_on()
            mirror.stop_in_time()


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.long
def test_the_flow_back_leaves_groups_before_what_was_lost_when_the_failback_has_ended(topic, tmp_path, both):
    """It commits group offsets too. The other flow has not copied again what was lost, or does not even run."""
    with start("home") as a, start("away") as b:
        home = Torn(a, b, topic("synced"), tmp_path, kept=True)
        with home.file.open("a") as file:
            file.write("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")
            file.write("refresh.groups.interval.seconds = 1\n")
        options = () if both else ("--flow", f"b->{home.name}")
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            home.copied()
            home.leave("switchover", "--wait-for-idle", "1")
            mirror.stop_in_time()
        with Running(home.file, log=tmp_path / "back.log", options=options) as mirror:
            home.use()
            home.tear()
            home.brought()
            home.check(home.go_back(code=1))
            for turn in range(5):
                wait_for_round(home, f"{home.name}-turn-{turn}")
                firsts = {end: home.next_on_a(f"{home.name}-{end}") for end in home.firsts}
                assert firsts == home.firsts, f"after {turn + 1} rounds of group offsets"
            mirror.stop(seconds=60)


def wait_for_round(home: Torn, group: str) -> None:
    """Until the flow back has translated a new group, and all others with it."""
    until(lambda: taken(home.b, group, home.copy, {0: 2}), "the coordinator has begun")
    until(lambda: committed(home.a, group, home.name) == {0: 2}, "a round of group offsets")


def test_what_only_home_has_is_copied_with_what_was_lost(topic, tmp_path):
    """It is put aside, but nobody can go on behind it and copy what lies before it."""
    with start("home") as a, start("away") as b:
        home = Torn(a, b, topic("aside"), tmp_path, kept=False)
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            home.copied()
            home.leave("failover", "--force")
            write(a, home.name, marked("home", 5))
            home.tear()
            report = home.go_back(code=1)
            assert home.kept(report) == marked("home", 5)
            assert home.next_on_a(f"{home.name}-10") == marked("home", 1)[0]
            expected = [*OLD, *marked("home", 5)]
            until(lambda: mirrored(b, home.copy) == expected, "what was lost is copied again")
            mirror.stop_in_time()


@pytest.mark.long
def test_a_failover_from_a_cluster_that_has_lost_copies_goes_by_what_the_other_one_has(topic, tmp_path):
    with start("home") as a, start("away") as b:
        home = Torn(a, b, topic("over"), tmp_path, kept=True)
        name, group = home.name, f"{home.name}-5-9"
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            home.copied()
            home.leave("switchover", "--wait-for-idle", "1")
            home.tear()
            home.brought()
            home.use()
            until(lambda: on_record(a, f"sparkmirror.b.{name}.internal", group, name) == 9, "it is on record")
            b.brokers[0].kill()
            done = sparkmirror("failover", home.file, "--from", "b", "--to", name, "--yes", "--report", str(tmp_path))
            assert done.returncode == 0, done.stdout + done.stderr
            assert home.next_on_a(group) == OLD[CUT]
            mirror.stop(seconds=60)


@pytest.mark.parametrize("kind", ["switchover", pytest.param("failover", marks=pytest.mark.long)])
def test_a_target_that_loses_copies_after_the_flow_was_stopped(topic, tmp_path, kind):
    """A switchover loses nothing, and is taken back; a failover goes by what is left."""
    with start("home") as a, start("away") as b:
        home = Torn(a, b, topic("late"), tmp_path, kept=True)
        name = home.name
        idle = ("--wait-for-idle", "1") if kind == "switchover" else ()
        words = (kind, home.file, "--from", name, "--to", "b", "--yes", "--report", tmp_path, *idle)
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            home.copied()
            until(lambda: on_record(b, f"sparkmirror.{name}.b.internal", f"{name}-8", name) == 8, "it is on record")
            if kind == "failover":
                a.brokers[0].kill()
            command = halted(Step.MOVING, *words)
            home.tear(onward=False)
            command.kill()
            command.wait()
            done = sparkmirror(*words)
            if kind == "switchover":
                assert done.returncode == 1, done.stdout
                said = " ".join(done.stderr.split())
                assert f"b has lost what had been copied there from offset {CUT} on, offsets 7 to 9 of {name}-0" in said
                assert committed(b, f"{name}-8", name) == {}
                back = sparkmirror(*words[:6], "--abandon", *words[6:])
                assert back.returncode == 0, back.stdout + back.stderr
                until(lambda: mirrored(b, name) == OLD, "what was lost is copied again")
                mirror.stop_in_time()
            else:
                assert "3 records known to be missing" in " ".join(done.stdout.split()), done.stdout + done.stderr
                groups = {end: int(end.partition("-")[0]) for end in home.firsts}
                assert {end: committed(b, f"{name}-{end}", name)[0] for end in groups} == {
                    end: min(offset, CUT) for end, offset in groups.items()
                }
                mirror.stop(seconds=60)


@pytest.mark.parametrize("kind", [pytest.param("switchover", marks=pytest.mark.long), "failover"])
def test_a_target_that_loses_copies_after_groups_were_moved(topic, tmp_path, kind):
    """The command has died before it looked at them there, and applications have written at the offsets since."""
    with start("home") as a, start("away") as b:
        home = Torn(a, b, topic("moved"), tmp_path, kept=True)
        name = home.name
        idle = ("--wait-for-idle", "1") if kind == "switchover" else ("--force",)
        words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path), *idle)
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            home.copied()
            died(begun(home.file, kind, *words, dies_in=Step.VERIFYING))
            assert committed(b, f"{name}-10", name) == {0: 10}
            home.tear()
            done = sparkmirror(kind, home.file, *words)
            said = " ".join((done.stdout + done.stderr).split())
            assert done.returncode == 1, said
            assert "3 records known to be missing" in said
            assert f"b has lost the end of its copies of {name}-0 since groups were moved" in said
            groups = {end: int(end.partition("-")[0]) for end in home.firsts}
            assert {end: committed(b, f"{name}-{end}", name)[0] for end in groups} == {
                end: min(offset, CUT) for end, offset in groups.items()
            }
            mirror.stop(seconds=60)


def taken(cluster: LabCluster, group: str, name: str, offsets: dict[int, int]) -> bool:
    """Commits for a group, if its coordinator can take that yet: the cluster has just been started."""
    try:
        commit(cluster, group, name, offsets)
    except KafkaException as failure:
        if failure.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
            return False
        raise
    return True


def on_record(cluster: LabCluster, internal: str, group: str, name: str) -> int | None:
    """What a group has committed, as a flow has it on record."""
    value = offset_map.journal(cluster, internal).get(("group", group, name))
    return None if value is None else int(value["offsets"][0][1])


class HomeTorn(Home):
    """Cluster a loses the end of what was brought home to it, and producers that nobody has stopped write there."""

    brought, late = marked("away", 10), marked("late", 8)
    read: ClassVar = {"early": 2, "mid": 7, "end": 10}
    """How many of the records of b each group has read there."""

    def away(self) -> None:
        """Groups read on b what is brought to a in two batches."""
        for part in (self.brought[:5], self.brought[5:]):
            write(self.b, self.name, part)
            until(lambda: part[-1] in mirrored(self.a, self.name), "brought")  # noqa: B023 - at once
        for end, count in self.read.items():
            commit(self.b, f"{self.name}-{end}", self.copy, {0: 10 + count})

    def tear(self) -> None:
        where = next(one.offset for one in read(self.a, self.name)[0] if one.value == self.brought[5])
        (broker,) = self.a.brokers
        broker.kill()
        cut_log(broker, self.name, where)
        broker.start()
        until(lambda: ends(self.a, self.name) == {0: where}, "records are really lost")
        write(self.a, self.name, self.late)


@pytest.mark.parametrize(
    ("when", "again"),
    [
        (None, False),
        (Step.MOVING, False),
        (Step.VERIFYING, False),
        (Step.VERIFYING, True),
    ],
)
@pytest.mark.long
def test_home_has_all_that_was_brought_before_groups_go_back_to_it(topic, tmp_path, when, again):
    """It loses a part before the failback, or when the command has died; nobody has looked at its logs by then.

    Or the flow back has found it, and brought it again, before the command is given again.
    """
    with start("home") as a, start("away") as b:
        home = HomeTorn(a, b, topic("brought"), tmp_path, kept=True)
        name = home.name
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(a, name, OLD)
            until(lambda: mirrored(b, name) == OLD, "copied")
            for end in home.read:
                until(lambda: taken(a, f"{name}-{end}", name, {0: 10}), "the coordinator has begun")  # noqa: B023 - at once
            home.leave("switchover", "--wait-for-idle", "1")
            home.away()
            if when is not None:
                died(begun(home.file, "failback", *home.back, dies_in=when))
            with stopped(mirror):  # or it could bring again what was lost before others write in its place
                home.tear()
            if again:
                until(lambda: home.brought[-1] in mirrored(a, name), "brought again", 120)
            moved = when is Step.VERIFYING
            report = home.go_back(code=int(moved))
            assert len(report["troubles"]) == int(moved)
            assert "since groups were moved: they were moved once more" in "".join(report["troubles"]) or not moved
            write(a, name, marked("then", 2))
            until(lambda: marked("then", 2)[-1] in mirrored(b, name), "goes on")
            here = mirrored(a, name)
            assert sorted(here) == sorted([*OLD, *home.brought, *home.late, *marked("then", 2)])
            assert mirrored(b, name) == [*OLD, *home.brought, *marked("then", 2)]
            assert sorted(value or b"" for value in home.kept(report)) == sorted(home.late)
            for end, count in home.read.items():
                at = committed(a, f"{name}-{end}", name)[0]
                unread = [one.value for one in read(a, name)[0] if one.offset >= at and one.value in home.brought]
                assert unread == home.brought[count:], (end, at)
            mirror.stop_in_time()
