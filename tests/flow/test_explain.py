"""Why a topic is copied or is not: each reason by itself, and asked of real clusters."""

from __future__ import annotations

import json
import subprocess
import uuid
from dataclasses import replace

import pytest

from sparkmirror.config import ClientSettings, DeadLetters, Endpoint, FlowConfig, Tolerance
from sparkmirror.flow.explain import Seen, explain_topic
from sparkmirror.kafka.admin import TopicDescription
from sparkmirror.kafka.leaders import Leader
from sparkmirror.model import Alias, FlowName, TopicPartition, Writer
from sparkmirror.offsets.orders import TopicOrder
from sparkmirror.offsets.records import FlowRecord, Life, Progress
from sparkmirror.offsets.state import JournalState, state_of
from tests.flow.running import Running, create_topic, reaches, write_file
from tests.flow.test_once import produce
from tests.invoking import sparkmirror
from tests.offsets.segments import Segment, records_of

NOW_MS = 1_700_000_000_000
WRITER = Writer(producer_id=1, epoch=0)


def endpoint(alias: str) -> Endpoint:
    client = ClientSettings(bootstrap_servers=("127.0.0.1:1",))
    return Endpoint(alias=Alias(alias), consumer=client, producer=client, admin=client)


FLOW = FlowConfig(
    name=FlowName(source=Alias("A"), target=Alias("B")),
    source=endpoint("A"),
    target=endpoint("B"),
    topics=("orders.*", "logs"),
)
RECORD = FlowRecord(
    source_alias="A", source_id="a", target_alias="B", target_id="b", naming="DefaultReplicationPolicy .", generation=1
)


def described(partitions: int) -> TopicDescription:
    return TopicDescription(uuid.uuid4(), {number: Leader(1, 0) for number in range(partitions)}, internal=False)


def progress(partition: int, position: int, end: int) -> Progress:
    return Progress(
        partition=TopicPartition("orders", partition),
        writer=WRITER,
        generation=1,
        position=position,
        next_sequence=0,
        end=end,
        time_ms=NOW_MS,
    )


def running(*more) -> JournalState:
    return state_of([RECORD, Life(generation=1, time_ms=NOW_MS, state="running", lanes=1), *more])


def seen(topic: str = "orders", **known) -> Seen:
    targets = {"A.orders": described(1)}
    found = Seen(topic=topic, source=described(1), targets=targets, skipped="", known=running(), now_ms=NOW_MS)
    return replace(found, **known)


@pytest.mark.parametrize(
    ("topic", "flow", "rule"),
    [
        ("bills", {}, "not named by topics: orders.*, logs"),
        ("orders-x", {"topics_exclude": (".*-y", ".*-x")}, "named by topics.exclude: .*-x"),
        ("__consumer_offsets", {}, "an internal topic of Kafka, MirrorMaker 2 or sparkmirror"),
        ("B.orders", {"topics": (".*",)}, "its name tells that it came from the target"),
        ("bills", {"topics": ()}, "not named by topics: it is empty"),
    ],
)
def test_a_topic_that_the_rules_leave_out_names_the_rule(topic, flow, rule):
    found = explain_topic(replace(FLOW, **flow), seen(topic))
    assert (found.copied, found.rule, found.target_topic) == (False, rule, "")


def test_a_topic_that_is_copied_names_the_expression_its_copy_and_how_it_stands():
    segment = Segment(partition=TopicPartition("orders", 0), writer=WRITER, sequence=0, source=40, target=0)
    known = running(*records_of([segment]), progress(0, 100, 130))
    found = explain_topic(FLOW, seen(known=known))
    assert (found.copied, found.rule, found.target_topic) == (True, "chosen by topics: orders.*", "A.orders")
    assert found.lines == ("partition 0: next is 100, 30 records behind, copied from source offset 40 on",)


def test_a_copy_that_others_write_to_names_its_original_and_why_nothing_goes_home():
    flow, copy = replace(FLOW, homeward=True), "B.orders"
    going = explain_topic(flow, seen(copy, known=running()))
    rule = "a copy of the target's topic: what others wrote to it goes home, and nothing else of it"
    assert (going.copied, going.rule, going.target_topic) == (True, rule, "orders")
    staying = explain_topic(flow, seen(copy, known=running(), skipped="B->A was handed over to MirrorMaker 2"))
    assert (staying.copied, staying.lines[0]) == (False, "B->A was handed over to MirrorMaker 2")


