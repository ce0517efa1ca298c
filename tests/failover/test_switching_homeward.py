"""Applications write to copies while a switchover leaves their cluster, and before a failback returns to it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import LabCluster, start
from tests.failover.clients import next_records
from tests.failover.halting import halted
from tests.failover.test_changed_home import Home, marked, runs
from tests.failover.test_fenced_switching import Application, denials, guarded
from tests.flow.logs import read
from tests.flow.running import Running, admin_of, commit, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

assert guarded is not None  # the fixture

IDLE_SECONDS, PATIENCE_SECONDS = "2", "15"
LAG = 20
"""Records of 3 kB: a minute at 1 kB/s, in which commands are started and end."""


@contextmanager
def pair(name: str, directory: Path, *homeward: str) -> Iterator[Home]:
    """Two clusters whose flows rename; those that are named bring home what others write to copies."""
    with start("home") as a, start("away") as b:
        home = Home(a, b, name, directory, kept=False)
        with home.file.open("a") as file:
            file.write("".join(f"{flow}.homeward.enabled = true\n" for flow in homeward))
        yield home


@contextmanager
def writing(cluster: LabCluster, topic: str, mark: str) -> Iterator[list[bytes]]:
    """Writes until the block ends; gives what was written so far."""
    stop, written = threading.Event(), list[bytes]()

    def run() -> None:
        while not stop.wait(0.05):
            value = b"%s-%d" % (mark.encode(), len(written))
            write(cluster, topic, [value])
            written.append(value)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join()


def words(home: Home, *more: str) -> tuple[str, ...]:
    """Of a switchover from b."""
    return ("--from", "b", "--to", home.name, "--report", str(home.directory), *more)


def switch(home: Home, *more: str) -> subprocess.CompletedProcess[str]:
    return sparkmirror("switchover", home.file, *words(home, "--yes", "--wait-for-idle", IDLE_SECONDS, *more))


def newest(home: Home, kind: str) -> dict[str, Any]:
    found = [path for path in home.directory.glob(f"{kind}-*.json") if ".interrupted-" not in path.name]
    return dict(json.loads(max(found, key=lambda path: path.stat().st_mtime).read_text()))


def brought(home: Home, *values: bytes) -> None:
    until(lambda: set(values) <= set(mirrored(home.a, home.name)), "what others wrote is home")


def records(cluster: LabCluster, topic: str) -> int:
    return sum(map(len, read(cluster, topic).values()))


def place_in(report: dict[str, Any], group: str, topic: str) -> dict[str, Any]:
    (found,) = (one for one in report["groups"] if one["group"] == group)
    (place,) = (one for one in found["partitions"] if one["target_topic"] == topic)
    return dict(place)


def test_copies_of_which_nobody_has_on_record_who_makes_them_are_trouble(topic, tmp_path):
    """As those of MirrorMaker 2: what others wrote to them cannot be told from what it wrote, and does not go home."""
    name = topic("unknown")
    copy = f"b.{name}"
    with start("home") as a, start("away") as b:
        settings = {"tasks.max": "1", "groups": f"{name}-.*", "heartbeats.replication.enabled": "false"}
        settings |= {f"{name}->b.homeward.enabled": "true"}
        file = write_file(tmp_path / "mm2.properties", {name: a, "b": b}, {f"{name}->b": f"{name}.*"}, settings)
        create_topic(a, f"{name}-own", 1)
        for cluster, made in ((b, name), (a, copy)):
            create_topic(cluster, made, 1)
            write(cluster, made, marked("made", 10))
        with Running(file, log=tmp_path / "mirror.log") as mirror:
            write(a, f"{name}-own", marked("own", 10))
            until(lambda: mirrored(b, f"{name}.{name}-own") == marked("own", 10), "copied")
            write(a, copy, marked("home", 7))
            commit(a, f"{name}-g", copy, {0: 12})
            dry = sparkmirror("switchover", file, "--from", name, "--to", "b", "--dry-run")
            done = sparkmirror("switchover", file, "--from", name, "--to", "b", "--yes", "--report", tmp_path)
            assert f"others may have written to them, and no flow brings that back: {copy}-0 (" in dry.stdout
            assert f"{copy}-0: nobody has on record on {name} who makes this copy, as where MirrorMaker" in done.stdout
            assert done.returncode == 1, done.stdout + done.stderr
            mirror.stop_in_time()


def test_where_the_record_of_the_flow_that_makes_the_copies_is_lost_whoever_waits_is_told_that_and_what_helps(
    topic, tmp_path
):
    name = topic("unrecorded")
    cause = f"there is no record of {name}->b on cluster b"
    remedy = f"start b->{name} with b->{name}.homeward.enabled = false"
    with pair(name, tmp_path, f"b->{name}") as home:
        with Running(home.file, log=tmp_path / "run.log") as mirror:
            write(home.a, name, marked("old", 10))
            until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
            write(home.b, home.copy, marked("home", 5))
            brought(home, *marked("home", 5))
            mirror.stop_in_time()
        admin_of(home.b).delete_topics([lost := f"sparkmirror.{name}.b.internal"])[lost].result(60)
        only = ("--flow", f"b->{name}")
        with Running(home.file, log=tmp_path / "alone.log", options=only) as mirror:
            write(home.b, home.copy, marked("late", 7))
            until(lambda: cause in (tmp_path / "alone.log").read_text(), "the log tells")
            waited = sparkmirror("wait", home.file, "--caught-up", "--timeout", "2", *only)
            dry = sparkmirror("switchover", home.file, *words(home, "--dry-run"))
            forced = switch(home, "--force", "--timeout", "3")
            for done in (waited, dry, forced):
                said = " ".join((done.stdout + done.stderr).split())
                assert done.returncode == 1, said
                assert f"{home.copy}-0: {cause}" in said, said
                assert remedy in said, said
            assert sparkmirror("switchover", home.file, *words(home, "--abandon", "--yes")).returncode == 0
            mirror.stop_in_time()
        with home.file.open("a") as file:
            file.write(f"b->{name}.homeward.enabled = false\n")
        with Running(home.file, log=tmp_path / "without.log", options=only) as mirror:
            until(lambda: runs(home, f"b->{name}"), "the flow runs without")
            done = switch(home)
            assert "has not been brought" not in done.stdout
            assert newest(home, "switchover")["result"].startswith("done"), done.stdout + done.stderr
            mirror.stop_in_time()


def test_a_producer_that_still_writes_to_a_copy_is_waited_for_and_nothing_of_it_is_left_behind(topic, tmp_path):
    """Applications on the original's cluster write all the time: the copy grows, and that holds nothing up."""
    name = topic("busy")
    with pair(name, tmp_path, f"b->{name}") as home, Running(home.file, log=tmp_path / "run.log") as mirror:
        write(home.a, name, marked("old", 10))
        until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
        write(home.b, home.copy, marked("home", 5))
        brought(home, *marked("home", 5))
        with writing(home.a, name, "live") as live:
            with writing(home.b, home.copy, "late") as late:
                until(lambda: len(late) > 5, "applications write to the copy")
                refused = switch(home, "--timeout", PATIENCE_SECONDS)
                assert refused.returncode != 0, refused.stdout
                said = " ".join((refused.stdout + refused.stderr).split())
                assert f"{home.copy}-0 and 0 other partitions of cluster b are still written to" in said
            log = read(home.b, home.copy)[0]
            foreign = [one for one in log if one.value in late]
            commit(home.b, f"{name}-g", home.copy, {0: foreign[-3].offset})
            rest = [one.value for one in log if one.offset >= foreign[-3].offset]
            before = len(live)
            done = switch(home)
            assert done.returncode == 0, done.stdout + done.stderr
            assert len(live) > before, "the original was written meanwhile"
        report = newest(home, "switchover")
        assert (report["troubles"], report["lost_records"]) == ([], 0)
        there = [one.value for one in read(home.a, name)[0]]
        assert [value for value in there if value in late] == late, "all of it is home, once and in order"
        place = place_in(report, f"{name}-g", name)
        reads = {one.value for one in read(home.a, name)[0] if one.offset >= place["offset"]}
        assert set(rest) <= reads, "the group skips nothing"
        mirror.stop_in_time()


