"""Somebody who may write to copies forges batches by the flow's own writer: no record of the source is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from sparkmirror.flow.view import EventStatus
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import TopicPartition, Writer
from tests.batches.building import Rec, Written
from tests.flow.logs import raw, read
from tests.flow.running import Running, create_topic, ends, reaches, until, write_file
from tests.flow.test_events import delete_topic, of_kind, told, write
from tests.kafka.writing import send

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NO_TIME = -1
SECONDS = 120.0
PARTITIONS = 16


def writer_of(cluster: Cluster, copy: str) -> tuple[Writer, int]:
    """Who has written the last data batch, and the sequence number that comes next."""
    last = [batch for batch in raw(cluster, copy, 0) if batch.base_sequence >= 0][-1]
    return Writer(producer_id=last.producer_id, epoch=last.producer_epoch), last.base_sequence + last.records


def forge(cluster: Cluster, copy: str, records: int = 1, *, time_ms: int | None = None, epochs: int = 0) -> None:
    """Writes the batch that the mirror would write next, or one of an epoch that it has not been given yet."""
    writer, sequence = writer_of(cluster, copy)
    now = int(time.time() * 1000) if time_ms is None else time_ms
    forged = Written(
        records=tuple(Rec(number, now, None, b"forged") for number in range(records)),
        producer=(writer.producer_id, writer.epoch + epochs, 0 if epochs else sequence),
    )
    assert send(cluster, TopicPartition(copy, 0), forged.encode()).code == 0


def values(cluster, name: str) -> list[bytes | None]:
    return [record.value for record in read(cluster, name)[0]]


def missing(source, target, name: str) -> set[bytes | None]:
    return set(values(source, name)) - set(values(target, f"a.{name}"))


def all_arrive(source, target, *names: str) -> None:
    until(lambda: not any(missing(source, target, name) for name in names), "all records arrive", SECONDS)


def event_of(file: Path, name: str) -> EventStatus:
    (event,) = until(lambda: of_kind(file, name, "forged-batch"), f"it is told of {name}", SECONDS)
    return event


def on_record(file: Path, *names: str) -> bool:
    """Whether the three first records of each partition are."""
    return {one.position for one in told(file).partitions if one.topic in names} == {3}


def reaches_all(cluster, copy: str, records: int) -> None:
    """Waits until each partition has so many records."""
    until(lambda: {len(some) for some in read(cluster, copy).values()} == {records}, f"all of {copy}", SECONDS)


def flat(mirror: Running) -> str:
    return " ".join(mirror.output.split())


def numbers(begin: int, end: int) -> Sequence[bytes]:
    return [b"%d" % number for number in range(begin, end)]


FORGED: Mapping[str, Callable[[Cluster, str], None]] = {
    "in-time": forge,
    "timeless": lambda cluster, copy: forge(cluster, copy, time_ms=NO_TIME),
    "longer": lambda cluster, copy: forge(cluster, copy, 2),
}


def test_nothing_is_left_out_behind_batches_that_were_forged_while_nothing_came(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    names = {each: topic(each) for each in FORGED}
    calm = topic("calm")
    for name in (*names.values(), calm):
        create_topic(cluster_a, name)
        write(cluster_a, name, (0,), numbers(0, 3))
    file = write_file(
        tmp_path / "mm2.properties",
        {"a": cluster_a, "b": cluster_b},
        {"a->b": ",".join((*names.values(), calm))},
        {"tasks.max": "1"},
    )
    with Running(file, log=tmp_path / "run.log") as mirror:
        for name in (*names.values(), calm):
            reaches(cluster_b, f"a.{name}", 3)
        time.sleep(2)  # a pause, as a topic has that little is written to
        for kind, name in names.items():
            FORGED[kind](lab_cluster("B"), f"a.{name}")
        for name in (*names.values(), calm):
            write(cluster_a, name, (0,), numbers(3, 6))
        all_arrive(cluster_a, cluster_b, *names.values(), calm)
        for kind, name in names.items():
            event = event_of(file, name)
            assert "somebody who may write to the copy has forged batches of this flow" in event.text
            assert (event.first, event.last) == (3, 4 if kind == "longer" else 3)
        assert not [event for event in told(file).events if event.topic == calm]
        mirror.stop_in_time()
    for name in (*names.values(), calm):
        own = [value for value in values(cluster_b, f"a.{name}") if value != b"forged"]
        assert own == list(numbers(0, 6)), "each once, in order"


def test_a_takeover_does_not_believe_batches_that_were_forged_while_the_flow_was_down(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    """Of one topic the source has come further meanwhile; of another it has not yet got what was forged."""
    behind, ahead, calm = (topic(each) for each in ("behind", "ahead", "calm"))
    names = (behind, ahead, calm)
    for name in names:
        create_topic(cluster_a, name)
        write(cluster_a, name, (0,), numbers(0, 3))
    file = write_file(
        tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": ",".join(names)}, {"tasks.max": "1"}
    )
    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: on_record(file, *names), "what was copied is on record", SECONDS)
        mirror.kill_all()
    for name in (behind, ahead):
        forge(lab_cluster("B"), f"a.{name}", 2)
    for name in (behind, calm):
        write(cluster_a, name, (0,), numbers(3, 9))
    with Running(file, log=tmp_path / "second.log") as mirror:
        all_arrive(cluster_a, cluster_b, *names)
        for name in (behind, ahead):
            event = event_of(file, name)
            assert (event.first, event.last) == (3, 4)
        write(cluster_a, ahead, (0,), numbers(3, 9))
        all_arrive(cluster_a, cluster_b, ahead)
        mirror.stop_in_time()
    for name in (behind, ahead):
        assert values(cluster_b, f"a.{name}") == [*numbers(0, 3), b"forged", b"forged", *numbers(3, 9)]
    assert values(cluster_b, f"a.{calm}") == list(numbers(0, 9))


def test_an_epoch_that_was_forged_keeps_its_own_partition_until_its_copy_is_made_anew(
    cluster_a, cluster_b, lab_cluster, topic, tmp_path
):
    """The others of its group are taken over with it: a fence that one leader refuses would be complete for none."""
    forged, calm = topic("forged"), topic("calm")
    create_topic(cluster_a, forged)
    create_topic(cluster_a, calm, PARTITIONS)
    file = write_file(
        tmp_path / "mm2.properties", {"a": cluster_a, "b": cluster_b}, {"a->b": f"{forged},{calm}"}, {"tasks.max": "1"}
    )
    write(cluster_a, forged, (0,), numbers(0, 3))
    write(cluster_a, calm, range(PARTITIONS), numbers(0, 3))
    with Running(file, log=tmp_path / "first.log") as mirror:
        until(lambda: on_record(file, forged, calm), "what was copied is on record", SECONDS)
        mirror.kill_all()
    forge(lab_cluster("B"), f"a.{forged}", epochs=100)
    write(cluster_a, forged, (0,), numbers(3, 6))
    write(cluster_a, calm, range(PARTITIONS), numbers(3, 6))
    with Running(file, log=tmp_path / "second.log") as mirror:
        reaches_all(cluster_b, f"a.{calm}", 6)
        until(lambda: "somebody who may write to the topic has forged batches" in flat(mirror), "it is told", SECONDS)
        assert values(cluster_b, f"a.{forged}") == [*numbers(0, 3), b"forged"]
        delete_topic(cluster_b, f"a.{forged}")
        until(lambda: ends(cluster_b, f"a.{forged}").get(0, 0) >= 6, "its copy is made anew", SECONDS)
        assert values(cluster_b, f"a.{forged}") == list(numbers(0, 6))
        mirror.stop_in_time()
