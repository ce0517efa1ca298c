"""Partitions that are read from followers: kept for a lease, never believed about the end, left when they refuse.

Without a cluster first, then between real brokers in racks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsResponse

from sparkmirror.copy import intake
from sparkmirror.copy.progress import follow
from sparkmirror.copy.read_replica import ReadReplica
from sparkmirror.errors import LinkError
from sparkmirror.kafka.fetching import Fetched
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.offsets.recovery import UNKNOWN_MS
from tests.batches.building import log
from tests.copy.making import BEGIN, LARGE, Bench, batch, told

LEADER, FOLLOWER, STRANGER = 1, 2, 9
RACK = "rack-2"
LEASE_S = 60.0
OUT_OF_RANGE, NOT_LEADER, TIMED_OUT, STORAGE_ERROR, FENCED, UNKNOWN_EPOCH, NOT_AVAILABLE = 1, 6, 7, 56, 74, 75, 78
NOT_ALLOWED = 29
SETTINGS: dict[str, Any] = {"client_rack": RACK, "metadata_max_age_ms": int(LEASE_S * 1000)}


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(2, **SETTINGS)
    for partition in made.lane.partitions:
        made.lane.fetcher.update(partition)
    yield made
    made.close()


def tell(bench: Bench, *, end: int, preferred: int = -1, code: int = 0, **more: Any) -> None:
    """What the broker that partition 0 is fetched from says of it."""
    fetched = Fetched(
        partition=bench[0].source,
        code=code,
        records=more.pop("records", b""),
        aborted=(),
        high_watermark=end,
        last_stable=end,
        log_start=0,
        preferred_node=preferred,
        **more,
    )
    bench.lane.intake.take(fetched)


def follow_the_follower(bench: Bench) -> None:
    tell(bench, end=1_000, preferred=FOLLOWER)
    assert bench[0].read_from == FOLLOWER


def asked(bench: Bench) -> dict[int, Any]:
    """The next request to each broker, by node."""
    bench.source.asked.clear()
    for session in bench.lane.fetcher._sessions.values():
        session.busy = False
    bench.lane.fetcher.request_more(0)
    return {node: request for request, node, _ in bench.source.asked}


def learn(bench: Bench, node: int = LEADER) -> None:
    """What the lane does once it has learnt the leaders anew."""
    bench[0].source_node = node
    bench.lane.fetcher.refetch(bench[0])


def partitions_of(bench: Bench, node: int) -> set[int]:
    session = bench.lane.fetcher._sessions.get(node)
    return {p.source.partition for p in bench.lane.partitions if session is not None and p.source in session}


def test_a_follower_is_kept_for_a_lease_and_one_that_failed_is_avoided_for_as_long():
    replica = ReadReplica()
    assert not replica.followed
    assert not replica.is_due(1e9)
    replica.follow(FOLLOWER, 100.0, LEASE_S)
    assert (replica.followed, replica.is_due(159.9), replica.is_due(160.0)) == (True, False, True)
    replica.leave()
    assert (replica.followed, replica.is_due(1e9), replica.leader_only_until) == (False, False, 0.0)
    replica.follow(FOLLOWER, 200.0, LEASE_S)
    replica.avoid(210.0, LEASE_S)
    assert (replica.followed, replica.leader_only_until) == (False, 270.0)


def test_a_partition_goes_to_the_follower_that_its_leader_names(bench: Bench):
    assert {node: request.rack_id for node, request in asked(bench).items()} == {LEADER: RACK}
    follow_the_follower(bench)
    assert (partitions_of(bench, LEADER), partitions_of(bench, FOLLOWER)) == ({1}, {0})
    assert set(asked(bench)) == {LEADER, FOLLOWER}


@pytest.mark.parametrize("named", [LEADER, NO_LEADER])
def test_a_leader_that_names_itself_is_fetched_from(bench: Bench, named: int):
    tell(bench, end=1_000, preferred=named)
    assert (bench[0].read_from, partitions_of(bench, LEADER)) == (LEADER, {0, 1})


def test_a_follower_that_the_metadata_lacks_is_looked_up_first(bench: Bench):
    tell(bench, end=1_000, preferred=STRANGER)
    assert (bench[0].replica.followed, bench[0].read_from) == (False, NO_LEADER)
    assert bench.lane.watch._lost_at_the_source() == [bench[0]]
    bench.source.brokers.add(STRANGER)
    learn(bench)
    tell(bench, end=1_000, preferred=STRANGER)
    assert bench[0].read_from == STRANGER


def test_a_follower_that_is_behind_moves_neither_the_end_nor_the_recovery_point(bench: Bench):
    """It answers as one does that fell out of sync hours ago: level with the copy, and without an error."""
    copy = bench[0]
    follow_the_follower(bench)
    point = copy.recovery.point_ms
    for _ in range(3):
        tell(bench, end=BEGIN)
        bench.lane.fetcher._sessions[FOLLOWER]._answered_ms = 5_000
        bench.lane.fetcher._sessions[FOLLOWER]._answered = 10
        follow(copy, bench.lane.fetcher.answered_ms(copy))
    assert (copy.end, copy.position, copy.recovery.point_ms) == (1_000, BEGIN, point)
    assert point == UNKNOWN_MS


def test_a_follower_that_is_ahead_of_what_the_leader_said_shows_more_of_the_log(bench: Bench):
    follow_the_follower(bench)
    tell(bench, end=1_200)
    assert bench[0].end == 1_200


def test_the_leader_is_asked_again_when_the_lease_is_over_and_the_follower_has_told(bench: Bench):
    follow_the_follower(bench)
    bench[0].replica.follow(FOLLOWER, -2 * LEASE_S, LEASE_S)
    bench.lane.followers.ask_for_better()
    assert bench[0].read_from == FOLLOWER, "what a slow line brings is waited for once"
    session = bench.lane.fetcher._sessions[FOLLOWER]
    session._answered = session._asked = 1
    bench.lane.followers.ask_for_better()
    assert (bench[0].read_from, partitions_of(bench, LEADER)) == (LEADER, {0, 1})
    assert asked(bench)[LEADER].rack_id == RACK


def test_a_follower_within_its_lease_is_kept(bench: Bench):
    follow_the_follower(bench)
    session = bench.lane.fetcher._sessions[FOLLOWER]
    session._answered = session._asked = 1
    bench.lane.followers.ask_for_better()
    assert bench[0].read_from == FOLLOWER


@pytest.mark.parametrize(
    ("answer", "near"),
    [
        ({"code": OUT_OF_RANGE}, False),
        ({"code": NOT_LEADER}, False),
        ({"code": STORAGE_ERROR}, False),
        ({"code": UNKNOWN_EPOCH}, False),
        ({"code": NOT_AVAILABLE}, False),
        ({"code": NOT_ALLOWED}, False),
        ({"diverging": (3, 5)}, False),
        ({"code": FENCED}, True),
    ],
    ids=str,
)
def test_a_follower_that_refuses_is_left_and_nothing_stops(bench: Bench, answer: dict[str, Any], near: bool):
    """A refusal decides nothing: out of range and another history are what one says that is only behind."""
    copy = bench[0]
    follow_the_follower(bench)
    tell(bench, end=BEGIN, **answer)
    assert (copy.error, copy.obstacle, copy.asked, copy.tally.events) == ("", "", False, [])
    assert (copy.read_from, bench.lane.watch._lost_at_the_source()) == (NO_LEADER, [copy])
    assert partitions_of(bench, FOLLOWER) == set()
    learn(bench)
    assert asked(bench)[LEADER].rack_id == (RACK if near else ""), "the leader must not name it again at once"
    bench.lane.fetcher._leader_only[LEADER] = 0.0  # a lease later
    assert asked(bench)[LEADER].rack_id == RACK


def test_a_follower_that_does_not_answer_is_left(bench: Bench):
    follow_the_follower(bench)
    bench.lane.fetcher.unreachable[FOLLOWER] = LinkError(cluster="A", address="a:1", reason="gone")
    assert bench.lane.watch._lost_at_the_source() == [bench[0]]
    learn(bench)
    assert (bench[0].read_from, asked(bench)[LEADER].rack_id) == (LEADER, "")


def test_what_a_follower_says_after_it_was_left_is_dropped(bench: Bench):
    follow_the_follower(bench)
    asked(bench)
    session = bench.lane.fetcher._sessions[FOLLOWER]
    bench[0].replica.leave()
    bench.lane.fetcher.update(bench[0])
    bench.lane.fetcher._answers.append((session, told(log([batch(BEGIN, 1, size=LARGE)]))))
    assert list(bench.lane.fetcher.answers()) == []


class Answering:
    """Leaders that answer ListOffsets, each with a code or an offset; or that do not answer."""

    def __init__(self, bench: Bench) -> None:
        self.code, self.first, self.end, self.link = 0, 0, 0, False
        self.nodes: list[int] = []
        self._bench = bench
        bench.source.exchange = self.exchange  # type: ignore[method-assign, assignment]  # nothing is connected

    async def exchange(self, request: Any, node: int, timeout_ms: int = 0) -> Any:  # noqa: ARG002 - as of any cluster
        self.nodes.append(node)
        if self.link:
            raise LinkError(cluster="A", address="a:1", reason="gone")
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            topics=[
                topic(
                    name=asked.name,
                    partitions=[
                        topic.ListOffsetsPartitionResponse(
                            partition_index=part.partition_index,
                            error_code=self.code,
                            offset=self.first if part.timestamp == -2 else self.end,
                        )
                        for part in asked.partitions
                    ],
                )
                for asked in request.topics
            ]
        )


@pytest.fixture
def leaders(bench: Bench) -> Answering:
    return Answering(bench)


def test_the_leader_says_where_the_log_ends_and_moves_the_recovery_point(bench: Bench, leaders: Answering):
    copy = bench[0]
    follow_the_follower(bench)
    leaders.end = 2_000
    bench.run(bench.lane.followers.ask_for_ends)
    follow(copy, -1)
    assert (copy.end, copy.recovery.point_ms) == (2_000, UNKNOWN_MS)
    leaders.end = BEGIN
    copy.recovery._awaited = None
    bench.run(bench.lane.followers.ask_for_ends)
    follow(copy, -1)
    assert copy.end == BEGIN
    assert copy.recovery.point_ms > UNKNOWN_MS, "the copy is level with the leader"
    assert set(leaders.nodes) == {LEADER}


@pytest.mark.parametrize(
    ("code", "link", "lost"), [(NOT_LEADER, False, True), (0, True, True), (NOT_AVAILABLE, False, False)]
)
def test_a_leader_that_cannot_say_leaves_end_and_point_as_they_are(
    bench: Bench, leaders: Answering, code: int, link: bool, lost: bool
):
    copy = bench[0]
    follow_the_follower(bench)
    leaders.code, leaders.link = code, link
    bench.run(bench.lane.followers.ask_for_ends)
    assert (copy.end, copy.recovery.point_ms, copy.error) == (1_000, UNKNOWN_MS, "")
    assert copy.read_from == FOLLOWER, "what the follower has can be copied meanwhile"
    assert bench.lane.watch._lost_at_the_source() == ([copy] if lost else [])


def stopped(bench: Bench) -> None:
    bench[0].stop("stopped")


def paused(bench: Bench) -> None:
    bench[0].paused = True


@pytest.mark.parametrize("still", [stopped, paused])
def test_the_leader_of_a_partition_that_stands_still_is_not_asked(
    bench: Bench, leaders: Answering, still: Callable[[Bench], None]
):
    follow_the_follower(bench)
    still(bench)
    bench.run(bench.lane.followers.ask_for_ends)
    assert leaders.nodes == []


@pytest.mark.parametrize(
    ("code", "link"), [(NOT_LEADER, False), (TIMED_OUT, False), (FENCED, False), (NOT_AVAILABLE, False), (0, True)]
)
def test_a_leader_that_cannot_say_yet_whether_an_offset_is_in_its_log_stops_nothing(
    bench: Bench, leaders: Answering, code: int, link: bool
):
    copy = bench[0]
    leaders.code, leaders.link = code, link
    tell(bench, end=1_000, code=OUT_OF_RANGE)
    bench.run(bench.rest)
    assert (copy.error, copy.asked, copy.tally.events) == ("", False, [])
    assert bench.lane.watch._lost_at_the_source() == [copy], "whoever leads by now is fetched from, and asked again"


def test_a_leader_that_will_never_say_it_stops_the_partition(bench: Bench, leaders: Answering):
    leaders.code = NOT_ALLOWED
    tell(bench, end=1_000, code=OUT_OF_RANGE)
    bench.run(bench.rest)
    assert "TOPIC_AUTHORIZATION_FAILED" in bench[0].error


def test_out_of_range_at_the_leader_still_decides(bench: Bench, leaders: Answering):
    leaders.first, leaders.end = 50, 90
    tell(bench, end=1_000, code=OUT_OF_RANGE)
    bench.run(bench.rest)
    assert (bench[0].position, [event.first for event in bench[0].tally.events]) == (50, [BEGIN])


@pytest.mark.parametrize(("first", "end"), [(BEGIN + 50, 90_000), (0, BEGIN - 1)], ids=["retention", "tail-lost"])
def test_nothing_is_decided_about_a_partition_while_answers_of_the_target_are_awaited(
    bench: Bench, leaders: Answering, monkeypatch: pytest.MonkeyPatch, first: int, end: int
):
    """What is on its way may be in the target's log; where the copy goes on is known once that is."""
    monkeypatch.setattr(intake, "SETTLE_SECONDS", 0.0)
    copy = bench[0]
    leaders.first, leaders.end = first, end
    tell(bench, end=1_000, records=log([batch(BEGIN)]))
    assert not copy.idle
    position = copy.position
    tell(bench, end=1_000, code=OUT_OF_RANGE)
    bench.run(bench.rest)
    assert (copy.error, copy.position, copy.tally.events, copy.asked) == ("", position, [], False)
