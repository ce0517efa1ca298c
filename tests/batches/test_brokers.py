"""New batches as a real broker, whose Java code opens and checks them, and librdkafka see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from sparkmirror.batches import HEADER_NAME, Codec, Provenance, Run, Stamp, TargetTopic, index, keep, mark, merge
from sparkmirror.config import ClientSettings
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.lab.cluster import LabCluster
from tests.batches.building import DELETE_HORIZON, LOG_APPEND_TIME, Rec, Written, log
from tests.raw_batches import produce

pytestmark = pytest.mark.kafka

NO_WRITER = Stamp(producer_id=-1, epoch=-1, sequence=-1)
HEADERS = (("h", b"1"), ("h", None), ("ä", b""))
NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def cluster(cluster_a: LabCluster) -> Iterator[Cluster]:
    settings = ClientSettings(bootstrap_servers=tuple(cluster_a.bootstrap_servers.split(",")))
    cluster = Cluster("A", settings, role="test")
    yield cluster
    cluster.close()


def consume(servers: str, topic: str, count: int) -> list[Rec]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=60)
    consumer.close()
    assert all(m.error() is None for m in messages)
    return [
        Rec(m.offset() or 0, m.timestamp()[1], m.key(), m.value(), tuple(m.headers() or ()))  # type: ignore[arg-type]  # librdkafka types headers loosely
        for m in messages
    ]


@pytest.mark.parametrize("compression", ["producer", "gzip"])
@pytest.mark.parametrize("codec", list(Codec))
def test_a_broker_takes_what_merge_makes(
    cluster: Cluster, cluster_a: LabCluster, topic_name: str, codec: Codec, compression: str
) -> None:
    """As it is, and where the broker's own code decompresses it all to compress it anew."""
    batches = [
        Written(records=(Rec(0, NOW, b"k", b"v" * 300, HEADERS), Rec(1, NOW + 5, None, None)), codec=codec),
        Written(records=(Rec(0, NOW, b"k", b""), Rec(3, NOW - 9, b"", b"x" * 70_000)), base_offset=7, codec=codec),
        Written(records=(Rec(1, 5),), base_offset=20, bits=LOG_APPEND_TIME, max_time=NOW + 77),
        Written(records=(Rec(0, NOW + 1, b"t", None),), base_offset=30, bits=DELETE_HORIZON, base_time=NOW + 10**9),
    ]
    new = NewTopic(name=topic_name, partitions=1, replication_factor=1, configs=(("compression.type", compression),))
    admin.create_topics(cluster, [new]).complete()
    admin.wait_for_leaders(cluster, {topic_name: 1}).complete()
    answer = index(log(batches))
    run = Run(indexed=answer, kept=keep(answer, start_offset=0), first=0, stop=len(answer))
    target = TargetTopic(log_append_time=False, max_message_bytes=1 << 20)
    (merged,) = merge([run], target, NO_WRITER).batches
    assert produce(cluster, topic_name, merged.batch) == 0
    expected = [(r.time, r.key, r.value, r.headers) for batch in batches for r in batch.seen()]
    got = consume(cluster_a.bootstrap_servers, topic_name, len(expected))
    assert [r.offset for r in got] == list(range(len(expected)))
    assert [(r.time, r.key, r.value, r.headers) for r in got] == expected


@pytest.mark.parametrize("compression", ["producer", "gzip"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_broker_takes_records_that_name_their_way(
    cluster: Cluster, cluster_a: LabCluster, topic_name: str, codec: Codec, compression: str
) -> None:
    """As they are marked, and as they come out of the merging behind that."""
    came = (HEADER_NAME, b"x")
    first = (Rec(0, NOW, b"k", b"v" * 300, HEADERS), Rec(1, NOW, b"k", b"back", ((HEADER_NAME, b"there"),)))
    second = (Rec(0, NOW + 3, None, b"came", (came, *HEADERS)), Rec(1, NOW + 4, b"", None))
    answer = index(log([Written(records=first, codec=codec), Written(records=second, base_offset=2, codec=codec)]))
    new = NewTopic(name=topic_name, partitions=1, replication_factor=1, configs=(("compression.type", compression),))
    admin.create_topics(cluster, [new]).complete()
    admin.wait_for_leaders(cluster, {topic_name: 1}).complete()
    made = mark(answer, keep(answer, start_offset=0), Provenance(source="here", target="there"))
    target = TargetTopic(log_append_time=False, max_message_bytes=1 << 20, codec=made.codec)
    run = Run(indexed=made.indexed, kept=made.kept, first=0, stop=2)
    (merged,) = merge([run], target, NO_WRITER).batches
    alone = bytearray(made.indexed.data[made.indexed.start[1] :].tobytes())
    alone[:8] = bytes(8)  # the base offset, which the checksum does not cover
    for offset, batch in ((0, merged.batch), (3, memoryview(alone))):
        assert produce(cluster, topic_name, batch) == offset
    own, after = (HEADER_NAME, b"here"), (HEADER_NAME, b"x,here")
    expected = [
        (b"k", b"v" * 300, (*HEADERS, own)),
        *2 * [(None, b"came", (after, *HEADERS)), (b"", None, (own,))],
    ]
    got = consume(cluster_a.bootstrap_servers, topic_name, len(expected))
    assert [(r.key, r.value, r.headers) for r in got] == expected
