"""The cluster that groups were moved to loses their offsets: before the operation has ended, and later."""

from __future__ import annotations

import json
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from sparkmirror.config import load
from sparkmirror.duties.group_offsets import CommitOffsets, GroupOffsets
from sparkmirror.duties.group_records import GroupRecords, Remember
from sparkmirror.failover.moves import GONE, SEEN_BEFORE
from sparkmirror.failover.states import Step
from sparkmirror.flow.sides import connected
from sparkmirror.flow.translating import SEEN_BEFORE as SEEN
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import TopicPartition
from tests.failover.halting import halted
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_switching import begun, died
from tests.flow import offset_map
from tests.flow.running import Running, admin_of, commit, committed, ends, until
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OFFSETS = "__consumer_offsets"


def put(cluster: LabCluster, group: str, topic: str, offset: int) -> None:
    def done() -> bool:
        with suppress(KafkaException):  # a coordinator that is not there yet
            commit(cluster, group, topic, {0: offset})
        with suppress(KafkaException):
            return committed(cluster, group, topic) == {0: offset}
        return False

    until(done, f"{group} has committed {offset}", 60)


def newest(directory: Path, kind: str) -> dict[str, Any]:
    found = (path for path in directory.glob(f"{kind}-*.json") if "interrupted" not in path.name)
    return dict(json.loads(max(found, key=lambda path: path.stat().st_mtime).read_text()))


@pytest.mark.parametrize("kind", ["switchover", "failback"])
@pytest.mark.long
def test_groups_that_have_what_they_had_before_they_were_moved_are_moved_once_more(
    cluster_a, cluster_b, topic, tmp_path, kind
):
    """A power failure with replication factor 1: one group would skip records, and one read some again."""
    name = topic("lostoffsets")
    with start("lost") as losing:
        left, taken = (cluster_a, losing) if kind == "switchover" else (losing, cluster_b)
        home = Home(left, taken, name, tmp_path, kept=False)
        home.file.write_text(home.file.read_text() + "sync.group.offsets.enabled = false\n")
        on, back = f"{name}-on", f"{name}-back"
        there = home.copy if kind == "switchover" else name
        words: tuple[str, ...] = home.back
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(left, name, marked("old", 10))
            until(lambda: mirrored(taken, home.copy) == marked("old", 10), "copied")
            for group, before, after in ((on, 2, 8), (back, 9, 4)):
                put(losing, group, there, before)
                if kind == "switchover":
                    put(left, group, name, after)
            if kind == "switchover":
                words = ("--from", name, "--to", "b", *home.back[2:])
            else:
                home.leave("switchover", "--wait-for-idle", "1")
                for group, after in ((on, 8), (back, 4)):
                    put(taken, group, home.copy, after)
            end = ends(losing, OFFSETS)[0]
            died(begun(home.file, kind, *words, dies_in=Step.VERIFYING))
            moved = {on: {0: 8}, back: {0: 9 if kind == "switchover" else 4}}
            assert {group: committed(losing, group, there) for group in moved} == moved
            (broker,) = losing.brokers
            broker.kill()
            cut_log(broker, OFFSETS, end)
            broker.start()
            until(lambda: committed(losing, on, there) == {0: 2}, "it has lost what was committed", 60)
            again = sparkmirror(kind, home.file, *words)
            assert again.returncode == 1, again.stdout + again.stderr
            assert {group: committed(losing, group, there) for group in moved} == moved
            report = newest(tmp_path, kind)
            (trouble,) = report["troubles"]
            assert f"groups had the offsets on {'b' if kind == 'switchover' else name} again that they had" in trouble
            assert f"{on} at {there}-0 (2)" in trouble
            exact = {each["group"]: each["partitions"][0]["exact"] for each in report["groups"]}
            assert exact[on] is False
            mirror.stop_in_time()


