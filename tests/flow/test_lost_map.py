"""The flow's internal topic loses its newest entries while the copies are whole: groups skip nothing as exact."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.errors import LabError
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.offsets.translation import Place, Translated
from tests.flow.elections import PATIENCE_SECONDS
from tests.flow.logs import read
from tests.flow.offset_map import journal, told
from tests.flow.running import Running, commit, committed, create_topic, ends, set_limit, until, write_file
from tests.flow.test_events import delete_topic, of_kind, records
from tests.flow.test_torn_while_idle import IDENTITY, cut_log, write
from tests.invoking import sparkmirror

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

INTERNAL = "sparkmirror.a.o.internal"
SETTINGS = {
    "tasks.max": "1",
    "sync.group.offsets.enabled": "true",
    **{f"{name}.interval.seconds": "1" for name in ("refresh.groups", "emit.checkpoints", "sync.group.offsets")},
}


def write_transactions(cluster: LabCluster, name: str, number: int, first: int, each: int = 4) -> None:
    """Four records each unless told, so that a marker lies behind every fourth."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(60)
    for begin in range(first, first + each * number, each):
        producer.begin_transaction()
        for value in records(each, begin):
            producer.produce(name, value, partition=0)
        producer.commit_transaction(60)


def begin_of_newest_epoch(cluster: LabCluster) -> int:
    """The offset in the internal topic at which the newest writer epoch has put its first segment."""
    log = [(each.offset, json.loads(each.key or b"")) for each in read(cluster, INTERNAL)[0]]
    newest = max(key[4] for _, key in log if key[0] == "segments")
    return next(offset for offset, key in log if key[0] == "segments" and key[4] == newest)


def last_on_record(cluster: LabCluster, name: str) -> int:
    """The last source offset that is on record as copied, -1 for none, and while the topic cannot be read."""
    try:
        progress = [value for key, value in journal(cluster, INTERNAL).items() if key[:2] == ("progress", name)]
    except LabError:
        return -1
    return max((value["last"][1] for value in progress), default=-1)


def lives_since(cluster: LabCluster, offset: int) -> int:
    """How often the driver has given a sign of life since; it reads the topic between any two."""
    return sum(each.offset >= offset and each.key == b'["life"]' for each in read(cluster, INTERNAL)[0])


def copied(cluster: LabCluster, copy: str) -> list[tuple[int, bytes | None]]:
    """Offsets and values; nothing while a client does not know of the broker's restart."""
    try:
        return [(each.offset, each.value) for each in read(cluster, copy)[0]]
    except LabError:
        return []


