"""What a group has left behind on the cluster that it was moved from pushes it nowhere on the one where it lives."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from sparkmirror.config import load
from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover import comparison, switching
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.states import Kind, Step
from sparkmirror.failover.switching import flows_back, prepared_back
from sparkmirror.lab.cluster import LabCluster
from tests.failover.clients import next_records
from tests.failover.dying import COMMITTED
from tests.failover.test_switching import begun, died
from tests.flow.logs import read
from tests.flow.running import Running, admin_of, commit, committed, create_topic, ends, until, write_file
from tests.flow.test_torn_while_idle import IDENTITY, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS_SECONDS = 6.0
"""Several rounds of group offsets, one a second."""

SETTINGS = {
    "replication.policy.class": IDENTITY,
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "tasks.max": "1",
}


def written(cluster: LabCluster, topic: str, born: str, count: int) -> None:
    write(cluster, topic, [f"{born}-{number}".encode() for number in range(count)])


def has(cluster: LabCluster, topic: str, count: int) -> None:
    until(lambda: len(read(cluster, topic).get(0, [])) == count, f"{count} records on {cluster.name}", 240)


def reads(cluster: LabCluster, group: str, topic: str, count: int) -> list[str]:
    """What a member that commits behind so many records gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[str] = []
    consumer.subscribe([topic])
    try:
        while len(found) < count:
            message = consumer.poll(30)
            assert message is not None, f"{group} got {found} and nothing more"
            assert message.error() is None, message.error()
            found.append((message.value() or b"").decode())
            last = message
        consumer.commit(message=last, asynchronous=False)
    finally:
        consumer.close()
    return found


def set_to(cluster: LabCluster, group: str, topic: str, offset: int) -> None:
    """As ``kafka-consumer-groups.sh --reset-offsets`` does, once the last member has left."""

    def done() -> bool:
        try:
            commit(cluster, group, topic, {0: offset})
        except KafkaException:
            return False
        return True

    until(done, f"{group} is set to {offset}", 60)


def stays(cluster: LabCluster, group: str, topic: str, offset: int, value: str) -> None:
    """Several rounds leave the group where it is."""
    time.sleep(ROUNDS_SECONDS)
    assert committed(cluster, group, topic) == {0: offset}
    assert next_records(cluster, group, topic, read(cluster, topic)) == {0: value.encode()}


