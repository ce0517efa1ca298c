"""A journal whose appends are idempotent: nothing that was sent before arrives behind what was sent later."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sparkmirror.config import ClientSettings
from sparkmirror.errors import BrokerError, FencedError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.idempotent_journal import IdempotentJournal
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.ownership import Ownership
from sparkmirror.kafka.store import Store
from sparkmirror.lab.cluster import start
from sparkmirror.offsets.orders import RateOrder

pytestmark = pytest.mark.kafka


class Losing(IdempotentJournal):
    """Loses requests, whose bytes are kept for a broker to get them late, and answers."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(cluster, topic)
        self.lose = self.lose_answers = 0
        self.lost: list[bytes] = []

    async def _produce(self, payload: bytes, attempt_ms: int) -> int:
        if self.lose:
            self.lose -= 1
            self.lost.append(payload)
            raise LinkError(cluster="A", address="", reason="the request hangs in a connection that was given up")
        offset = await super()._produce(payload, attempt_ms)
        if self.lose_answers:
            self.lose_answers -= 1
            raise LinkError(cluster="A", address="", reason="the answer was lost")
        return offset

    async def arrive_late(self) -> int:
        """The broker gets what was lost."""
        return await super()._produce(self.lost.pop(), 10_000)


def create(cluster: Cluster, name: str, **configs: Any) -> None:
    wanted = NewTopic(name=name, partitions=1, configs=(("cleanup.policy", "compact"),), **configs)
    admin.create_topics(cluster, [wanted]).complete()
    admin.wait_for_leaders(cluster, {name: 1}).complete()


@pytest.fixture
def losing(lab_cluster: Callable[[str], Cluster], topic_name: str) -> Losing:
    create(lab_cluster("A"), topic_name)
    return Losing(lab_cluster("A"), topic_name)


def newest(journal: Journal) -> dict[str, str | None]:
    entries, _ = journal.cluster.run(Journal(journal.cluster, journal.topic).read_all)
    return {key: entry.value for key, entry in entries.items()}


def all_values(journal: Journal) -> list[str | None]:
    entries, _, _ = journal.cluster.run(Journal(journal.cluster, journal.topic).read, 0)
    return [entry.value for entry in entries]


@pytest.mark.parametrize("before", [0, 3])
def test_a_request_that_arrives_after_its_repetition_is_refused(losing: Losing, before: int):
    cluster = losing.cluster
    for number in range(before):
        cluster.run(losing.append, [("k", f"before {number}")])
    losing.lose = 1
    cluster.run(losing.append, [("k", "mine")])
    cluster.run(IdempotentJournal(cluster, losing.topic).append, [("k", "my successor's")])
    with pytest.raises(BrokerError, match=r"INVALID_PRODUCER_EPOCH"):
        cluster.run(losing.arrive_late)
    assert newest(losing) == {"k": "my successor's"}


def test_a_plain_journal_would_take_it(lab_cluster: Callable[[str], Cluster], topic_name: str):
    """What the test before tests is there: without the sequence numbers the late request counts."""
    cluster = lab_cluster("A")
    create(cluster, topic_name)
    plain = Journal(cluster, topic_name)
    cluster.run(plain.append, [("k", "mine")])
    cluster.run(plain.append, [("k", "my successor's")])
    cluster.run(plain.append, [("k", "mine")])
    assert newest(plain) == {"k": "mine"}


def test_what_was_given_up_does_not_come_behind_what_was_appended_later(losing: Losing):
    cluster = losing.cluster
    cluster.run(losing.append, [("k", "first")])
    losing.lose = 1_000
    with pytest.raises(LinkError, match="given up"):
        cluster.run(losing.append, [("k", "second")], 1_500)
    losing.lose = 0
    cluster.run(losing.append, [("other", "third")])
    with pytest.raises(BrokerError, match=r"INVALID_PRODUCER_EPOCH"):
        cluster.run(losing.arrive_late)
    assert newest(losing) == {"k": "first", "other": "third"}


def test_a_batch_whose_answer_was_lost_goes_again_in_order(losing: Losing):
    """The broker has it, and nobody knows: it is repeated under the next epoch, before what comes behind it."""
    cluster = losing.cluster
    cluster.run(losing.append, [("k", "1")])
    losing.lose_answers = 1
    with many(cluster, losing, 3) as results:
        cluster.run(losing.append, [("k", "end")], 60_000)
    assert results == [0, 1, 2]
    values = [value for value in all_values(losing)[1:] if value and value.isdigit()]
    assert values == sorted(values)
    assert newest(losing)["last"] == "2"


@contextmanager
def many(cluster: Cluster, journal: Journal, number: int) -> Iterator[list[Any]]:
    """Appends side by side, in order."""
    results: list[Any] = []

    async def one(place: int) -> None:
        try:
            await journal.append([(f"k{place}", str(place)), ("last", str(place))], 60_000)
            results.append(place)
        except (BrokerError, LinkError) as failure:
            results.append(failure)

    async def begin() -> None:
        for place in range(number):
            cluster.loop.call_soon(lambda place=place: one(place))

    cluster.run(begin)
    yield results


def test_appends_side_by_side_lie_in_order_whatever_is_lost(losing: Losing):
    cluster = losing.cluster
    cluster.run(losing.append, [("k", "first")])
    losing.lose = 3
    with many(cluster, losing, 50) as results:
        cluster.run(losing.append, [("end", "")], 60_000)
    assert results == list(range(50))
    values = [int(value) for value in all_values(losing) if value and value.isdigit()]
    assert values == [place for place in range(50) for _ in range(2)]


