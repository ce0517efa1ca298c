"""A source that changes after partitions were taken over: the record says which leader epoch they were copied under."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sparkmirror.lab.cluster import LabCluster, start
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.offset_map import journal
from tests.flow.running import Running, commit, committed, count, create_topic, ends, until, write_file
from tests.flow.test_events import delete_topic, of_kind
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.flow.traffic import Traffic
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NEW = [b"new-%d" % number for number in range(50)]
ROUNDS_SECONDS = 4.0
"""Some rounds of the duty that syncs groups: they are to change nothing."""


def test_a_tail_that_the_source_loses_after_a_takeover_is_told_and_what_it_has_instead_is_copied(
    cluster_b, topic, tmp_path
):
    """The driver died with more copied than was on record; the run that took over had nothing to copy."""
    name = topic("tail")
    copy = f"{name}.{name}"
    with start("source") as source:
        create_topic(source, name)
        clusters = {name: source, "b": cluster_b}
        file = write_file(tmp_path / "mm2.properties", clusters, {f"{name}->b": name}, {"tasks.max": "1"})
        with (
            Running(file, log=tmp_path / "killed.log") as killed,
            Traffic(source, name, 1, nulls=False).small(per_turn=4),
        ):
            until(lambda: count(cluster_b, copy) > 200, "copied")
            killed.kill()
        with Running(file, log=tmp_path / "ended.log") as ended:
            until(lambda: ends(cluster_b, copy)[0] > ends(source, name)[0], "all is copied, behind a fence")
            until(lambda: len(mirrored(cluster_b, copy)) == ends(source, name)[0], "all is copied")
            ended.stop_in_time()
        whole, kept = mirrored(cluster_b, copy), ends(source, name)[0] - 20
        source.brokers[0].kill()
        cut_log(source.brokers[0], name, kept)
        source.brokers[0].start()
        until(lambda: ends(source, name), "it is there again")
        (at,) = ends(source, name).values()
        write(source, name, NEW)
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
        assert mirrored(cluster_b, copy) == [*whole, *NEW]
        (event,) = of_kind(file, name, "source-tail-lost")
        assert (event.first, event.last) == (at, len(whole) - 1)


@pytest.mark.parametrize("regrown", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_tail_that_the_source_loses_before_the_takeover_finds_it_is_told_and_no_forgery_is(
    cluster_b, topic, tmp_path, regrown
):
    """The driver died with more copied than is on record, and the source has lost a part of that since."""
    name = topic("within")
    copy, internal = f"{name}.{name}", f"sparkmirror.{name}.b.internal"
    with start("source") as source:
        (broker,) = source.brokers
        create_topic(source, name)
        clusters = {name: source, "b": cluster_b}
        file = write_file(tmp_path / "mm2.properties", clusters, {f"{name}->b": name}, {"tasks.max": "1"})
        kept = killed_beyond_the_record(source, cluster_b, file, tmp_path, internal) + 10
        whole = mirrored(cluster_b, copy)
        broker.kill()
        cut_log(broker, name, kept)
        broker.start()
        until(lambda: ends(source, name), "it is there again")
        (at,) = ends(source, name).values()
        assert at < len(whole)
        if regrown:
            write(source, name, NEW * 3)
        with Running(file, log=tmp_path / "last.log") as last:
            write(source, name, NEW)
            added = NEW * (4 if regrown else 1)
            until(lambda: mirrored(cluster_b, copy)[len(whole) :] == added, "all arrives once", PATIENCE_SECONDS)
            last.stop_in_time()
        assert mirrored(cluster_b, copy) == [*whole, *added]
        (event,) = of_kind(file, name, "source-tail-lost")
        assert (event.first, event.last) == (at, len(whole) - 1)
        assert not of_kind(file, name, "forged-batch")


def killed_beyond_the_record(source: LabCluster, target: LabCluster, file: Path, directory: Path, internal: str) -> int:
    """Runs a flow until it has been killed with 40 copies more than are on record; the position that is."""
    name = internal.split(".")[1]
    for attempt in range(10):
        with Running(file, log=directory / f"killed-{attempt}.log") as mirror:
            write(source, name, [b"old-%d-%d" % (attempt, number) for number in range(30)])
            until(lambda: count(target, f"{name}.{name}") >= ends(source, name)[0], "level")
            write(source, name, [b"more-%d-%d" % (attempt, number) for number in range(60)])
            (end,) = ends(source, name).values()
            until(lambda: len(mirrored(target, f"{name}.{name}")) == end, "copied")  # noqa: B023 - asked in this turn
            mirror.kill_all()
        told = [value for key, value in journal(target, internal).items() if key[:2] == ("progress", name)]
        position = max(value["position"] for value in told)
        if position <= end - 40:
            return int(position)
    raise AssertionError("each time its progress was on record")


@pytest.mark.parametrize("ordered", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_tail_that_the_source_loses_before_the_first_record_is_copied_is_told_too(
    cluster_b, topic, tmp_path, ordered
):
    """The flow began at the end of the log, or was sent there, and the end is another one by now."""
    name = topic("first")
    copy = f"{name}.{name}"
    with start("source") as source:
        create_topic(source, name)
        for number in range(20):
            write(source, name, [b"old-%d" % number])
        clusters, settings = {name: source, "b": cluster_b}, {"tasks.max": "1"}
        if not ordered:
            settings |= {"start.position": "latest"}
        file = write_file(tmp_path / "mm2.properties", clusters, {f"{name}->b": name}, settings)
        with Running(file, log=tmp_path / "first.log") as first:
            if ordered:
                until(lambda: len(mirrored(cluster_b, copy)) == 20, "copied")
                write(source, name, [b"left out"] * 5)
            until(lambda: lag_of(file, name) == 0, "it waits at the end")
            first.stop_in_time()
        end = ends(source, name)[0]
        if ordered:
            write(source, name, [b"left out"] * 5)
            end += 5
            done = sparkmirror("positions", "set", file, "--topic", name, "--to", "latest")
            assert done.returncode == 0, done.stderr
        whole = mirrored(cluster_b, copy)
        source.brokers[0].kill()
        cut_log(source.brokers[0], name, end - 5)
        source.brokers[0].start()
        until(lambda: ends(source, name), "it is there again")
        (at,) = ends(source, name).values()
        assert at < end
        write(source, name, NEW)
        with Running(file, log=tmp_path / "last.log", options=("--once",)) as last:
            assert last.wait() == 0, last.tail()
        assert mirrored(cluster_b, copy) == [*whole, *NEW]
        (event,) = of_kind(file, name, "source-tail-lost")
        assert (event.first, event.last) == (at, end - 1)


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_loss_within_what_an_order_left_out_brings_nothing_of_that(cluster_b, topic, tmp_path, killed):
    """It is of other leader epochs than all that was copied. After a kill the next start obeys the order."""
    name = topic("passed")
    copy = f"{name}.{name}"
    with start("source") as source:
        (broker,) = source.brokers
        create_topic(source, name)
        clusters = {name: source, "b": cluster_b}
        file = write_file(tmp_path / "mm2.properties", clusters, {f"{name}->b": name}, {"tasks.max": "1"})
        write(source, name, [b"copied"] * 100)
        with Running(file, log=tmp_path / "first.log") as first:
            until(lambda: len(mirrored(cluster_b, copy)) == 100, "copied", PATIENCE_SECONDS)
            (first.kill_all if killed else first.stop_in_time)()
        write(source, name, [b"left out"] * 50)
        for number in (100, 50):
            broker.stop()
            broker.start()
            write(source, name, [b"left out"] * number)
        done = sparkmirror("positions", "set", file, "--topic", name, "--to", "300")
        assert done.returncode == 0, done.stderr
        write(source, name, [b"behind"] * 10)
        once(file, tmp_path / "second.log")
        broker.kill()
        cut_log(broker, name, 200)
        broker.start()
        until(lambda: ends(source, name).get(0) == 250, "records are really lost", PATIENCE_SECONDS)
        write(source, name, NEW)
        once(file, tmp_path / "last.log")
    assert mirrored(cluster_b, copy) == [*[b"copied"] * 100, *[b"behind"] * 10, *NEW]
    (event,) = of_kind(file, name, "source-tail-lost")
    assert (event.first, event.last) == (250, 309)


def once(file: Path, log: Path) -> None:
    """Copies to the end of the source."""
    with Running(file, log=log, options=("--once",)) as mirror:
        assert mirror.wait() == 0, mirror.tail()


def lag_of(file: Path, name: str) -> int | None:
    """The records that a topic's partition 0 still lacks, as status has it."""
    (flow,) = json.loads(sparkmirror("status", file, "--json").stdout)["flows"]
    return next((one["lag_records"] for one in flow["partitions"] if one["topic"] == name), None)


