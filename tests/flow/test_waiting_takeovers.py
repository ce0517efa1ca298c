"""Partitions that wait after they were fenced: long logs are read in turns, and nobody is fenced twice for nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sparkmirror.config import FlowConfig
from sparkmirror.copy.plan import group_of
from sparkmirror.flow import takeover
from sparkmirror.flow.opening import Opened
from sparkmirror.flow.planning import Planned, Planning
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from tests.flow.running import create_topic
from tests.flow.test_events import delete_topic, records, write
from tests.flow.test_first_positions import LATEST
from tests.flow.test_unexplained import Copied

pytestmark = pytest.mark.kafka

TURNS = 40
"""More than a log of these tests needs."""


@pytest.fixture
def drivers(
    lab_flow: FlowConfig,
    lab_cluster: Callable[[str], Cluster],
    cluster_a: LabCluster,
    cluster_b: LabCluster,
    topic: Callable[[str], str],
) -> Copied:
    made = Copied(replace(lab_flow, start=LATEST), lab_cluster, topic("waiting"))
    create_topic(cluster_a, made.name)
    create_topic(cluster_b, made.there.topic)
    write(cluster_a, made.name, [0], records(5))
    return made


@pytest.fixture
def others(cluster_b: LabCluster, drivers: Copied, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Writes a log of others' records that no turn reads to its end; each turn is as short as can be."""
    monkeypatch.setattr(takeover, "TURN_MS", 0)

    def write_them() -> int:
        write(cluster_b, drivers.there.topic, [0], [b"%d" % number * 500 for number in range(6_000)])
        return drivers.end

    return write_them


def with_lost_runs(drivers: Copied) -> tuple[Opened, Planning]:
    """A driver starts whose internal topic may know nothing of runs that have copied."""
    opened, planning = drivers.starts()
    opened.lost_runs = True
    return opened, planning


def in_turns(drivers: Copied, planning: Planning) -> tuple[Planned, int]:
    """Tries until the log is read; the last answer, and how many tries there were before."""
    for turn in range(TURNS):
        planned = drivers.plan(planning)
        if not planned.nearer:
            return planned, turn
        (event, seconds) = planned.waiting[drivers.here]
        assert "read back" in event.text
        assert seconds == takeover.BETWEEN_TURNS_SECONDS
    raise AssertionError("it never comes to an end")


def reason(drivers: Copied, planned: Planned) -> str:
    """Why the partition waits."""
    (event, _seconds) = planned.waiting[drivers.here]
    return event.text


def test_a_long_log_of_others_is_read_in_turns_behind_one_fence(drivers: Copied, others: Callable[[], int]):
    written = others()
    _, planning = with_lost_runs(drivers)
    planned, turns = in_turns(drivers, planning)
    (plan,) = planned.plans
    assert turns > 1
    assert (plan.position, drivers.end) == (5, written + 1)
    drivers.copy(plan.writer)
    planning.resuming.hand_out([drivers.here])
    drivers.plan(planning)
    assert drivers.end == written + 3, "a lane has had it since: that needs a fence"


def test_a_batch_of_the_flow_is_found_below_a_long_log_of_others(drivers: Copied, others: Callable[[], int]):
    opened, _ = drivers.starts()
    drivers.copy(drivers.writer(opened.first))
    written = others()
    _, planning = with_lost_runs(drivers)
    planned, turns = in_turns(drivers, planning)
    assert turns > 1
    assert "no segment on record" in reason(drivers, planned)
    assert "no segment on record" in reason(drivers, drivers.plan(planning)), "at once, now that it was read"
    assert drivers.end == written + 1


def test_others_may_write_while_a_log_is_read(drivers: Copied, others: Callable[[], int], cluster_b: LabCluster):
    others()
    _, planning = with_lost_runs(drivers)
    for _ in range(3):
        assert drivers.plan(planning).nearer
        write(cluster_b, drivers.there.topic, [0], records(50))
    written = drivers.end
    planned, _ = in_turns(drivers, planning)
    assert len(planned.plans) == 1
    assert drivers.end == written


def test_a_partition_that_needs_an_operator_is_fenced_once_in_a_run(drivers: Copied):
    opened, _ = drivers.starts()
    drivers.copy(drivers.writer(opened.first))
    for run in (1, 2):
        opened, planning = drivers.starts()
        newest = opened.writers.newest
        for _ in range(4):
            assert "no segment on record" in reason(drivers, drivers.plan(planning))
        assert drivers.end == 1 + run
        (used,) = (one for one, old in zip(opened.writers.newest, newest, strict=True) if one != old)
        assert used == replace(drivers.writer(newest), epoch=drivers.writer(newest).epoch + 1), (
            "nor is an epoch used up"
        )


def test_what_the_flow_has_written_behind_a_fence_needs_another_one(drivers: Copied):
    """Whoever it was: a lane of an id that the fence does not concern, or another driver."""
    opened, _ = drivers.starts()
    drivers.copy(drivers.writer(opened.first))
    opened, planning = drivers.starts()
    drivers.plan(planning)
    group = group_of(drivers.here, len(opened.first))
    drivers.copy(opened.first[group - 1])
    assert "behind the fence" in reason(drivers, drivers.plan(planning))
    assert drivers.end == 3
    for _ in range(2):
        assert "no segment on record" in reason(drivers, drivers.plan(planning))
    assert drivers.end == 4


def test_a_fence_that_leaders_may_forget_soon_is_made_again(drivers: Copied):
    opened, _ = drivers.starts()
    drivers.copy(drivers.writer(opened.first))
    opened, planning = drivers.starts()
    drivers.plan(planning)
    opened.facts.guarded_ms = 0
    drivers.plan(planning)
    assert drivers.end == 3


def test_a_partition_whose_start_is_refused_is_fenced_once(drivers: Copied, cluster_a: LabCluster):
    opened, planning = drivers.starts()
    (plan,) = drivers.plan(planning).plans
    drivers.copy(plan.writer)
    planning.resuming.hand_out([drivers.here])
    delete_topic(cluster_a, drivers.name)
    for _ in range(3):
        assert drivers.plan(planning).plans == ()
    assert drivers.end == 2
    assert drivers.writer(opened.writers.newest) == replace(plan.writer, epoch=plan.writer.epoch + 1)