def test_what_may_not_be_written_any_more_is_not_sent_again(losing: Losing):
    """As a lane that stood still in the midst of it, and was given up meanwhile."""
    cluster, may = losing.cluster, [True, True, False]
    losing._allowed = lambda: may.pop(0) if len(may) > 1 else may[0]
    cluster.run(losing.append, [("k", "mine")])
    losing.lose = 1
    with pytest.raises(LinkError, match="since its writer may not write now"):
        cluster.run(losing.append, [("k", "late")], 1_500)
    cluster.run(IdempotentJournal(cluster, losing.topic).append, [("k", "my successor's")])
    assert all_values(losing) == ["mine", "my successor's"]
    may[:] = [False, True]
    cluster.run(losing.append, [("k", "again")], 10_000)
    assert newest(losing) == {"k": "again"}, "it waits for leave until its deadline"


def test_a_refusal_for_good_is_raised_and_the_others_go_on(lab_cluster: Callable[[str], Cluster], topic_name: str):
    cluster = lab_cluster("A")
    wanted = NewTopic(name=topic_name, partitions=1, configs=(("max.message.bytes", "1000"),))
    admin.create_topics(cluster, [wanted]).complete()
    admin.wait_for_leaders(cluster, {topic_name: 1}).complete()
    journal = IdempotentJournal(cluster, topic_name)
    with pytest.raises(BrokerError, match=r"MESSAGE_TOO_LARGE .* raise max.message.bytes"):
        cluster.run(journal.append, [("a", os.urandom(5_000).hex())])
    cluster.run(journal.append, [("b", "1")])
    assert newest(journal) == {"b": "1"}


def test_nothing_to_append_is_nothing_to_do(losing: Losing):
    assert losing.cluster.run(losing.append, []) == -1
    assert losing.cluster.run(losing.append, [("k", "1")]) == 0
    assert losing.cluster.run(losing.append, [("k", "2")]) == 1


def test_a_cluster_that_is_away_is_an_error_at_the_deadline():
    settings = ClientSettings(bootstrap_servers=("127.0.0.1:1",))
    cluster = Cluster("away", settings, role="test")
    try:
        with pytest.raises(LinkError, match=r"cluster away at 127\.0\.0\.1:1"):
            cluster.run(IdempotentJournal(cluster, "t").append, [("a", "1")], 1_500)
    finally:
        cluster.close()


def test_appending_follows_the_leader(topic_name: str):
    """The leader is killed in the middle: nothing is missing, nothing is written in disorder."""
    with start("journaled", brokers=3) as three:
        settings = ClientSettings(bootstrap_servers=tuple(three.bootstrap_servers.split(",")))
        cluster = Cluster("T", settings, role="test")
        try:
            create(cluster, topic_name, replication_factor=3)
            node = admin.list_topics(cluster, [topic_name])[topic_name].partitions[0].node
            journal = IdempotentJournal(cluster, topic_name)
            cluster.run(journal.append, [("k", "before")])
            with many(cluster, journal, 200) as results:
                three.brokers[node - 1].kill()
                cluster.run(journal.append, [("end", "")], 60_000)
            assert results == list(range(200))
            seen = list(dict.fromkeys(value for value in all_values(journal) if value and value.isdigit()))
            assert seen == [str(place) for place in range(200)]
            assert newest(journal)["last"] == "199"
        finally:
            cluster.close()


# ---------------------------------------------------------------------------------------------- one owner after another


def test_an_owner_that_wakes_late_appends_nothing_behind_the_one_that_came_after_it(losing: Losing):
    cluster, name = losing.cluster, losing.topic
    cluster.run(losing.own, Ownership(name))
    cluster.run(losing.append, [("k", "mine")])
    successor = IdempotentJournal(cluster, name)
    cluster.run(successor.own, Ownership(name))
    cluster.run(losing.append, [("k", "still mine")])
    cluster.run(successor.append, [("k", "my successor's")])
    for _ in range(2):
        with pytest.raises(FencedError, match="another driver"):
            cluster.run(losing.append, [("k", "late")])
    cluster.run(successor.append, [("other", "my successor's")])
    assert newest(losing) == {"k": "my successor's", "other": "my successor's"}


def test_an_owner_whose_request_was_lost_goes_on_and_one_that_was_followed_meanwhile_does_not(losing: Losing):
    cluster, name = losing.cluster, losing.topic
    cluster.run(losing.own, Ownership(name))
    losing.lose = losing.lose_answers = 1
    cluster.run(losing.append, [("k", "1")])
    cluster.run(losing.append, [("k", "2")])
    with pytest.raises(BrokerError, match=r"INVALID_PRODUCER_EPOCH"):
        cluster.run(losing.arrive_late)
    assert newest(losing) == {"k": "2"}
    losing.lose = 1
    successor = IdempotentJournal(cluster, name)
    cluster.run(successor.own, Ownership(name))
    with pytest.raises(FencedError):
        cluster.run(losing.append, [("k", "3")])
    assert newest(losing) == {"k": "2"}


def test_who_owns_a_topic_has_read_all_that_the_former_owner_can_have_written(losing: Losing):
    cluster, name = losing.cluster, losing.topic
    former, following = (Store(cluster, name, 30_000) for _ in range(2))
    former.own(name)
    former.write([RateOrder(bytes_per_s=1, time_ms=1, by="the former")])
    following.own(name)
    following.follow()
    assert following.state.rate == RateOrder(bytes_per_s=1, time_ms=1, by="the former")
    assert not former.lost
    with pytest.raises(FencedError):
        former.write([RateOrder(bytes_per_s=2, time_ms=2, by="the former, late")])
    assert "another driver" in former.lost
    following.follow()
    assert following.state.rate == RateOrder(bytes_per_s=1, time_ms=1, by="the former")
