"""Going back to a cluster that came back with records that nobody else has, with real clients."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.failover.divergence import RANGES, Divergent, added, find
from sparkmirror.failover.states import ORDER, Kind, Step
from sparkmirror.kafka.reading import Span
from sparkmirror.model import TopicPartition
from tests.failover.clients import due, next_records
from tests.failover.test_homeward_copies import transact
from tests.failover.test_switching import Scene, begun, contents, died, told
from tests.flow.logs import read
from tests.flow.running import Running, admin_of, commit, create_topic, ends, reaches, until, write_file
from tests.invoking import sparkmirror

PARTITIONS = 3
COPIED = 8
"""Records that `transact` leaves in each partition; its markers and what it aborts lie between them."""
BOTH = {0: 0, 1: 6, 2: COPIED}
"""Offsets of a group in the copy of what `transact` wrote."""


def test_what_only_the_cluster_that_came_back_has_is_all_that_nobody_brought_there():
    places = [TopicPartition("t", number) for number in range(6)]
    log_ends = dict(zip(places, (10, 17, 30, 40, 9, 20), strict=True)) | {TopicPartition("new", 0): 5}
    brought = {
        places[2]: [Span(12, 30)],
        places[3]: [Span(15, 20), Span(25, 30), Span(8, 12)],
        places[5]: [Span(10, 20), Span(20, 25)],
    }
    found = find(dict.fromkeys(places, 10), log_ends, brought)
    assert found == (
        Divergent(places[1], 10, 17),
        Divergent(places[2], 10, 12),
        Divergent(places[3], 12, 15),
        Divergent(places[3], 20, 25),
        Divergent(places[3], 30, 40),
    )
    assert [Divergent.of(one.row) for one in found] == list(found)


def test_what_came_later_is_what_was_not_known_before():
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    known = [Divergent(one, 10, 20), Divergent(one, 25, 30)]
    found = [Divergent(one, 15, 28), Divergent(one, 29, 40), Divergent(other, 5, 6)]
    assert added(found, known, 2) == (Divergent(one, 20, 25, 2), Divergent(one, 30, 40, 2), Divergent(other, 5, 6, 2))
    assert added(known, found, 3) == (Divergent(one, 10, 15, 3), Divergent(one, 28, 29, 3))
    assert added(known, known, 2) == ()


def test_very_many_ranges_of_a_partition_are_one():
    place = TopicPartition("t", 0)
    brought = [Span(10 * n + 5, 10 * n + 10) for n in range(RANGES + 1)]
    assert find({place: 0}, {place: 10_000}, {place: brought}) == (Divergent(place, 0, 10_000),)


def write(cluster, topic: str, mark: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, f"{mark}-{number}".encode(), f"key-{number}".encode(), number % PARTITIONS)
    assert producer.flush(60) == 0


def kill_in_every_step(scene: Scene, words: tuple[str, ...]) -> None:
    """Failbacks that are killed, each in the step after that of the one before it, which it does once more."""
    for step in ORDER[Kind.FAILBACK][:-1]:
        killed = begun(scene.file, "failback", *words, dies_in=step)
        said = told(killed)
        assert (killed.returncode, scene.state().ledger.operation.step) == (-signal.SIGKILL, step.name), said


@pytest.mark.kafka
@pytest.mark.slow
def test_groups_go_home_and_what_nobody_else_has_is_put_aside(cluster_a, cluster_b, topic, tmp_path):
    scene = Scene(cluster_a, cluster_b, topic("home"), tmp_path)
    stem, local = scene.stem, f"{scene.stem}-t"
    scene.file = write_file(
        tmp_path / "mm2.properties",
        {stem: cluster_a, "b": cluster_b},
        {f"{stem}->b": f"{stem}-.*", f"b->{stem}": f"{stem}-.*"},
        {"groups": f"{stem}-.*", "sync.group.offsets.interval.seconds": "1"},
    )
    create_topic(cluster_b, local, PARTITIONS)
    middle, end = f"{stem}-middle", f"{stem}-end"
    with ExitStack() as stack:
        mirror = stack.enter_context(Running(scene.file, log=tmp_path / "run.log"))
        write(cluster_a, scene.topic, "first", 60)
        read_copies(scene, local)
        reaches(cluster_b, scene.copy, 60)
        commit(cluster_a, middle, scene.topic, dict.fromkeys(range(PARTITIONS), 7), "kept")
        commit(cluster_a, end, scene.topic, dict.fromkeys(range(PARTITIONS), 20))
        fail_over(scene, local)
        write(cluster_a, scene.topic, "only-here", 9)  # a producer that had not heard of it
        write(cluster_b, local, "meanwhile", 30)
        commit(cluster_b, middle, scene.copy, dict.fromkeys(range(PARTITIONS), 12), "kept")
        commit(cluster_b, middle, local, dict.fromkeys(range(PARTITIONS), 4), "kept")
        reaches(cluster_a, f"b.{local}", 30 + COPIED * PARTITIONS)

        dry = sparkmirror("failback", scene.file, "--to", stem, "--dry-run")
        assert (dry.returncode, "9 offsets of 3 partitions are on" in dry.stdout) == (0, True), dry.stdout + dry.stderr
        words = ("--to", stem, "--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
        kill_in_every_step(scene, words)
        write(cluster_a, scene.topic, "released", 30)
        until(lambda: sum(ends(cluster_b, scene.copy).values()) >= 90, "the flow goes on behind what was put aside")
        done = sparkmirror("failback", scene.file, *words)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
        assert (report["from"], report["to"], report["lost_records"], report["troubles"]) == ("b", stem, 0, [])
        assert {(one["partition"], one["first"], one["last"]) for one in report["divergent"]} == {
            (number, 20, 22) for number in range(PARTITIONS)
        }
        check_interruptions(report)
        (kept,) = {one["kept_in"] for one in report["divergent"]}
        here = read(cluster_a, scene.topic)
        assert contents(read(cluster_a, kept)) == {number: records[20:23] for number, records in contents(here).items()}
        assert next_records(cluster_a, middle, scene.topic, here) == due(here, dict.fromkeys(range(PARTITIONS), 12))
        assert next_records(cluster_a, end, scene.topic, here) == due(here, dict.fromkeys(range(PARTITIONS), 23))
        brought = read(cluster_a, f"b.{local}")
        assert contents(brought) == contents(read(cluster_b, local))
        assert next_records(cluster_a, middle, f"b.{local}", brought) == due(
            brought, dict.fromkeys(range(PARTITIONS), 4)
        )

        write(cluster_a, scene.topic, "last", 30)
        until(lambda: sum(ends(cluster_b, scene.copy).values()) >= 120, "the flow goes on")
        there = contents(read(cluster_b, scene.copy))
        assert there == {
            number: [*records[:20], *records[23:]] for number, records in contents(read(cluster_a, scene.topic)).items()
        }
        check_what_was_put_aside_stays(scene, kept)
        switch_over(scene, local)
        assert mirror.stop(seconds=60) == 0


def read_copies(scene: Scene, local: str) -> None:
    """A group reads the copy of a topic of the cluster that is failed over to, and that is put on record."""
    group, copy = f"{scene.stem}-both", f"b.{local}"
    transact(scene.target, local, "there", 12, f"{scene.stem}-transactions")
    reaches(scene.source, copy, COPIED * PARTITIONS)
    commit(scene.source, group, copy, BOTH, "kept")
    key = f'["group","{group}","{copy}"]'
    until(lambda: key in scene.state().groups and scene.state().groups[key].upstream, "offsets of copies are on record")


def check_interruptions(report: dict[str, Any]) -> None:
    """It was killed in every step, and resumed."""
    steps = [step.name.lower() for step in ORDER[Kind.FAILBACK][:-1]]
    assert [(one["step"], one["done_before"]) for one in report["interruptions"]] == [
        (step, steps[:number]) for number, step in enumerate(steps)
    ]


def fail_over(scene: Scene, local: str) -> None:
    until(lambda: len({seen.group for seen in scene.state().groups.values()}) == 3, "all groups are on record")
    planned = sparkmirror("failover", scene.file, *scene.between, "--dry-run").stdout
    over = scene.command("failover", "--force")
    said = told(over)
    assert over.returncode == 0, said
    check_counts(scene, planned, said)
    check_in_originals(scene, f"{scene.stem}-both", local, BOTH)


def check_counts(scene: Scene, planned: str, said: str) -> None:
    """Plan, screen and report tell the same of how many groups are moved."""
    moved = scene.report()["moved"]
    figures = f"{moved['groups']} of {moved['of_groups']} groups, with {moved['offsets']} offsets"
    assert (moved["groups"], moved["offsets"]) == (3, 3 * PARTITIONS)
    assert f"to be moved   {figures}" in planned
    assert f"moved: {figures}\n" in said
    assert f": {figures} on b, " in said
    (written,) = scene.directory.glob("failover-*.md")
    assert f"**{figures}**" in written.read_text()


def check_what_was_put_aside_stays(scene: Scene, kept: str) -> None:
    """No flow copies it, and that is told."""
    assert f"{scene.stem}.{kept}" not in admin_of(scene.target).list_topics(timeout=30).topics
    for command in (("explain", scene.file, "--topic", kept), ("plan", scene.file)):
        told_of = " ".join(sparkmirror(*command).stdout.split())
        assert "it keeps what a failback put aside" in told_of, told_of


def switch_over(scene: Scene, local: str) -> None:
    """A planned one leads groups to the originals as well; the failback before has left nothing behind."""
    state = scene.state()
    assert (state.held, state.moves) == (None, {})
    group, offsets = f"{scene.stem}-then", {0: 2, 1: COPIED, 2: COPIED + 4}
    commit(scene.source, group, f"b.{local}", offsets)
    switched = scene.command("switchover", "--wait-for-idle", "1")
    said = told(switched)
    assert switched.returncode == 0, said
    check_in_originals(scene, group, local, offsets)


def check_in_originals(scene: Scene, group: str, local: str, committed: dict[int, int]) -> None:
    """A group that read a copy of the flow back goes on in its original, at the very record."""
    there = read(scene.target, local)
    expected = {
        number: records[committed[number]].value if committed[number] < len(records) else None
        for number, records in there.items()
    }
    assert next_records(scene.target, group, local, there) == expected
    report = scene.report()
    assert (report["repeated_records"], report["offsets_without_place"], report["troubles"]) == (0, 0, [])
    (found,) = [each for each in report["groups"] if each["group"] == group]
    assert {each["target_topic"] for each in found["partitions"]} == {local}


@pytest.mark.kafka
@pytest.mark.slow
def test_where_names_are_kept_both_maps_lead_groups_home(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("same")
    name, group = f"{stem}-t", f"{stem}-g"
    file = write_file(
        tmp_path / "mm2.properties",
        {stem: cluster_a, "b": cluster_b},
        {f"{stem}->b": name, f"b->{stem}": name},
        {
            "groups": f"{stem}-.*",
            "sync.group.offsets.interval.seconds": "1",
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "heartbeats.replication.enabled": "false",
        },
    )
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, name, PARTITIONS)
    reports = ("--yes", "--report", str(tmp_path))
    with Running(file, log=tmp_path / "run.log") as mirror:
        write(cluster_a, name, "first", 60)
        reaches(cluster_b, name, 60)
        over = sparkmirror("failover", file, "--from", stem, "--to", "b", "--force", *reports)
        assert over.returncode == 0, over.stdout + over.stderr
        write(cluster_a, name, "only-here", 9)
        write(cluster_b, name, "meanwhile", 30)
        commit(cluster_b, f"{group}-first", name, dict.fromkeys(range(PARTITIONS), 12))
        born_there = {number: at - 5 for number, at in ends(cluster_b, name).items()}  # a fence may have left a marker
        commit(cluster_b, f"{group}-then", name, born_there)
        until(lambda: sum(ends(cluster_a, name).values()) >= 99, "what was written meanwhile is brought there")
        killed = begun(file, "failback", "--to", stem, "--wait-for-idle", "1", *reports, dies_in=Step.SAVING)
        died(killed)
        done = sparkmirror("failback", file, "--to", stem, "--divergent", "discard", *reports)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(next(tmp_path.glob("failback-*.json")).read_text())
        assert {(one["first"], one["last"]) for one in report["divergent"]} == {(20, 22)}
        (kept,) = {one["kept_in"] for one in report["divergent"]}
        here = read(cluster_a, name)
        assert contents(read(cluster_a, kept)) == {n: all_[20:23] for n, all_ in contents(here).items()}, (
            "it is done as it was asked for first"
        )
        assert next_records(cluster_a, f"{group}-first", name, here) == due(here, dict.fromkeys(range(PARTITIONS), 12))
        there = read(cluster_b, name)
        assert next_records(cluster_a, f"{group}-then", name, here) == due(there, born_there)

        write(cluster_a, name, "last", 30)
        due_there = sum(map(len, read(cluster_a, name).values())) - 9
        until(lambda: sum(map(len, read(cluster_b, name).values())) >= due_there, "it goes on")
        assert contents(read(cluster_b, name)) == {
            n: [*all_[:20], *all_[23:]] for n, all_ in contents(read(cluster_a, name)).items()
        }
        assert mirror.stop(seconds=60) == 0
