"""Where the source's logs end is asked where the fetch does not tell; no cluster is asked here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsResponse

from sparkmirror.copy import source_ends
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.progress import follow
from sparkmirror.errors import LinkError
from sparkmirror.kafka.metadata import NO_LEADER
from sparkmirror.offsets.recovery import UNKNOWN_MS
from tests.copy.making import BEGIN, Bench

LEADER, FOLLOWER = 1, 2
NOT_LEADER, NOT_AVAILABLE = 6, 78
LATER_MS = source_ends.QUIET_MS + 501


class Clock:
    """The wall clock of the questions; that of the fetch is written by hand."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


class Answering:
    """Leaders that answer ListOffsets with a code or an offset, or do not answer."""

    def __init__(self, bench: Bench) -> None:
        self.code, self.end, self.link = 0, 0, False
        self.asked: list[int] = []
        self.meanwhile: Callable[[], None] = lambda: None
        bench.lane._asking.exchange = self.exchange  # type: ignore[method-assign, assignment]  # nothing is connected

    async def exchange(self, request: Any, node: int, timeout_ms: int = 0) -> Any:  # noqa: ARG002 - as of any cluster
        assert node == LEADER
        self.meanwhile()
        if self.link:
            raise LinkError(cluster="A", address="a:1", reason="gone")
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        part = topic.ListOffsetsPartitionResponse
        (asked,) = request.topics
        self.asked += [one.partition_index for one in asked.partitions]
        told = [
            part(partition_index=one.partition_index, error_code=self.code, offset=self.end) for one in asked.partitions
        ]
        return ListOffsetsResponse(topics=[topic(name=asked.name, partitions=told)])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(source_ends, "now_ms", made)
    return made


@pytest.fixture
def bench(clock: Clock) -> Iterator[Bench]:
    made = Bench(2)
    for partition in made.lane.partitions:
        made.lane.fetcher.update(partition)
        partition.end = BEGIN
    clock.now_ms += LATER_MS
    yield made
    made.close()


@pytest.fixture
def leaders(bench: Bench) -> Answering:
    return Answering(bench)


def fetched(bench: Bench, asked_ms: int) -> None:
    """The broker has answered a Fetch that left then, about every partition."""
    session = bench.lane.fetcher._sessions[LEADER]
    session._asked = session._answered = 1
    session._answered_ms = asked_ms


def ask(bench: Bench) -> None:
    bench.run(bench.lane.source_ends.ask)


def test_what_the_source_has_taken_shows_as_lag_though_no_fetch_is_answered(bench: Bench, leaders: Answering):
    leaders.end = BEGIN + 7
    ask(bench)
    follow(bench[0], bench.lane.fetcher.answered_ms(bench[0]))
    assert [(each.position, each.end) for each in bench.lane.partitions] == [(BEGIN, BEGIN + 7)] * 2
    assert bench[0].recovery.point_ms == UNKNOWN_MS, "the target lacks what the source has"


def test_a_lane_asks_beside_the_copy(bench: Bench, leaders: Answering, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sparkmirror.copy.watch.EVERY_SECONDS", 0.001)
    leaders.end = BEGIN + 7
    bench.lane.watch.start()
    for _ in range(1_000):
        bench.run(bench.rest)
        if leaders.asked:
            break
    bench.run(bench.rest)
    bench.lane.watch.stop()
    assert bench[0].end == BEGIN + 7


def test_a_copy_that_is_level_with_the_answer_is_as_old_as_the_question(bench: Bench, leaders: Answering, clock: Clock):
    leaders.end = BEGIN
    ask(bench)
    follow(bench[0], -1)
    assert (bench[0].end, bench[0].recovery.point_ms) == (BEGIN, clock.now_ms)


def test_an_end_below_what_was_fetched_moves_no_recovery_point(bench: Bench, leaders: Answering):
    """The log lost its end, or the topic was made anew: what it had before may not be what was copied."""
    leaders.end = BEGIN - 3
    ask(bench)
    follow(bench[0], -1)
    assert (bench[0].end, bench[0].recovery.point_ms) == (BEGIN, UNKNOWN_MS)


def test_while_fetches_are_answered_and_soon_after_an_answer_nobody_is_asked(
    bench: Bench, leaders: Answering, clock: Clock
):
    fetched(bench, clock.now_ms - LATER_MS + 1)
    ask(bench)
    assert leaders.asked == []
    clock.now_ms += 1
    ask(bench)
    ask(bench)
    assert sorted(leaders.asked) == [0, 1]
    clock.now_ms += LATER_MS
    ask(bench)
    assert sorted(leaders.asked) == [0, 0, 1, 1]


def test_what_a_fetch_has_told_meanwhile_counts(bench: Bench, leaders: Answering, clock: Clock):
    def tell() -> None:
        fetched(bench, clock.now_ms)
        bench[0].end = BEGIN + 9

    leaders.end, leaders.meanwhile = BEGIN + 7, tell
    ask(bench)
    assert bench[0].end == BEGIN + 9


def stopped(copy: PartitionCopy) -> None:
    copy.stop("stopped")


def about_to_stop(copy: PartitionCopy) -> None:
    copy.obstacle = "cannot be copied"


def followed(copy: PartitionCopy) -> None:
    copy.replica.node = FOLLOWER


def without_leader(copy: PartitionCopy) -> None:
    copy.source_node = NO_LEADER


def not_begun(copy: PartitionCopy) -> None:
    copy.position = -1


@pytest.mark.parametrize("still", [stopped, about_to_stop, followed, without_leader, not_begun])
def test_about_others_the_source_is_not_asked(bench: Bench, leaders: Answering, still: Callable[[PartitionCopy], None]):
    still(bench[0])
    ask(bench)
    assert leaders.asked == [1]


def test_a_paused_partition_shows_lag_and_its_recovery_point_grows_old(bench: Bench, leaders: Answering):
    bench[0].paused = True
    bench.lane.fetcher.update(bench[0])
    leaders.end = BEGIN + 2
    ask(bench)
    assert bench[0].end == BEGIN + 2
    bench[0].position = bench[0].fetch_offset = BEGIN + 2
    follow(bench[0], -1)
    assert bench[0].recovery.point_ms == UNKNOWN_MS


@pytest.mark.parametrize(
    ("code", "link", "lost"), [(NOT_LEADER, False, True), (NOT_AVAILABLE, False, False), (0, True, False)]
)
def test_a_leader_that_cannot_say_changes_nothing_and_one_that_is_none_is_learnt_anew(
    bench: Bench, leaders: Answering, code: int, link: bool, lost: bool
):
    leaders.code, leaders.link, leaders.end = code, link, BEGIN + 7
    ask(bench)
    assert (bench[0].end, bench[0].recovery.point_ms, bench[0].error) == (BEGIN, UNKNOWN_MS, "")
    assert (bench[0] in bench.lane.watch._lost_at_the_source()) is lost
