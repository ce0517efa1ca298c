"""The internal topic has lost all that it had of a partition, whose copy is there: it does not begin once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.config import FlowConfig
from sparkmirror.copy.plan import group_of
from sparkmirror.flow import unexplained
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import OffsetSpec
from sparkmirror.kafka.tails import LogCache
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.tail import Tail
from tests.batches.building import one
from tests.flow.running import create_topic
from tests.flow.test_events import delete_topic, records, write
from tests.flow.test_first_positions import LATEST, Drivers
from tests.raw_batches import produce

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
OURS, OLDER, ANOTHERS = (
    Writer(producer_id=7, epoch=4),
    Writer(producer_id=7, epoch=3),
    Writer(producer_id=9, epoch=40),
)


def test_batches_of_the_flow_are_those_of_its_writers_since_its_first_start_on_record():
    wrote = {HERE: [OLDER, ANOTHERS], THERE: [OURS, ANOTHERS]}
    assert unexplained.of_flow(wrote, (7, 8), [OLDER]) == {THERE: OURS}
    assert unexplained.of_flow(wrote, (7, 8), ()) == {HERE: OLDER, THERE: OURS}


@pytest.mark.parametrize(
    ("offsets", "size", "reached"),
    [
        (200, 1_000, 800),
        (200, unexplained.MOST_BYTES // 3, 750),
        (200, unexplained.MOST_BYTES // 2, 500),
        (200, unexplained.MOST_BYTES - 1, 250),
        (200, 0, 800),
        (0, 0, 1),
    ],
)
def test_a_log_is_read_four_times_as_far_back_but_not_much_more_than_the_most(offsets: int, size: int, reached: int):
    assert unexplained.reach(offsets, size) == reached


def test_a_log_is_read_back_to_its_begin_or_until_enough_was_read():
    cache = LogCache()
    whole = Tail(start=5, high_watermark=50, batches=(), since=5)
    part = replace(whole, since=40)
    assert unexplained.further_back({HERE: whole, THERE: part}, cache, ()) == {THERE: 10}
    assert unexplained.further_back({THERE: replace(part, since=20)}, cache, ()) == {THERE: 5}
    assert unexplained.further_back({THERE: part}, cache, {THERE}) == {}


@pytest.mark.parametrize(
    ("size", "further"), [(unexplained.MOST_BYTES - 1, {THERE: 938}), (unexplained.MOST_BYTES, {})]
)
def test_a_log_is_read_back_until_all_that_is_promised_was_read(
    monkeypatch: pytest.MonkeyPatch, size: int, further: dict[TopicPartition, int]
):
    cache = LogCache()
    monkeypatch.setattr(cache, "size", lambda _there: size)
    tail = Tail(start=0, high_watermark=1_000, batches=(), since=950)
    assert unexplained.further_back({THERE: tail}, cache, ()) == further


class Copied(Drivers):
    """The same, and copies that the internal topic does not know of."""

    def copy(self, writer: Writer, sequence: int = 0) -> None:
        """A lane of that writer copies a record."""
        batch = one(0, producer=(writer.producer_id, writer.epoch, sequence))
        produce(self._target, self.there.topic, batch)

    def writer(self, first: tuple[Writer, ...]) -> Writer:
        """The one of these that has the partition."""
        return first[group_of(self.here, len(first))]

    @property
    def end(self) -> int:
        """Of the copy."""
        return admin.list_offsets(self._target, [self.there], OffsetSpec.LATEST)[self.there]


@pytest.fixture
def drivers(
    lab_flow: FlowConfig,
    lab_cluster: Callable[[str], Cluster],
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    topic: Callable[[str], str],
) -> Copied:
    made = Copied(lab_flow, lab_cluster, topic("unexplained"))
    create_topic(cluster_a, made.name)
    create_topic(cluster_b, made.there.topic)
    write(cluster_a, made.name, [0], records(5))
    return made


@pytest.mark.kafka
@pytest.mark.parametrize("change", [{}, {"start": LATEST}, {"topics_append": ("unexplained.*",)}])
@pytest.mark.parametrize("restarts", [True, False], ids=["at a start", "found while the flow runs"])
def test_a_copy_of_which_nothing_is_on_record_stands_still(drivers: Copied, change: dict[str, Any], restarts: bool):
    drivers.flow = replace(drivers.flow, **change)
    opened, planning = drivers.starts()
    drivers.copy(drivers.writer(opened.first))
    if restarts:
        _, planning = drivers.starts()
    for _ in range(2):
        planned = drivers.plan(planning)
        assert planned.plans == ()
        (event, _seconds) = planned.waiting[drivers.here]
        assert "has lost all that it had of this partition" in event.text
    assert drivers.on_record() is None


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("others", "remembered"),
    [(300, True), (150, False), (20_000, False)],
    ids=["by its leader", "by its newest batches", "further back"],
)
def test_a_copy_is_known_behind_which_others_have_written(
    drivers: Copied, cluster_b: LabCluster, monkeypatch: pytest.MonkeyPatch, others: int, remembered: bool
):
    opened, _ = drivers.starts()
    drivers.copy(drivers.writer(opened.first))
    write(cluster_b, drivers.there.topic, [0], records(others))
    if not remembered:
        monkeypatch.setattr(unexplained, "_remembered", lambda *_: {})
    _, planning = drivers.starts()
    (event, _seconds) = drivers.plan(planning).waiting[drivers.here]
    assert "no segment on record" in event.text


@pytest.mark.kafka
def test_large_records_of_others_are_looked_at_in_turns(
    drivers: Copied, cluster_b: LabCluster, monkeypatch: pytest.MonkeyPatch
):
    drivers.flow = replace(drivers.flow, start=LATEST)
    monkeypatch.setattr(unexplained, "TURN_MS", 0)
    write(cluster_b, drivers.there.topic, [0], [b"%d" % number * 50_000 for number in range(100, 250)])
    _, planning = drivers.starts()
    turns = 0
    while not (planned := drivers.plan(planning)).plans:
        (event, _seconds) = planned.waiting[drivers.here]
        assert "is read back" in event.text
        assert drivers.here in planned.nearer
        turns += 1
        assert turns < 50, "each look goes on where the last one has stopped"
    assert turns > 1
    assert (planned.plans[0].position, drivers.end) == (5, 150)


@pytest.mark.kafka
@pytest.mark.parametrize("starts", [1, 2], ids=["at its first start", "at a later one"])
def test_what_the_flow_copied_before_its_internal_topic_was_deleted_stops_nothing(
    drivers: Copied, cluster_b: LabCluster, starts: int
):
    opened, _ = drivers.starts()
    drivers.copy(drivers.writer(opened.first))
    delete_topic(cluster_b, internal_topic(drivers.flow.name))
    for _ in range(starts):
        opened, planning = drivers.starts()
    assert drivers.writer(opened.before).epoch == drivers.writer(opened.first).epoch - starts
    (plan,) = drivers.plan(planning).plans
    assert plan.position == 0
    assert drivers.end == 1, "nobody was fenced"


@pytest.mark.kafka
def test_records_of_others_are_neither_fenced_nor_waited_for(drivers: Copied, cluster_b: LabCluster):
    drivers.flow = replace(drivers.flow, start=LATEST)
    write(cluster_b, drivers.there.topic, [0], [b"another's"])
    _, planning = drivers.starts()
    (plan,) = drivers.plan(planning).plans
    assert (plan.position, drivers.end) == (5, 1)
