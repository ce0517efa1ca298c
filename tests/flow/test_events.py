"""What happens to topics while a mirror runs: each event is told once with its offsets, and heals without a restart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition

from sparkmirror import config
from sparkmirror.cli.status import event_lines
from sparkmirror.flow.status import read
from sparkmirror.flow.view import EventStatus, FlowStatus
from sparkmirror.lab.cluster import LabCluster
from tests.flow import logs
from tests.flow.running import Running, admin_of, create_topic, ends, until, write_file

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PATIENCE_SECONDS = 120.0


def write(cluster: LabCluster, topic: str, partitions: Sequence[int], values: Sequence[bytes]) -> None:
    """Writes the values to each of the partitions."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "acks": "all"})
    for value in values:
        for partition in partitions:
            producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


def told(file: Path) -> FlowStatus:
    """The only flow of a file, as ``status`` finds it."""
    (flow,) = read(config.load([str(file)]))
    return flow


def of_kind(file: Path, topic: str, kind: str) -> list[EventStatus]:
    return [event for event in told(file).events if (event.topic, event.kind) == (topic, kind)]


def delete_records(cluster: LabCluster, name: str, before: int) -> None:
    """Deletes what lies below an offset of partition 0, as retention would."""
    admin = admin_of(cluster)
    for future in admin.delete_records([TopicPartition(name, 0, before)]).values():
        future.result(60)


def delete_topic(cluster: LabCluster, name: str) -> None:
    admin = admin_of(cluster)
    for future in admin.delete_topics([name]).values():
        future.result(60)
    until(lambda: not ends(cluster, name), f"{name} is gone", 240)


def read_all(cluster: LabCluster, name: str) -> dict[int, list[bytes | None]]:
    """The values of each partition."""
    return {number: [record.value for record in records] for number, records in logs.read(cluster, name).items()}


def records(number: int, start: int = 0) -> list[bytes]:
    return [b"%d" % (start + index) for index in range(number)]


def test_what_happens_to_topics_is_told_once_with_its_offsets_and_heals(cluster_a, cluster_c, topic, tmp_path):
    anew, refilled, overtaken, shared, calm = (
        topic(f"event-{name}") for name in "anew refilled overtaken shared calm".split()
    )
    create_topic(cluster_a, anew, 3)
    for name in (refilled, overtaken, shared, calm):
        create_topic(cluster_a, name)
    create_topic(cluster_c, f"a.{overtaken}", config={"max.message.bytes": "2000"})
    write(cluster_a, anew, (0, 1, 2), records(30))
    for name in (refilled, shared, calm):
        write(cluster_a, name, (0,), records(30))
    for values in (records(10), [b"x" * 50_000], records(19)):
        write(cluster_a, overtaken, (0,), values)
    names = f"{anew},{refilled},{overtaken},{shared},{calm}"
    file = write_file(tmp_path / "mm2.properties", {"a": cluster_a, "c": cluster_c}, {"a->c": names})

    def holds(name: str, wanted: dict[int, int]) -> None:
        def as_wanted() -> bool:
            return {number: len(values) for number, values in read_all(cluster_c, f"a.{name}").items()} == wanted

        until(as_wanted, f"{name} has {wanted} records", PATIENCE_SECONDS)

    with Running(file, log=tmp_path / "run.log") as mirror:
        holds(anew, {0: 30, 1: 30, 2: 30})
        for name, end in ((refilled, 30), (shared, 30), (calm, 30), (overtaken, 10)):
            holds(name, {0: end})
        until(lambda: of_kind(file, overtaken, "record-too-large"), "the record that is too large is on record")

        delete_records(cluster_a, overtaken, 20)
        delete_topic(cluster_c, f"a.{refilled}")
        delete_topic(cluster_a, anew)
        create_topic(cluster_a, anew, 2)
        write(cluster_a, anew, (0, 1), records(20, 1_000))
        write(cluster_c, f"a.{shared}", (0,), records(3))
        for name in (refilled, shared, calm):
            write(cluster_a, name, (0,), records(5, 100))

        holds(calm, {0: 35})
        holds(shared, {0: 38})
        holds(overtaken, {0: 20})
        holds(anew, {0: 50, 1: 50, 2: 30})
        holds(refilled, {0: 35})
        until(lambda: of_kind(file, anew, "source-shrank"), "the partition that is gone is told of", PATIENCE_SECONDS)
        until(lambda: of_kind(file, overtaken, "goes-on"), "it is told that a partition goes on", PATIENCE_SECONDS)
        mirror.stop_in_time()

    assert_told(file, anew, refilled, overtaken, shared, calm)
    assert read_all(cluster_c, f"a.{refilled}") == {0: [*records(30), *records(5, 100)]}
    assert read_all(cluster_c, f"a.{overtaken}") == {0: [*records(10), *records(10, 9)]}
    for event in told(file).events:  # the flow has those of other tests on record too
        if event.topic in names.split(",") and event.kind in ("source-retention", "target-recreated", "foreign-writer"):
            assert len(re.findall(re.escape(event.text), mirror.output)) == 1, f"told once: {event.text}"
    assert "Traceback" not in mirror.output


def assert_told(file: Path, anew: str, refilled: str, overtaken: str, shared: str, calm: str) -> None:
    """Every event is on record, with its offsets, and is shown."""
    events = {(event.kind, event.place): event for event in told(file).events}
    (gap,) = of_kind(file, overtaken, "source-retention")
    assert (gap.first, gap.last) == (10, 19)
    assert "at most 10 records are missing" in gap.text
    for number in (0, 1):
        again = events["source-recreated", f"{anew}-{number}"]
        assert (again.first, again.last) == (30, 30)
        assert "going on from its oldest record, offset 0" in again.text
    assert "made anew with 2 partitions" in events["source-shrank", f"{anew}-2"].text
    refill = events["target-recreated", f"{refilled}-0"]
    assert (refill.first, refill.last) == (0, 29)
    assert "copying again from the source's oldest record, offset 0" in refill.text
    other = events["foreign-writer", f"{shared}-0"]
    assert other.first is not None
    assert other.last == other.first + 2
    assert not [event for event in events.values() if event.topic == calm]
    shown = "\n".join(event_lines(told(file)))
    assert gap.text in shown
    assert f"[target-recreated] {refilled}-0:" in shown