@pytest.mark.parametrize(("each", "number"), [(4, 6), (1, 7)], ids=["at a record", "at a marker"])
def test_a_group_reads_on_at_its_record_after_the_map_has_lost_its_newest_entries(
    cluster_a, topic, tmp_path, each: int, number: int
):
    """By what is left of the map the last copy is one of an earlier record of the source, or of a marker."""
    name, group = topic("mapped"), topic("g")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        settings = SETTINGS | {"groups": group}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        mirror = Running(file, log=tmp_path / "first.log")
        write_transactions(cluster_a, name, 1, 0, each)
        until(lambda: ends(one, copy) == {0: each}, "the first ones", PATIENCE_SECONDS)
        until(lambda: not ends(one, INTERNAL)[0] < 8, "they are on record", PATIENCE_SECONDS)
        kept = ends(one, INTERNAL)[0]
        write_transactions(cluster_a, name, number, each, each)
        until(lambda: ends(one, copy) == {0: each * (1 + number)}, "all", PATIENCE_SECONDS)
        mirror.kill_all()
        broker.kill()
        cut_log(broker, INTERNAL, kept)
        broker.start()
        due = next(
            record for record in read(cluster_a, name)[0] if record.value == records(1, each * number // 2 + 2)[0]
        )
        commit(cluster_a, group, name, {0: due.offset})
        with Running(file, log=tmp_path / "second.log") as mirror:
            (told,) = until(lambda: of_kind(file, name, "may-repeat"), "the loss is told of", PATIENCE_SECONDS)
            assert "has lost the newest entries of the offset map" in told.text
            until(lambda: committed(one, group, copy), "the group has followed", PATIENCE_SECONDS)
            log = until(lambda: copied(one, copy), "the copy can be read", PATIENCE_SECONDS)
            behind = [value for offset, value in log if offset >= committed(one, group, copy)[0]]
            assert behind[0] == due.value
            assert set(records(each * (1 + number))) <= {value for _, value in log}
            mirror.stop_in_time()


def test_a_source_topic_that_is_another_one_by_now_contradicts_no_copy_and_is_copied_as_a_whole(
    cluster_a, topic, tmp_path
):
    """The takeover has a doubt of the map, and where the record lay that was copied last the new topic has another."""
    name = topic("again")
    create_topic(cluster_a, name, 1)
    new = [b"new-%d" % number for number in range(60)]
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        settings = {"tasks.max": "1", "sync.group.offsets.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        mirror = Running(file, log=tmp_path / "first.log")
        write_transactions(cluster_a, name, 1, 0)
        until(lambda: ends(one, copy) == {0: 4}, "the first four", PATIENCE_SECONDS)
        until(lambda: not ends(one, INTERNAL)[0] < 8, "they are on record", PATIENCE_SECONDS)
        kept = ends(one, INTERNAL)[0]
        write_transactions(cluster_a, name, 6, 4)
        until(lambda: ends(one, copy) == {0: 28}, "all", PATIENCE_SECONDS)
        mirror.kill_all()
        broker.kill()
        cut_log(broker, INTERNAL, kept)
        delete_topic(cluster_a, name)
        create_topic(cluster_a, name, 1)
        write(cluster_a, name, new)
        broker.start()
        with Running(file, log=tmp_path / "second.log") as mirror:
            whole = [*records(28), *new]
            until(lambda: [value for _, value in copied(one, copy)] == whole, "all of the new one", PATIENCE_SECONDS)
            write(cluster_a, name, [b"more"])
            until(lambda: [value for _, value in copied(one, copy)] == [*whole, b"more"], "goes on", PATIENCE_SECONDS)
            assert len(of_kind(file, name, "source-recreated")) == 1
            assert of_kind(file, name, "may-repeat") == []
            mirror.stop_in_time()


def first_read(cluster: LabCluster, copy: str, group: str) -> bytes | None:
    """What a client reads first that goes on where a group stands."""
    (offset,) = committed(cluster, group, copy).values()
    log = until(lambda: copied(cluster, copy), "the copy can be read", PATIENCE_SECONDS)
    return next(value for at, value in log if at >= offset)


@pytest.mark.long
def test_groups_read_on_at_their_records_after_the_map_has_lost_the_begin_of_a_writer_epoch(cluster_a, topic, tmp_path):
    """The driver lives on, and puts there again what it had read; duties and operations read nothing but the topic."""
    name, follows, moved = topic("begun"), topic("g"), topic("g")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        settings = SETTINGS | {"groups": f"{follows}|{moved}"}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        mirror = Running(file, log=tmp_path / "first.log")
        write_transactions(cluster_a, name, 1, 0)
        until(lambda: ends(one, copy) == {0: 4}, "the first four", PATIENCE_SECONDS)
        mirror.kill_all()
        with Running(file, log=tmp_path / "second.log") as mirror:
            write_transactions(cluster_a, name, 1, 4)
            until(lambda: len(copied(one, copy)) == 8, "taken over", PATIENCE_SECONDS)
            kept = begin_of_newest_epoch(one)
            write_transactions(cluster_a, name, 5, 8)
            until(lambda: last_on_record(one, name) >= 33, "all is on record", PATIENCE_SECONDS)
            log = {record.value: record.offset for record in read(cluster_a, name)[0]}
            written = ends(one, INTERNAL)[0]
            until(lambda: lives_since(one, written) > 1, "the driver has read it", PATIENCE_SECONDS)
            broker.kill()
            cut_log(broker, INTERNAL, kept)
            broker.start()
            until(lambda: of_kind(file, "", "note"), "the loss is noticed", PATIENCE_SECONDS)
            write_transactions(cluster_a, name, 1, 28)
            until(lambda: len(copied(one, copy)) == 32, "the epoch goes on", PATIENCE_SECONDS)
            due, later = records(1, 14)[0], records(1, 22)[0]
            commit(cluster_a, follows, name, {0: log[due]})
            until(lambda: committed(one, follows, copy), "the group has followed", PATIENCE_SECONDS)
            assert first_read(one, copy, follows) == due
            mirror.stop_in_time()
        commit(cluster_a, moved, name, {0: log[later]})
        over = sparkmirror("failover", file, "--from", "a", "--to", "o", "--force", "--yes", "--report", tmp_path)
        assert over.returncode == 0, over.stdout + over.stderr
        assert first_read(one, copy, moved) == later
        (report,) = tmp_path.glob("failover-*.json")
        assert '"exact": true' in report.read_text()
        assert '"exact": false' not in report.read_text()


@pytest.mark.long
def test_no_group_is_called_exact_in_what_is_lost_before_a_place_to_which_an_order_led(cluster_a, topic, tmp_path):
    """The driver stands still, so that nobody puts there again what it has read; the lane that began anew goes on."""
    name = topic("anew")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        settings = {"tasks.max": "1", "sync.group.offsets.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        with Running(file, log=tmp_path / "first.log") as mirror:
            write_transactions(cluster_a, name, 1, 0)
            until(lambda: last_on_record(one, name) == 3, "the first four are on record", PATIENCE_SECONDS)
            kept = ends(one, INTERNAL)[0]
            write_transactions(cluster_a, name, 2, 4)
            until(lambda: ends(one, copy) == {0: 12}, "eight more", PATIENCE_SECONDS)
            mirror.stop_in_time()
        write_transactions(cluster_a, name, 1, 12)
        ordered = sparkmirror("positions", "set", file, "--topic", name, "--to", "latest")
        assert ordered.returncode == 0, ordered.stdout + ordered.stderr
        with Running(file, log=tmp_path / "second.log") as mirror:
            write_transactions(cluster_a, name, 1, 16)
            until(lambda: last_on_record(one, name) == 23, "it goes on where the order led", PATIENCE_SECONDS)
            os.kill(mirror.pid, signal.SIGSTOP)
            broker.kill()
            cut_log(broker, INTERNAL, kept)
            broker.start()
            write_transactions(cluster_a, name, 1, 20)
            until(lambda: last_on_record(one, name) == 28, "and beyond the loss", PATIENCE_SECONDS)
            here = {record.value: record.offset for record in read(cluster_a, name)[0]}
            there = {value: offset for offset, value in copied(one, copy)}
            found = told(file, name, here.values())
            log = "\n".join(f"{each.offset} {each.key!r} {each.value!r}" for each in read(one, INTERNAL)[0])
            mirror.kill_all()
    for number, value in enumerate(records(24)):
        led = found[here[value]]
        right = there[value] if value in there else there[records(1, 16)[0]]
        said = f"record {number}, at {right} on the target, is led to {led}, by a topic cut at {kept}:\n{log}"
        assert isinstance(led, Translated), said
        assert led.offset == right if led.place.exact else led.offset <= right, said
        assert led.place.exact or 4 <= number < 20, said
        assert not (led.place.exact and 4 <= number < 12), said


NO_PROGRESS_BYTES = 340
"""A batch with an entry of the map is smaller, and one with progress is larger."""

SEEN_SECONDS = 3.0


def test_the_end_that_a_takeover_finds_is_on_record_with_what_the_map_has_lost_before_it(cluster_a, topic, tmp_path):
    """A lane dies whose last progress is refused; the driver knows its entries, and stands still after the takeover."""
    name = topic("ended")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,), copy = one.brokers, f"a.{name}"
        settings = {"tasks.max": "1", "sync.group.offsets.enabled": "false"}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        with Running(file, log=tmp_path / "run.log") as mirror:
            write_transactions(cluster_a, name, 1, 0)
            until(lambda: last_on_record(one, name) == 3, "the first four are on record", PATIENCE_SECONDS)
            kept = ends(one, INTERNAL)[0]
            set_limit(one, INTERNAL, NO_PROGRESS_BYTES)
            time.sleep(SEEN_SECONDS)  # by the broker
            write_transactions(cluster_a, name, 3, 4)
            until(lambda: ends(one, copy) == {0: 16}, "all is copied", PATIENCE_SECONDS)
            time.sleep(SEEN_SECONDS)  # what was written ahead, by the driver
            assert last_on_record(one, name) == 3
            for worker in mirror.lane_workers():
                os.kill(worker, signal.SIGKILL)
            broker.kill()
            cut_log(broker, INTERNAL, kept)
            broker.start()
            set_limit(one, INTERNAL, 1 << 20)
            until(lambda: has_an_end(one, name), "the takeover has found the end", PATIENCE_SECONDS)
            os.kill(mirror.pid, signal.SIGSTOP)
            here = {record.value: record.offset for record in read(cluster_a, name)[0]}
            there = {value: offset for offset, value in copied(one, copy)}
            found = told(file, name, here.values())
            mirror.kill_all()
    assert {value: found[at] for value, at in here.items()} == {
        value: Translated(at, Place.RECORD) for value, at in there.items()
    }


def entries(cluster: LabCluster, kind: str, name: str) -> list[dict[str, Any]]:
    """What the internal topic says of a kind and a topic; nothing while it cannot be read."""
    try:
        return [value for key, value in journal(cluster, INTERNAL).items() if key[:2] == (kind, name)]
    except LabError:
        return []


def has_an_end(cluster: LabCluster, name: str) -> bool:
    return any(one["target"] is None for one in entries(cluster, "targets", name))


@pytest.mark.long
def test_what_a_killed_run_left_is_not_believed_after_the_topic_had_lost_the_record_of_its_start(
    cluster_a, topic, tmp_path
):
    """The topic falls back to the clean end of the run before, the driver lives on, and is killed while it copies."""
    name = topic("begun")
    create_topic(cluster_a, name, 1)
    with start("one") as one:
        (broker,) = one.brokers
        settings = {"tasks.max": "1", "replication.policy.class": IDENTITY}
        file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "o": one}, {"a->o": name}, settings)
        with Running(file, log=tmp_path / "first.log") as mirror:
            write(cluster_a, name, records(50))
            until(lambda: ends(one, name) == {0: 50}, "the first ones", PATIENCE_SECONDS)
            mirror.stop_in_time()
        kept = ends(one, INTERNAL)[0]
        with Running(file, log=tmp_path / "second.log") as mirror:
            write(cluster_a, name, records(50, 50))
            until(lambda: len(copied(one, name)) == 100, "those of the second run", PATIENCE_SECONDS)
            broker.kill()
            cut_log(broker, INTERNAL, kept)
            broker.start()
            until(lambda: is_begun(one, 2), "the start is on record again", PATIENCE_SECONDS)
            for first in range(100, 200, 5):
                write(cluster_a, name, records(5, first))
            until(lambda: len(copied(one, name)) > 100, "it copies", PATIENCE_SECONDS)
            mirror.kill_all()
        with Running(file, log=tmp_path / "third.log") as mirror:
            write(cluster_a, name, records(20, 200))
            until(lambda: len(copied(one, name)) >= 220, "all", PATIENCE_SECONDS)
            mirror.stop_in_time()
        assert [value for _, value in copied(one, name)] == records(220)


def is_begun(cluster: LabCluster, generation: int) -> bool:
    """Whether the start of a generation is on record, and no clean end."""
    try:
        entries = journal(cluster, INTERNAL)
    except LabError:
        return False
    flow, ended = entries.get(("flow",)), entries.get(("stopped",))
    return flow is not None and flow["generation"] == generation and ended is None
