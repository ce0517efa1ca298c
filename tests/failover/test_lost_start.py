"""A failover of a flow whose internal topic has lost the record of its first start, and whose driver is dead."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from sparkmirror.copy.registrations import Registration
from sparkmirror.duties.topics import remote_topic
from sparkmirror.failover.moves import ON_WHAT_IS_LEFT, decide
from sparkmirror.flow import lost_start
from sparkmirror.flow.flow_record import naming_of
from sparkmirror.lab.cluster import LabCluster, start
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.group_records import GroupsSeen, Origin
from sparkmirror.offsets.records import FlowRecord, Progress
from sparkmirror.offsets.state import JournalState
from tests.duties.groups import FLOW
from tests.failover.test_changed_home import Home, marked
from tests.failover.test_lost_copies import on_record, taken
from tests.failover.test_moves import sight
from tests.flow.logs import read
from tests.flow.running import Running, committed, ends, until
from tests.flow.test_torn_while_idle import cut_log, mirrored, write
from tests.invoking import sparkmirror

NAME, HERE, COPY_ID = str(FLOW.name), TopicPartition("orders", 0), "c0ffee"
PROGRESS = Progress(
    partition=HERE,
    writer=Writer(producer_id=7, epoch=1),
    generation=1,
    position=5,
    next_sequence=0,
    target_id=COPY_ID,
)
OWN = Registration(producer_id=7, flow=NAME, cluster="there", origin=("here",))
SEEN = GroupsSeen(time_ms=1, origin=Origin("here"))


def found(*known: Registration, seen: GroupsSeen | None = None, copy_id: str = COPY_ID) -> FlowRecord | None:
    state = JournalState()
    state.take(PROGRESS)
    state.groups_seen = seen
    ids = {remote_topic(FLOW, HERE.topic): copy_id}
    return lost_start.decide(FLOW, "there", known, ids, state)


@pytest.mark.parametrize("seen", [None, SEEN])
@pytest.mark.parametrize("more", [(), (replace(OWN, producer_id=8, origin=("older",)),)], ids=["alone", "and others"])
def test_the_registration_of_a_producer_id_on_record_names_the_source(more, seen):
    record = found(OWN, *more, seen=seen)
    assert record is not None
    assert (record.source_id, record.target_id) == ("here", "there")
    assert (record.naming, record.generation) == (naming_of(FLOW), 0)
    assert found(seen=SEEN) == record, "so does what was seen of groups, where the registry is lost too"


@pytest.mark.parametrize(
    ("known", "more"),
    [
        ((), {}),
        ((replace(OWN, flow="x->y"),), {}),
        ((replace(OWN, cluster="elsewhere"),), {}),
        ((replace(OWN, producer_id=8),), {}),
        ((OWN,), {"copy_id": "another"}),
        ((OWN,), {"copy_id": ""}),
        ((OWN,), {"seen": replace(SEEN, origin=Origin("other"))}),
    ],
    ids=["none", "another flow", "another target", "another id", "another copy", "no copy", "two sources"],
)
def test_where_nothing_tells_surely_there_is_no_record(known: Any, more: Any):
    assert found(*known, **more) is None


def test_what_is_left_of_a_topic_without_a_start_is_not_a_clean_end():
    state = JournalState()
    state.take(PROGRESS)
    assert state.lacks_all_starts
    state.flow = found(OWN)
    assert (state.lacks_start, state.lacks_all_starts, state.ended_cleanly) == (True, True, False)
    assert state.flow is not None
    state.flow = replace(state.flow, generation=1)
    assert not state.lacks_all_starts


def test_no_place_is_exact_that_is_known_by_what_is_left():
    (move,) = decide(replace(sight(15), lost_start=True))
    (place,) = move.places
    assert (place.offset, place.exact, place.text) == (105, False, f"the record itself, {ON_WHAT_IS_LEFT}")


def lose_the_start(cluster: LabCluster, internal: str) -> None:
    """The topic has lost its end, the start with it, and a lane and a driver have written all else again since."""
    (broker,), log = cluster.brokers, read(cluster, internal)[0]
    broker.kill()
    cut_log(broker, internal, 0)
    broker.start()
    until(lambda: ends(cluster, internal) == {0: 0}, "records are really lost")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for each in log:
        if each.key != b'["flow"]':
            producer.produce(internal, each.value, each.key, partition=0)
    assert producer.flush(60) == 0


@pytest.mark.kafka
@pytest.mark.slow
def test_groups_go_on_by_what_is_left(topic, tmp_path):
    with start("left") as a, start("taken") as b:
        home = Home(a, b, topic("start"), tmp_path, kept=False)
        name, group, internal = home.name, f"{home.name}-g", f"sparkmirror.{home.name}.b.internal"
        with Running(home.file, log=tmp_path / "mirror.log") as mirror:
            write(a, name, marked("old", 10))
            until(lambda: mirrored(b, home.copy) == marked("old", 10), "copied")
            until(lambda: taken(a, group, name, {0: 6}), "the coordinator has begun")
            until(lambda: on_record(b, internal, group, name) == 6, "it is on record", 60)
            mirror.kill_all()
        a.brokers[0].kill()
        lose_the_start(b, internal)
        words = ("--from", name, "--to", "b", "--report", str(tmp_path))
        plan = sparkmirror("failover", home.file, *words, "--dry-run")
        assert plan.returncode == 0, plan.stdout + plan.stderr
        assert f"{internal} has lost the record of the flow's start" in " ".join(plan.stdout.split())
        done = sparkmirror("failover", home.file, *words, "--yes")
        assert done.returncode == 1, done.stdout + done.stderr
        report = json.loads(next(tmp_path.glob("failover-*.json")).read_text())
        assert f"{internal} has lost the record of the flow's start" in str(report["troubles"])
        place = home_place(report, group)
        assert (place["offset"], place["exact"]) == (6, False)
        assert committed(b, group, home.copy) == {0: 6}


def home_place(report: dict[str, Any], group: str) -> dict[str, Any]:
    (one,) = (each for each in report["groups"] if each["group"] == group)
    (place,) = one["partitions"]
    return dict(place)