def slowly(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but with an answer that comes late."""

    def works(*args: Any) -> Any:
        found = work(*args)
        time.sleep(7.0)
        return found

    return works


def done(*words: str | Path) -> None:
    ended = sparkmirror(*words)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def both_ways(home: LabCluster, there: LabCluster, name: str, directory: Path) -> Path:
    """A topic of both clusters under its kept name, with a flow each way; its name is the home cluster's alias."""
    for each in (home, there):
        create_topic(each, name, 1)
    return write_file(
        directory / "mm2.properties",
        {name: home, "b": there},
        {f"{name}->b": name, f"b->{name}": name},
        SETTINGS | {"groups": f"{name}-.*"},
    )


def test_a_group_stays_where_a_failback_has_put_it_while_the_flow_forth_has_not_gone_on(
    cluster_a, cluster_b, topic, tmp_path
):
    """Behind an aborted transaction there: it stands still before that, for the flow back too."""
    name = topic("aborted")
    group, file = f"{name}-g", both_ways(cluster_a, cluster_b, name, tmp_path)
    told = ("--yes", "--report", tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 20)
        has(cluster_b, name, 20)
        commit(cluster_a, group, name, {0: 20})
        done("failover", file, "--from", name, "--to", "b", "--force", *told)
        mirror.stop_in_time()
    aborted(cluster_a, name)
    with Running(file, log=tmp_path / "back.log", options=("--flow", f"b->{name}")) as mirror:
        written(cluster_b, name, "new", 10)
        has(cluster_a, name, 30)
        last = read(cluster_b, name)[0][-1].offset
        set_to(cluster_b, group, name, last)
        done("failback", file, "--to", name, "--wait-for-idle", "1", *told)
        here = committed(cluster_a, group, name)[0]
        assert next_records(cluster_a, group, name, read(cluster_a, name)) == {0: b"new-9"}
        stays(cluster_a, group, name, here, "new-9")
        mirror.stop_in_time()


def test_a_group_that_is_set_back_to_where_a_failback_had_put_it_is_set_back_on_the_other_cluster_too(
    cluster_a, cluster_b, topic, tmp_path
):
    """The flow back, which syncs no group offsets, still has that very commit on record."""
    name = topic("reset")
    group, file = f"{name}-g", both_ways(cluster_a, cluster_b, name, tmp_path)
    file.write_text(file.read_text() + f"b->{name}.sync.group.offsets.enabled = false\n")
    idle = ("--wait-for-idle", "1", "--yes", "--report", tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 20)
        has(cluster_b, name, 20)
        set_to(cluster_a, group, name, 5)
        done("switchover", file, "--from", name, "--to", "b", *idle)
        done("failback", file, "--to", name, *idle)
        for offset in (20, 5):
            set_to(cluster_a, group, name, offset)
            until(lambda: committed(cluster_b, group, name) == {0: offset}, f"it is at {offset} there too", 90)  # noqa: B023 - at once
        mirror.kill()


@pytest.mark.long
def test_a_failback_that_is_gone_on_with_tells_what_it_has_committed(cluster_a, cluster_b, topic, tmp_path):
    """A driver that was started again has left a marker behind the copies, and the flow forth goes over it."""
    name = topic("released")
    group, file = f"{name}-g", both_ways(cluster_a, cluster_b, name, tmp_path)
    words = ("failback", file, "--to", name, "--wait-for-idle", "1", "--yes", "--report", tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 20)
        has(cluster_b, name, 20)
        commit(cluster_a, group, name, {0: 5})
        done("switchover", file, "--from", name, "--to", "b", *words[4:])
        written(cluster_b, name, "new", 10)
        has(cluster_a, name, 30)
        set_to(cluster_b, group, name, read(cluster_b, name)[0][-1].offset + 1)
        mirror.kill_all()
    with Running(file, log=tmp_path / "again.log") as mirror:
        until(lambda: ends(cluster_a, name)[0] > 30, "a marker")
        died(begun(file, words[0], *map(str, words[2:]), dies_in=Step.RELEASING))
        stood = committed(cluster_a, group, name)
        time.sleep(ROUNDS_SECONDS)
        done(*words)
        mirror.stop_in_time()
    (report,) = (json.loads(each.read_text()) for each in tmp_path.glob("failback-*.json"))
    (found,) = report["groups"]
    (place,) = found["partitions"]
    assert (place["offset"], place["exact"], report["moved"]["offsets"]) == (stood[0], True, 1)
    assert committed(cluster_a, group, name) == stood


def aborted(cluster: LabCluster, topic: str) -> None:
    """A transaction that nobody reads."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"never", partition=0)
    assert producer.flush(60) == 0
    producer.abort_transaction(60)


@pytest.mark.long
def test_a_group_that_is_set_back_after_a_failback_reads_again(cluster_a, cluster_b, topic, tmp_path, monkeypatch):
    name = topic("home")
    group, file = f"{name}-g", both_ways(cluster_a, cluster_b, name, tmp_path)
    idle = ("--wait-for-idle", "1", "--yes", "--report", tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 20)
        has(cluster_b, name, 20)
        assert reads(cluster_a, group, name, 10)[-1] == "old-9"
        done("switchover", file, "--from", name, "--to", "b", *idle)
        assert reads(cluster_b, group, name, 10) == [f"old-{number}" for number in range(10, 20)]
        with prepared_back(*flows_back(load([str(file)]), name, None), str(file)) as late:
            with monkeypatch.context() as slow:  # a source that takes long makes no driver silent
                slow.setattr(switching, "SILENT_SECONDS", 6.0)
                slow.setattr(comparison, "compare", slowly(comparison.compare))
                assert late.plan(Kind.FAILBACK, Options()).state == "running"
            done("failback", file, "--to", name, *idle)
            with pytest.raises(SparkmirrorError, match="an operation has gone on since this plan was made"):
                late.carry_out(Kind.FAILBACK, Options(), print)
        assert committed(cluster_a, group, name) == {0: 20}
        set_to(cluster_a, group, name, 5)
        stays(cluster_a, group, name, 5, "old-5")
        assert reads(cluster_a, group, name, 3) == ["old-5", "old-6", "old-7"]
        stays(cluster_a, group, name, 8, "old-8")
        until(lambda: committed(cluster_b, group, name) == {0: 8}, "it is set back where it was taken from, too", 60)
        # What it commits on the other cluster from now on is its own again.
        written(cluster_b, name, "new", 5)
        has(cluster_a, name, 25)
        assert reads(cluster_b, group, name, 17)[-1] == "new-4"
        until(lambda: next_records(cluster_a, group, name, read(cluster_a, name)) == {0: None}, "carried on", 60)
        mirror.stop_in_time()


@pytest.mark.parametrize(
    "end",
    ["failover", "switchover", "given up"],
)
@pytest.mark.long
def test_the_flow_back_carries_no_group_while_an_operation_moves_it(cluster_a, cluster_b, topic, tmp_path, end):
    """One that was killed may be given again, or given up: what the group has on the source is what it had before.

    In one topic the group is moved forward, in the other one back: there it stands where the failback took it from.
    """
    name = topic("further")
    group, other = f"{name}-g", f"{name}-other"
    for each in (cluster_a, cluster_b):
        for one in (name, other):
            create_topic(each, one, 1)
    file = write_file(
        tmp_path / "mm2.properties",
        {name: cluster_a, "b": cluster_b},
        {f"{name}->b": f"{name}.*", f"b->{name}": f"{name}.*"},
        SETTINGS | {"groups": f"{name}-.*"},
    )
    across, told = ("--from", name, "--to", "b"), ("--yes", "--report", str(tmp_path))
    idle = ("--wait-for-idle", "1")
    kind, how = ("failover", ("--force",)) if end == "failover" else ("switchover", idle)
    with Running(file, log=tmp_path / "run.log") as mirror:
        for one in (name, other):
            written(cluster_a, one, "old", 20)
            has(cluster_b, one, 20)
            commit(cluster_a, group, one, {0: 5})
        done("failover", file, *across, "--force", *told)
        for report in tmp_path.glob("failover-*"):
            report.unlink()
        set_to(cluster_b, group, name, 14)
        done("failback", file, "--to", name, *idle, *told)
        assert committed(cluster_a, group, name) == {0: 14}
        set_to(cluster_a, group, name, 12)
        set_to(cluster_a, group, other, 7)
        until(lambda: committed(cluster_b, group, name) == {0: 12}, "it is set back there too", 60)
        died(begun(file, kind, *across, *how, *told, dies_in=Step.MOVING))
        assert committed(cluster_b, group, other) == {0: 7}
        time.sleep(ROUNDS_SECONDS)
        assert (committed(cluster_a, group, name), committed(cluster_a, group, other)) == ({0: 12}, {0: 7})
        done(kind, file, *across, *(("--abandon", "--force") if end == "given up" else how), *told)
        if end == "given up":
            time.sleep(ROUNDS_SECONDS)
            assert (committed(cluster_a, group, name), committed(cluster_a, group, other)) == ({0: 12}, {0: 7})
        mirror.stop_in_time()
    if end != "given up":
        (report,) = (json.loads(each.read_text()) for each in tmp_path.glob(f"{kind}-*.json"))
        (found,) = report["groups"]
        places = {place["target_topic"]: place for place in found["partitions"]}
        assert (places[name]["further"], places[name]["exact"], places[name]["offset"]) == (0, True, 12)
        assert (places[other]["further"], places[other]["exact"], places[other]["offset"]) == (0, True, 7)
        assert (report["offsets_left_further"], report["troubles"]) == (0, [])


@pytest.mark.long
def test_a_release_after_a_failover_leaves_groups_where_they_have_read_since(cluster_a, cluster_b, topic, tmp_path):
    name = topic("alarm")
    group, other = f"{name}-g", f"{name}-other"
    for each in (cluster_a, cluster_b):
        for one in (name, other):
            create_topic(each, one, 1)
    file = write_file(
        tmp_path / "mm2.properties",
        {name: cluster_a, "b": cluster_b},
        {f"{name}->b": f"{name}.*"},
        SETTINGS | {"groups": f"{name}-.*"},
    )
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 10)
        has(cluster_b, name, 10)
        assert reads(cluster_a, group, name, 10)[-1] == "old-9"
        until(lambda: committed(cluster_b, group, name) == {0: 10}, "the group is there", 60)
        forced = ("--yes", "--force", "--report", tmp_path)
        done("failover", file, "--from", name, "--to", "b", *forced)
        written(cluster_a, name, "late", 5)
        assert reads(cluster_a, group, name, 5)[-1] == "late-4"
        written(cluster_b, name, "away", 10)
        assert reads(cluster_b, group, name, 3)[-1] == "away-2"
        written(cluster_a, other, "late", 5)  # the group had nothing there when it was moved
        assert reads(cluster_a, group, other, 5)[-1] == "late-4"
        written(cluster_b, other, "away", 10)
        assert reads(cluster_b, group, other, 3)[-1] == "away-2"
        done("release", file, "--flow", f"{name}->b", "--yes")
        has(cluster_b, name, 25)
        has(cluster_b, other, 15)
        stays(cluster_b, group, name, 13, "away-3")
        assert committed(cluster_b, group, other) == {0: 3}
        done("failover", file, "--from", name, "--to", "b", *forced)  # and the next one does not either
        stays(cluster_b, group, name, 13, "away-3")
        mirror.stop_in_time()


@pytest.mark.long
def test_a_release_leaves_a_group_of_which_the_target_has_lost_all_and_names_it(cluster_a, cluster_b, topic, tmp_path):
    """Its owner had set it back there; where it was moved from leads over what it has still to read."""
    name = topic("lostthere")
    group = f"{name}-g"
    file = both_ways(cluster_a, cluster_b, name, tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 10)
        has(cluster_b, name, 10)
        assert reads(cluster_a, group, name, 10)[-1] == "old-9"
        until(lambda: committed(cluster_b, group, name) == {0: 10}, "the group is there", 60)
        done("failover", file, "--from", name, "--to", "b", "--yes", "--force", "--report", tmp_path)
        set_to(cluster_b, group, name, 4)
        admin_of(cluster_b).delete_consumer_groups([group])[group].result(60)
        released = sparkmirror("release", file, "--flow", f"{name}->b", "--yes")
        assert released.returncode == 0, released.stdout + released.stderr
        assert f"they count as living there, and stay as they are ({group})" in released.stdout
        written(cluster_a, name, "late", 5)
        has(cluster_b, name, 15)
        time.sleep(ROUNDS_SECONDS)
        assert committed(cluster_b, group, name) == {}
        mirror.stop_in_time()


def test_a_release_knows_a_false_alarm_from_applications_that_have_not_read_yet(cluster_a, cluster_b, topic, tmp_path):
    """A group without members, for which others have written over there; and one that only reads elsewhere there."""
    name = topic("waits")
    other, own = f"{name}-other", f"{name}-own"
    waiting, away = f"{name}-waiting", f"{name}-away"
    for one in (name, other):
        create_topic(cluster_a, one, 1)
        create_topic(cluster_b, one, 1)
    create_topic(cluster_b, own, 1)
    file = write_file(
        tmp_path / "mm2.properties",
        {name: cluster_a, "b": cluster_b},
        {f"{name}->b": f"{name},{other}"},
        SETTINGS | {"groups": f"{name}-.*"},
    )
    with Running(file, log=tmp_path / "run.log") as mirror:
        for one, group in ((name, waiting), (other, away)):
            written(cluster_a, one, "old", 10)
            has(cluster_b, one, 10)
            assert reads(cluster_a, group, one, 10)[-1] == "old-9"
        written(cluster_b, own, "own", 3)
        assert reads(cluster_b, away, own, 3)[-1] == "own-2"
        until(lambda: committed(cluster_b, waiting, name) == {0: 10}, "the group is there", 60)
        done("failover", file, "--from", name, "--to", "b", "--yes", "--force", "--report", tmp_path)
        assert committed(cluster_b, away, other) == {0: 10}
        written(cluster_b, name, "away", 5)
        for one in (name, other):
            written(cluster_a, one, "late", 5)
        assert reads(cluster_a, away, other, 5)[-1] == "late-4"
        done("release", file, "--flow", f"{name}->b", "--yes")
        has(cluster_b, name, 20)
        has(cluster_b, other, 15)
        until(lambda: next_records(cluster_b, away, other, read(cluster_b, other)) == {0: None}, "it goes on", 60)
        stays(cluster_b, waiting, name, 10, "away-0")
        mirror.stop_in_time()


@pytest.mark.long
def test_an_operation_that_is_given_up_by_force_forgets_nothing_of_earlier_ones_and_its_commits_are_the_flows(
    cluster_a, cluster_b, topic, tmp_path
):
    name = topic("forced")
    before, given_up = f"{name}-before", f"{name}-given-up"
    for each in (cluster_a, cluster_b):
        create_topic(each, name, 1)
    file = write_file(
        tmp_path / "mm2.properties",
        {name: cluster_a, "b": cluster_b},
        {f"{name}->b": name},
        SETTINGS | {"groups": f"{name}-.*", "sync.group.offsets.enabled": "false"},
    )
    across = ("--from", name, "--to", "b", "--yes", "--report", str(tmp_path))
    idle = ("--wait-for-idle", "1")
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 30)
        has(cluster_b, name, 30)
        assert reads(cluster_a, before, name, 15)[-1] == "old-14"
        done("failover", file, *across, "--force")
        assert reads(cluster_b, before, name, 5)[-1] == "old-19"
        done("release", file, "--flow", f"{name}->b", "--yes")
        commit(cluster_a, given_up, name, {0: 10})
        written(cluster_a, name, "more", 1)
        has(cluster_b, name, 31)
        time.sleep(ROUNDS_SECONDS)
        died(begun(file, "switchover", *across, *idle, dies_in=COMMITTED))
        assert committed(cluster_b, given_up, name) == {0: 10}
        done("switchover", file, *across, "--abandon", "--force")
        set_to(cluster_b, before, name, 3)
        set_to(cluster_a, given_up, name, 5)
        written(cluster_a, name, "last", 1)
        has(cluster_b, name, 32)
        time.sleep(ROUNDS_SECONDS)
        done("switchover", file, *across, *idle)
        assert committed(cluster_b, before, name) == {0: 3}
        assert committed(cluster_b, given_up, name) == {0: 5}
        mirror.stop_in_time()


@pytest.mark.long
def test_a_group_that_was_switched_over_and_back_again_takes_along_what_it_reads_from_then_on(
    cluster_a, cluster_b, topic, tmp_path
):
    """Back by a switchover of the flow back: nothing here was left behind any more when the flow is released."""
    name = topic("again")
    group, file = f"{name}-g", both_ways(cluster_a, cluster_b, name, tmp_path)
    idle = ("--wait-for-idle", "1", "--yes", "--report", tmp_path)
    with Running(file, log=tmp_path / "run.log") as mirror:
        written(cluster_a, name, "old", 20)
        has(cluster_b, name, 20)
        assert reads(cluster_a, group, name, 10)[-1] == "old-9"
        done("switchover", file, "--from", name, "--to", "b", *idle)
        assert reads(cluster_b, group, name, 5)[-1] == "old-14"
        with prepared_back(*flows_back(load([str(file)]), name, None), str(file)) as late:
            late.plan(Kind.FAILBACK, Options())
            done("switchover", file, "--from", "b", "--to", name, *idle)
            with pytest.raises(SparkmirrorError, match="applications have gone back"):
                late.carry_out(Kind.FAILBACK, Options(), print)
        written(cluster_a, name, "new", 10)
        assert reads(cluster_a, group, name, 10)[-1] == "new-4"
        done("release", file, "--flow", f"{name}->b", "--yes")
        has(cluster_b, name, 30)
        until(lambda: committed(cluster_b, group, name) == {0: 25}, "the flow takes it along", 60)
        done("switchover", file, "--from", name, "--to", "b", *idle)
        assert reads(cluster_b, group, name, 5) == [f"new-{number}" for number in range(5, 10)]
        mirror.stop_in_time()
