"""A switchover that keeps producers out by ACLs: names are kept, the flow back runs, rights are as users have them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from sparkmirror.failover.states import Step
from sparkmirror.lab.cluster import LabCluster, start_all
from tests.failover.dying import COMMITTED
from tests.failover.halting import halted
from tests.failover.test_switching import begun, contents, died
from tests.flow.logs import read
from tests.flow.rights import GUARDED, allow
from tests.flow.running import Running, admin_of, commit, committed, create_topic, reaches, until, write_file
from tests.invoking import sparkmirror
from tests.lab.test_cluster import client_of

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PARTITIONS = 2
NAMES_KEPT = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
RENAMED = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[LabCluster, ...]]:
    """Two clusters where one user may do everything that ACLs can allow, and nobody else anything."""
    both = start_all(["fenced-a", "fenced-b"], security=("SASL_SCRAM",), config=GUARDED)
    for cluster in both:
        for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
            allow(cluster, kind, "*", AclOperation.ALL)
        allow(cluster, ResourceType.BROKER, "kafka-cluster", AclOperation.ALL)
    yield both
    for cluster in both:
        cluster.stop()


class Application:
    """A producer of that user.

    Attributes:
        written: records that the cluster took.
        refusals: error codes of the others.
    """

    def __init__(self, cluster: LabCluster, topic: str, partitions: int = PARTITIONS) -> None:
        login = client_of(cluster.client_properties("SASL_SCRAM"))
        self._producer = Producer({**login, "log_level": 0, "linger.ms": 0})
        self._topic, self._partitions, self._number = topic, partitions, 0
        self.written = 0
        self.refusals: list[int] = []

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            number, self._number = self._number, self._number + 1
            try:
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=self._delivered
                )
            except KafkaException as failure:  # it has been refused before
                self.refusals.append(failure.args[0].code())
        assert self._producer.flush(60) == 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Writes until the block ends."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(0.01):
                self.write()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is None:
            self.written += 1
        else:
            self.refusals.append(error.code())


def denials(cluster: LabCluster) -> list[str]:
    """The topics that some rule denies something of."""
    anybody: Any = None
    some = AclBindingFilter(
        ResourceType.TOPIC,
        anybody,
        ResourcePatternType.ANY,
        anybody,
        anybody,
        AclOperation.ANY,
        AclPermissionType.DENY,
    )
    return [rule.name for rule in admin_of(cluster).describe_acls(some).result(60)]


def deny(cluster: LabCluster, topic: str) -> None:
    """Denies everybody to write to a topic, as an operation does."""
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    for done in admin_of(cluster).create_acls([rule]).values():
        done.result(60)


def permit(cluster: LabCluster, topic: str) -> None:
    """Takes that away, as a broker does that has stood still with a request of an operation before."""
    rule = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:*",
        "*",
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    for done in admin_of(cluster).delete_acls([rule]).values():
        done.result(60)
    until(lambda: denials(cluster) == [], "the broker has applied it")


@pytest.mark.parametrize("step", [Step.MOVING, pytest.param(Step.VERIFYING, marks=pytest.mark.long)])
def test_a_rule_that_is_taken_away_in_the_midst_of_a_switchover_is_made_again(guarded, topic, tmp_path, step):
    """A request of an operation before has come late; at the end of the switchover that is told as trouble."""
    a, b = guarded
    name, alias = topic("fenced-late"), f"l{step.name.lower()}"
    create_topic(a, name, PARTITIONS)
    users = {alias: a.client_properties("SASL_SCRAM"), "m": b.client_properties("SASL_SCRAM")}
    settings = {"tasks.max": "1", "groups": f"{name}-g"}
    file = write_file(tmp_path / "mm2.properties", users, {f"{alias}->m": name}, settings)
    words = ("--from", alias, "--to", "m", "--fence-by-acl", "--wait-for-idle", "1", "--yes", "--report", tmp_path)
    old = Application(a, name)
    with Running(file, log=tmp_path / "run.log") as mirror:
        old.write(10)
        commit(a, f"{name}-g", name, {0: 2})
        reaches(b, f"{alias}.{name}", 10)
        command = halted(step, "switchover", file, *words)
        assert denials(a) == [name]
        permit(a, name)
        command.send_signal(signal.SIGCONT)
        assert command.wait(timeout=240) == (step is Step.VERIFYING)
        assert denials(a) == [name]
        (path,) = tmp_path.glob("switchover-*.json")
        troubles = json.loads(path.read_text())["troubles"]
        assert [f"producers were not kept from topics {name} on {alias}" in one for one in troubles] == [True] * (
            step is Step.VERIFYING
        )
        opened = sparkmirror("release", file, "--flow", f"{alias}->m", "--yes")
        assert (opened.returncode, denials(a)) == (0, []), opened.stdout + opened.stderr
        mirror.stop_in_time()


def test_producers_are_kept_out_until_they_are_let_in_and_so_is_the_flow_back(guarded, topic, tmp_path):
    a, b = guarded
    stem = topic("fenced")
    name, group = f"{stem}-t", f"{stem}-g"
    for cluster in guarded:
        create_topic(cluster, name, PARTITIONS)
    users = {alias: cluster.client_properties("SASL_SCRAM") for alias, cluster in (("a", a), ("b", b))}
    settings = {
        "replication.policy.class": NAMES_KEPT,
        "sync.topic.acls.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "groups": group,
    }
    file = write_file(tmp_path / "mm2.properties", users, {"a->b": name, "b->a": name}, settings)
    words = ("--from", "a", "--to", "b")
    report_to = ("--yes", "--report", tmp_path)
    old, new = Application(a, name), Application(b, name)
    log = tmp_path / "run.log"
    with Running(file, log=log):
        with old.writing():
            reaches(b, name, 100)
            commit(a, group, name, {0: 20, 1: 30})
            dry = sparkmirror("switchover", file, *words, "--dry-run", "--fence-by-acl")
            assert (dry.returncode, f"release {file} --flow 'a->b' --fence-only" in dry.stdout) == (0, True), dry
            assert denials(a) == []
            none = sparkmirror("release", file, "--flow", "a->b", "--fence-only", "--yes")
            assert (none.returncode, "nobody is denied to write" in none.stderr) == (1, True), none
            over = sparkmirror("switchover", file, *words, "--fence-by-acl", "--wait-for-idle", "3", *report_to)
            assert over.returncode == 0, over.stdout + over.stderr
            until(lambda: DENIED in old.refusals, "the producer that was not stopped is refused")
        assert (denials(a), denials(b)) == ([name], []), "a denial that is copied would shut out the mirror"
        (path,) = tmp_path.glob("switchover-*.json")
        report = json.loads(path.read_text())
        assert (report["lost_records"], report["repeated_records"], report["troubles"]) == (0, 0, [])
        assert report["fenced_topics"] == [name]
        assert f"release FILE --flow 'a->b' --fence-only`.\n\n- `{name}`" in path.with_suffix(".md").read_text()
        moved = contents(read(a, name))
        assert contents(read(b, name)) == moved
        assert sum(map(len, moved.values())) == old.written
        assert committed(b, group, name) == {0: 20, 1: 30}

        new.write(10)
        until(lambda: "TOPIC_AUTHORIZATION_FAILED" in log.read_text(), "the flow back says that it may not write")
        assert contents(read(a, name)) == moved
        opened = sparkmirror("release", file, "--flow", "a->b", "--fence-only", "--yes")
        assert opened.returncode == 0, opened.stderr
        until(lambda: contents(read(a, name)) == contents(read(b, name)), "the flow back goes on by itself")
        assert denials(a) == []

        home = ("--to", "a", "--fence-by-acl", "--wait-for-idle", "1", *report_to)
        back = sparkmirror("failback", file, *home)
        assert back.returncode == 0, back.stdout + back.stderr
        assert (denials(a), denials(b)) == ([], [])
        for each in (old, new):
            each.write(10)
        total = old.written + new.written
        for cluster in guarded:
            until(lambda: sum(map(len, read(cluster, name).values())) == total, "both flows go on")  # noqa: B023 - at once
        assert old.refusals
        assert not new.refusals


@pytest.mark.long
@pytest.mark.parametrize("kept", [pytest.param(False, id="homeward"), pytest.param(True, id="kept")])
def test_a_failback_opens_what_was_denied_to_the_flow_back_and_is_not_refused_for_that(guarded, topic, tmp_path, kept):
    a, b = guarded
    stem = topic("reopened")
    alias, name, group = f"{stem}-a", f"{stem}-t", f"{stem}-g"
    copy = name if kept else f"{alias}.{name}"
    for cluster in guarded if kept else (a,):
        create_topic(cluster, name, 1)
    users = {alias: a.client_properties("SASL_SCRAM"), "b": b.client_properties("SASL_SCRAM")}
    settings = {"groups": group, "tasks.max": "1", "replication.policy.class": NAMES_KEPT}
    if not kept:
        settings |= {"replication.policy.class": RENAMED, f"b->{alias}.homeward.enabled": "true"}
    file = write_file(tmp_path / "mm2.properties", users, {f"{alias}->b": name, f"b->{alias}": name}, settings)
    log, report_to = tmp_path / "run.log", ("--wait-for-idle", "1", "--yes", "--report", tmp_path)
    old, new = Application(a, name, 1), Application(b, copy, 1)
    with Running(file, log=log) as mirror:
        old.write(10)
        reaches(b, copy, 10)
        commit(a, group, name, {0: 4})
        over = sparkmirror("switchover", file, "--from", alias, "--to", "b", "--fence-by-acl", *report_to)
        assert (over.returncode, denials(a)) == (0, [name]), over.stdout + over.stderr
        new.write(5)
        commit(b, group, copy, {0: 12})
        until(lambda: "TOPIC_AUTHORIZATION_FAILED" in log.read_text(), "the flow back says that it may not write")
        dry = sparkmirror("failback", file, "--to", alias, "--dry-run")
        assert (dry.returncode, "a failback ends that when it begins" in dry.stdout) == (0, True), dry
        assert denials(a) == [name]
        back = sparkmirror("failback", file, "--to", alias, "--fence-by-acl", *report_to)
        assert back.returncode == 0, back.stdout + back.stderr
        assert (denials(a), denials(b)) == ([], [])
        assert contents(read(a, name)) == contents(read(b, copy))
        assert committed(a, group, name) == {0: 12}
        (report,) = (json.loads(path.read_text()) for path in tmp_path.glob("failback-*.json"))
        assert (report["lost_records"], report["divergent"], report["troubles"]) == (0, [], [])
        old.write(10)
        reaches(b, copy, 25)
        mirror.stop_in_time()
    assert (old.refusals, new.refusals) == ([], [])


@pytest.mark.long
def test_a_cluster_that_died_with_a_fence_is_opened_for_the_flow_back_when_it_returns(guarded, topic, tmp_path):
    """Fenced by a switchover, dead after it, and left again by a failover: the rules are still the operation's."""
    a, b = guarded
    name = topic("fenced-dead")
    for cluster in guarded:
        create_topic(cluster, name, PARTITIONS)
    users = {alias: cluster.client_properties("SASL_SCRAM") for alias, cluster in (("x", a), ("y", b))}
    settings = {"replication.policy.class": NAMES_KEPT}
    one_way = write_file(tmp_path / "one.properties", users, {"x->y": name}, settings)
    both_ways = write_file(tmp_path / "both.properties", users, {"x->y": name, "y->x": name}, settings)
    words = ("--from", "x", "--to", "y", "--yes", "--report", str(tmp_path))
    old, new = Application(a, name), Application(b, name)
    old.write(10)
    with Running(one_way, log=tmp_path / "run.log"):
        reaches(b, name, 10)
        over = sparkmirror("switchover", one_way, "--fence-by-acl", "--wait-for-idle", "1", *words)
        assert (over.returncode, denials(a)) == (0, [name]), over.stdout + over.stderr
    for broker in a.brokers:
        broker.kill()
    new.write(10)
    log = tmp_path / "back.log"
    with log.open("w") as out:
        line = [sys.executable, "-m", "sparkmirror", "failover", str(both_ways), *words, "--reverse"]
        back = subprocess.Popen(line, stdout=out, stderr=out, text=True)
        try:
            until(lambda: "is waited for" in log.read_text(), "it waits")
            for broker in a.brokers:
                broker.start()
            until(lambda: contents(read(a, name)) == contents(read(b, name)), "the flow back has run")
            assert denials(a) == []
            back.send_signal(signal.SIGTERM)
            assert back.wait(60) == 0, log.read_text()
        finally:
            back.kill()
            back.wait()
    assert (old.written, new.written, old.refusals, new.refusals) == (10, 10, [], [])


