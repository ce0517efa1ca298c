"""What a lane makes of the metadata that a cluster tells; no cluster is asked here."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from sparkmirror.config import ClientSettings
from sparkmirror.copy.leaders import Leaders
from sparkmirror.copy.lease import now
from sparkmirror.copy.partition import PartitionCopy
from sparkmirror.errors import LinkError
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.metadata import NO_LEADER, Leader, TopicView
from sparkmirror.model import Reached
from tests.copy.making import LARGE, WRITER, batch, log_end, partition, take

FIRST, SECOND = uuid.UUID(int=11), uuid.UUID(int=12)
NO_SUCH_TOPIC, NO_LEADER_NOW, NOT_LEADER, NOT_ALLOWED, FENCED_EPOCH, UNKNOWN_EPOCH = 3, 5, 6, 29, 74, 75


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[Cluster, Cluster]]:
    loop = new_loop("test")
    settings = ClientSettings(bootstrap_servers=("127.0.0.1:1",))
    source, target = (Cluster(alias, settings, role="test", loop=loop) for alias in ("A", "B"))
    yield source, target
    source.close()
    target.close()
    loop.close()


def leaders(clusters: tuple[Cluster, Cluster]) -> Leaders:
    return Leaders(*clusters)


def source_view(identity: uuid.UUID | None = FIRST, code: int = 0, node: int = 4) -> TopicView:
    return TopicView(name="orders", code=code, topic_id=identity, leaders={} if code else {2: Leader(node, 9)})


def target_view(identity: uuid.UUID | None = FIRST, code: int = 0, node: int = 5, epoch: int = 1) -> TopicView:
    return TopicView(name="A.orders", code=code, topic_id=identity, leaders={} if code else {2: Leader(node, epoch)})


def test_leaders_epochs_and_ids_are_learnt(clusters: tuple[Cluster, Cluster]):
    copy = partition(topic_id=FIRST.hex)
    lane = leaders(clusters)
    lane._learn_source(copy, source_view())
    lane._learn_target(copy, target_view(SECOND))
    assert (copy.source_node, copy.source_epoch, copy.source_id) == (4, 9, FIRST)
    assert (copy.target_leader, copy.target_id, copy.lost_leader) == (5, SECOND, False)


def test_a_source_topic_made_anew_stops_its_partition(clusters: tuple[Cluster, Cluster]):
    copy = partition(topic_id=FIRST.hex)
    leaders(clusters)._learn_source(copy, source_view(SECOND))
    assert "source topic orders was deleted and made anew" in copy.error


def test_a_target_topic_made_anew_stops_its_partition(clusters: tuple[Cluster, Cluster]):
    copy = partition()
    lane = leaders(clusters)
    lane._learn_target(copy, target_view(FIRST))
    assert not copy.error
    lane._learn_target(copy, target_view(SECOND))
    assert "target topic A.orders was deleted and made anew" in copy.error


def test_brokers_without_topic_ids_are_taken_as_they_are(clusters: tuple[Cluster, Cluster]):
    copy = partition(topic_id=FIRST.hex)
    lane = leaders(clusters)
    lane._learn_source(copy, source_view(None))
    lane._learn_target(copy, target_view(None))
    assert not copy.error
    assert (copy.source_id, copy.target_id) == (None, None)


def test_a_partition_without_a_leader_waits(clusters: tuple[Cluster, Cluster]):
    copy = partition()
    lane = leaders(clusters)
    lane._learn_target(copy, target_view(node=NO_LEADER))
    lane._learn_source(copy, source_view(code=NO_LEADER_NOW))
    assert copy.lost_leader
    assert not copy.error


def test_a_partition_without_a_leader_is_not_in_doubt_since_there_is_nobody_to_ask(clusters: tuple[Cluster, Cluster]):
    copy = partition()
    copy.footing.reached = Reached(leader_epoch=1, end=50)
    lane = leaders(clusters)
    lane._learn_target(copy, target_view())
    lane._learn_target(copy, target_view(node=NO_LEADER, epoch=2))
    assert (copy.footing.leader_epoch, copy.footing.doubted) == (1, False)
    lane._learn_target(copy, target_view(epoch=3))
    assert (copy.footing.leader_epoch, copy.footing.doubted) == (3, True)


class Asked(Cluster):
    """A target whose leader answers how far its log goes with ``code``, or not at all where that is None."""

    code: int | None = 0

    async def exchange(
        self,
        request: Any,
        node: int | None = None,  # noqa: ARG002 - as of any cluster
        timeout_ms: int = 0,  # noqa: ARG002 - as of any cluster
        patience_ms: int = 0,  # noqa: ARG002 - as of any cluster
    ) -> Any:
        if self.code is None or isinstance(request, DescribeProducersRequest):
            raise LinkError(cluster=self.alias, address="b:5", reason="no answer")
        return log_end(request, 50, self.code)


@pytest.mark.parametrize(
    ("code", "lost", "stopped"),
    [
        (0, False, False),
        (None, True, False),
        (NOT_LEADER, True, False),
        (FENCED_EPOCH, True, False),
        (UNKNOWN_EPOCH, True, False),
        (NOT_ALLOWED, False, True),
    ],
)
def test_a_leader_that_does_not_tell_how_far_its_log_goes_is_learnt_anew(code: int | None, lost: bool, stopped: bool):
    loop = new_loop("asked")
    target = Asked("B", ClientSettings(bootstrap_servers=("127.0.0.1:1",)), role="test", loop=loop)
    target.code = code
    copy = partition()
    copy.target_leader, copy.footing.leader_epoch = 5, 2
    copy.footing.reached = Reached(leader_epoch=1, end=50)
    try:
        loop.run(Leaders(target, target).verify, [copy])
        assert (copy.lost_leader, bool(copy.error)) == (lost, stopped)
        assert copy.footing.doubted is (code != 0), "without an answer it stays in doubt"
    finally:
        target.close()
        loop.close()


class Remembering(Cluster):
    """A target whose leader remembers a producer in an epoch up to a sequence number, in a log up to `end`."""

    end, state = 50, (WRITER.epoch, 7)
    asked, tells, others = 0, True, 0

    async def exchange(
        self,
        request: Any,
        node: int | None = None,  # noqa: ARG002 - as of any cluster
        timeout_ms: int = 0,  # noqa: ARG002 - as of any cluster
        patience_ms: int = 0,  # noqa: ARG002 - as of any cluster
    ) -> Any:
        if not isinstance(request, DescribeProducersRequest):
            return log_end(request, self.end)
        self.asked += 1
        if not self.tells:
            raise LinkError(cluster=self.alias, address="b:5", reason="before Kafka 2.8")
        topic = DescribeProducersResponse.TopicResponse
        part = topic.PartitionResponse
        epoch, last = self.state
        known = [
            part.ProducerState(
                producer_id=WRITER.producer_id + number,
                producer_epoch=epoch,
                last_sequence=last,
                last_timestamp=-1,
                coordinator_epoch=0,
                current_txn_start_offset=-1,
            )
            for number in range(1 + self.others)
        ]
        told = part(partition_index=2, error_code=0, error_message=None, active_producers=known)
        return DescribeProducersResponse(throttle_time_ms=0, topics=[topic(name="A.orders", partitions=[told])])


def verified(
    end: int = 51, state: tuple[int, int] = (WRITER.epoch, 7), *, sent: bool = False, others: int = 0, times: int = 1
) -> tuple[PartitionCopy, Remembering]:
    """A partition that has sent sequence numbers below 7, or has more under way, and the target that it asked."""
    loop = new_loop("remembering")
    target = Remembering("B", ClientSettings(bootstrap_servers=("127.0.0.1:1",)), role="test", loop=loop)
    target.end, target.state, target.others = end, state, others
    copy = partition(sequence=7)
    copy.target_leader, copy.footing.leader_epoch = 5, 1
    copy.footing.reached = Reached(leader_epoch=1, end=50)
    take(copy, batch(0, 1, size=LARGE))
    if sent:
        copy.footing._known_at = now()
        one = copy.next_batch()
        assert one is not None
        copy.refused(one, NOT_LEADER, "")
    lane = Leaders(target, target)
    try:
        for _ in range(times):
            copy.footing._known_at = -math.inf
            loop.run(lane.verify, [copy])
    finally:
        target.close()
        loop.close()
    return copy, target


def test_batches_that_somebody_has_forged_are_seen_before_the_first_one_after_a_pause():
    copy, _ = verified()
    assert (copy.unsettled, copy.next_batch(), copy.position) == (True, None, 0)
    assert "the target topic A.orders has records up to sequence number 7 of this flow's producer id" in copy.error
    assert "of which the flow has sent none from 7 on" in copy.error


@pytest.mark.parametrize(
    "state",
    [
        pytest.param((WRITER.epoch, 6), id="others have written"),
        pytest.param((WRITER.epoch, 3), id="a leader that has lost something is found by its log"),
        pytest.param((WRITER.epoch, -1), id="only the marker of the fence"),
        pytest.param((WRITER.epoch - 1, 900), id="an older epoch"),
        pytest.param((WRITER.epoch + 1, 900), id="a newer one refuses what is sent"),
    ],
)
def test_what_a_leader_remembers_of_the_writer_is_no_contradiction(state: tuple[int, int]):
    copy, target = verified(state=state)
    assert (copy.error, target.asked) == ("", 1)
    assert copy.next_batch() is not None


def test_a_leader_is_not_asked_for_producers_where_nothing_has_come_or_something_is_under_way():
    for copy, target in (verified(end=50), verified(sent=True)):
        assert (copy.error, target.asked) == ("", 0)


@pytest.mark.parametrize(("others", "asked"), [(0, 3), (5_000, 1)])
def test_a_leader_that_knows_many_producers_is_asked_less_often(others: int, asked: int, monkeypatch):
    monkeypatch.setattr("sparkmirror.copy.leaders.EACH_PRODUCER_SECONDS", 0.02 if others else 0.0)
    _, target = verified(state=(WRITER.epoch, 6), others=others, times=3)
    assert target.asked == asked


def test_a_leader_that_does_not_tell_of_producers_is_written_to(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Remembering, "tells", False)
    copy, target = verified()
    assert (copy.error, target.asked) == ("", 1)
    assert copy.next_batch() is not None


def test_a_topic_that_is_gone_is_waited_for_and_then_named(
    clusters: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
):
    copy = partition()
    lane = leaders(clusters)
    lane._learn_source(copy, source_view(code=NO_SUCH_TOPIC))
    assert not copy.error, "metadata of a new topic takes a moment to spread"
    monkeypatch.setattr("sparkmirror.copy.leaders.GONE_SECONDS", -1.0)
    lane._learn_source(copy, source_view(code=NO_SUCH_TOPIC))
    assert "cluster A, orders-2: UNKNOWN_TOPIC_OR_PARTITION" in copy.error


def test_a_topic_that_may_not_be_seen_stops_at_once(clusters: tuple[Cluster, Cluster]):
    copy = partition()
    leaders(clusters)._learn_target(copy, target_view(code=NOT_ALLOWED))
    assert "cluster B, A.orders-2: TOPIC_AUTHORIZATION_FAILED" in copy.error
    assert "WRITE and DESCRIBE" in copy.error
