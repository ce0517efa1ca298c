"""Partitions that a copy has and its original has not: what applications write there is named, and kept in sight."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer

from sparkmirror.duties.duty import Sides
from sparkmirror.flow.extra_partitions import ExtraPartitions
from sparkmirror.lab.cluster import LabCluster
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_others import maker, sides
from tests.failover.test_switching_homeward import brought, newest, pair, switch, words
from tests.flow.logs import read
from tests.flow.running import Running, add_partitions, commit, ends, until
from tests.flow.test_torn_while_idle import mirrored, write
from tests.invoking import sparkmirror
from tests.kafka.writing import NOBODY, new_topic
from tests.kafka.writing import write as write_batch

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

assert sides is not None  # the fixture

MORE = marked("more", 7)


def add_one(cluster: LabCluster, topic: str) -> None:
    """A partition, and records there."""
    add_partitions(cluster, topic, 2)
    until(lambda: len(ends(cluster, topic)) == 2, "the partition has a leader")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for value in MORE:
        producer.produce(topic, value, partition=1)
    assert producer.flush(60) == 0


def events(home: Home, flow: str) -> list[str]:
    (one,) = json.loads(sparkmirror("status", home.file, "--flow", flow, "--json").stdout)["flows"]
    return [event["text"] for event in one["events"]]


def test_only_partitions_to_which_others_have_written_are_told(sides: Sides, topic):
    source, copy = sides.source, f"B.{topic('copy')}"
    places = new_topic(source, copy, 2)
    writer, extra = maker(sides, topic("makes")), ExtraPartitions(sides.flow, source, "one", "other")

    def told() -> str:
        return extra.look(places).get(copy, "")

    assert told() == ""
    assert write_batch(source, places[0], writer, 0, 5).code == 0
    assert told() == ""
    assert write_batch(source, places[1], NOBODY, -1, 2).code == 0
    assert told().startswith(f"what others wrote to partition 1 of it is not brought home: {copy[2:]}-1 does not exist")
    assert write_batch(source, places[0], NOBODY, -1, 2).code == 0
    assert told().startswith("what others wrote to partitions 0, 1 of it is not brought home")
    assert "partition 0 of it" in extra.look(places[:1])[copy], "the original has got the other one"
    assert extra.look([]) == {}


def test_status_wait_and_a_switchover_name_what_lies_there_and_it_goes_home_when_the_original_has_the_partition(
    topic, tmp_path
):
    name = topic("extra")
    with pair(name, tmp_path, f"b->{name}") as home, Running(home.file, log=tmp_path / "run.log") as mirror:
        back, group = f"b->{name}", f"{name}-g"
        write(home.a, name, marked("old", 10))
        until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
        write(home.b, home.copy, marked("home", 5))
        brought(home, *marked("home", 5))
        add_one(home.b, home.copy)
        commit(home.b, group, home.copy, {0: ends(home.b, home.copy)[0], 1: 3})
        told = f"{home.copy}: what others wrote to partition 1 of it is not brought home: {name}-1 does not exist"
        until(lambda: any(text.startswith(told) for text in events(home, back)), "status tells")
        waited = sparkmirror("wait", home.file, "--caught-up", "--timeout", "2", "--flow", back)
        assert waited.returncode == 1
        assert f"7 records of 1 partitions are missing, most in {home.copy}-1" in waited.stdout
        assert f"({home.copy}-1: {name}-1 does not exist on {name}: give {name} as many partitions" in waited.stdout

        dry = sparkmirror("switchover", home.file, *words(home, "--dry-run"))
        said = " ".join(dry.stdout.split())
        assert f"the originals on {name} have not, and no flow brings that back: {home.copy}-1 (" in said
        done = switch(home)
        assert done.returncode == 1, done.stdout + done.stderr
        report = newest(home, "switchover")
        (trouble,) = report["troubles"]
        assert trouble.startswith(f"{home.copy}-1: what others have written on b to this copy has not been brought to")
        assert "its original has no such partition: no group has a place in it" in trouble
        (found,) = (one for one in report["groups"] if one["group"] == group)
        assert [(one["offset"] is None, one["exact"]) for one in found["partitions"]] == [(False, True), (True, False)]

        released = sparkmirror("release", home.file, "--flow", back, "--yes")
        assert released.returncode == 0, released.stdout + released.stderr
        add_partitions(home.a, name, 2)
        until(lambda: [one.value for one in read(home.a, name).get(1, [])] == MORE, "it is home")
        until(lambda: not any(text.startswith(told) for text in events(home, back)), "status tells it no more")
        assert sparkmirror("wait", home.file, "--caught-up", "--timeout", "30", "--flow", back).returncode == 0
        mirror.stop_in_time()


@pytest.mark.long
def test_a_failback_names_what_lies_there_and_calls_no_place_there_exact(topic, tmp_path):
    name = topic("extra-home")
    with pair(name, tmp_path, f"b->{name}") as home, Running(home.file, log=tmp_path / "run.log") as mirror:
        group = f"{name}-g"
        write(home.a, name, marked("old", 10))
        until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
        write(home.b, home.copy, marked("home", 5))
        brought(home, *marked("home", 5))
        home.leave("switchover", "--wait-for-idle", "1")
        add_one(home.b, home.copy)
        commit(home.b, group, home.copy, {0: ends(home.b, home.copy)[0], 1: 3})
        dry = sparkmirror("failback", home.file, "--to", name, "--dry-run")
        assert f"{home.copy}-1: what others have written on b to this copy has not been brought" in dry.stdout
        report = home.go_back(code=1)
        lost, *_ = (text for text in report["troubles"] if text.startswith(f"{home.copy}-1: "))
        assert f"has not been brought to {name}, where its original has no such partition" in lost
        (found,) = (one for one in report["groups"] if one["group"] == group)
        assert [(one["offset"] is None, one["exact"]) for one in found["partitions"]] == [(False, True), (True, False)]
        assert report["repeated_records"] is None
        mirror.stop_in_time()


@pytest.mark.long
@pytest.mark.parametrize("gone", [True, False])
def test_a_failover_names_what_lies_there_by_what_the_flow_said_last_where_the_cluster_is_gone(topic, tmp_path, gone):
    """With the fault, it ended with 0 and said nothing of these records."""
    name = topic("extra-over")
    with pair(name, tmp_path, f"b->{name}") as home, Running(home.file, log=tmp_path / "run.log") as mirror:
        write(home.a, name, marked("old", 10))
        until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
        write(home.b, home.copy, marked("home", 5))
        brought(home, *marked("home", 5))
        add_one(home.b, home.copy)
        told = f"{home.copy}: what others wrote to partition 1 of it is not brought home: {name}-1 does not exist"
        until(lambda: any(text.startswith(told) for text in events(home, f"b->{name}")), "status tells")
        if gone:
            home.b.brokers[0].kill()
        force = () if gone else ("--force",)
        dry = sparkmirror("failover", home.file, *words(home, "--dry-run", *force))
        said = " ".join(dry.stdout.split())
        assert (told in said) if gone else (f"no flow brings that back: {home.copy}-1 (" in said), said
        done = sparkmirror("failover", home.file, *words(home, "--yes", *force))
        assert done.returncode == 1, done.stdout + done.stderr
        (trouble,) = newest(home, "failover")["troubles"]
        here = f"{home.copy}-1: what others have written on b to this copy has not been brought"
        assert trouble.startswith(f"b->{name} said last: {told}" if gone else here)
        mirror.stop(seconds=60)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["switchover", "failback"])
def test_what_lay_there_when_producers_were_faster_than_to_bring_it_home_is_named(topic, tmp_path, kind):
    """It lies before the first copied record of the partition. With the fault, nothing said so, and all was exact."""
    name = topic("extra-late")
    with pair(name, tmp_path, f"b->{name}") as home:
        group = f"{name}-g"
        write(home.a, name, marked("old", 10))
        with Running(home.file, log=tmp_path / "first.log") as mirror:
            until(lambda: mirrored(home.b, home.copy) == marked("old", 10), "copied")
            write(home.b, home.copy, marked("home", 5))
            brought(home, *marked("home", 5))
            mirror.stop_in_time()
        add_one(home.b, home.copy)
        add_partitions(home.a, name, 2)
        producer = Producer({"bootstrap.servers": home.a.bootstrap_servers, "log_level": 0, "acks": "all"})
        for value in marked("fast", 3):
            producer.produce(name, value, partition=1)
        assert producer.flush(60) == 0
        forth = ("--flow", f"{name}->b")
        with Running(home.file, log=tmp_path / "forth.log", options=forth) as mirror:
            copied = [*MORE, *marked("fast", 3)]
            until(lambda: [one.value for one in read(home.b, home.copy).get(1, [])] == copied, "behind them")
            mirror.stop_in_time()
        with Running(home.file, log=tmp_path / "second.log") as mirror:
            assert sparkmirror("wait", home.file, "--caught-up", "--timeout", "60").returncode == 0
            if kind == "failback":
                home.leave("switchover", "--wait-for-idle", "1")
            commit(home.b, group, home.copy, {0: ends(home.b, home.copy)[0], 1: 8})
            back = ("--to", name) if kind == "failback" else words(home)
            dry = sparkmirror(kind, home.file, *back, "--dry-run")
            assert f"{home.copy}-1" in dry.stdout, dry.stdout
            report = home.go_back(code=1) if kind == "failback" else None
            if report is None:
                done = switch(home)
                assert done.returncode == 1, done.stdout + done.stderr
                report = newest(home, kind)
            assert [one.value for one in read(home.a, name)[1]] == marked("fast", 3), "what lay there is not home"
            (trouble,) = (text for text in report["troubles"] if text.startswith(f"{home.copy}-1: "))
            assert "to this copy before its first copied record has not been brought" in trouble
            (found,) = (one for one in report["groups"] if one["group"] == group)
            assert [one["exact"] for one in found["partitions"]] == [True, False]
            mirror.stop_in_time()