@pytest.mark.long
def test_who_was_kept_out_is_let_in_by_a_failback_though_one_before_was_taken_back(guarded, topic, tmp_path):
    a, b = guarded
    name = topic("fenced-again")
    create_topic(a, name, PARTITIONS)
    users = {alias: cluster.client_properties("SASL_SCRAM") for alias, cluster in (("u", a), ("v", b))}
    file = write_file(tmp_path / "mm2.properties", users, {"u->v": name, "v->u": name}, {"tasks.max": "1"})
    report_to = ("--wait-for-idle", "1", "--yes", "--report", str(tmp_path))
    old = Application(a, name)
    with Running(file, log=tmp_path / "run.log") as mirror:
        old.write(10)
        reaches(b, f"u.{name}", 10)
        over = sparkmirror("switchover", file, "--from", "u", "--to", "v", "--fence-by-acl", *report_to)
        assert (over.returncode, denials(a)) == (0, [name]), over.stdout + over.stderr
        died(begun(file, "failback", "--to", "u", *report_to, dies_in=Step.IDLING))
        back = sparkmirror("failback", file, "--to", "u", *report_to, "--abandon")
        assert (back.returncode, denials(a)) == (0, [name]), back.stdout + back.stderr
        done = sparkmirror("failback", file, "--to", "u", *report_to)
        assert done.returncode == 0, done.stdout + done.stderr
        until(lambda: denials(a) == [], "the broker has applied it")
        old.write(10)
        reaches(b, f"u.{name}", 20)
        deny(a, name)  # as a broker does that has stood still with a request of the switchover
        until(lambda: denials(a) == [name], "the rule has come late")
        planned = sparkmirror("switchover", file, "--from", "u", "--to", "v", "--dry-run")
        assert f"everybody is denied again to write to topics {name} on u" in planned.stdout, planned
        opened = sparkmirror("release", file, "--flow", "u->v", "--fence-only", "--yes")
        assert opened.returncode == 0, opened.stdout + opened.stderr
        until(lambda: denials(a) == [], "the broker has applied it")
        old.write(10)
        reaches(b, f"u.{name}", 30)
        mirror.stop_in_time()
    assert (old.written, old.refusals) == (30, [])


