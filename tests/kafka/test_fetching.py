"""Fetch sessions: what a broker was told is not told again, and nothing that changed is forgotten.

The other side is a model of the broker's session cache (``IncrementalFetchContext``): it keeps what it was told.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kafka.protocol.consumer import FetchResponse

from sparkmirror.kafka.fetching import FetchLimits, FetchSession, Wanted
from sparkmirror.model import TopicPartition

LIMITS = FetchLimits(
    max_bytes=1_000, partition_max_bytes=100, min_bytes=1, max_wait_ms=500, isolation=1, rack="shelf-4"
)
IDS = {"orders": uuid.UUID(int=1), "clicks": uuid.UUID(int=2)}
PARTITIONS = [TopicPartition(topic, number) for topic in IDS for number in range(3)]
ONE, OTHER, THIRD = PARTITIONS[0], PARTITIONS[1], PARTITIONS[3]
SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, SESSION_TOPIC_ID_ERROR = 70, 71, 106


def answer(*parts: Any, session: int = 77, code: int = 0) -> Any:
    """As a broker answers from version 13 on: topics by id."""
    topic = FetchResponse.FetchableTopicResponse
    return FetchResponse(
        throttle_time_ms=0,
        error_code=code,
        session_id=session,
        responses=[topic(topic="", topic_id=IDS[place.topic], partitions=[part]) for place, part in parts],
    )


def part(place: TopicPartition, **more: Any) -> tuple[TopicPartition, Any]:
    values: dict[str, Any] = {
        "partition_index": place.partition,
        "error_code": 0,
        "high_watermark": 50,
        "last_stable_offset": 40,
        "log_start_offset": 3,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": None,
    }
    return place, FetchResponse.FetchableTopicResponse.PartitionData(**(values | more))


def wanting(*partitions: TopicPartition) -> FetchSession:
    session = FetchSession(1, LIMITS)
    for place in partitions:
        session.want(place, IDS[place.topic], Wanted(0, 5))
    return session


def asked(request: Any) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic, one.partition): one.fetch_offset
        for topic in request.topics
        for one in topic.partitions
    }


def forgotten(request: Any) -> set[TopicPartition]:
    return {
        TopicPartition(topic.topic, number) for topic in request.forgotten_topics_data for number in topic.partitions
    }


def place_of(request: Any) -> tuple[int, int]:
    return request.session_id, request.session_epoch


def test_the_first_request_names_everything_and_asks_for_a_session():
    request = wanting(ONE, OTHER, THIRD).request()
    assert place_of(request) == (0, 0)
    assert asked(request) == {ONE: 0, OTHER: 0, THIRD: 0}
    assert (request.max_bytes, request.min_bytes, request.max_wait_ms) == (1_000, 1, 500)
    assert (request.isolation_level, request.rack_id) == (1, "shelf-4")
    assert request.topics[0].partitions[0].current_leader_epoch == 5


def test_later_requests_name_changes_only():
    session = wanting(ONE, OTHER, THIRD)
    session.request()
    assert list(session.accept(answer())) == []
    session.want(OTHER, IDS["orders"], Wanted(9, 5))
    session.want(ONE, IDS["orders"], Wanted(0, 5))
    request = session.request()
    assert place_of(request) == (77, 1)
    assert asked(request) == {OTHER: 9}
    list(session.accept(answer()))
    assert asked(session.request()) == {}


def test_epochs_count_and_wrap_to_one():
    session = wanting(ONE)
    session.request()
    list(session.accept(answer()))
    assert place_of(session.request()) == (77, 1)
    list(session.accept(answer()))
    assert place_of(session.request()) == (77, 2)
    session._epoch = 0x7FFFFFFF
    list(session.accept(answer()))
    assert place_of(session.request()) == (77, 1)


def test_what_is_no_longer_wanted_is_forgotten_once():
    session = wanting(ONE, OTHER)
    session.request()
    list(session.accept(answer()))
    session.forget(ONE)
    session.forget(ONE)
    session.forget(THIRD)
    request = session.request()
    assert (asked(request), forgotten(request)) == ({}, {ONE})
    list(session.accept(answer()))
    assert forgotten(session.request()) == set()


def test_what_is_wanted_again_before_it_was_told_is_asked_for_anew():
    """Also at the same offset: the broker has to send again what it sent already."""
    session = wanting(ONE)
    session.request()
    list(session.accept(answer()))
    session.forget(ONE)
    session.want(ONE, IDS["orders"], Wanted(0, 5))
    request = session.request()
    assert (asked(request), forgotten(request)) == ({ONE: 0}, set())


@pytest.mark.parametrize("code", [SESSION_NOT_FOUND, INVALID_SESSION_EPOCH, SESSION_TOPIC_ID_ERROR])
def test_a_lost_session_begins_anew_with_everything(code: int):
    session = wanting(ONE, OTHER)
    session.request()
    list(session.accept(answer()))
    session.forget(OTHER)
    session.request()
    assert list(session.accept(answer(part(ONE), code=code))) == []
    request = session.request()
    assert place_of(request) == (0, 0)
    assert (asked(request), forgotten(request)) == ({ONE: 0}, set())


def test_a_lost_connection_begins_anew_too():
    session = wanting(ONE, OTHER)
    session.request()
    list(session.accept(answer()))
    session.want(ONE, IDS["orders"], Wanted(4, 5))
    session.reset()
    request = session.request()
    assert place_of(request) == (0, 0)
    assert asked(request) == {ONE: 4, OTHER: 0}


def test_a_broker_without_room_for_a_session_is_told_everything_each_time():
    session = wanting(ONE, OTHER)
    for _ in range(3):
        request = session.request()
        assert place_of(request) == (0, 0)
        assert asked(request) == {ONE: 0, OTHER: 0}
        list(session.accept(answer(session=0)))


def test_a_topic_without_an_id_is_asked_for_by_name():
    """Brokers before 2.8 have none; one version serves a whole session (KIP-516)."""
    session = wanting(ONE)
    assert session.request()._max_version is None
    session.want(TopicPartition("old", 0), None, Wanted(0, -1))
    request = session.request()
    assert request._max_version == 12
    assert TopicPartition("old", 0) in asked(request)


@pytest.mark.parametrize(("name", "topic_id", "by_name"), [("", IDS["orders"], False), ("orders", None, True)])
def test_an_answer_says_whether_it_is_by_name(name: str, topic_id: uuid.UUID | None, by_name: bool):
    session = wanting(ONE)
    session.request()
    told = answer(part(ONE))
    told.responses[0].topic, told.responses[0].topic_id = name, topic_id
    (fetched,) = session.accept(told)
    assert (fetched.partition, fetched.by_name) == (ONE, by_name)


def test_an_answer_says_what_came_of_each_partition():
    aborted = FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction
    session = wanting(ONE, THIRD)
    session.request()
    one, other = session.accept(
        answer(
            part(ONE, records=b"batches", aborted_transactions=[aborted(producer_id=8, first_offset=20)]),
            part(THIRD, error_code=6, preferred_read_replica=9),
        )
    )
    assert (one.partition, bytes(one.records), one.aborted) == (ONE, b"batches", ((8, 20),))
    assert (one.high_watermark, one.last_stable, one.log_start, one.code) == (50, 40, 3, 0)
    assert (other.partition, other.code, other.preferred_node, other.records) == (THIRD, 6, 9, b"")


@given(st.sampled_from(PARTITIONS))
def test_length_and_membership_follow_what_is_wanted(place: TopicPartition):
    session = wanting(place)
    assert len(session) == 1
    assert place in session
    session.forget(place)
    assert len(session) == 0
    assert place not in session


class Session(RuleBasedStateMachine):
    """Wants come and go while requests, answers and errors alternate: the broker always knows what is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.session = FetchSession(1, LIMITS)
        self.wanted: dict[TopicPartition, int] = {}
        self.broker: dict[TopicPartition, int] = {}
        self.owed = False
        self.pending: set[TopicPartition] = set()

    @rule(place=st.sampled_from(PARTITIONS), offset=st.integers(0, 3))
    def want(self, place: TopicPartition, offset: int) -> None:
        self.session.want(place, IDS[place.topic], Wanted(offset, 5))
        self.wanted[place] = offset
        self.pending.add(place)

    @rule(place=st.sampled_from(PARTITIONS))
    def forget(self, place: TopicPartition) -> None:
        self.session.forget(place)
        self.wanted.pop(place, None)
        self.pending.add(place)

    @precondition(lambda self: not self.owed)
    @rule()
    def ask(self) -> None:
        request = self.session.request()
        if request.session_epoch == 0:
            self.broker = {}
        assert not set(asked(request)) & forgotten(request)
        assert set(asked(request)) <= (self.pending if request.session_epoch else set(self.wanted))
        for place in forgotten(request):
            self.broker.pop(place, None)  # forgetting what it was never told is allowed, as in ``FetchSession.update``
        self.broker |= asked(request)
        self.owed = True
        self.pending = set()
        assert self.broker == self.wanted

    @precondition(lambda self: self.owed)
    @rule(fate=st.sampled_from(["well", "well", "no session", "lost session", "lost connection"]))
    def hear(self, fate: str) -> None:
        if fate == "lost connection":
            self.session.reset()
        else:
            code = SESSION_NOT_FOUND if fate == "lost session" else 0
            list(self.session.accept(answer(session=0 if fate == "no session" else 77, code=code)))
        self.owed = False

    @invariant()
    def wants_are_counted(self) -> None:
        assert len(self.session) == len(self.wanted)


