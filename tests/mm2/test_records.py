"""Heartbeats and offset syncs: round trips, and Kafka's own classes as referee for their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config import PolicyChoice, PolicyKind
from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.mm2.heartbeats import Heartbeat, read_heartbeat
from sparkmirror.mm2.offset_syncs import OffsetSync, read_offset_sync
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.naming import policy_for
from sparkmirror.spark.gateway import Gateway
from tests.mm2.test_types import TEXTS

LONGS = st.integers(-(2**63), 2**63 - 1)

HEARTBEATS = (
    Heartbeat(source="A", target="B", timestamp_ms=1_700_000_000_123),
    Heartbeat(source="eu-west.1", target="søk", timestamp_ms=0),
)
OFFSET_SYNCS = (
    OffsetSync(partition=TopicPartition("orders", 0), upstream=0, downstream=0),
    OffsetSync(partition=TopicPartition("x" * 249, 2**31 - 1), upstream=2**63 - 1, downstream=2**40),
)


@given(st.builds(Heartbeat, source=TEXTS, target=TEXTS, timestamp_ms=LONGS))
def test_a_heartbeat_comes_back(heartbeat):
    assert read_heartbeat(heartbeat.key, heartbeat.value) == heartbeat


@given(TEXTS, st.integers(0, 2**31 - 1), LONGS, LONGS)
def test_an_offset_sync_comes_back(topic, partition, upstream, downstream):
    sync = OffsetSync(partition=TopicPartition(topic, partition), upstream=upstream, downstream=downstream)
    assert read_offset_sync(sync.key, sync.value) == sync


def test_a_heartbeat_of_a_later_version_is_refused():
    with pytest.raises(ValueError, match="a heartbeat of version 1; 0 is known"):
        read_heartbeat(HEARTBEATS[0].key, b"\0\1" + HEARTBEATS[0].value[2:])


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


def record(jvm: Any, ours: Heartbeat | OffsetSync) -> Any:
    return jvm.org.apache.kafka.clients.consumer.ConsumerRecord("t", 0, 0, ours.key, ours.value)


def written(jvm: Any, theirs: Any, part: str) -> bytes:
    """The bytes that MirrorMaker 2 gives to its producer: ``recordKey`` and ``recordValue`` are its own business."""
    method = next(one for one in theirs.getClass().getDeclaredMethods() if one.getName() == part)
    method.setAccessible(True)
    nothing = jvm.java.util.ArrayList().toArray()
    return bytes(method.invoke(theirs, nothing))


@pytest.mark.kafka
@pytest.mark.parametrize("ours", HEARTBEATS, ids=str)
def test_mm2_reads_a_heartbeat_that_we_write_and_we_read_its(jvm: Any, ours: Heartbeat) -> None:
    mirror = jvm.org.apache.kafka.connect.mirror
    read = mirror.Heartbeat.deserializeRecord(record(jvm, ours))
    assert (read.sourceClusterAlias(), read.targetClusterAlias()) == (ours.source, ours.target)
    assert read.timestamp() == ours.timestamp_ms
    theirs = mirror.Heartbeat(ours.source, ours.target, ours.timestamp_ms)
    assert read_heartbeat(written(jvm, theirs, "recordKey"), written(jvm, theirs, "recordValue")) == ours


@pytest.mark.kafka
@pytest.mark.parametrize("ours", OFFSET_SYNCS, ids=lambda sync: f"{sync.upstream}")
def test_mm2_reads_an_offset_sync_that_we_write_and_we_read_its(jvm: Any, ours: OffsetSync) -> None:
    kafka = jvm.org.apache.kafka
    read = kafka.connect.mirror.OffsetSync.deserializeRecord(record(jvm, ours))
    assert (read.topicPartition().topic(), read.topicPartition().partition()) == ours.partition
    assert (read.upstreamOffset(), read.downstreamOffset()) == (ours.upstream, ours.downstream)
    place = kafka.common.TopicPartition(*ours.partition)
    theirs = kafka.connect.mirror.OffsetSync(place, ours.upstream, ours.downstream)
    assert read_offset_sync(written(jvm, theirs, "recordKey"), written(jvm, theirs, "recordValue")) == ours


@pytest.mark.kafka
@pytest.mark.parametrize("follows", ["true", "false"])
@pytest.mark.parametrize("separator", [".", "_", "--"])
@pytest.mark.parametrize("kind", ["DefaultReplicationPolicy", "IdentityReplicationPolicy"])
def test_the_topics_are_named_as_mm2_names_them(jvm: Any, kind: str, separator: str, follows: str) -> None:
    choice = PolicyChoice(kind=PolicyKind(kind), separator=separator, internal_separator_follows=follows == "true")
    ours = policy_for(choice, Alias("A"))
    theirs = getattr(jvm.org.apache.kafka.connect.mirror, kind)()
    settings = jvm.java.util.HashMap()
    settings.put("replication.policy.separator", separator)
    settings.put("replication.policy.internal.topic.separator.enabled", follows)
    theirs.configure(settings)
    assert ours.offset_syncs_topic(Alias("B")) == theirs.offsetSyncsTopic("B")
    assert ours.checkpoints_topic(Alias("B")) == theirs.checkpointsTopic("B")
    for topic in ("A.checkpoints.internal", "A_checkpoints_internal", "A--checkpoints--internal", "checkpoints", "A"):
        assert ours.is_checkpoints_topic(topic) is theirs.isCheckpointsTopic(topic)