def test_a_failback_names_groups_that_have_no_offset_any_more_where_they_were_taken(
    cluster_a, cluster_b, topic, tmp_path
):
    """Deleted by its owner, expired or lost: what such a group has read is not known, and it is not called moved."""
    home = Home(cluster_a, cluster_b, topic("gone"), tmp_path, kept=False)
    name, kept, gone = home.name, f"{home.name}-kept", f"{home.name}-gone"
    with Running(home.file, log=tmp_path / "mirror.log") as mirror:
        write(cluster_a, name, marked("old", 10))
        for group in (kept, gone):
            put(cluster_a, group, name, 4)
        until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
        home.leave("switchover", "--wait-for-idle", "1")
        for group in (kept, gone):
            put(cluster_b, group, home.copy, 7)
        admin_of(cluster_b).delete_consumer_groups([gone])[gone].result(60)
        looked = sparkmirror("failback", home.file, *home.back, "--dry-run")
        assert "to be moved   1 of 2 groups, with 1 offsets" in looked.stdout
        assert f"{gone} at {home.copy}-0 ({GONE}; it stays at offset 4)" in looked.stdout
        done = sparkmirror("failback", home.file, *home.back)
        assert done.returncode == 1, done.stdout + done.stderr
        assert {group: committed(cluster_a, group, name) for group in (kept, gone)} == {kept: {0: 7}, gone: {0: 4}}
        report = newest(tmp_path, "failback")
        (trouble,) = report["troubles"]
        assert f"group {gone} at {home.copy}-0 ({GONE}; it stays at offset 4)" in trouble
        assert {each["group"]: each["moved"] for each in report["groups"]} == {kept: True, gone: False}
        assert report["moved"]["groups"] == 1
        mirror.stop_in_time()


def on_record(cluster: LabCluster, internal: str) -> dict[str, dict[int, int]]:
    """What groups are on record with."""
    entries = offset_map.journal(cluster, internal)
    seen = [(key[1], value["offsets"]) for key, value in entries.items() if key[0] == "group"]
    return {group: {number: offset for number, offset, *_ in rows} for group, rows in seen}


@pytest.mark.parametrize("kind", ["failover", "failback"])
def test_groups_go_by_what_was_seen_before_their_offsets_were_lost(cluster_a, cluster_b, topic, tmp_path, kind):
    """A power failure with replication factor 1 takes the newest commits of one group, and all of another."""
    name = topic("torn")
    with start("torn") as losing:
        left, taken = (losing, cluster_b) if kind == "failover" else (cluster_a, losing)
        home = Home(left, taken, name, tmp_path, kept=False)
        back, gone = f"{name}-back", f"{name}-gone"
        home.file.write_text(home.file.read_text() + "sync.group.offsets.interval.seconds = 1\n")
        internal = f"sparkmirror.{name}.b.internal" if kind == "failover" else f"sparkmirror.b.{name}.internal"
        here, there, goes_to = (name, home.copy, taken) if kind == "failover" else (home.copy, name, left)
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(left, name, marked("old", 10))
            until(lambda: mirrored(taken, home.copy) == marked("old", 10), "copied")
            put(left, back, name, 2)
            if kind == "failback":
                home.leave("switchover", "--wait-for-idle", "1")
            put(losing, back, here, 3)
            end = ends(losing, OFFSETS)[0]
            put(losing, back, here, 8)
            put(losing, gone, here, 6)
            until(lambda: on_record(goes_to, internal) == {back: {0: 8}, gone: {0: 6}}, "on record", 60)
            (broker,) = losing.brokers
            broker.kill()
            cut_log(broker, OFFSETS, end)
            broker.start()
            until(lambda: committed(losing, back, here) == {0: 3}, "it has lost what was committed", 60)
            until(lambda: f"has lost the end of {OFFSETS}: 2 groups" in mirror.output, "the log says so", 60)
            words: tuple[str, ...] = home.back
            if kind == "failover":
                shown = sparkmirror("offsets", home.file, "--flow", f"{name}->b", "--group", back, "--json")
                (line,) = json.loads(shown.stdout)["partitions"]
                assert (line["committed"], line["offset"], line["text"].endswith(SEEN)) == (8, 8, True)
                broker.kill()
                words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
            done = sparkmirror(kind, home.file, *words)
            assert done.returncode == 1, done.stdout + done.stderr
            assert {group: committed(goes_to, group, there) for group in (back, gone)} == {back: {0: 8}, gone: {0: 6}}
            report = newest(tmp_path, kind)
            assert [trouble.endswith(SEEN_BEFORE) for trouble in report["troubles"]] == [True, True]
            assert [each["partitions"][0]["exact"] for each in report["groups"]] == [False, False]
            mirror.kill()


def loses(losing: LabCluster, end: int, group: str, topic: str, offset: int) -> None:
    """A power failure: the log of group offsets ends there, and the group has an older offset."""
    (broker,) = losing.brokers
    broker.kill()
    cut_log(broker, OFFSETS, end)
    broker.start()
    until(lambda: committed(losing, group, topic) == {0: offset}, "it has lost what was committed", 60)


