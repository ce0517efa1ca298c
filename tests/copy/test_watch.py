"""What a lane does beside the copy: no cluster is asked here, the answers are made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.producer import InitProducerIdRequest

from sparkmirror.copy.arrivals import Ticket
from sparkmirror.copy.footing import Footing
from sparkmirror.copy.leaders import Leaders
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.copy.watch import Watch
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import broker_error
from sparkmirror.kafka.metadata import NO_LEADER, Leader, TopicView
from sparkmirror.model import Reached
from sparkmirror.offsets.segments import Segments
from tests.batches.building import log
from tests.copy.making import BEGIN, LARGE, WRITER, Bench, batch, log_end

NOT_ALLOWED = 31
END = 71
NEW_LEADER = Leader(node=2, epoch=5)


class Answers:
    """Takes the target's place where it is asked; it knows the ends of its logs, and refuses everything else."""

    def __init__(self, end: int = END) -> None:
        self.end = end
        self.asked: list[Any] = []

    async def exchange(
        self,
        request: Any,
        node: int | None = None,  # noqa: ARG002 - as of any cluster
        timeout_ms: int = 0,  # noqa: ARG002 - as of any cluster
        patience_ms: int = 0,  # noqa: ARG002 - as of any cluster
    ) -> Any:
        self.asked.append(request)
        if isinstance(request, OffsetForLeaderEpochRequest):
            return log_end(request, self.end)
        raise broker_error(NOT_ALLOWED, "B")


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def bench(answers: Answers) -> Iterator[Bench]:
    made = Bench(2)
    made.target.exchange = answers.exchange  # type: ignore[method-assign]  # no target is there
    yield made
    made.lane.watch.stop()
    made.close()


def acknowledged_before(bench: Bench) -> None:
    """Partition 0 has been idle for long, with all below `END` acknowledged in the leader epoch that it knows."""
    bench[0].footing = Footing(reached=Reached(leader_epoch=4, end=END), leader_epoch=4)
    bench.target._ends[bench[0].target] = END


@pytest.mark.parametrize("end", [END, END - 1])
def test_the_first_batch_after_a_pause_goes_once_the_leader_has_told_that_it_has_all(
    bench: Bench, answers: Answers, end: int
):
    answers.end = end
    acknowledged_before(bench)
    bench.bring(0, log([batch(BEGIN, 1, size=LARGE)]))
    bench.lane._turn()
    assert bench.target.requests == []
    bench.run(bench.rest)
    assert len(answers.asked) == 1
    bench.lane._turn()
    sent = end == END
    assert len(bench.target.requests) == sent
    assert bench[0].position == BEGIN + sent
    assert ("has not all of the log" in bench[0].error) is not sent