class Left:
    """Two clusters, and a switchover that keeps producers out and is broken off before a group was moved.

    Its aliases are its own: what another test has left in doubt is no matter of this one.
    """

    def __init__(self, guarded, stem: str, directory) -> None:
        self.a, self.b = guarded
        self.alias, there = f"{stem}-a", f"{stem}-b"
        self.flow = f"{self.alias}->{there}"
        self.name, self.group = f"{stem}-t", f"{stem}-g"
        for cluster in guarded:
            create_topic(cluster, self.name, PARTITIONS)
        users = {self.alias: self.a.client_properties("SASL_SCRAM"), there: self.b.client_properties("SASL_SCRAM")}
        settings = {"replication.policy.class": NAMES_KEPT, "groups": self.group, "tasks.max": "1"}
        flows = {self.flow: self.name, f"{there}->{self.alias}": self.name}
        self.file = write_file(directory / "mm2.properties", users, flows, settings | GROUPS_OFTEN)
        self.report_to = ("--yes", "--report", str(directory))
        self.between = ("--from", self.alias, "--to", there, *self.report_to)
        self.application = Application(self.a, self.name)

    def is_broken_off(self, dies_in: Any) -> None:
        self.application.write(20)
        commit(self.a, self.group, self.name, {0: 3, 1: 4})
        reaches(self.b, self.name, 20)
        words = (*self.between, "--fence-by-acl", "--wait-for-idle", "1")
        died(begun(self.file, "switchover", *words, dies_in=dies_in))
        assert denials(self.a) == [self.name]
        for broker in self.a.brokers:
            broker.kill()

    def says(self, command: str, *words: str, code: int = 0) -> str:
        done = sparkmirror(command, self.file, *words)
        assert done.returncode == code, done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    def a_is_back(self) -> None:
        for broker in self.a.brokers:
            broker.start()