@pytest.mark.parametrize(
    ("known", "line"),
    [
        (
            {"source": None},
            "cluster A has no such topic, or this user may not see it (DESCRIBE on Topic orders)",
        ),
        ({"skipped": "its name is too long"}, "its name is too long"),
        ({"known": None}, "the flow was never started"),
        (
            {"known": running(TopicOrder(topic="orders", time_ms=NOW_MS, by="me@here"))},
            "it is paused by me@here: sparkmirror resume copies it again",
        ),
    ],
)
def test_a_topic_that_is_chosen_and_is_not_copied_says_why(known, line):
    found = explain_topic(FLOW, seen(**known))
    assert (found.copied, found.target_topic) == (False, "A.orders")
    assert line in found.lines


@pytest.mark.parametrize(
    ("flow", "state", "line"),
    [
        ({}, "running", "it is found within refresh.topics.interval.seconds, 600 s"),
        (
            {"refresh_topics_enabled": False},
            "running",
            "refresh.topics.enabled is false: it is found when the flow starts the next time",
        ),
        ({}, "stopped", "the flow is stopped: it finds the topic when it runs"),
    ],
)
def test_a_new_topic_says_when_it_is_found(flow, state, line):
    known = state_of([RECORD, Life(generation=1, time_ms=NOW_MS, state=state, lanes=1)])
    found = explain_topic(replace(FLOW, **flow), seen(known=known, targets={}))
    assert found.lines == ("cluster B has no topic A.orders yet", line)


def test_partitions_that_are_not_copied_yet_are_named():
    found = explain_topic(FLOW, seen(source=described(3), known=running(progress(1, 5, 5))))
    assert found.lines[-1].startswith("partitions 0, 2 are not copied yet: it is found within")


def test_a_topic_that_an_earlier_configuration_copied_says_that_its_copy_stays():
    found = explain_topic(replace(FLOW, topics=("bills",)), seen(known=running(progress(0, 5, 5))))
    assert found.lines == ("it was copied before: B keeps what it has",)


def test_a_topic_that_would_become_the_dead_letters_is_not_copied():
    flow = replace(FLOW, dead_letters=DeadLetters(tolerance=Tolerance.ALL, topic="A.orders"))
    found = explain_topic(flow, seen())
    assert found.copied is False
    assert found.rule == "it would be copied onto the flow's dead letters, A.orders"


@pytest.mark.kafka
def test_real_clusters_are_asked_and_a_copy_is_waited_for(cluster_a, cluster_b, topic, tmp_path):
    stem = topic("explain")
    name, empty = f"{stem}-t", f"{stem}-empty"
    create_topic(cluster_a, name, 2)
    create_topic(cluster_a, empty, 1)
    produce(cluster_a, name, partitions=2)
    file = write_file(
        tmp_path / "mm2.properties",
        {stem: cluster_a, "b": cluster_b},
        {f"{stem}->b": f"{stem}-.*"},
        {"heartbeats.replication.enabled": "false"},  # partitions are counted
    )

    def ask(*words: str) -> subprocess.CompletedProcess[str]:
        return sparkmirror(*words)

    never = ask("wait", str(file), "--caught-up", "--timeout", "0")
    assert (never.returncode, never.stdout) == (
        1,
        f"{stem}->b: 3 partitions are missing (it was never started)\n",
    ), never.stderr
    with Running(file, log=tmp_path / "run.log") as mirror:
        waited = ask("wait", str(file), "--caught-up", "--timeout", "90")
        assert waited.returncode == 0, waited.stdout + waited.stderr + mirror.tail()
        assert waited.stdout.splitlines()[-1] == f"{stem}->b: complete"
        reaches(cluster_b, f"{stem}.{name}", 300)
        (flow,) = json.loads(ask("explain", str(file), "--topic", name, "--json").stdout)["flows"]
        assert (flow["copied"], flow["target_topic"]) == (True, f"{stem}.{name}")
        assert flow["lines"] == [
            f"partition {number}: next is 150, 0 records behind, copied from source offset 0 on" for number in range(2)
        ]
        shown = ask("explain", str(file), "--topic", "other")
        assert shown.stdout.startswith(f"{stem}->b: other is not copied\n  not named by topics: {stem}-.*\n")
        unknown = ask("wait", str(file), "--caught-up", "--topic", "other")
        assert unknown.returncode == 2
        assert mirror.stop(seconds=60) == 0
