"""Groups in a topic that two flows write: what they would have read next they get, wherever it was born."""

from __future__ import annotations

import json
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place

from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.lab.processes import send
from tests.failover.clients import due, next_records
from tests.flow.logs import read
from tests.flow.running import (
    Running,
    add_partitions,
    admin_of,
    commit,
    committed,
    create_topic,
    ends,
    reaches,
    until,
    write_file,
)
from tests.flow.test_torn_while_idle import IDENTITY
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ROUNDS_SECONDS = 5.0
"""Several rounds of group offsets and checkpoints, one a second."""

QUICK = {
    "replication.policy.class": IDENTITY,
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "tasks.max": "1",
}

PLACES = ("a-05", "b-00", "b-07", "a-12", "end")
"""Next records of groups on the first cluster: born there, or on the other; ``b-00`` is next behind a marker."""


def transact(cluster: LabCluster, topic: str, born: str, first: int, count: int = 10) -> None:
    """Writes in one transaction, whose marker lies behind its records."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "transactional.id": f"{topic}-{born}"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(first, first + count):
        producer.produce(topic, f"{born}-{number:02}".encode(), partition=0)
    producer.commit_transaction(60)


def values(cluster: LabCluster, topic: str) -> list[str]:
    return [(each.value or b"").decode() for each in read(cluster, topic).get(0, [])]


def offset_before(cluster: LabCluster, topic: str, value: str) -> int:
    """The offset behind the record before: where a client that has read that one commits."""
    log = read(cluster, topic)[0]
    if value == "end":
        return log[-1].offset + 1
    (number,) = [number for number, each in enumerate(log) if each.value == value.encode()]
    return log[number - 1].offset + 1


def next_of(cluster: LabCluster, topic: str, groups: dict[str, str]) -> dict[str, str]:
    """What a member of each group gets first."""
    log = read(cluster, topic)
    found = {group: next_records(cluster, group, topic, log)[0] for group in groups}
    return {group: "end" if value is None else value.decode() for group, value in found.items()}


def on_both(clusters: tuple[LabCluster, LabCluster], topic: str, count: int) -> None:
    until(lambda: all(len(values(each, topic)) == count for each in clusters), f"{count} records on both", 240)


def stand_still(clusters: tuple[LabCluster, LabCluster], topic: str, groups: dict[str, str]) -> None:
    """Several rounds of both flows move no group of the first cluster, and none on the other beyond its next record."""
    here, there = clusters
    until(lambda: all(committed(there, group, topic) for group in groups), "groups are there", 240)
    until(lambda: next_of(there, topic, groups) == groups, "at their very next records", 240)
    before = {group: committed(here, group, topic) for group in groups}
    time.sleep(ROUNDS_SECONDS)
    assert {group: committed(here, group, topic) for group in groups} == before
    assert next_of(here, topic, groups) == groups
    assert next_of(there, topic, groups) == groups


def by_hand(file: Path, flow: str, clusters: tuple[LabCluster, LabCluster], topic: str, groups: dict[str, str]) -> None:
    """``sparkmirror offsets`` says the same, both ways."""
    for reverse, cluster in (((), clusters[1]), (("--reverse",), clusters[0])):
        log = read(cluster, topic)
        for group, place in groups.items():
            said = sparkmirror("offsets", file, "--flow", flow, "--group", group, "--json", *reverse)
            (found,) = json.loads(said.stdout)["partitions"]
            assert due(log, {0: found["offset"]}) == {0: place.encode()}, found


def report_of(directory: Path, kind: str) -> dict[str, Any]:
    (found,) = directory.glob(f"{kind}-*.json")
    return dict(json.loads(found.read_text()))


def change_over(directory: Path, kind: str, *words: str) -> dict[str, Any]:
    done = sparkmirror(kind, *words, "--wait-for-idle", "1", "--yes", "--report", directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return report_of(directory, kind)


def test_groups_rest_and_change_over_and_back_among_records_of_both_clusters(cluster_a, cluster_b, topic, tmp_path):
    name, both = topic("mixed"), (cluster_a, cluster_b)
    groups = {f"{name}-{place}": place for place in PLACES}
    for each in both:
        create_topic(each, name, 1)
    intervals = {f"{each}.interval.seconds": "1" for each in ("sync.group.offsets", "emit.checkpoints")}
    file = write_file(
        tmp_path / "mm2.properties",
        {name: cluster_a, "b": cluster_b},
        {f"{name}->b": name, f"b->{name}": name},
        {
            "replication.policy.class": IDENTITY,
            "sync.group.offsets.enabled": "true",
            "refresh.groups.interval.seconds": "1",
            "groups": f"{name}-.*",
            "tasks.max": "1",
            **intervals,
        },
    )
    with Running(file, log=tmp_path / "run.log") as mirror:
        for born, first, count in (("a", 0, 10), ("b", 0, 20), ("a", 10, 30)):
            transact(cluster_a if born == "a" else cluster_b, name, born, first)
            on_both(both, name, count)
        for group, place in groups.items():
            commit(cluster_a, group, name, {0: offset_before(cluster_a, name, place)})
        stand_still(both, name, groups)
        by_hand(file, f"{name}->b", both, name, {f"{name}-{place}": place for place in ("b-00", "b-07")})
        over = change_over(tmp_path, "switchover", str(file), "--from", name, "--to", "b")
        assert (over["repeated_records"], over["offsets_skipped"], over["troubles"]) == (0, 0, [])
        assert next_of(cluster_b, name, groups) == groups
        transact(cluster_b, name, "b", 10)
        until(lambda: len(values(cluster_a, name)) == 40, "b's records are on a", 240)
        groups[f"{name}-end"] = "b-10"
        used = {f"{name}-used": "b-14", f"{name}-last": "end"}
        for group, place in used.items():
            commit(cluster_b, group, name, {0: offset_before(cluster_b, name, place)})
        back = change_over(tmp_path, "failback", str(file), "--to", name)
        assert (back["repeated_records"], back["offsets_skipped"], back["troubles"]) == (0, 0, [])
        assert next_of(cluster_a, name, groups | used) == groups | used
        stand_still(both, name, groups | used)
        mirror.stop_in_time()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.long
def test_no_group_goes_over_copies_that_are_not_on_record(cluster_a, cluster_b, topic, tmp_path, begun):
    """The lane that has written them stands still, and the flow back goes over them; they may be the first ones."""
    go_over_nothing(cluster_a, cluster_b, topic("unrecorded"), tmp_path, begun=begun)


@pytest.mark.long
def test_no_group_goes_over_copies_of_a_producer_that_the_leader_has_forgotten(topic, tmp_path):
    """It forgets the writer of old records when it looks through its producers, every ten minutes as a rule."""
    forgetful = {"producer.id.expiration.check.interval.ms": "500"}
    with start("home", config=forgetful) as a, start("away", config=forgetful) as b:
        go_over_nothing(a, b, topic("forgotten"), tmp_path, begun=True, time_ms=1_600_000_000_000)


@pytest.mark.long
def test_no_group_goes_over_records_of_a_partition_with_which_the_flow_back_has_not_begun(
    cluster_a, cluster_b, topic, tmp_path
):
    """It is stopped when a topic is created and another one grows. A third one it does not copy."""
    name, both = topic("unbegun"), (cluster_a, cluster_b)
    group, new, only = f"{name}-g", f"{name}-new", f"{name}-only"
    for each in both:
        create_topic(each, name, 1)
    settings = QUICK | {"groups": f"{name}-.*"}
    flows = {f"{name}->b": f"{name}.*", f"b->{name}": f"{name}|{new}"}
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, flows, settings)
    with Running(file, log=tmp_path / "forth.log", options=("--flow", f"{name}->b")) as mirror:
        with Running(file, log=tmp_path / "back.log", options=("--flow", f"b->{name}")) as back:
            for born, cluster in (("a", cluster_a), ("b", cluster_b)):
                transact(cluster, name, born, 0, 5)
            on_both(both, name, 10)
            back.stop_in_time()
        for each in reversed(both):
            create_topic(each, new, 1)
            create_topic(each, only, 1)
            add_partitions(each, name, 2)
        places = [Place(name, 1), Place(new, 0), Place(only, 0)]
        for born, cluster in (("b", cluster_b), ("a", cluster_a)):
            for place in places:
                if (born, place.topic) != ("b", only):
                    plain(cluster, place.topic, 5, 0, partition=place.partition, born=born)
        copied = {name: 10, new: 10, only: 5}
        until(lambda: all(ends(cluster_b, p.topic).get(p.partition) == copied[p.topic] for p in places), "copied", 240)
        for place in places:
            commit(cluster_a, group, place.topic, {place.partition: 5})
        until(lambda: committed(cluster_b, group, only) == {0: 5}, "the group is there", 240)
        time.sleep(ROUNDS_SECONDS)
        found = {p: committed(cluster_b, group, p.topic).get(p.partition, 0) for p in places[:2]}
        assert found == dict.fromkeys(places[:2], 0)
        over = change_over(tmp_path, "switchover", str(file), "--from", name, "--to", "b")
        (by_name,) = (each["partitions"] for each in over["groups"] if each["group"] == group)
        told = {(p["topic"], p["partition"]): (p["offset"], p["exact"]) for p in by_name}
        assert told == {(name, 1): (0, False), (new, 0): (0, False), (only, 0): (5, True)}
        mirror.stop_in_time()


@pytest.mark.long
def test_no_group_goes_by_positions_in_a_topic_that_is_another_one_by_now(cluster_a, cluster_b, topic, tmp_path):
    """The flow back is stopped when the topic is deleted and created again on the cluster that it copies."""
    name, both = topic("anew"), (cluster_a, cluster_b)
    group = f"{name}-g"
    for each in both:
        create_topic(each, name, 1)
    settings = QUICK | {"groups": f"{name}-.*"}
    flows = {f"{name}->b": name, f"b->{name}": name}
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, flows, settings)
    with Running(file, log=tmp_path / "forth.log", options=("--flow", f"{name}->b")) as mirror:
        with Running(file, log=tmp_path / "back.log", options=("--flow", f"b->{name}")) as back:
            plain(cluster_a, name, 5, 0, born="a")
            plain(cluster_b, name, 20, 0, born="b")
            on_both(both, name, 25)
            back.stop_in_time()
        for future in admin_of(cluster_b).delete_topics([name]).values():
            future.result(60)
        until(lambda: not ends(cluster_b, name), "the topic is gone")
        create_topic(cluster_b, name, 1)
        until(lambda: values(cluster_b, name) == [f"a-{number}" for number in range(5)], "copied again", 240)
        plain(cluster_b, name, 5, 0, born="new")
        plain(cluster_a, name, 5, 0, born="late")
        until(lambda: len(values(cluster_b, name)) == 15, "the last ones are copied", 240)
        commit(cluster_a, group, name, {0: ends(cluster_a, name)[0]})
        until(lambda: committed(cluster_b, group, name), "the group is there", 240)
        time.sleep(ROUNDS_SECONDS)
        assert next_of(cluster_b, name, {group: ""}) == {group: "new-0"}
        mirror.stop_in_time()


def go_over_nothing(
    cluster_a: LabCluster, cluster_b: LabCluster, name: str, tmp_path: Path, *, begun: bool, time_ms: int = 0
) -> None:
    """The group is level with the flow, whose lane stands still when it has written ten records more."""
    group, last = f"{name}-g", f"{name}-last"
    for each in (cluster_a, cluster_b):
        create_topic(each, name, 1)
    settings = {
        "replication.policy.class": IDENTITY,
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.enabled": "false",
        "groups": f"{name}-.*",
        "tasks.max": "1",
    }
    flows = {f"{name}->b": name, f"b->{name}": name}
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, flows, settings)
    forth, back = ("--flow", f"{name}->b"), ("--flow", f"b->{name}")
    count = 20 if begun else 0
    with (
        Running(file, log=tmp_path / "forth.log", options=forth) as mirror,
        Running(file, log=tmp_path / "back.log", options=back) as other,
        ExitStack() as again,
    ):
        if begun:
            transact(cluster_a, name, "a", 0, 10)
            transact(cluster_b, name, "b", 0, 10)
        on_both((cluster_a, cluster_b), name, count)
        until(lambda: all("1 lane" in each.output for each in (mirror, other)), "lanes run")
        end = ends(cluster_a, name)[0]
        commit(cluster_a, group, name, {0: end})
        until(lambda: committed(cluster_b, group, name), "the group is there", 240)
        there = ends(cluster_b, name)[0]
        lanes = mirror.lane_workers()
        plain(cluster_a, name, 10, time_ms)
        until(lambda: ends(cluster_b, name)[0] > there, "the copies come")
        for lane in lanes:
            send(lane, signal.SIGSTOP)
        try:
            time.sleep(ROUNDS_SECONDS)
            log = read(cluster_b, name)
            assert next_records(cluster_b, group, name, log) == {0: b"plain-0"}
            if time_ms:  # what the flow back has met is on record, also when it begins anew
                other.stop_in_time()
                anew = again.enter_context(Running(file, log=tmp_path / "again.log", options=back))
                until(lambda: "1 lane" in anew.output, "it runs again", 240)
                time.sleep(ROUNDS_SECONDS)
                assert next_records(cluster_b, group, name, read(cluster_b, name)) == {0: b"plain-0"}
            said = sparkmirror("offsets", file, *forth, "--group", group, "--json")
            (place,) = json.loads(said.stdout)["partitions"]
            assert place["offset"] is None or place["offset"] <= log[0][count].offset, said.stdout
        finally:
            for lane in lanes:
                send(lane, signal.SIGCONT)
        on_both((cluster_a, cluster_b), name, count + 10)
        commit(cluster_a, last, name, {0: ends(cluster_a, name)[0]})
        until(lambda: committed(cluster_b, last, name), "groups are translated again", 240)
        assert next_of(cluster_b, name, {group: "", last: ""}) == {group: "plain-0", last: "end"}
        mirror.stop_in_time()
        if not time_ms:
            other.stop_in_time()


def plain(
    cluster: LabCluster, topic: str, count: int, time_ms: int, *, partition: int = 0, born: str = "plain"
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, f"{born}-{number}".encode(), partition=partition, timestamp=time_ms)
    assert producer.flush(60) == 0


def test_what_the_target_does_not_have_is_told_before_groups_are_moved_and_after(cluster_a, cluster_b, topic, tmp_path):
    late, gone = topic("late"), topic("gone")
    group = f"{late}-g"
    for each in (late, gone):
        create_topic(cluster_a, each, 1)
        producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 0})
        for number in range(100):
            producer.produce(each, b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        commit(cluster_a, group, each, {0: 10})
    file = write_file(
        tmp_path / "mm2.properties",
        {late: cluster_a, "b": cluster_b},
        {f"{late}->b": f"{late}|{gone}"},
        {"start.positions": f"{late}:0:50", "groups": group, "tasks.max": "1", "refresh.groups.interval.seconds": "1"},
    )
    with Running(file, log=tmp_path / "run.log") as mirror:
        for each, count in ((late, 50), (gone, 100)):
            reaches(cluster_b, f"{late}.{each}", count)
        for future in admin_of(cluster_b).delete_records([Place(f"{late}.{gone}", 0, 60)]).values():
            future.result(30)
        until(lambda: skipped(file) == 90, "status tells", 240)
        planned = sparkmirror("switchover", file, "--from", late, "--to", "b", "--dry-run")
        told = " ".join(planned.stdout.split())
        assert f"groups would skip what the target does not have: {group} at" in told, told
        rehearsed = sparkmirror("rehearse", file)
        assert rehearsed.returncode == 1
        for each, count in ((late, 40), (gone, 50)):
            assert f"{each}-0: would skip {count} records" in rehearsed.stdout
        report = change_over(tmp_path, "switchover", str(file), "--from", late, "--to", "b")
        mirror.stop_in_time()
    assert report["offsets_skipped"] == 90
    places = {place["topic"]: place for found in report["groups"] for place in found["partitions"]}
    assert {each: (places[each]["offset"], places[each]["skipped"]) for each in (late, gone)} == {
        late: (0, 40),
        gone: (60, 50),
    }
    assert not any(place["exact"] for place in places.values())
    assert "up to **90**" in next(tmp_path.glob("switchover-*.md")).read_text()


def skipped(file: Path) -> int:
    """What ``sparkmirror status --groups`` says."""
    found = json.loads(sparkmirror("status", file, "--groups", "--json").stdout)
    return sum(group["skipped"] for flow in found["flows"] for group in flow["groups"])