def test_the_target_is_looked_at_although_nothing_is_sent(
    bench: Bench, answers: Answers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sparkmirror.copy.watch.TARGET_SECONDS", 0.001)
    monkeypatch.setattr("sparkmirror.copy.watch.LEADER_SECONDS", 3_600.0)
    acknowledged_before(bench)
    answers.end = END - 1

    async def learn_target(_: Leaders, partitions: Sequence[PartitionCopy]) -> None:
        partitions[0].footing.leader_epoch = 5

    monkeypatch.setattr(Leaders, "learn_target", learn_target)
    bench.lane.watch.start()
    for _ in range(1_000):
        bench.run(bench.rest)
        if bench[0].error:
            break
    assert "has not all of the log" in bench[0].error


def test_what_a_lane_publishes_goes_under_a_producer_id_of_its_own(bench: Bench, answers: Answers):
    """So no request of a former holder arrives behind what the next one wrote."""
    publisher = bench.lane.watch.publisher
    with pytest.raises(BrokerError):
        bench.run(publisher.write_ahead, [segment_of(bench[0])])
    assert [type(request) for request in answers.asked] == [InitProducerIdRequest]


def segment_of(copy: PartitionCopy) -> Segments:
    return Segments(partition=copy.source, writer=WRITER, sequence=BEGIN, source=BEGIN)


def test_segments_of_a_partition_that_stopped_while_they_waited_are_not_written(bench: Bench):
    """Its account may be closed: the next holder may have numbered its records otherwise."""
    watch = bench.lane.watch
    written: list[Segments] = []

    async def write_ahead(segments: Sequence[Segments], timeout_ms: int = 0) -> None:
        written.extend(segments)

    watch.publisher.write_ahead = write_ahead  # type: ignore[method-assign,assignment]  # no target is there
    tickets = [Ticket(), Ticket()]
    for copy, ticket in zip(bench.lane.partitions, tickets, strict=True):
        Watch.write_ahead(watch, copy, [segment_of(copy)], ticket)
    bench[0].stop("refused for good")
    bench.run(bench.rest)
    assert written == [segment_of(bench[1])]
    assert [ticket.acknowledged for ticket in tickets] == [False, True]


def away(bench: Bench, cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
    """Starts to watch while one cluster does not answer, and the other has elected other leaders."""

    async def describe(asked: Cluster, names: Iterable[str]) -> dict[str, TopicView]:
        if asked is cluster:
            raise LinkError(cluster=asked.alias, address=asked.address, reason="gone")
        leaders = dict.fromkeys((0, 1), NEW_LEADER)
        return {name: TopicView(name=name, code=0, topic_id=None, leaders=leaders) for name in names}

    patch.setattr("sparkmirror.copy.leaders.describe_topics", describe)
    patch.setattr("sparkmirror.copy.watch.LEADER_SECONDS", 0.001)
    bench.lane.watch.start()


def test_a_leader_of_the_source_that_is_learnt_while_the_target_is_away_is_fetched_from(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    """Nothing asks for its leader again later, so nothing else would begin to fetch it."""
    bench.lane.fetcher.lose_leader(bench[0])
    bench[0].lost_leader = True
    away(bench, bench.target, monkeypatch)
    for _ in range(1_000):
        bench.run(bench.rest)
        if bench[0].source_node != NO_LEADER:
            break
    bench.run(bench.rest)
    assert (bench[0].read_from, bench[0].lost_leader) == (NEW_LEADER.node, True)
    assert bench[0].source in bench.lane.fetcher._sessions[NEW_LEADER.node]


def test_a_leader_of_the_target_is_learnt_while_the_source_is_away(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    bench.lane.fetcher.lose_leader(bench[0])
    bench[0].lost_leader = True
    away(bench, bench.source, monkeypatch)
    for _ in range(1_000):
        bench.run(bench.rest)
        if not bench[0].lost_leader:
            break
    assert (bench[0].source_node, bench[0].target_leader) == (NO_LEADER, NEW_LEADER.node)


def test_a_shift_ends_where_what_it_does_beside_the_copy_fails_in_a_way_that_nobody_foresaw(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    """It would go on without ever learning a leader again, and say that nothing waits."""

    async def describe(_: Cluster, names: Iterable[str]) -> dict[str, TopicView]:
        raise KeyError(*names)

    monkeypatch.setattr("sparkmirror.copy.leaders.describe_topics", describe)
    monkeypatch.setattr("sparkmirror.copy.watch.LEADER_SECONDS", 0.001)
    bench[0].lost_leader = True
    bench.lane.watch.start()
    for _ in range(1_000):
        bench.run(bench.rest)
        if bench.lane.watch.defect is not None:
            break
    with pytest.raises(KeyError, match=r"A\.orders"):
        bench.lane._turn()


def test_a_shift_ends_where_a_leader_cannot_be_verified_for_a_reason_that_nobody_foresaw(
    bench: Bench, answers: Answers, monkeypatch: pytest.MonkeyPatch
):
    """What it has to send would wait for that without end."""

    async def verify(_: Leaders, partitions: Sequence[PartitionCopy], *, ahead: bool = False) -> None:
        raise KeyError(partitions[ahead].target.topic)

    monkeypatch.setattr(Leaders, "verify", verify)
    acknowledged_before(bench)
    bench.bring(0, log([batch(BEGIN, 1, size=LARGE)]))
    bench.lane._turn()
    bench.run(bench.rest)
    with pytest.raises(KeyError, match=r"A\.orders"):
        bench.lane._turn()
    assert answers.asked == []
