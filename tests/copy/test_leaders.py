"""What a lane makes of the metadata that a cluster tells; no cluster is asked here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from sparkmirror.config import ClientSettings
from sparkmirror.copy.leaders import Leaders
from sparkmirror.kafka.cluster import Cluster, new_loop
from sparkmirror.kafka.metadata import NO_LEADER, Leader, TopicView
from tests.copy.making import partition

FIRST, SECOND = uuid.UUID(int=11), uuid.UUID(int=12)
NO_SUCH_TOPIC, NO_LEADER_NOW, NOT_ALLOWED = 3, 5, 29


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


def target_view(identity: uuid.UUID | None = FIRST, code: int = 0, node: int = 5) -> TopicView:
    return TopicView(name="A.orders", code=code, topic_id=identity, leaders={} if code else {2: Leader(node, 1)})


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
