"""What is taken for a sight of the source, by what a flow has on record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config import FlowConfig, load
from sparkmirror.duties.duty import Sides
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.failover import look
from sparkmirror.failover.look import (
    SourceState,
    partitions,
    paused,
    reach,
    untranslated,
    waiting_for_no_rights,
)
from sparkmirror.failover.plan import decide
from sparkmirror.failover.states import Kind
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import TOPIC_AUTHORIZATION_FAILED
from sparkmirror.kafka.groups import OFFSETS_TOPIC, GroupKind, GroupListing
from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.group_records import GroupSeen
from sparkmirror.offsets.orders import TopicOrder
from sparkmirror.offsets.records import Life, Progress
from sparkmirror.offsets.state import JournalState
from tests.flow.running import write_file
from tests.kafka.hostile_broker import METADATA, HostileBroker, cluster_of, settings_of

PLACE = TopicPartition("orders", 0)


def flow_of(directory: Path) -> FlowConfig:
    a, b = ({"bootstrap.servers": f"localhost:{port}"} for port in (1, 2))
    (flow,) = load([write_file(directory / "mm2.properties", {"a": a, "b": b}, {"a->b": "orders"})]).flows
    return flow


def progress(recovery_ms: int) -> Progress:
    return Progress(
        partition=PLACE,
        writer=Writer(producer_id=1, epoch=1),
        generation=1,
        position=7,
        next_sequence=7,
        end=9,
        time_ms=9_000,
        recovery_ms=recovery_ms,
    )


@pytest.mark.parametrize(
    ("of_partition", "of_flow", "seen"),
    [(400, 500, 500), (600, 500, 600), (-1, 500, 500), (400, None, 400), (-1, None, 0)],
)
def test_a_record_that_was_written_while_the_source_was_away_is_no_sight_of_it(tmp_path, of_partition, of_flow, seen):
    flow, state = flow_of(tmp_path), JournalState()
    state.progress[PLACE] = progress(of_partition)
    if of_flow is not None:
        state.life = Life(generation=1, time_ms=9_000, state="running", lanes=1, recovery_ms=of_flow)
    (found,) = partitions(flow, state, SourceState(failure="away"))
    assert (found.end, found.missing, found.seen_ms) == (9, 2, seen)
    new = TopicPartition("orders", 1)
    there = SourceState(ends={PLACE: 12, new: 9}, starts={PLACE: 0, new: 4})
    asked, unfound = partitions(flow, state, there)
    assert asked.missing == 5
    assert asked.seen_ms > 9_000
    assert (unfound.partition, unfound.missing, unfound.found) == (new, 5, False)


def test_a_topic_that_the_flow_copies_no_more_neither_stands_still_nor_is_paused(tmp_path):
    flow, state, other = flow_of(tmp_path), JournalState(), TopicPartition("other", 0)
    for place in (PLACE, other):
        state.progress[place] = replace(progress(400), partition=place, error="too large")
        order = TopicOrder(topic=place.topic, time_ms=1, by="me")
        state.paused[order.key] = order
    found = {one.partition: one.standing for one in partitions(flow, state, SourceState(failure="away"))}
    assert found == {PLACE: "too large", other: ""}
    assert paused(flow, state) == ["orders"]


UNAUTHORIZED = "source offset 50: cluster b, a.orders-0: TOPIC_AUTHORIZATION_FAILED (29): allow WRITE to this user"


@pytest.mark.parametrize(
    ("error", "denied", "stands"),
    [
        pytest.param(UNAUTHORIZED, {"a.orders"}, False, id="the denial is taken away"),
        pytest.param(UNAUTHORIZED, {"other"}, True, id="a right is missing"),
        pytest.param(UNAUTHORIZED.replace("a.orders", "a.orders-0"), {"a.orders"}, True, id="of another topic"),
        pytest.param(UNAUTHORIZED.replace("cluster b, a.", "cluster a, "), {"a.orders"}, True, id="at the source"),
        pytest.param("too large", {"a.orders"}, True, id="something else"),
    ],
)
def test_who_is_denied_to_write_by_what_an_operation_takes_away_stands_still_no_longer(tmp_path, error, denied, stands):
    state = JournalState()
    state.progress[PLACE] = replace(progress(400), error=error)
    known = partitions(flow_of(tmp_path), state, SourceState(failure="away"))
    (found,) = waiting_for_no_rights(known, "b", denied)
    assert found.standing == (error if stands else "")


@pytest.mark.parametrize(
    ("end_seen_ms", "caught_up", "missing"),
    [
        pytest.param(100_000, False, 13, id="read since: the source had that record"),
        pytest.param(-1, False, 13, id="it is not known when the end was seen"),
        pytest.param(300_000, False, 2, id="the end was seen since: no such record ever was"),
        pytest.param(100_000, True, 2, id="the operation has asked for the end itself"),
    ],
)
def test_a_group_beyond_the_end_tells_of_records_only_where_the_end_was_not_seen_since(
    tmp_path, end_seen_ms, caught_up, missing
):
    state = JournalState()
    state.progress[PLACE] = progress(end_seen_ms)
    seen = GroupSeen(group="g", topic=PLACE.topic, offsets={0: (20, "")}, time_ms=200_000)
    state.groups[seen.key] = seen
    (found,) = partitions(flow_of(tmp_path), state, SourceState(failure="away"), caught_up=caught_up)
    assert found.missing == missing


def test_groups_that_a_flow_chooses_and_whose_kind_nobody_translates_are_known(tmp_path):
    kinds = {
        "b": GroupKind.SHARE,
        "a": GroupKind.STREAMS,
        "c": GroupKind.CONSUMER,
        "console-consumer-1": GroupKind.SHARE,
    }
    listed = {name: GroupListing(name=name, kind=kind) for name, kind in kinds.items()}
    assert [each.name for each in untranslated(flow_of(tmp_path), listed)] == ["a", "b"]


@pytest.fixture
def far_away() -> Iterator[HostileBroker]:
    broker = HostileBroker()
    yield broker
    broker.close()


def test_a_cluster_that_answers_slowly_is_not_taken_for_one_that_is_gone(
    far_away: HostileBroker, monkeypatch: pytest.MonkeyPatch
):
    """As over a long way with TLS and a login: the first question takes many round trips."""
    monkeypatch.setattr("sparkmirror.failover.look.REACH_MS", 600)
    far_away.slow_s = 0.4
    settings = replace(settings_of(far_away), request_timeout_ms=30_000)
    cluster = Cluster("A", settings, role="test")
    try:
        assert reach(cluster) == "hostile"
    finally:
        cluster.close()


def test_a_cluster_that_says_nothing_is_not_waited_for(far_away: HostileBroker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sparkmirror.failover.look.REACH_MS", 600)
    monkeypatch.setattr("sparkmirror.failover.look.SLOW_MS", 0)
    far_away.greeting = [30.0]
    cluster = Cluster("A", settings_of(far_away), role="test")
    try:
        with pytest.raises(LinkError, match=r"within 0\.6 s"):
            reach(cluster)
    finally:
        cluster.close()


def test_a_source_that_hides_the_topic_of_group_offsets_is_told_in_the_plan(tmp_path: Path, monkeypatch):
    """Groups may be missing in its list, so that a switchover does not get beyond the groups that are to leave it."""
    broker = HostileBroker()
    honest = broker.model.answer

    def answer(key: int, request: Any) -> Any:
        response = honest(key, request)
        for topic in response.topics if key == METADATA else ():
            if topic.name == OFFSETS_TOPIC:
                topic.error_code, topic.partitions = TOPIC_AUTHORIZATION_FAILED, []
        return response

    monkeypatch.setattr(look, "PRODUCING_SECONDS", 0.0)
    cluster = cluster_of(broker)
    sides = Sides(flow=flow_of(tmp_path), source=cluster, target=cluster, store=None)
    try:
        assert look.source(sides).unlisted == ""
        broker.model.answer = answer  # type: ignore[method-assign]  # this one alone
        told = look.source(sides)
        with pytest.raises(BrokerError) as refused:
            look.chosen_groups(sides, complete=True)
    finally:
        cluster.close()
        broker.close()
    assert told.answers
    assert told.unlisted == str(refused.value)
    assert "allow DESCRIBE on Topic __consumer_offsets to this user" in told.unlisted
    assert decide(Kind.SWITCHOVER, "a->b", "running", told, (), ()).refusals
    assert any(told.unlisted in one for one in decide(Kind.FAILOVER, "a->b", "running", told, (), ()).warnings)
