"""What is known of a target's settings while a flow runs, and which plans are out of date."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.copy.plan import PartitionPlan
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.flow.facts import CLOCKS_MS, Facts, facts_of
from sparkmirror.kafka.configs import ConfigEntry, ConfigSource
from sparkmirror.kafka.memory import DAY_MS
from sparkmirror.model import MAX_MESSAGE_BYTES, TopicPartition, Writer

PLAIN = TargetFacts(max_message_bytes=1_000, log_append_time=False)
SMALL = replace(PLAIN, max_message_bytes=500)


def plan(topic: str = "t", number: int = 0, facts: TargetFacts = PLAIN) -> PartitionPlan:
    here = TopicPartition(topic, number)
    writer = Writer(producer_id=1, epoch=2)
    wanted = PartitionPlan(source=here, target_topic=f"a.{topic}", topic_id="", position=7, writer=writer)
    return wanted.with_facts(facts)


@pytest.mark.parametrize(
    ("size", "stamps", "codec", "facts"),
    [
        ("5", "CreateTime", "producer", TargetFacts(max_message_bytes=5, log_append_time=False)),
        ("5", "LogAppendTime", "gzip", TargetFacts(max_message_bytes=5, log_append_time=True, codec="gzip")),
        ("5", "CreateTime", "uncompressed", TargetFacts(max_message_bytes=5, log_append_time=False, codec="none")),
        (None, None, None, TargetFacts(max_message_bytes=MAX_MESSAGE_BYTES, log_append_time=False)),
    ],
)
def test_a_topics_properties_say_what_it_asks(size: str | None, stamps: str | None, codec: str | None, facts: object):
    values = {"max.message.bytes": size, "message.timestamp.type": stamps, "compression.type": codec}
    entries = {name: ConfigEntry(value=value, source=ConfigSource.TOPIC) for name, value in values.items()}
    assert facts_of(entries) == facts


def test_plans_that_are_not_as_the_topic_was_seen_last_are_out_of_date_and_only_those():
    facts = Facts({})
    facts.take({"a.t": PLAIN, "a.u": PLAIN}, 1.0)
    plans = [plan(), plan("t", 1), plan("u")]
    assert facts.follow(plans) == {}
    assert facts.topics == {"a.t", "a.u"}
    facts.take({"a.t": SMALL}, 2.0)
    assert facts.follow(plans) == {"a.t": SMALL}
    assert facts.follow([plan(facts=SMALL), plan("t", 1)]) == {"a.t": SMALL}
    assert facts.follow([plan(facts=SMALL), plan("u")]) == {}


def test_an_answer_to_an_earlier_question_that_comes_late_does_not_count():
    facts = Facts({})
    facts.take({"a.t": SMALL}, 2.0)
    facts.take({"a.t": PLAIN}, 1.0)
    assert facts.newest(plan()).facts == SMALL
    facts.take({"a.t": PLAIN}, 2.0)
    assert facts.newest(plan(facts=SMALL)).facts == PLAIN


def test_a_topic_that_nobody_asked_about_is_as_its_plan_says():
    assert Facts({}).follow([plan()]) == {}
    assert Facts({}).newest(plan()) == plan()


def test_what_brokers_remember_is_believed_up_to_an_hour():
    assert Facts({1: DAY_MS, 2: 3 * CLOCKS_MS}).guarded_ms == 2 * CLOCKS_MS
    assert Facts({1: None}).guarded_ms == DAY_MS - CLOCKS_MS