GROUPS_OFTEN = {"sync.group.offsets.interval.seconds": "1"}


@pytest.mark.parametrize("dies_in", [Step.IDLING, Step.STOPPING])
@pytest.mark.long
def test_a_source_that_dies_in_a_switchover_that_keeps_producers_out_is_left_by_a_failover(
    guarded, topic, tmp_path, dies_in
):
    left = Left(guarded, topic("fenced-left"), tmp_path)
    with Running(left.file, log=tmp_path / "run.log") as mirror:
        left.is_broken_off(dies_in)
        assert f"is given up, since {left.alias} does not answer" in left.says("failover", *left.between, "--dry-run")
        assert "writing to 1 topics stays denied there" in left.says("failover", *left.between)
        assert committed(left.b, left.group, left.name) == {0: 3, 1: 4}
        away = Application(left.b, left.name)
        away.write(10)
        left.a_is_back()
        left.says("release", "--flow", left.flow, "--fence-only", "--yes")
        until(lambda: denials(left.a) == [], "the broker has applied it")
        until(lambda: contents(read(left.a, left.name)) == contents(read(left.b, left.name)), "the flow back goes on")
        left.says("failback", "--to", left.alias, "--wait-for-idle", "1", *left.report_to)
        left.application.write(10)
        for cluster in guarded:
            until(lambda: sum(map(len, read(cluster, left.name).values())) == 40, "both flows go on")  # noqa: B023 - at once
        mirror.stop_in_time()
    assert (left.application.refusals, away.refusals) == ([], [])


