"""Quotas: for how long brokers hold a client back, what of it, and who is told."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from kafka.protocol.metadata import MetadataRequest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import LinkError
from sparkmirror.kafka import throttling
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.throttling import Held, Once, Throttling
from sparkmirror.lab.cluster import LabCluster
from tests.copy.test_quotas import quota


def test_a_broker_that_holds_back_for_most_of_a_minute_is_told_of_once():
    subject, once = Throttling("B"), Once()
    for second in range(0, 58, 2):
        subject.note(1, 1_100, "ProduceResponse", 100.0 + second)
        subject.note(2, 200, "ProduceResponse", 100.0 + second)
    (held,) = once.new(subject.long(160.0))
    assert (held.node, round(held.seconds), held.doing) == (1, 32, ("writing",))
    assert not once.new(subject.long(160.5))
    assert not once.new(subject.long(300.0)), "it has let go"
    subject.note(1, 40_000, "ProduceResponse", 300.0)
    assert not once.new(subject.long(310.0)), "what is still to come does not count"
    assert once.new(subject.long(341.0)), "again"


def test_pauses_that_overlap_count_once():
    subject = Throttling("B")
    for _ in range(5):
        subject.note(1, 10_000, "ProduceResponse", 100.0)
    assert not subject.long(115.0)


def test_what_held_back_lately_is_known_by_its_seconds():
    subject = Throttling("B")
    assert subject.lately(100.0) is None
    subject.note(1, 300, "MetadataResponse", 100.0)
    subject.note(2, 900, "MetadataResponse", 100.0)
    found = subject.lately(102.0)
    assert found is not None
    assert found.node == 2
    assert subject.lately(111.0) is None


@pytest.mark.parametrize(
    ("answers", "doing", "quotas"),
    [
        (["FetchResponse"], "reading", "consumer_byte_rate or request_percentage"),
        (["ProduceResponse"], "writing", "producer_byte_rate or request_percentage"),
        (["FetchResponse", "MetadataResponse"], "other requests and reading", "request_percentage"),
        (["CreateTopicsResponse"], "changes of topics", "controller_mutation_rate or request_percentage"),
    ],
)
def test_the_quota_that_is_to_be_raised_is_named_by_what_is_held_back(answers: list[str], doing: str, quotas: str):
    subject = Throttling("a")
    for number, answer in enumerate(answers):
        subject.note(1, 20_000, answer, 20.0 * number)
    subject.note(1, 20_000, answers[0], 20.0 * len(answers))
    (held,) = subject.long(20.0 * len(answers) + 20.0)
    text = subject.text(held)
    assert text.startswith(f"broker 1 of a held {doing} back for ")
    assert f"raise {quotas} of this user or client id on cluster a" in text


def test_a_broker_that_still_holds_back_is_not_new():
    once = Once()
    held = Held(1, 31.0, ("reading",))
    assert once.new((held,)) == (held,)
    assert once.new((held._replace(seconds=40.0),)) == ()


@pytest.mark.kafka
def test_a_driver_that_a_request_quota_holds_back_says_so_and_an_answer_that_does_not_come_says_why(
    cluster_a: LabCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(throttling, "WINDOW_SECONDS", 4.0)
    settings = ClientSettings(bootstrap_servers=tuple(cluster_a.bootstrap_servers.split(",")), client_id=topic_name)
    told: list[str] = []
    held = quota(cluster_a.bootstrap_servers, topic_name, "request_percentage", 0.01)
    with closing(Cluster("A", settings, role="driver")) as cluster, held:
        cluster.notice = told.append
        deadline = time.monotonic() + 60
        while not told and time.monotonic() < deadline:
            cluster.call(MetadataRequest(topics=[]))
        assert "of A held other requests back for " in told[0]
        assert "raise request_percentage of this user or client id on cluster A" in told[0]
        cluster.call(MetadataRequest(topics=[]))
        with pytest.raises(LinkError, match="holds other requests back because of a quota: raise request_percentage"):
            cluster.call(MetadataRequest(topics=[]), timeout_ms=100)
        assert len(told) == 1