@pytest.mark.long
def test_a_failback_sees_a_loss_that_no_round_of_the_flow_back_has_seen(cluster_a, topic, tmp_path):
    name = topic("unseen")
    with start("torn") as losing:
        home = Home(cluster_a, losing, name, tmp_path, kept=False)
        group, told = f"{name}-g", home.file.read_text()
        home.file.write_text(told + "sync.group.offsets.interval.seconds = 1\n")
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(cluster_a, name, marked("old", 10))
            until(lambda: mirrored(losing, home.copy) == marked("old", 10), "copied")
            put(cluster_a, group, name, 2)
            home.leave("switchover", "--wait-for-idle", "1")
            put(losing, group, home.copy, 3)
            end = ends(losing, OFFSETS)[0]
            put(losing, group, home.copy, 8)
            until(lambda: on_record(cluster_a, f"sparkmirror.b.{name}.internal") == {group: {0: 8}}, "on record", 60)
            mirror.stop_in_time()
        home.file.write_text(told + "sync.group.offsets.enabled = false\nemit.checkpoints.enabled = false\n")
        with Running(home.file, log=tmp_path / "silent.log") as mirror:
            loses(losing, end, group, home.copy, 3)
            words = ("--flow", f"{name}->b", "--group", group, "--reverse", "--json")
            (line,) = json.loads(sparkmirror("offsets", home.file, *words).stdout)["partitions"]
            assert (line["committed"], line["offset"], line["text"].endswith(SEEN)) == (8, 8, True)
            done = sparkmirror("failback", home.file, *home.back)
            assert done.returncode == 1, done.stdout + done.stderr
            assert committed(cluster_a, group, name) == {0: 8}
            (trouble,) = newest(tmp_path, "failback")["troubles"]
            assert trouble.endswith(SEEN_BEFORE)
            mirror.kill()


def test_a_round_of_group_offsets_sees_a_loss_that_no_round_of_groups_on_record_has_seen(cluster_b, topic, tmp_path):
    name = topic("between")
    with start("torn") as losing:
        home = Home(losing, cluster_b, name, tmp_path, kept=False)
        group = f"{name}-g"
        home.file.write_text(home.file.read_text() + "sync.group.offsets.interval.seconds = 1\n")
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(losing, name, marked("old", 10))
            put(losing, group, name, 3)
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            end = ends(losing, OFFSETS)[0]
            put(losing, group, name, 8)
            until(lambda: on_record(cluster_b, f"sparkmirror.{name}.b.internal") == {group: {0: 8}}, "on record", 60)
            mirror.stop_in_time()
        loses(losing, end, group, name, 3)
        (flow,) = load([str(home.file)], flow=f"{name}->b").flows
        with connected(flow, role="test") as sides:
            (found,) = (one for one in GroupOffsets(sides).look() if isinstance(one, CommitOffsets))
        assert (found.group, dict(found.upstream)) == (group, {TopicPartition(home.copy, 0): 8})


@pytest.mark.long
def test_a_group_has_lost_nothing_where_an_operation_has_put_it_that_was_seen_before_it_had_moved_any(
    cluster_b, topic, tmp_path
):
    """Its owner has set it back where applications were; the loss comes while the operation is under way."""
    name = topic("underway")
    with start("torn") as losing:
        home = Home(losing, cluster_b, name, tmp_path, kept=False)
        group, internal = f"{name}-g", f"sparkmirror.{name}.b.internal"
        rounds = "sync.group.offsets.enabled = false\nsync.group.offsets.interval.seconds = 1\n"
        home.file.write_text(home.file.read_text() + rounds)
        words = ("--from", "b", "--to", name, "--wait-for-idle", "1", "--yes", "--report", tmp_path)
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(losing, name, marked("old", 10))
            put(losing, group, name, 2)
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            put(cluster_b, group, home.copy, 4)
            end = ends(losing, OFFSETS)[0]
            put(losing, group, name, 8)
            until(lambda: on_record(cluster_b, internal) == {group: {0: 8}}, "on record", 60)
            back = f"sparkmirror.b.{name}.internal"
            until(lambda: on_record(losing, back) == {group: {0: 4}}, "and there", 60)
            operation = halted(Step.MOVING, "switchover", home.file, *words)
            until(lambda: "back_ms" in groups_seen(cluster_b, internal), "a round has seen it", 60)
            mirror.kill()
        loses(losing, end, group, name, 2)
        operation.send_signal(signal.SIGCONT)
        operation.wait(120)
        assert committed(losing, group, name) == {0: 4}
        (flow,) = load([str(home.file)], flow=f"{name}->b").flows
        with connected(flow, role="test") as sides:
            (found,) = (one for one in GroupRecords(sides).look() if isinstance(one, Remember))
        assert [(one.offsets[0][0], one.lost) for one in found.seen] == [(4, {})]