@pytest.mark.long
def test_what_a_slow_flow_has_still_to_bring_home_is_counted_and_waited_for(topic, tmp_path):
    name, slow = topic("slow"), list[bytes]()

    def falls_behind() -> bool:
        slow.append(b"slow-%d" % len(slow) + b"x" * 3000)
        write(home.b, home.copy, slow[-1:])
        return len(set(slow).difference(mirrored(home.a, name))) >= LAG

    with pair(name, tmp_path, f"b->{name}") as home, Running(home.file, log=tmp_path / "run.log") as mirror:
        write(home.a, name, marked("old", 10))
        until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
        write(home.b, home.copy, marked("home", 5))
        brought(home, *marked("home", 5))
        limit = ("limit", home.file, "--flow", f"b->{name}")
        assert sparkmirror(*limit, "--bytes-per-second", "1024").returncode == 0
        until(falls_behind, "the flow brings home less than is written")
        commit(home.b, f"{name}-g", home.copy, {0: ends(home.b, home.copy)[0] - 2})
        late = switch(home, "--timeout", "3")
        assert late.returncode != 0, late.stdout
        assert "records of 1 partitions are missing" in " ".join((late.stdout + late.stderr).split())
        assert sparkmirror("switchover", home.file, *words(home, "--abandon", "--yes")).returncode == 0
        dry = sparkmirror("switchover", home.file, *words(home, "--dry-run"))
        (missing,) = (line for line in dry.stdout.splitlines() if "missing now" in line)
        assert 0 < int(missing.split()[2]) <= len(slow), dry.stdout
        done = switch(home)
        assert done.returncode == 0, done.stdout + done.stderr
        report = newest(home, "switchover")
        assert report["troubles"] == []
        assert mirrored(home.a, name) == [*marked("old", 10), *marked("home", 5), *slow]
        assert place_in(report, f"{name}-g", name)["exact"]
        assert home.next_on_a(f"{name}-g") == slow[-2]
        mirror.stop_in_time()