@pytest.mark.long
def test_a_switchover_whose_source_has_died_is_taken_back_and_what_it_denied_goes_later(guarded, topic, tmp_path):
    left = Left(guarded, topic("fenced-back"), tmp_path)
    with Running(left.file, log=tmp_path / "run.log") as mirror:
        left.is_broken_off(Step.STOPPING)
        said = left.says("switchover", *left.between, "--abandon")
        assert f"writing to 1 topics stays denied on {left.alias}, which does not answer" in said
        assert f"{left.flow} is released" in said
        left.a_is_back()
        left.says("release", "--flow", left.flow, "--yes")
        until(lambda: denials(left.a) == [], "the broker has applied it")
        left.application.write(10)
        reaches(left.b, left.name, 30)
        mirror.stop_in_time()


@pytest.mark.long
def test_a_switchover_that_has_moved_groups_goes_on_without_its_source(guarded, topic, tmp_path):
    left = Left(guarded, topic("fenced-on"), tmp_path)
    with Running(left.file, log=tmp_path / "run.log") as mirror:
        left.is_broken_off(COMMITTED)
        refused = left.says("failover", *left.between, "--force", code=1)
        assert refused.endswith(f"go on with sparkmirror switchover {' '.join(left.between[:4])}")
        said = left.says("switchover", *left.between, code=1)
        doubt = f"whether records or commits came to {left.alias} after the flow was stopped is not known"
        assert f"trouble: {doubt}" in said
        assert committed(left.b, left.group, left.name) == {0: 3, 1: 4}
        left.a_is_back()
        left.says("failback", "--to", left.alias, "--wait-for-idle", "1", *left.report_to)
        until(lambda: denials(left.a) == [], "the broker has applied it")
        mirror.stop_in_time()