def groups_seen(cluster: LabCluster, internal: str) -> dict[str, Any]:
    """What is on record of the last round."""
    return next((dict(value) for key, value in offset_map.journal(cluster, internal).items() if key[0] == "groups"), {})


@pytest.mark.long
def test_what_a_group_has_left_behind_moves_it_nowhere_when_that_cluster_has_lost_it(cluster_b, topic, tmp_path):
    """Its source is gone when the flow is released, and comes back with an older offset."""
    name = topic("behind")
    with start("torn") as losing:
        home = Home(losing, cluster_b, name, tmp_path, kept=False)
        group = f"{name}-g"
        with home.file.open("a") as file:
            file.write("sync.group.offsets.enabled = true\nsync.group.offsets.interval.seconds = 1\n")
            file.write("refresh.groups.interval.seconds = 1\n")
        words = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
        internal = f"sparkmirror.{name}.b.internal"
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(losing, name, marked("old", 10))
            put(losing, group, name, 3)
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            end = ends(losing, OFFSETS)[0]
            put(losing, group, name, 8)
            until(lambda: committed(cluster_b, group, home.copy) == {0: 8}, "a round of group offsets")
            until(lambda: on_record(cluster_b, internal) == {group: {0: 8}}, "on record", 60)
            (broker,) = losing.brokers
            broker.kill()
            assert sparkmirror("failover", home.file, *words).returncode == 0
            put(cluster_b, group, home.copy, 9)
            released = sparkmirror("release", home.file, "--flow", f"{name}->b", "--yes")
            assert released.returncode == 0, released.stdout + released.stderr
            put(cluster_b, group, home.copy, 1)
            loses(losing, end, group, name, 3)
            write(losing, name, marked("late", 1))
            until(lambda: marked("late", 1)[0] in mirrored(cluster_b, home.copy), "the flow goes on")
            until(lambda: f"has lost the end of {OFFSETS}: 1 groups" in mirror.output, "a round has seen it", 60)
            put(losing, f"{name}-next", name, 4)
            until(lambda: committed(cluster_b, f"{name}-next", home.copy) == {0: 4}, "another round of group offsets")
            assert committed(cluster_b, group, home.copy) == {0: 1}
            mirror.kill()


@pytest.mark.long
def test_a_group_that_a_failback_has_put_on_a_cluster_that_had_lost_offsets_has_lost_nothing(
    cluster_b, topic, tmp_path
):
    """Its owner has set it back where applications were; a failover from there must not bring it where it was seen."""
    name = topic("placed")
    with start("torn") as losing:
        home = Home(losing, cluster_b, name, tmp_path, kept=False)
        group = f"{name}-g"
        home.file.write_text(home.file.read_text() + "sync.group.offsets.interval.seconds = 1\n")
        words = ("failover", home.file, "--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
        internal = f"sparkmirror.{name}.b.internal"
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(losing, name, marked("old", 10))
            put(losing, group, name, 2)
            until(lambda: mirrored(cluster_b, home.copy) == marked("old", 10), "copied")
            end = ends(losing, OFFSETS)[0]
            put(losing, group, name, 8)
            until(lambda: on_record(cluster_b, internal) == {group: {0: 8}}, "on record", 60)
            (broker,) = losing.brokers
            broker.kill()
            assert sparkmirror(*words).returncode == 0
            put(cluster_b, group, home.copy, 4)
            loses(losing, end, group, name, 2)
            back = sparkmirror("failback", home.file, *home.back)
            assert back.returncode == 0, back.stdout + back.stderr
            assert committed(losing, group, name) == {0: 4}
            assert on_record(cluster_b, internal) == {group: {0: 4}}
            broker.kill()
            over = sparkmirror(*words)
            assert over.returncode == 0, over.stdout + over.stderr
            assert committed(cluster_b, group, home.copy) == {0: 4}
            mirror.kill()
