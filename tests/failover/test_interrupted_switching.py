"""A switchover that is killed before groups are moved, with applications that go on at the source meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.failover.states import Step
from sparkmirror.lab.members import Members
from tests.failover.clients import next_records
from tests.failover.halting import halted
from tests.flow.logs import read
from tests.flow.running import Running, client_of, commit, create_topic, until, write_file
from tests.flow.test_events import records
from tests.flow.test_groups_below_log_start import delete_records
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DONE, LATE = 100, 25


class Switchover:
    """Of one topic, with a group that goes on and one that is set back while nobody is at work on the operation."""

    def __init__(self, source, target, name: str, directory: Path) -> None:
        self.source, self.target, self.name, self.directory = source, target, name, directory
        self.copy, self.on, self.back = f"{name}.{name}", f"{name}-on", f"{name}-back"
        create_topic(source, name, 1)
        write(source, name, records(DONE))
        for group in (self.on, self.back):
            commit(source, group, name, {0: 30})
        settings = {"tasks.max": "1", "groups": f"{name}-.*"}
        self.file = write_file(
            directory / "mm2.properties", {name: source, "b": target}, {f"{name}->b": name}, settings
        )
        self.words = (str(self.file), "--from", name, "--to", "b", "--yes", "--report", str(directory))

    def halted(self, step: Step | str) -> subprocess.Popen[bytes]:
        return halted(step, "switchover", *self.words, "--wait-for-idle", "1")

    def is_killed_before_groups_are_moved(self) -> None:
        command = self.halted(Step.MOVING)
        command.send_signal(signal.SIGKILL)
        command.wait()

    def again(self, *more: str) -> tuple[int, str]:
        done = sparkmirror("switchover", *self.words, *more)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    def first(self, group: str) -> bytes | None:
        return next_records(self.target, group, self.copy, read(self.target, self.copy))[0]

    @property
    def report(self) -> dict[str, Any]:
        newest = max(self.directory.glob("switchover-*.json"), key=lambda path: path.stat().st_mtime)
        return dict(json.loads(newest.read_text()))


@pytest.mark.long
def test_what_applications_did_at_the_source_meanwhile_counts(cluster_a, cluster_b, topic, tmp_path):
    over = Switchover(cluster_a, cluster_b, topic("meanwhile"), tmp_path)
    with Running(over.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, over.copy)) == DONE, "copied")
        over.is_killed_before_groups_are_moved()
        commit(cluster_a, over.on, over.name, {0: 60})
        commit(cluster_a, over.back, over.name, {0: 5})
        with Members(cluster_a.bootstrap_servers, [over.name], [over.on], 3):
            code, said = over.again()
            assert (code, f"have members on cluster {over.name} again, {over.on}" in said) == (1, True), said
        commit(cluster_a, over.on, over.name, {0: 60})
        write(cluster_a, over.name, records(LATE, DONE))
        code, said = over.again()
        assert (code, f"{LATE} records of 1 partitions" in said, "--abandon" in said) == (1, True, True), said
        code, said = over.again("--abandon")
        assert code == 0, said
        until(lambda: len(mirrored(cluster_b, over.copy)) == DONE + LATE, "it is copied afterwards")
        over.is_killed_before_groups_are_moved()
        commit(cluster_a, over.on, over.name, {0: 70})
        code, said = over.again()
        assert code == 0, said
        assert over.report["troubles"] == []
        assert (over.first(over.on), over.first(over.back)) == (records(1, 70)[0], records(1, 5)[0])
        mirror.stop_in_time()


def test_what_applications_did_at_the_source_after_groups_were_moved_is_reported(cluster_a, cluster_b, topic, tmp_path):
    over = Switchover(cluster_a, cluster_b, topic("after"), tmp_path)
    with Running(over.file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: len(mirrored(cluster_b, over.copy)) == DONE, "copied")
        command = over.halted(Step.VERIFYING)
        commit(cluster_a, over.on, over.name, {0: 60})
        write(cluster_a, over.name, records(LATE, DONE))
        delete_records(cluster_b, over.copy, 40)
        member = f"{over.name}-member"
        with client_of(cluster_a, member) as reader:
            reader.subscribe([over.name])
            until(lambda: reader.poll(0.1) is not None or bool(reader.assignment()), "it is a member")
            command.send_signal(signal.SIGCONT)
            assert command.wait(timeout=240) == 1
        report = over.report
        passed, records_late, commit_late, members = report["troubles"]
        assert passed.startswith("b has lost the records at which groups stood since they were moved"), passed
        assert f"{over.back} at {over.name}-0 (10 offsets), {over.on} at {over.name}-0 (10 offsets)" in passed
        places = [each for group in report["groups"] for each in group["partitions"] if each["committed"] == 30]
        assert [(each["offset"], each["skipped"], each["exact"]) for each in places] == [(40, 10, False)] * 2
        assert f"group {member} has members on {over.name}" in members
        assert f"{LATE} records of 1 partitions came to {over.name} after the flow was stopped" in records_late
        assert f"group {over.on} committed on {over.name} after its offsets were read" in commit_late
        assert (over.first(over.on), over.first(over.back)) == (records(1, 40)[0], records(1, 40)[0])
        mirror.stop_in_time()
