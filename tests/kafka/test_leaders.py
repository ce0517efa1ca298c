"""What leaders say of partitions."""

from __future__ import annotations

from sparkmirror.errors import LinkError
from sparkmirror.kafka.leaders import of_asked
from sparkmirror.kafka.rounds import Answer
from sparkmirror.model import TopicPartition
from tests.kafka.unreachable import Unreachable

ASKED = frozenset(TopicPartition("t", number) for number in range(3))


def test_a_leader_is_heard_of_what_it_was_asked_about_and_of_nothing_else():
    said = (Answer(key=TopicPartition(topic, number), value=number) for topic, number in (("t", 0), ("u", 0), ("t", 7)))
    cluster = Unreachable()
    try:
        told = {one.key: one for one in of_asked(cluster, 1, ASKED, object(), lambda _: said)}
    finally:
        cluster.close()
    assert told.keys() == ASKED
    assert (told[TopicPartition("t", 0)].value, told[TopicPartition("t", 0)].link) == (0, None)
    for number in (1, 2):
        link = told[TopicPartition("t", number)].link
        assert link is not None
        assert "broker 1 answered without them" in str(link)


def test_a_leader_that_does_not_answer_fails_all_of_its_partitions():
    failure = LinkError(cluster="A", address="localhost:1", reason="gone")
    cluster = Unreachable()
    try:
        told: list[Answer[TopicPartition, int]] = list(of_asked(cluster, 1, ASKED, failure, lambda _: ()))
    finally:
        cluster.close()
    assert {(one.key, one.link) for one in told} == {(place, failure) for place in ASKED}
