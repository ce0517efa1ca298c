"""Failover and switchover with real clients: nothing skipped, nothing read twice, and whoever is killed is resumed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from sparkmirror.config import load
from sparkmirror.failover.states import ORDER, Kind, Step
from sparkmirror.flow.sides import connected, record
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.members import Members
from sparkmirror.naming import HEARTBEATS_TOPIC
from sparkmirror.offsets.recovery import UNKNOWN_MS
from sparkmirror.offsets.state import JournalState
from tests.failover.clients import due, next_records
from tests.failover.java_clients import PROTOCOLS, JavaReaders
from tests.flow.logs import Log, read
from tests.flow.running import Running, admin_of, commit, committed, create_topic, ends, reaches, until, write_file
from tests.flow.traffic import Traffic
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 3
COMMAND_SECONDS = 150
SOON = Step.DONE
"""No operation leaves it: whoever would die there does not, and takes over from a dead one without a long look."""


def begun(file: Path, *words: str, dies_in: Step | str | None = None) -> subprocess.Popen[str]:
    """A command in a process of its own, which may be killed."""
    place = dies_in.name if isinstance(dies_in, Step) else dies_in
    program = ["sparkmirror"] if place is None else ["tests.failover.dying", place]
    line = [sys.executable, "-m", *program, words[0], str(file), *words[1:]]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def told(command: subprocess.Popen[str]) -> str:
    """Waits for its end, and gives what it said."""
    said, _ = command.communicate(timeout=COMMAND_SECONDS)
    return said


def died(command: subprocess.Popen[str]) -> str:
    """Waits for one that is to be killed: one that ended by itself has not come as far as that."""
    said = told(command)
    assert command.returncode == -signal.SIGKILL, said
    return said


class Scene:
    """A flow of one topic that carries transactions, with groups that read at the source.

    Attributes:
        rdkafka: the groups whose members are of librdkafka.
        java: those whose members are of Kafka's own client, and the protocol of each.
    """

    def __init__(self, source: LabCluster, target: LabCluster, stem: str, directory: Path) -> None:
        self.source, self.target, self.stem, self.directory = source, target, stem, directory
        self.topic, self.copy = f"{stem}-t", f"{stem}.{stem}-t"
        self.rdkafka = [f"{stem}-g{number}" for number in range(3)]
        self.java = {f"{stem}-java-{protocol}": protocol for protocol in PROTOCOLS}
        self.between = ("--from", stem, "--to", "b")
        self.file = write_file(
            directory / "mm2.properties",
            {stem: source, "b": target},
            {f"{stem}->b": f"{stem}-.*"},
            {"groups": f"{stem}-.*", "sync.group.offsets.interval.seconds": "1"},
        )
        create_topic(source, self.topic, PARTITIONS)

    @property
    def groups(self) -> list[str]:
        """All that read at the source."""
        return [*self.rdkafka, *self.java]

    def command(self, *words: str, dies_in: Step | None = None) -> subprocess.Popen[str]:
        reports = ("--yes", "--report", str(self.directory))
        return begun(self.file, words[0], *self.between, *reports, *words[1:], dies_in=dies_in)

    def state(self) -> Any:
        flow = load([str(self.file)]).flows[0]
        with connected(flow, role="test") as sides:
            return record(sides)

    def report(self) -> dict[str, Any]:
        newest = max(self.directory.glob("*.json"), key=lambda path: path.stat().st_mtime)
        assert newest.with_suffix(".md").read_text().startswith(f"# {newest.name.split('-')[0].capitalize()}")
        found: dict[str, Any] = json.loads(newest.read_text())
        return found

    def dies(self, *words: str, step: Step) -> None:
        """A command that is killed before the end of a step, and not earlier."""
        killed = self.command(*words, dies_in=step)
        said = told(killed)
        assert (killed.returncode, self.state().ledger.operation.step) == (-signal.SIGKILL, step.name), said

    def on_record(self, group: str) -> dict[int, int]:
        """What the report says that a group had committed on the source when it was seen last."""
        (found,) = [each for each in self.report()["groups"] if each["group"] == group]
        return {each["partition"]: each["committed"] for each in found["partitions"]}


def contents(log: Log) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
    return {number: [(each.key, each.value) for each in records] for number, records in log.items()}


def check_groups(scene: Scene, here: Log, there: Log, java: JavaReaders) -> None:
    """Each group's first record on the target is the one that it had not committed when it was seen last."""
    for group in scene.groups:
        expected = {
            number: value if value in [each.value for each in there[number]] else None
            for number, value in due(here, scene.on_record(group)).items()
        }
        assert next_records(scene.target, group, scene.copy, there) == expected, group
        if group in scene.java:
            assert java.first(scene.target, group, scene.copy, there) == expected, group


