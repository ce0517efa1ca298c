"""The recovery point of a flow: from what lanes tell, from what is on record, and with real brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Container, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.copy.plan import PartitionPlan, ShiftPlan
from sparkmirror.flow.recovery import Recovery
from sparkmirror.flow.shift import LaneOfShifts, Shift
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.records import Life, Progress
from sparkmirror.offsets.recovery import UNKNOWN_MS, RecoveryPoint
from sparkmirror.offsets.state import JournalState, state_of
from tests.flow.running import Running, create_topic, reaches, until, write_file
from tests.flow.test_once import produce
from tests.invoking import sparkmirror

WRITER = Writer(producer_id=7, epoch=0)
FIRST, SECOND, THIRD = (TopicPartition("orders", number) for number in range(3))
NOW_MS = 1_700_000_000_000
EMPTY = state_of([])


def progress(place: TopicPartition, recovery_ms: int, *, behind: int = 0) -> Progress:
    return Progress(
        partition=place,
        writer=WRITER,
        generation=2,
        position=100,
        next_sequence=100,
        end=100 + behind,
        recovery_ms=recovery_ms,
        lane="lane-0.0",
    )


def on_record(*known: Progress) -> dict[TopicPartition, Progress]:
    return {each.partition: each for each in known}


def lane(*partitions: TopicPartition, name: str = "lane-0", carried: int = UNKNOWN_MS) -> LaneOfShifts:
    plans = tuple(
        PartitionPlan(
            source=each, target_topic="A.orders", topic_id="", position=100, writer=WRITER, recovery_ms=carried
        )
        for each in partitions
    )
    plan = ShiftPlan(flow="A->B", run="run", shift=f"{name}.0", generation=2, partitions=plans)
    return LaneOfShifts(name=name, current=Shift(plan=plan, job=Future(), control_end=0), partitions=set(partitions))


def look(
    subject: Recovery,
    *lanes: LaneOfShifts,
    told: Mapping[str, RecoveryPoint] | None = None,
    known: Mapping[TopicPartition, Progress] | None = None,
) -> RecoveryPoint | None:
    subject.look(lanes, (told or {}).get, [FIRST, SECOND], known or {}, NOW_MS)
    return subject.point


def test_what_a_lane_tells_counts_for_its_partitions_and_what_is_on_record_for_the_others():
    known = on_record(progress(FIRST, 10), progress(SECOND, 70))
    told = {"lane-0.0": RecoveryPoint(50, FIRST)}
    assert look(Recovery(None, EMPTY), lane(FIRST), told=told, known=known) == (50, FIRST)
    assert look(Recovery(None, EMPTY), lane(SECOND), told={"lane-0.0": RecoveryPoint(90, SECOND)}, known=known) == (
        10,
        FIRST,
    )


def test_a_lane_that_has_not_told_yet_has_what_it_was_sent_out_with():
    known = on_record(progress(FIRST, 10), progress(SECOND, 70))
    assert look(Recovery(None, EMPTY), lane(FIRST, carried=40), known=known) == (40, FIRST)


def test_a_lane_keeps_what_it_told_while_its_next_shift_has_not_spoken():
    subject, known = Recovery(None, EMPTY), on_record(progress(SECOND, 70))
    before = lane(FIRST)
    assert look(subject, before, told={"lane-0.0": RecoveryPoint(50, FIRST)}, known=known) == (50, FIRST)
    following = lane(FIRST, carried=UNKNOWN_MS)
    following.current.plan = replace(following.current.plan, shift="lane-0.1")
    assert look(subject, following, known=known) == (50, FIRST)


def test_a_lane_that_dies_leaves_its_partitions_where_it_told_last_whatever_their_progress_says():
    subject, known = Recovery(None, EMPTY), on_record(progress(FIRST, 10), progress(SECOND, 70))
    dying = lane(FIRST, SECOND)
    look(subject, dying, told={"lane-0.0": RecoveryPoint(65, FIRST)}, known=known)
    subject.lose(dying)
    assert look(subject, known=known) == (65, FIRST)
    assert subject.floors == {FIRST: 65, SECOND: 65}, "the next plans carry it"
    heir = lane(FIRST, SECOND, name="lane-1", carried=65)
    look(subject, heir, told={"lane-1.0": RecoveryPoint(UNKNOWN_MS, FIRST)}, known=known)
    assert subject.floors == {}, "what a lane tells counts, also when it has to begin anew"
    assert look(subject, heir, told={"lane-1.0": RecoveryPoint(UNKNOWN_MS, FIRST)}, known=known) == (-1, FIRST)


def test_a_partition_of_which_nothing_is_on_record_makes_the_recovery_point_unknown():
    subject = Recovery(None, EMPTY)
    assert look(subject, known=on_record(progress(FIRST, 10))) == (UNKNOWN_MS, SECOND)
    assert (subject.waiting, subject.age_ms(NOW_MS)) == (-1, None)


def test_records_that_wait_are_added_up_over_the_partitions_of_the_flow():
    subject = Recovery(None, EMPTY)
    look(subject, known=on_record(progress(FIRST, 1, behind=5), progress(SECOND, 1, behind=7), progress(THIRD, 1)))
    assert subject.waiting == 12
    gone = progress(THIRD, UNKNOWN_MS, behind=9_000)
    look(subject, known=on_record(progress(FIRST, 1, behind=5), progress(SECOND, 1), gone))
    assert (subject.waiting, subject.point) == (5, RecoveryPoint(1, FIRST)), "a partition that left does not count"


def test_the_age_grows_with_time_alone():
    subject = Recovery(None, EMPTY)
    look(subject, known=on_record(progress(FIRST, NOW_MS - 500), progress(SECOND, NOW_MS)))
    assert [subject.age_ms(NOW_MS + more) for more in (0, 1_000, 60_000)] == [500, 1_500, 60_500]


def before(*known: Progress, recovery_ms: int) -> JournalState:
    """What a run before left behind, that was not ended cleanly."""
    life = Life(generation=2, time_ms=1, state="running", lanes=1, recovery_ms=recovery_ms)
    return state_of([*known, life])


@pytest.mark.parametrize("why", [{"generation": 1}, {"lane": ""}])
def test_what_the_run_before_told_of_the_flow_holds_for_the_partitions_that_its_lanes_had(why: dict[str, Any]):
    excluded = replace(progress(SECOND, 5), **why)
    subject = Recovery(None, before(progress(FIRST, 10), excluded, recovery_ms=60))
    assert subject.floors == {FIRST: 60}
    assert look(subject, known=on_record(progress(FIRST, 10), excluded)) == (5, SECOND)
    assert look(subject, known=on_record(progress(FIRST, 10), progress(SECOND, 80))) == (60, FIRST)


def test_a_run_before_that_told_nothing_leaves_no_floor():
    assert Recovery(None, before(progress(FIRST, 10), recovery_ms=UNKNOWN_MS)).floors == {}
    assert Recovery(None, EMPTY).floors == {}


def test_a_sign_of_life_has_the_recovery_point_and_whose_it_is():
    subject, life = Recovery(None, EMPTY), Life(generation=1, time_ms=1, state="running", lanes=0)
    assert subject.mark(life) == life
    look(subject, known=on_record(progress(FIRST, 10, behind=3), progress(SECOND, 70)))
    assert subject.mark(life) == replace(life, recovery_ms=10, behind="orders-0", waiting=3)


# ------------------------------------------------------------------------------------------------------- real brokers

LIMIT_MS = 20_000


def told(file: Path) -> dict[str, Any]:
    """The flow as ``status`` tells it."""
    flow: dict[str, Any] = json.loads(sparkmirror("status", file, "--json").stdout)["flows"][0]
    return flow


def kinds(flow: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in flow["events"]]


def told_of(kind: str, file: Path) -> dict[str, Any]:
    """The flow if it tells an event of this kind; else nothing."""
    flow = told(file)
    return flow if kind in kinds(flow) else {}


def told_if(file: Path, **wanted: Container[object]) -> dict[str, Any]:
    """The flow if what it tells is among what is wanted; else nothing."""
    flow = told(file)
    return flow if all(flow[name] in values for name, values in wanted.items()) else {}


@pytest.mark.kafka
@pytest.mark.long
def test_the_age_grows_while_the_source_or_the_driver_is_away_and_its_limit_is_told_once(
    cluster_a, cluster_b, topic, tmp_path
):
    stem, (line,) = topic("rpo"), cluster_b.links.values()
    create_topic(cluster_b, f"{stem}-t", 3)
    produce(cluster_b, f"{stem}-t", records=30)
    source = {"bootstrap.servers": cluster_b.listener("LINK")}
    file = write_file(
        tmp_path / "mm2.properties",
        {stem: source, "a": cluster_a},
        {f"{stem}->a": f"{stem}-.*"},
        {"rpo.limit.ms": str(LIMIT_MS), "refresh.topics.interval.seconds": "1"},
    )
    with Running(file, log=tmp_path / "mirror.log") as mirror:
        reaches(cluster_a, f"{stem}.{stem}-t", 30)
        level = until(lambda: told_if(file, rpo_ms=range(LIMIT_MS)), "what an idle flow is level with is known")
        assert (level["rpo_records"], level["rpo_limit_ms"], level["rpo_passed"]) == (0, LIMIT_MS, False), level
        line.cut()
        try:
            until(lambda: told_of("rpo-passed", file), "the limit is passed", 90)
            passed = until(lambda: told_if(file, rpo_passed=(True,)), "the sign of life says so too")
            assert passed["rpo_ms"] > LIMIT_MS
            told_as = "a source that is away keeps no driver from its signs of life"
            until(lambda: told_if(file, state=("running",)), told_as, 240)
        finally:
            line.mend()
        kept = until(lambda: told_of("rpo-within", file), "the limit is kept again", 240)
        assert sorted(kind for kind in kinds(kept) if kind.startswith("rpo")) == ["rpo-passed", "rpo-within"]
        assert not kept["rpo_passed"]
        until(lambda: "the recovery point is within" in mirror.output, "it is in the log too")
        assert mirror.output.count("the recovery point, ") == mirror.output.count("the recovery point is within") == 1
        mirror.kill()
    dead, began = told(file), time.monotonic()
    time.sleep(2.0)
    later = told(file)
    assert later["rpo_ms"] - dead["rpo_ms"] >= 1_900
    assert later["rpo_ms"] - dead["rpo_ms"] < 1_000 * (time.monotonic() - began) + 1_000
    shown = sparkmirror("status", file).stdout
    assert "recovery point" in shown
    assert "limit 20.0 s" in shown
