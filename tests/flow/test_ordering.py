"""What lanes are ordered, and when they have to be told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.copy.orders import NO_ORDERS, Orders, read
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.errors import LinkError
from sparkmirror.flow.ordering import LEAST_PART, Ordering, decide, is_news, shares
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.orders import RATE_KEY, MoveOrder, Order, RateOrder, TopicOrder, topic_key
from sparkmirror.offsets.state import JournalState

PAUSED = TopicOrder(topic="t", time_ms=1, by="me")


def state(*orders: Order) -> JournalState:
    known = JournalState()
    for order in orders:
        known.take(order)
    return known


def rate(limit: int | None) -> RateOrder:
    return RateOrder(bytes_per_s=limit, time_ms=1, by="me")


_names = st.text("abc", min_size=1, max_size=3)
_rates = st.dictionaries(_names, st.floats(0, 1e9), min_size=1, max_size=8)


@given(st.floats(1_000, 1e9), _rates)
def test_the_shares_of_all_lanes_are_the_limit_and_each_has_some(limit, rates):
    found = shares(limit, rates)
    assert found.keys() == rates.keys()
    assert sum(found.values()) == pytest.approx(limit)
    assert min(found.values()) >= limit / len(rates) * LEAST_PART * 0.999


def test_what_an_idle_lane_leaves_goes_to_those_that_want_it():
    found = shares(1_000.0, {"idle": 0.0, "slow": 100.0, "fast": 5_000.0, "faster": 9_000.0})
    assert found["idle"] == 25.0
    assert found["slow"] == 150.0
    assert found["fast"] == found["faster"] == pytest.approx(412.5)


@pytest.mark.parametrize(
    ("orders", "limit", "expected"),
    [
        ((), None, NO_ORDERS),
        ((PAUSED,), None, Orders(paused=frozenset({"t"}))),
        ((), 300, Orders(share=100.0, shares={"lane-0": 150.0, "lane-1": 150.0})),
        ((rate(30),), 300, Orders(share=10.0, shares={"lane-0": 15.0, "lane-1": 15.0})),
        ((rate(None),), 300, NO_ORDERS),
    ],
)
def test_an_order_wins_over_the_configuration(orders, limit, expected):
    assert decide(state(*orders), limit, {"lane-0": 1e6, "lane-1": 1e6}) == expected


def test_an_order_that_is_taken_back_no_longer_holds():
    known = state(PAUSED, rate(5))
    known.forget(topic_key("t"))
    known.forget(RATE_KEY)
    assert decide(known, None, {}) == NO_ORDERS


TOLD = Orders(paused=frozenset({"t"}), share=50.0, shares={"lane-0": 100.0})


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ({}, False),
        ({"shares": {"lane-0": 109.0}}, False),
        ({"shares": {"lane-0": 112.0}}, True),
        ({"shares": {"lane-1": 100.0}}, True),
        ({"share": 51.0}, False),
        ({"share": None, "shares": {}}, True),
        ({"paused": frozenset()}, True),
    ],
)
def test_lanes_are_told_what_is_new_to_them(change, news):
    assert is_news(replace(TOLD, **change), TOLD) is news


def test_what_could_not_be_told_is_told_at_the_next_look():
    told: list[Orders] = []
    failing = [True]

    def tell(orders: Orders) -> None:
        if failing.pop() if failing else False:
            raise LinkError(cluster="b", address="b:9092", reason="away")
        told.append(orders)

    ordering = Ordering(None, tell)
    with pytest.raises(LinkError):
        ordering.follow(state(PAUSED), {}, {}, 7)
    assert ordering.orders == NO_ORDERS
    ordering.follow(state(PAUSED), {}, {}, 7)
    ordering.follow(state(PAUSED), {}, {}, 7)
    assert told == [Orders(paused=frozenset({"t"}), guarded_ms=7)]


def test_lanes_are_told_what_has_changed_at_the_target_and_once_more_when_plans_know_it():
    told: list[Orders] = []
    ordering = Ordering(None, told.append)
    ordering.expect(state(), 1, 7)
    facts = {"a.t": TargetFacts(max_message_bytes=5, log_append_time=True)}
    for known, guarded_ms in (({}, 7), (facts, 7), (facts, 7), (facts, 8), ({}, 8)):
        ordering.follow(state(), {}, known, guarded_ms)
    assert told == [Orders(facts=facts, guarded_ms=7), Orders(facts=facts, guarded_ms=8), Orders(guarded_ms=8)]


def test_lanes_that_are_about_to_start_share_the_limit():
    ordering = Ordering(900, lambda _: None)
    ordering.expect(state(PAUSED), 3, 7)
    assert ordering.orders == Orders(paused=frozenset({"t"}), share=300.0, guarded_ms=7)


PLACE = TopicPartition("t", 3)
MOVE = MoveOrder(partition=PLACE, to=40, topic_id="", time_ms=1, by="me")


def test_lanes_give_a_partition_back_that_is_to_be_moved_until_it_was():
    assert decide(state(MOVE), None, {}).moving == {PLACE}
    obeyed = state(MOVE)
    obeyed.forget(MOVE.key)
    assert not decide(obeyed, None, {}).moving
    told: list[Orders] = []
    Ordering(None, told.append, moves=False).follow(state(MOVE), {}, {}, 7)
    assert told == [Orders(guarded_ms=7)], "a copy for once moves partitions only when it begins"


@given(
    st.frozensets(st.text(max_size=5)),
    st.frozensets(st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 99))),
    st.none() | st.floats(0, 1e9),
    st.dictionaries(_names, st.floats(0, 1e9)),
    st.dictionaries(
        st.text(max_size=5),
        st.builds(
            TargetFacts,
            max_message_bytes=st.integers(0, 2**31 - 1),
            log_append_time=st.booleans(),
            codec=st.text(max_size=4),
        ),
    ),
    st.none() | st.integers(-1, 2**63 - 1),
)
def test_orders_come_back_as_they_were_told(paused, moving, share, of_lanes, facts, guarded_ms):
    orders = Orders(paused=paused, moving=moving, share=share, shares=of_lanes, facts=facts, guarded_ms=guarded_ms)
    assert read(orders.text()) == orders


def test_a_lane_finds_its_rate_by_its_name_whatever_the_shift():
    orders = Orders(share=5.0, shares={"lane-1": 7.0})
    assert (orders.rate("lane-1.0"), orders.rate("lane-1.12"), orders.rate("lane-10.1")) == (7.0, 7.0, 5.0)
