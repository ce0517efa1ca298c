"""Records of two real clusters compared, without a mirror: equal, or not, not to be read, or too late."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from sparkmirror.duties.duty import Sides
from sparkmirror.failover.clock import Clock
from sparkmirror.failover.readings import verify
from sparkmirror.failover.verifying import Finding, Question, Verdict
from sparkmirror.flow.sides import connected
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.translation import Place
from tests.duties.groups import FLOW, HERE, MAP, THERE
from tests.flow.running import ANSWER_SECONDS, create_topic
from tests.offsets.segments import offset_map

TIME_MS = 1_790_000_000_000


def write(cluster: LabCluster, topic: str, values: list[bytes], first: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 3})
    for number, value in enumerate(values, first):
        producer.produce(topic, value, b"k", 0, timestamp=TIME_MS + number, headers=[("h", None)])
    assert producer.flush(ANSWER_SECONDS) == 0


def test_what_is_not_read_in_time_is_told_and_nobody_is_asked():
    asked = Question(HERE, THERE, 120, 30, Place.RECORD)
    with connected(FLOW, role="test", started=False) as sides:  # its addresses are nowhere
        assert verify(sides, [asked, asked], {HERE: MAP}, "", Clock(0)) == {asked: Finding(Verdict.LATE)}


@pytest.mark.kafka
def test_each_offset_has_its_own_finding(cluster_a, cluster_b, lab_cluster, lab_flow, topic):
    source, copy = topic(), topic("copy")
    create_topic(cluster_a, source, 2, {"retention.ms": "-1"})  # the records have old times
    create_topic(cluster_b, copy, 1, {"retention.ms": "-1"})
    write(cluster_a, source, [b"a", b"b", b"c", b"d" * 100_000])
    write(cluster_b, copy, [b"somebody else's", b"a", b"b", b"C", b"d" * 100_000], first=-1)
    here, there = TopicPartition(source, 0), TopicPartition(copy, 0)
    offsets = offset_map([(0, 1, 4)], 4)
    asked = [Question(here, there, offset, offset + 1, Place.RECORD) for offset in range(4)]
    asked.append(Question(here, there, 4, 5, Place.END))
    beside = Question(here, there, 1, 3, Place.RECORD)
    absent = Question(TopicPartition(source, 1), TopicPartition(copy, 1), 0, 0, Place.RECORD)
    sides = Sides(flow=lab_flow, source=lab_cluster("A"), target=lab_cluster("B"), store=None)
    found = verify(sides, [*asked, beside, absent], {here: offsets, absent.here: offsets}, "", Clock(60))
    assert [found[one].verdict for one in asked] == [
        Verdict.VERIFIED,
        Verdict.VERIFIED,
        Verdict.WRONG,
        Verdict.VERIFIED,
        Verdict.VERIFIED,
    ]
    assert found[asked[2]].detail == "source offset 2 and target offset 3 differ in value"
    assert found[asked[4]] == Finding(Verdict.VERIFIED, source=3, target=4, before=True)
    assert found[beside].verdict is Verdict.WRONG
    assert found[absent].verdict is Verdict.UNREADABLE
    assert f"{copy}-1" in found[absent].detail