@pytest.mark.long
def test_what_comes_to_a_copy_when_the_flow_is_stopped_keeps_groups_where_they_are(topic, tmp_path):
    name = topic("late")
    with pair(name, tmp_path, f"b->{name}") as home, Running(home.file, log=tmp_path / "run.log") as mirror:
        write(home.a, name, marked("old", 10))
        until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
        write(home.b, home.copy, marked("home", 5))
        brought(home, *marked("home", 5))
        commit(home.b, f"{name}-g", home.copy, ends(home.b, home.copy))
        command = halted(Step.MOVING, "switchover", home.file, *words(home, "--yes", "--wait-for-idle", "1"))
        write(home.a, name, marked("live", 5))  # the flow that makes the copies goes on
        until(lambda: marked("live", 5)[-1] in mirrored(home.b, home.copy), "copied")
        write(home.b, home.copy, marked("late", 3))
        command.send_signal(signal.SIGCONT)
        assert command.wait(timeout=240) != 0
        (refused,) = (json.loads(path.read_text()) for path in tmp_path.glob("switchover-*.json"))
        assert any("3 records of 1 partitions came to the source" in text for text in refused["troubles"]), refused
        assert sparkmirror("switchover", home.file, *words(home, "--abandon", "--yes")).returncode == 0
        brought(home, *marked("late", 3))

        command = halted(Step.VERIFYING, "switchover", home.file, *words(home, "--yes", "--wait-for-idle", "1"))
        write(home.b, home.copy, marked("last", 2))
        command.send_signal(signal.SIGCONT)
        assert command.wait(timeout=240) == 1
        report = newest(home, "switchover")
        (told,) = report["troubles"]
        assert told.startswith("2 records of 1 partitions came to b after the flow was stopped")
        mirror.stop_in_time()


@pytest.mark.long
def test_a_copy_that_the_flow_has_not_found_yet_is_waited_for(topic, tmp_path):
    name = topic("young")
    young, copy = f"{name}-young", f"{name}.{name}-young"
    with pair(name, tmp_path, f"b->{name}") as home:
        with home.file.open("a") as file:
            file.write(f"topics = {name}.*\n{name}->b.topics = {name}.*\nb->{name}.topics = {name}.*\n")
            file.write(f"{name}->b.refresh.topics.interval.seconds = 1\n")
            file.write(f"b->{name}.refresh.topics.interval.seconds = 600\n")
        with Running(home.file, log=tmp_path / "run.log") as mirror:
            write(home.b, name, marked("own", 3))
            until(lambda: mirrored(home.a, f"b.{name}") == marked("own", 3), "the flow has looked")
            create_topic(home.a, young, 1)
            write(home.a, young, marked("old", 10))
            until(lambda: mirrored(home.b, copy) == marked("old", 10), "copied")
            write(home.b, copy, marked("home", 6))
            commit(home.b, f"{name}-g", copy, {0: ends(home.b, copy)[0] - 2})
            done = switch(home)
            assert done.returncode == 0, done.stdout + done.stderr
            assert newest(home, "switchover")["troubles"] == []
            assert mirrored(home.a, young) == [*marked("old", 10), *marked("home", 6)]
            assert next_records(home.a, f"{name}-g", young, read(home.a, young))[0] == marked("home", 6)[4]
            mirror.stop_in_time()