def test_groups_in_a_topic_that_was_made_anew_are_not_translated_by_the_map_of_the_older_one(
    cluster_a, cluster_b, topic, tmp_path
):
    name, group = topic("again"), topic("group")
    copy = f"{name}.{name}"
    settings = {
        "tasks.max": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "groups": f"{group}.*",
    }
    file = write_file(tmp_path / "mm2.properties", {name: cluster_a, "b": cluster_b}, {f"{name}->b": name}, settings)
    create_topic(cluster_a, name)
    write(cluster_a, name, [b"old-%d" % number for number in range(100)])
    commit(cluster_a, group, name, {0: 100})
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        until(lambda: committed(cluster_b, group, copy) == {0: 100}, "the group is synced")
        delete_topic(cluster_a, name)
        create_topic(cluster_a, name)
        commit(cluster_a, group, name, {0: 0})
        until(lambda: of_kind(file, name, "source-recreated"), "it is noticed")
        time.sleep(ROUNDS_SECONDS)
        assert committed(cluster_b, group, copy) == {0: 100}, "there is nothing of the new topic yet"
        write(cluster_a, name, NEW)
        until(lambda: mirrored(cluster_b, copy)[-1:] == NEW[-1:], "the new topic is copied")
        until(lambda: committed(cluster_b, group, copy) == {0: ends(cluster_b, copy)[0] - len(NEW)}, "its first record")
        commit(cluster_a, group, name, {0: 7})
        until(lambda: committed(cluster_b, group, copy) == {0: ends(cluster_b, copy)[0] - len(NEW) + 7}, "it goes on")
        mirror.stop_in_time()