TestSession = Session.TestCase


def test_an_answer_tells_of_every_partition_that_its_request_asked_for_also_without_news():
    session = wanting(ONE, OTHER)
    assert session.answered_ms(ONE) == -1
    session.request(now_ms=1_000)
    assert session.answered_ms(ONE) == -1, "nothing has come yet"
    list(session.accept(answer(part(ONE), part(OTHER))))
    session.want(ONE, IDS[ONE.topic], Wanted(7, 5))
    session.request(now_ms=2_000)
    list(session.accept(answer(part(ONE))))
    assert (session.answered_ms(ONE), session.answered_ms(OTHER)) == (2_000, 2_000)
    assert session.answered_ms(THIRD) == -1


def test_an_answer_that_was_under_way_says_nothing_of_a_partition_that_came_or_came_back():
    session = wanting(ONE, OTHER)
    session.request(now_ms=1_000)
    session.want(THIRD, IDS[THIRD.topic], Wanted(0, 5))
    session.forget(OTHER)
    session.want(OTHER, IDS[OTHER.topic], Wanted(0, 5))
    list(session.accept(answer(part(ONE), part(OTHER))))
    assert [session.answered_ms(place) for place in (ONE, OTHER, THIRD)] == [1_000, -1, -1]
    session.request(now_ms=2_000)
    list(session.accept(answer()))
    assert [session.answered_ms(place) for place in (ONE, OTHER, THIRD)] == [2_000] * 3
    session.forget(ONE)
    assert session.answered_ms(ONE) == -1


def test_an_error_of_the_session_and_an_answer_that_never_came_tell_of_nothing():
    session = wanting(ONE)
    session.request(now_ms=1_000)
    list(session.accept(answer(part(ONE))))
    session.request(now_ms=2_000)
    list(session.accept(answer(code=INVALID_SESSION_EPOCH)))
    session.request(now_ms=3_000)
    session.reset()
    assert session.answered_ms(ONE) == 1_000
    session.request(now_ms=4_000)
    list(session.accept(answer(part(ONE))))
    assert session.answered_ms(ONE) == 4_000