def test_what_others_wrote_to_a_copy_on_the_cluster_that_came_back_is_put_aside(topic, tmp_path):
    name = topic("stray")
    copy, end, midst = f"b.{name}", f"{name}-end", f"{name}-midst"
    with (
        pair(name, tmp_path, f"{name}->b") as home,
        Running(home.file, log=tmp_path / "run.log") as mirror,
    ):
        write(home.b, name, marked("own", 10))
        until(lambda: mirrored(home.a, copy) == marked("own", 10), "copied")
        write(home.a, copy, marked("home", 3))
        until(lambda: mirrored(home.b, name) == [*marked("own", 10), *marked("home", 3)], "brought home")
        commit(home.a, end, copy, ends(home.a, copy))
        home.leave("switchover", "--wait-for-idle", "1")
        for part in ("one", "two"):  # between what is copied there
            write(home.a, copy, marked(f"stray-{part}", 2))
            write(home.b, name, marked(f"away-{part}", 5))
            until(lambda: marked(f"away-{part}", 5)[-1] in mirrored(home.a, copy), "copied")  # noqa: B023 - at once
        commit(home.b, end, name, ends(home.b, name))
        commit(home.b, midst, name, {0: ends(home.b, name)[0] - 3})
        dry = sparkmirror("failback", home.file, "--to", name, "--dry-run")
        assert f"4 offsets of 1 partitions are on {name} only" in " ".join(dry.stdout.split()), dry.stdout
        report = home.go_back()
        assert report["troubles"] == []
        assert [(one["topic"], one["last"] - one["first"]) for one in report["divergent"]] == [(copy, 1), (copy, 1)]
        stray = [*marked("stray-one", 2), *marked("stray-two", 2)]
        assert home.kept(report) == stray
        written = read(home.a, copy)
        next_there = {group: place_in(report, group, copy)["offset"] for group in (end, midst)}
        found = {group: [one.value for one in written[0] if one.offset >= at] for group, at in next_there.items()}
        assert found == {end: [], midst: marked("away-two", 5)[2:]}
        write(home.a, copy, marked("then", 2))
        until(lambda: marked("then", 2)[-1] in mirrored(home.b, name), "what comes now goes home")
        assert not set(stray) & set(mirrored(home.b, name)), "it was put aside"
        mirror.stop_in_time()


@pytest.mark.long
def test_a_group_that_stands_at_the_marker_of_a_takeover_skips_nothing_on_its_way_home(topic, tmp_path):
    name = topic("marker")
    group = f"{name}-g"
    with pair(name, tmp_path, f"b->{name}") as home:
        with Running(home.file, log=tmp_path / "first.log") as mirror:
            write(home.a, name, marked("old", 10))
            until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
            commit(home.a, group, name, {0: 10})
            mirror.kill_all()
        home.leave("failover", "--force")
        with Running(home.file, log=tmp_path / "second.log") as mirror:
            write(home.b, home.copy, marked("home", 5))
            brought(home, *marked("home", 5))
            assert [one.offset for one in read(home.b, home.copy)[0]][9:11] == [9, 11], "the marker of its fence"
            report = home.go_back()
            place = place_in(report, group, name)
            assert (place["committed"], place["skipped"], place["exact"]) == (10, 0, True)
            assert (report["offsets_skipped"], report["troubles"]) == (0, [])
            assert home.next_on_a(group) == marked("home", 1)[0]
            mirror.stop_in_time()


@pytest.mark.long
def test_a_flow_whose_copies_are_denied_goes_on_when_they_are_allowed_again(guarded, topic, tmp_path):
    a, b = guarded
    name, alias = topic("denied"), "w"
    copy = f"{alias}.{name}"
    create_topic(a, name, 2)
    users = {alias: a.client_properties("SASL_SCRAM"), "m": b.client_properties("SASL_SCRAM")}
    flows = {f"{alias}->m": name, f"m->{alias}": name}
    settings = {"tasks.max": "1", "groups": f"{name}-g", f"m->{alias}.homeward.enabled": "true"}
    file = write_file(tmp_path / "mm2.properties", users, flows, settings)
    here = Application(a, name)
    with Running(file, log=tmp_path / "run.log") as mirror:
        here.write(10)
        until(lambda: records(b, copy) == 10, "copied")
        there = Application(b, copy)
        there.write(4)
        until(lambda: records(a, name) == 14, "brought home")
        way = ("--from", "m", "--to", alias, "--fence-by-acl")
        dry = sparkmirror("switchover", file, *way, "--dry-run")
        assert f"while everybody is denied to write to m, {alias}->m cannot either" in " ".join(dry.stdout.split())
        done = sparkmirror("switchover", file, *way, "--wait-for-idle", "1", "--yes", "--report", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert denials(b) == [copy]
        there.write(2)
        assert len(there.refusals) == 2, "producers are kept from the copy"
        here.write(6)
        released = sparkmirror("release", file, "--flow", f"m->{alias}", "--fence-only", "--yes")
        assert released.returncode == 0, released.stdout + released.stderr
        assert denials(b) == []
        until(lambda: records(b, copy) == 20, "the flow that makes the copies goes on")
        mirror.stop_in_time()