def test_a_switchover_under_load_loses_nothing_and_repeats_nothing(cluster_a, cluster_b, topic, tmp_path):
    scene = Scene(cluster_a, cluster_b, topic("over"), tmp_path)
    traffic = Traffic(scene.source, scene.topic, PARTITIONS, nulls=False)
    with ExitStack() as stack:
        mirror = stack.enter_context(Running(scene.file, log=tmp_path / "run.log"))
        readers = stack.enter_context(Members(scene.source.bootstrap_servers, [scene.topic], scene.rdkafka, 7))
        java = stack.enter_context(JavaReaders(scene.source, scene.topic, scene.java, 7))
        with traffic.transactions():
            reaches(scene.target, scene.copy, 100)
            until(lambda: all(java.commits.values()), "each Java consumer has committed")
            refused = sparkmirror("failover", scene.file, *scene.between, "--yes", "--report", tmp_path)
            assert refused.returncode == 1
            assert "the source answers and took" in refused.stdout, refused.stdout
            dry = sparkmirror("switchover", scene.file, *scene.between, "--dry-run")
            assert (dry.returncode, scene.state().ledger.operation) == (0, None)
            command = scene.command("switchover", "--wait-for-idle", "1", dies_in=Step.CATCHING_UP)
            until(lambda: scene.state().ledger.operation is not None, "it has begun")
            second = sparkmirror("switchover", scene.file, *scene.between, "--yes", "--report", tmp_path)
            assert "is at work on this flow now" in second.stderr, second.stderr
            assert list(tmp_path.glob("switchover-*")) == [], "the report of the first is the first one's to write"
        said = told(command)
        assert command.returncode == -signal.SIGKILL, said
        other = sparkmirror("failover", scene.file, *scene.between, "--yes", "--force", "--report", tmp_path)
        assert "was begun by" in other.stderr, other.stderr
        back = scene.command("switchover", "--abandon", dies_in=SOON)
        said = told(back)
        assert (back.returncode, scene.state().ledger.operation.step) == (0, Step.ABANDONED.name), said
        again = Traffic(scene.source, scene.topic, PARTITIONS, nulls=False, mark="again-").some("transactions", 30)
        assert again >= 30
        kill_in_every_step(scene, readers, java)
        resumed = scene.command("switchover")
        said = told(resumed)
        assert (resumed.returncode, "going on with" in said) == (0, True), said
        report = scene.report()
        assert (report["lost_records"], report["repeated_records"], report["troubles"]) == (0, 0, [])
        here, there = read(scene.source, scene.topic), read(scene.target, scene.copy)
        assert contents(here) == contents(there)
        for group in scene.groups:
            assert scene.on_record(group) == committed(scene.source, group, scene.topic)
        check_groups(scene, here, there, java)
        assert mirror.running
        assert "is held since" in " ".join(sparkmirror("status", scene.file).stdout.split())

        before = ends(scene.target, scene.copy)
        later = Traffic(scene.source, scene.topic, PARTITIONS, nulls=False, mark="later-").some("small", 60)
        assert ends(scene.target, scene.copy) == before
        assert sparkmirror("release", scene.file, "--flow", f"{scene.stem}->b", "--yes").returncode == 0
        until(lambda: sum(ends(scene.target, scene.copy).values()) >= sum(before.values()) + later, "it copies again")
        assert contents(read(scene.target, scene.copy)) == contents(read(scene.source, scene.topic))
        check_a_late_producer(scene)
        assert mirror.stop(seconds=60) == 0


def kill_in_every_step(scene: Scene, readers: Members, java: JavaReaders) -> None:
    """Switchovers that are killed, each in the step to which the one before it did not come; groups leave meanwhile."""
    for step in (Step.FENCING, Step.CATCHING_UP):
        scene.dies("switchover", "--wait-for-idle", "1", step=step)
    stopped = scene.command("switchover", dies_in=Step.IDLING)
    until(lambda: scene.state().ledger.operation.step == Step.IDLING.name, "groups are waited for")
    stopped.kill()
    told(stopped)
    waiting = scene.command("switchover", dies_in=Step.IDLING)
    owner = scene.state().ledger.owner
    until(lambda: scene.state().ledger.owner.displaces == owner.token, "it is resumed")
    readers.stop()
    java.stop()
    said = told(waiting)
    assert waiting.returncode == -signal.SIGKILL, said
    for step in ORDER[Kind.SWITCHOVER][3:-1]:
        scene.dies("switchover", step=step)


