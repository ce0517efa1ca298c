"""The demo, end to end on a small number of records, and its verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.lab.demo import Outcome, TopicOutcome, run_demo
from sparkmirror.lab.demo_switching import Switched
from sparkmirror.lab.demo_topics import TOPICS, Client
from sparkmirror.lab.referee import Comparison

EQUAL = Comparison(topic="orders", target_topic="east.orders", records=10, target_records=10, bytes=100, difference="")
ORDERS = TopicOutcome(topic=TOPICS[0], written=10, comparison=EQUAL, rate=1.0)
REPORT = {
    "lost_records": 0,
    "repeated_records": 0,
    "troubles": [],
    "groups": [{"group": "billing", "partitions": [{"target_topic": "east.orders"}] * 2 + [{"target_topic": None}]}],
}
OVER = Switched(kind="switchover", report=REPORT, same=2, missing=0, seconds=1.0)
PASSED = Outcome(topics=(ORDERS,), switched=(OVER,), exit_code=0, mirror_log="", start_s=1.0, stop_s=1.0)


class Silent:
    """Takes what the demo tells and keeps it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.most = 0

    def step(self, text: str) -> None:
        self.texts.append(text)

    def done(self, text: str) -> None:
        self.texts.append(text)

    def copied(self, records: int, of: int) -> None:
        self.most = max(self.most, records)
        assert self.most <= of


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_every_record_of_both_producers_arrives_unchanged() -> None:
    watcher = Silent()
    outcome = run_demo(watcher, records=4_000)
    assert outcome.passed, [each.comparison.difference for each in outcome.topics]
    assert [each.topic.name for each in outcome.topics] == [topic.name for topic in TOPICS]
    assert sum(each.written for each in outcome.topics) == watcher.most == 4_000
    assert all(each.lag == 0 for each in outcome.topics)


def test_the_topics_show_what_the_demo_promises() -> None:
    first = [record for topic in TOPICS for record in topic.records(0, 500)]
    assert {topic.codec for topic in TOPICS} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {topic.client for topic in TOPICS} == set(Client)
    assert any(record.key is None for record in first)
    assert any(record.value is None for record in first)
    assert any(value is None for record in first for _, value in record.headers)
    assert any(record.timestamp_ms is not None for record in first)


def test_equal_topics_and_a_clean_end_pass() -> None:
    assert PASSED.passed


@pytest.mark.parametrize(
    "failed",
    [
        replace(PASSED, exit_code=1),
        replace(PASSED, topics=(replace(ORDERS, comparison=replace(EQUAL, difference="a value differs")),)),
        replace(PASSED, topics=(replace(ORDERS, written=11),)),
        replace(PASSED, switched=(replace(OVER, same=1),)),
        replace(PASSED, switched=(replace(OVER, missing=1),)),
        replace(PASSED, switched=(replace(OVER, kind="failover", report=REPORT | {"lost_records": 1}),)),
        replace(PASSED, switched=(replace(OVER, report=REPORT | {"troubles": ["a trouble"]}),)),
        replace(PASSED, switched=(replace(OVER, report=REPORT | {"groups": []}, same=0),)),
    ],
    ids=[
        "exit code",
        "difference",
        "fewer than were written",
        "another record",
        "a record is missing",
        "more told missing than are",
        "trouble",
        "no group",
    ],
)
def test_anything_else_fails(failed: Outcome) -> None:
    assert not failed.passed
