"""What an internal topic says of its flow: as plain records, and read from real brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sparkmirror.config import ClientSettings, Endpoint, FlowConfig, MirrorConfig, PolicyChoice, PolicyKind
from sparkmirror.duties.internal_topics import ensure_internal_topics
from sparkmirror.events import Event, Kind
from sparkmirror.flow.opening import never_started
from sparkmirror.flow.repositioning import is_stopped
from sparkmirror.flow.status import read, told
from sparkmirror.kafka import admin
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.store import Store
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.naming import internal_topic
from sparkmirror.offsets.orders import TopicOrder
from sparkmirror.offsets.records import FLOW as FLOW_ITSELF
from sparkmirror.offsets.records import STOPPED_KEY, FlowRecord, Happened, Life, Progress, Record, Stopped
from sparkmirror.offsets.state import state_of

NOW_MS = 1_700_000_000_000


def endpoint(alias: str, server: str = "127.0.0.1:1") -> Endpoint:
    client = ClientSettings(bootstrap_servers=(server,))
    return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)


FLOW = FlowConfig(
    name=FlowName(source=Alias("A"), target=Alias("B")),
    source=endpoint("A"),
    target=endpoint("B"),
    admin_timeout_ms=500,
)
RECORD = FlowRecord(
    source_alias="A", source_id="a", target_alias="B", target_id="b", naming="DefaultReplicationPolicy .", generation=2
)
LIFE = Life(generation=2, time_ms=NOW_MS - 2_000, state="running", lanes=1)
PROGRESS = Progress(
    partition=TopicPartition("orders", 3),
    writer=Writer(producer_id=7, epoch=1),
    generation=2,
    position=1_000,
    next_sequence=1_000,
    sequence=999,
    source=999,
    target=1_499,
    end=1_250,
    rate=(500.0, 60_000.0),
    newest_ms=NOW_MS - 4_000,
    time_ms=NOW_MS - 1_000,
)


def status(*records: Record, flow: FlowConfig = FLOW):
    return told(flow, state_of(records), now_ms=NOW_MS)


def test_a_running_flow_tells_lag_and_rates_of_its_partitions():
    flow = status(RECORD, LIFE, PROGRESS, replace(PROGRESS, partition=TopicPartition("orders", 0), position=1_250))
    assert (flow.name, flow.state) == ("A->B", "running")
    assert [(one.topic, one.partition, one.target_topic) for one in flow.partitions] == [
        ("orders", 0, "A.orders"),
        ("orders", 3, "A.orders"),
    ]
    assert [one.lag_records for one in flow.partitions] == [0, 250]
    assert [one.lag_ms for one in flow.partitions] == [0, 4_000]
    assert (flow.lag_records, flow.lag_ms) == (250, 4_000)
    assert (flow.records_per_s, flow.bytes_per_s) == (1_000.0, 120_000.0)
    assert flow.updated_ms == NOW_MS - 1_000


def test_dead_letters_are_added_up():
    flow = status(RECORD, LIFE, replace(PROGRESS, dead_letters=3), replace(PROGRESS, partition=TopicPartition("b", 0)))
    assert ([one.dead_letters for one in flow.partitions], flow.dead_letters) == ([0, 3], 3)


def test_records_that_were_left_out_are_added_up():
    other = replace(PROGRESS, partition=TopicPartition("b", 0))
    flow = status(RECORD, LIFE, replace(PROGRESS, loop_filtered=200), other)
    assert ([one.loop_filtered for one in flow.partitions], flow.loop_filtered) == ([0, 200], 200)


def test_names_on_the_target_follow_the_policy():
    identity = replace(FLOW, policy=PolicyChoice(kind=PolicyKind.IDENTITY))
    assert status(RECORD, LIFE, PROGRESS, flow=identity).partitions[0].target_topic == "orders"


def test_a_driver_without_a_sign_of_life_is_silent():
    assert status(RECORD, replace(LIFE, time_ms=NOW_MS - 60_000), PROGRESS).state == "silent"
    assert status(RECORD, PROGRESS).state == "silent"


def test_a_clean_end_is_stopped_however_long_ago():
    ended = replace(LIFE, time_ms=NOW_MS - 60_000, state="stopped")
    assert status(RECORD, PROGRESS, Stopped(generation=2, time_ms=NOW_MS - 60_000), ended).state == "stopped"


def test_a_failed_flow_stays_failed_and_does_not_become_silent():
    assert status(RECORD, replace(LIFE, time_ms=NOW_MS - 60_000, state="failed")).state == "failed"


def test_an_empty_topic_is_a_flow_that_never_started():
    assert status().state == "never started"


def test_old_rates_say_nothing_about_now():
    old = replace(PROGRESS, time_ms=NOW_MS - 60_000)
    assert status(RECORD, LIFE, old).records_per_s == 0.0


def test_what_is_not_known_is_not_zero():
    unknown = replace(PROGRESS, end=-1, target=-1)
    flow = status(RECORD, LIFE, PROGRESS, replace(unknown, partition=TopicPartition("orders", 4)))
    assert (flow.partitions[1].lag_records, flow.partitions[1].lag_ms) == (None, None)
    assert (flow.partitions[1].source_end, flow.partitions[1].target_offset) == (None, None)
    assert flow.lag_records is None


def test_a_partition_that_may_not_begin_makes_the_lag_unknown_until_it_begins():
    refused = Happened(partition=TopicPartition("orders", 4), event=Event(kind=Kind.TARGET_NOT_EMPTY, text="no"))
    flow = status(RECORD, LIFE, PROGRESS, refused)
    assert (flow.lag_records, flow.lag_ms) == (None, None)
    begun = replace(PROGRESS, partition=refused.partition)
    assert status(RECORD, LIFE, PROGRESS, refused, begun).lag_records == 500


def test_events_of_flow_and_partitions_are_told_once():
    gap = Event(kind=Kind.SOURCE_RETENTION, text="gap", first=5, last=9, time_ms=NOW_MS - 2)
    large = Event(kind=Kind.RECORD_TOO_LARGE, text="too large", first=10, last=10, time_ms=NOW_MS - 1)
    stopped = replace(PROGRESS, error="too large", events=(gap, large))
    life = replace(LIFE, events=("orders-3: too large", "a lane was lost"))
    old = Event(kind=Kind.UNAUTHORIZED, text="may not", time_ms=1)
    known = (
        Happened(partition=TopicPartition("orders", 7), event=old),
        Happened(partition=PROGRESS.partition, event=gap),
    )
    flow = status(RECORD, life, stopped, *known)
    assert [(e.kind, e.place, e.text, e.first, e.last, e.time_ms) for e in flow.events] == [
        ("unauthorized", "orders-7", "may not", None, None, 1),
        ("source-retention", "orders-3", "gap", 5, 9, NOW_MS - 2),
        ("record-too-large", "orders-3", "too large", 10, 10, NOW_MS - 1),
        ("note", "", "a lane was lost", None, None, None),
    ]
    assert flow.partitions[0].event == "too large"


def test_a_target_that_cannot_be_reached_makes_its_flow_unreadable_and_says_why():
    (flow,) = read(MirrorConfig(file="f", flows=(FLOW,)))
    assert flow.state == "unreadable"
    assert "cluster B" in flow.events[0].text


TOLD = replace(LIFE, recovery_ms=NOW_MS - 65_000, behind="orders-3", waiting=250)


@pytest.mark.parametrize(
    ("life", "expected"),
    [
        (TOLD, (65_000, 250, "orders-3")),
        (replace(TOLD, time_ms=NOW_MS - 60_000), (65_000, 250, "orders-3")),
        (replace(TOLD, state="stopped"), (65_000, 250, "orders-3")),
        (replace(TOLD, recovery_ms=NOW_MS + 5), (0, 250, "orders-3")),
        (replace(TOLD, recovery_ms=-1, waiting=-1), (None, None, "orders-3")),
        (LIFE, (None, None, "")),
    ],
    ids=["running", "a dead driver", "stopped", "a clock ahead", "not known", "of an earlier release"],
)
def test_the_recovery_point_is_as_old_as_the_driver_told_last_and_grows(
    life: Life, expected: tuple[int | None, int | None, str]
):
    flow = status(RECORD, life, PROGRESS)
    assert (flow.rpo_ms, flow.rpo_records, flow.rpo_partition) == expected
    assert (flow.rpo_limit_ms, flow.rpo_passed) == (None, None)
    later = told(FLOW, state_of([RECORD, life, PROGRESS]), now_ms=NOW_MS + 1_000)
    assert expected[0] is None or later.rpo_ms == max(0, NOW_MS + 1_000 - life.recovery_ms)


LEVEL = replace(PROGRESS, position=1_250)
PAUSED = TopicOrder(topic="orders", by="me", time_ms=NOW_MS - 9)


@pytest.mark.parametrize(
    ("records", "noted"),
    [
        ((TOLD, LEVEL), True),
        ((TOLD, LEVEL, replace(LEVEL, partition=TopicPartition("orders", 4))), True),
        ((TOLD, PROGRESS), False),
        ((replace(TOLD, recovery_ms=NOW_MS - 30_000), LEVEL), False),
        ((replace(TOLD, time_ms=NOW_MS - 60_000), LEVEL), False),
        ((replace(TOLD, state="stopped"), LEVEL), False),
        ((replace(TOLD, began_ms=NOW_MS - 30_000), LEVEL), False),
        ((replace(TOLD, began_ms=NOW_MS - 30_001), LEVEL), True),
        ((TOLD, replace(LEVEL, error="may not")), False),
        ((TOLD, LEVEL, PAUSED), False),
        ((LIFE, LEVEL), False),
    ],
    ids=[
        "level",
        "one of two",
        "behind",
        "lately",
        "a dead driver",
        "stopped",
        "a driver that has just begun",
        "one that began before",
        "stands still",
        "paused",
        "not known",
    ],
)
def test_a_lag_of_nothing_that_the_source_has_not_confirmed_for_long_is_told(records: tuple[Record, ...], noted: bool):
    told = [event.text for event in status(RECORD, *records).events if "the lag shown is as of then" in event.text]
    assert len(told) == noted
    assert not noted or told[0].startswith("cluster A has not said for 65 s where orders-3 ends: ")


PASSED = Happened(partition=FLOW_ITSELF, event=Event(kind=Kind.RPO_PASSED, text="too old", time_ms=NOW_MS - 9))
WITHIN = Happened(partition=FLOW_ITSELF, event=Event(kind=Kind.RPO_WITHIN, text="within", time_ms=NOW_MS - 5))


@pytest.mark.parametrize(
    ("limit_ms", "records", "passed"),
    [
        (60_000, (TOLD,), True),
        (65_000, (TOLD,), False),
        (65_000, (TOLD, PASSED), False),
        (65_000, (LIFE, PASSED), True),
        (65_000, (LIFE, PASSED, WITHIN), False),
        (65_000, (), False),
    ],
    ids=["older, nobody told", "just not", "not any more", "unknown, and told", "unknown, and within", "never begun"],
)
def test_whether_a_limit_is_passed_is_told_though_no_driver_lives_to_tell(
    limit_ms: int, records: tuple[Record, ...], passed: bool
):
    flow = status(RECORD, *records, flow=replace(FLOW, rpo_limit_ms=limit_ms))
    assert (flow.rpo_limit_ms, flow.rpo_passed) == (limit_ms, passed)


def test_an_event_of_the_whole_flow_has_no_partition():
    (event,) = status(RECORD, LIFE, PASSED).events
    assert (event.kind, event.topic, event.partition, event.place) == ("rpo-passed", "", None, "")


# ------------------------------------------------------------------------------------------------------- real brokers


def named(flow: FlowConfig, source: str) -> FlowConfig:
    """The same clusters under an alias that no other test uses."""
    return replace(flow, name=FlowName(source=Alias(source), target=flow.target.alias))


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.mark.kafka
def test_reads_what_the_internal_topic_on_the_target_holds(
    lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]
):
    flow, target = named(lab_flow, topic("source")), lab_cluster("B")
    ensure_internal_topics(flow, target)
    store = Store(target, internal_topic(flow.name), 10_000)
    (never,) = read(MirrorConfig(file="f", flows=(flow,)))
    assert never.state == "never started"
    assert never.target is not None
    assert internal_topic(flow.name) not in never.target.remote

    fresh = replace(PROGRESS, time_ms=now_ms(), newest_ms=now_ms() - 3_000)
    store.write([RECORD, replace(LIFE, time_ms=now_ms()), replace(PROGRESS, generation=1, position=7), fresh])
    (told_now,) = read(MirrorConfig(file="f", flows=(flow,)))
    assert told_now.state == "running"
    (one,) = told_now.partitions
    assert (one.position, one.lag_records, one.records_per_s, one.target_offset) == (1_000, 250, 500.0, 1_499)
    assert one.lag_ms is not None
    assert 3_000 <= one.lag_ms < 60_000

    store.write([Stopped(generation=2, time_ms=now_ms())])
    assert read(MirrorConfig(file="f", flows=(flow,)))[0].state == "stopped"
    store.write([], tombstones=[STOPPED_KEY])
    assert read(MirrorConfig(file="f", flows=(flow,)))[0].state == "running"


@pytest.mark.kafka
def test_asking_creates_no_topic(
    lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]
):
    flow, before = named(lab_flow, topic("nobody")), set(admin.list_topics(lab_cluster("B")))
    assert read(MirrorConfig(file="f", flows=(flow,)))[0].state == "never started"
    assert set(admin.list_topics(lab_cluster("B"))) == before


@pytest.mark.kafka
def test_one_target_that_is_away_and_records_of_others_do_not_hide_what_can_be_read(
    lab_flow: FlowConfig, lab_cluster: Callable[[str], Cluster], topic: Callable[..., str]
):
    foreign, good = named(lab_flow, topic("foreign")), named(lab_flow, topic("good"))
    others = [("hello", "world"), (PROGRESS.key, "x"), (RECORD.key, RECORD.value())]
    for flow, records in ((foreign, others), (good, [(RECORD.key, RECORD.value())])):
        ensure_internal_topics(flow, lab_cluster("B"))
        Store(lab_cluster("B"), internal_topic(flow.name), 10_000).append(records)
    away, odd, fine = read(MirrorConfig(file="f", flows=(FLOW, foreign, good)))
    assert (away.state, odd.state, fine.state) == ("unreadable", "silent", "silent")
    assert "cluster B" in away.events[0].text
    passed, broken = odd.events
    assert (passed.kind, broken.kind) == ("foreign-record", "stopped")
    assert "internal-0 holds a record with keys that no mirror writes, the last at offset 0, key hello" in passed.text
    assert "internal-0 at offset 1: not a record of an internal topic" in broken.text


def test_a_clean_end_is_told_even_before_the_last_sign_of_life():
    assert status(RECORD, PROGRESS, Stopped(generation=2, time_ms=NOW_MS)).state == "stopped"


def test_a_flow_whose_start_the_topic_has_lost_was_started_and_commands_say_what_to_do():
    lost = never_started(FLOW, state_of([LIFE, PROGRESS]), "mm2.properties")
    assert "has lost the end of its log" in str(lost)
    assert "was never started" not in str(lost)
    for never in (None, state_of([])):
        assert "was never started" in str(never_started(FLOW, never, "mm2.properties"))


def test_a_flow_whose_first_start_the_topic_has_lost_is_not_one_that_never_started():
    assert status(PROGRESS).state == "silent"
    assert not is_stopped(state_of([LIFE]))
    assert is_stopped(state_of([]))


def test_the_clean_end_of_an_earlier_run_says_nothing_of_one_that_runs_and_whose_start_the_topic_has_lost():
    before = replace(RECORD, generation=1), Stopped(generation=1, time_ms=NOW_MS - 60_000)
    assert status(*before, LIFE, PROGRESS).state == "running"
    assert status(*before, replace(LIFE, time_ms=NOW_MS - 60_000), PROGRESS).state == "silent"