def check_a_late_producer(scene: Scene) -> None:
    """What comes when the flow has been stopped is not lost: groups are not moved, and it is copied afterwards."""
    scene.dies("switchover", "--wait-for-idle", "1", step=Step.STOPPING)
    before = sum(ends(scene.target, scene.copy).values())
    late = Traffic(scene.source, scene.topic, PARTITIONS, nulls=False, mark="late-").some("small", 10)
    resumed = scene.command("switchover", dies_in=SOON)
    said = told(resumed)
    assert resumed.returncode == 1, said
    assert f"{late} records of {PARTITIONS} partitions came to the source" in " ".join(said.split()), said
    assert sparkmirror("switchover", scene.file, *scene.between, "--abandon", "--report", "/dev/null/x").returncode == 1
    back = scene.command("switchover", "--abandon")
    said = told(back)
    assert back.returncode == 0, said
    until(lambda: sum(ends(scene.target, scene.copy).values()) >= before + late, "it is copied afterwards")
    assert contents(read(scene.target, scene.copy)) == contents(read(scene.source, scene.topic))


def test_a_topic_that_the_flow_has_not_found_yet_is_looked_for_at_once(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("unfound")
    old, new = f"{stem}-old", f"{stem}-new"
    flows = {f"{stem}->b": f"{stem}-.*", f"b->{stem}": f"{stem}-.*"}
    settings = {
        "refresh.topics.interval.seconds": "86400",
        "groups": f"{stem}-.*",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.heartbeats.enabled": "true",
        "emit.heartbeats.interval.seconds": "1",
        "heartbeats.topic.replication.factor": "1",
    }
    file = write_file(tmp_path / "mm2.properties", {stem: cluster_a, "b": cluster_b}, flows, settings)
    create_topic(cluster_a, old, 1)
    Traffic(cluster_a, old, 1).some("small", 5)
    delete_heartbeats(cluster_a, cluster_b)
    read_to_the_end_of_nothing(cluster_a, f"{stem}-void", f"{stem}-g")
    words = ("--from", stem, "--to", "b", "--report", tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        reaches(cluster_b, f"{stem}.{old}", 5)
        for cluster in (cluster_a, cluster_b):
            reaches(cluster, HEARTBEATS_TOPIC, 1)
        in_void = partial(committed, cluster_b, f"{stem}-g", f"{stem}.{stem}-void")
        until(lambda: in_void() == {0: 0, 1: 0}, "a group has its places in partitions without a record")
        asked = sparkmirror("offsets", file, "--flow", f"{stem}->b", "--group", f"{stem}-g", "--json")
        places = {place["partition"]: place["offset"] for place in json.loads(asked.stdout)["partitions"]}
        assert places == {0: 0, 1: 0}, asked.stdout + asked.stderr
        waited = sparkmirror("wait", file, "--caught-up", "--timeout", "60")
        assert waited.returncode == 0, waited.stdout + waited.stderr
        rehearsed = sparkmirror("rehearse", file)
        assert rehearsed.returncode == 0, rehearsed.stdout + rehearsed.stderr
        create_topic(cluster_a, new, 1)
        missing = Traffic(cluster_a, new, 1).some("small", 5)
        planned = sparkmirror("switchover", file, *words, "--dry-run").stdout
        assert f"missing now   {missing} records of 4 partitions" in planned
        assert f"{new}-0: not found yet, {missing} records" in planned
        assert f"the flow has not found topics yet: {new}" in planned
        done = sparkmirror("switchover", file, *words, "--yes", "--wait-for-idle", "1")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"has not found topic {new} yet and is told to look now" in " ".join(done.stdout.split())
        assert len(read(cluster_b, f"{stem}.{new}")[0]) == missing
        (report,) = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
        assert (report["moved"]["offsets"], report["offsets_without_place"], in_void()) == (2, 0, {0: 0, 1: 0})
        assert mirror.stop(seconds=60) == 0


def read_to_the_end_of_nothing(cluster: LabCluster, topic: str, group: str) -> None:
    """A group has committed where there never was a record, and behind records that are all gone."""
    create_topic(cluster, topic, 2)
    gone = Traffic(cluster, topic, 2).some("small", 6)
    behind = ends(cluster, topic)[1]
    assert 0 < behind <= gone
    for done in (
        admin_of(cluster).delete_records([Place(topic, n, end) for n, end in ends(cluster, topic).items()]).values()
    ):
        done.result(30)
    commit(cluster, group, topic, {0: 0, 1: behind})


def delete_heartbeats(*clusters: LabCluster) -> None:
    """So that they are made after the flows' first look, as at a first start."""
    for cluster in clusters:
        admin = admin_of(cluster)
        if not has_no_heartbeats(admin):
            admin.delete_topics([HEARTBEATS_TOPIC])[HEARTBEATS_TOPIC].result(30)
        until(partial(has_no_heartbeats, admin), "heartbeats are gone")


def has_no_heartbeats(admin: AdminClient) -> bool:
    return HEARTBEATS_TOPIC not in admin.list_topics(timeout=30).topics


def has_seen_all(state: JournalState, topic: str) -> bool:
    known = [place for place, progress in state.progress.items() if progress.recovery_ms > UNKNOWN_MS]
    return sum(place.topic == topic for place in known) == PARTITIONS


@pytest.fixture
def doomed() -> Iterator[LabCluster]:
    with start("doomed") as cluster:
        yield cluster


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.long
def test_when_the_source_and_its_mirror_die_groups_go_on_where_they_were_seen_last(
    seed, doomed, cluster_b, topic, tmp_path
):
    scene, chance = Scene(doomed, cluster_b, topic("dead"), tmp_path), random.Random(seed)
    fixed = f"{scene.stem}-fixed"
    with ExitStack() as stack:
        mirror = stack.enter_context(Running(scene.file, log=tmp_path / "run.log"))
        readers = stack.enter_context(Members(doomed.bootstrap_servers, [scene.topic], scene.rdkafka, seed))
        java = stack.enter_context(JavaReaders(doomed, scene.topic, scene.java, seed))
        traffic = Traffic(doomed, scene.topic, PARTITIONS, nulls=False)
        with traffic.transactions():
            reaches(cluster_b, scene.copy, chance.randint(100, 400))
            commit(doomed, fixed, scene.topic, dict.fromkeys(range(PARTITIONS), 5), "kept")
            keys = [f'["group","{group}","{scene.topic}"]' for group in (fixed, *scene.groups)]
            until(lambda: all(key in scene.state().groups for key in keys), "groups are on record")
            until(lambda: has_seen_all(scene.state(), scene.topic), "the source was seen in each partition")
            if seed == 1:
                mirror.kill()
        if seed == 1:
            Traffic(doomed, scene.topic, PARTITIONS, nulls=False, mark="lost-").some("small", 30)
        killed = datetime.now(UTC).isoformat()
        for broker in doomed.brokers:
            broker.kill()
        for step in ORDER[Kind.FAILOVER][:-1] if seed == 1 else ():
            scene.dies("failover", step=step)
        command = scene.command("failover")
        (told_of,) = json.loads(sparkmirror("status", scene.file, "--groups", "--json").stdout)["flows"]
        assert {each["group"] for each in told_of["groups"]} == {fixed, *scene.groups}
        said = told(command)
        assert command.returncode == 0, said
        held = begun(scene.file, "run", "--once") if seed == 2 else None
        for broker in doomed.brokers:
            broker.start()
        if held is not None:
            said = told(held)
            assert (held.returncode, "is held since" in " ".join(said.split())) == (1, True), said
            assert mirror.stop(seconds=60) == 0, "it waits to be released, and that is no failure"
        readers.stop()
        java.stop()
        here, there = read(doomed, scene.topic), read(cluster_b, scene.copy)
        report = scene.report()
        copied = {each["partition"]: each["copied_up_to"] for each in report["partitions"]}
        assert all("2" <= each["source_seen"] < killed for each in report["partitions"]), "seen, and while it was there"
        for number, records in there.items():
            arrived = [each for each in here[number] if each.offset < copied[number]]
            assert [(each.key, each.value) for each in records] == [(each.key, each.value) for each in arrived]
        check_groups(scene, here, there, java)
        for group in scene.groups:
            seen, last = scene.on_record(group), committed(doomed, group, scene.topic)
            assert all(seen[number] <= last[number] for number in seen), "nobody is put further than it was"
        assert committed(cluster_b, fixed, scene.copy).keys() == set(range(PARTITIONS))
        assert (report["repeated_records"], report["troubles"]) == (0, [])
