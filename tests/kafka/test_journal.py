"""Small compacted topics as stores: their bytes, and how they behave on real brokers, also when the leader moves."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from sparkmirror.batches import Codec
from sparkmirror.config import ClientSettings
from sparkmirror.errors import BrokerError, LinkError
from sparkmirror.kafka import admin
from sparkmirror.kafka.admin import NewTopic
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.journal import BATCH_BYTES, Entry, Journal, Pair, decode, encode, split
from sparkmirror.kafka.stored_records import OPENED_BYTES
from sparkmirror.lab.cluster import LabCluster, start
from tests.batches.building import CONTROL, Rec, Written
from tests.kafka.unreachable import Unreachable, assert_paused

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_pairs = st.lists(st.tuples(_texts, st.none() | _texts), max_size=20)


def opened(entries: list[Entry]) -> list[tuple[str, str | None]]:
    return [(entry.key, entry.value) for entry in entries]


@given(_pairs)
def test_pairs_come_back_as_they_were_written(pairs: list[tuple[str, str | None]]):
    """Large ones are compressed."""
    entries = [entry for some in split(pairs) for entry in decode(encode(some), 0)[0]]
    assert opened(entries) == pairs


@given(st.lists(st.tuples(st.binary(max_size=30), st.none() | st.binary(max_size=30)), max_size=20))
def test_bytes_are_written_as_they_are(pairs: list[tuple[bytes, bytes | None]]):
    records = []
    for some in split(pairs):
        opened_batch = MemoryRecords(encode(some)).next_batch()
        records += [(record.key, record.value) for record in opened_batch]
    assert records == pairs


def test_large_writes_are_cut_into_batches_that_topics_take():
    pairs: list[tuple[str, str | None]] = [(f"key {n}", "v" * 50_000) for n in range(60)]
    batches = [encode(some) for some in split(pairs)]
    assert len(batches) > 1
    assert [pair for batch in batches for pair in opened(decode(batch, 0)[0])] == pairs
    for batch in batches:
        size = sum(len(entry.key) + len(entry.value or "") for entry in decode(batch, 0)[0])
        assert size < BATCH_BYTES + 60_000


def test_a_large_record_has_a_batch_for_itself_and_sizes_are_those_of_utf_8():
    """Whoever may commit offsets makes records large: one that a topic refuses takes no others with it."""
    small, large = ("key", "v" * 100), ("large", "v" * (BATCH_BYTES + 1))
    assert split([small, large, small, small]) == [[small], [large], [small, small]]
    wide = ("wide", "諸" * (BATCH_BYTES // 3 - 100))
    assert split([wide, small, wide]) == [[wide, small], [wide]]
    assert split([]) == []


def test_reading_begins_inside_a_batch():
    records = Written(records=tuple(Rec(n, 1, b"k%d" % n) for n in range(5)), base_offset=100).encode()
    entries, following = decode(records, 103)
    assert [entry.offset for entry in entries] == [103, 104]
    assert following == 105


def test_control_batches_and_records_without_keys_are_passed_over():
    parts = (
        Written(records=(Rec(0, 1, b"a"),)),
        Written(records=(Rec(0, 1, b"\0\0\0\1"),), base_offset=1, bits=CONTROL),
        Written(records=(Rec(0, 1, None),), base_offset=2),
    )
    entries, following = decode(b"".join(part.encode() for part in parts), 0)
    assert [entry.key for entry in entries] == ["a"]
    assert following == 3


def test_what_compaction_emptied_still_moves_on():
    assert decode(Written(records=(), base_offset=7, last_delta=4).encode(), 7) == ([], 12)


def test_a_batch_that_is_cut_off_waits_for_the_next_read():
    whole = Written(records=(Rec(0, 1, b"a"),)).encode()
    cut = Written(records=(Rec(0, 1, b"b"),), base_offset=1).encode()[:-3]
    entries, following = decode(whole + cut, 0)
    assert [entry.key for entry in entries] == ["a"]
    assert following == 1


def test_nothing_to_read_stays_where_it_is():
    assert decode(None, 9) == ([], 9)
    assert decode(b"", 9) == ([], 9)


# -------------------------------------------------------------------------------------------------------- real brokers


def create(cluster: Cluster, name: str, **configs: str) -> Journal:
    wanted = tuple((key.replace("_", "."), value) for key, value in ({"cleanup_policy": "compact"} | configs).items())
    admin.create_topics(cluster, [NewTopic(name=name, partitions=1, configs=wanted)]).complete()
    admin.wait_for_leaders(cluster, {name: 1}).complete()
    return Journal(cluster, name)


@pytest.mark.kafka
def test_what_was_appended_is_read_from_any_offset(lab_cluster: Callable[[str], Cluster], topic_name: str):
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name)
    cluster.run(journal.append, [("a", "1"), ("b", "2")])
    cluster.run(journal.append, [("a", None), ("größe", "ä")])
    entries, following, end = cluster.run(Journal(cluster, topic_name).read, 0)
    assert opened(entries) == [("a", "1"), ("b", "2"), ("a", None), ("größe", "ä")]
    assert (following, end) == (4, 4)
    entries, following, _ = cluster.run(journal.read, 3)
    assert opened(entries) == [("größe", "ä")]
    assert cluster.run(journal.read, 4) == ([], 4, 4)


@pytest.mark.kafka
def test_a_large_record_is_compressed_to_fit_the_topic(lab_cluster: Callable[[str], Cluster], topic_name: str):
    """What an operation knows of 40,000 partitions is one record."""
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name)
    value = json.dumps([[f"orders-{n % 400}", n // 400, n * 7919, n * 7919 + n % 97, 1] for n in range(40_000)])
    assert len(value) > 1_048_588
    cluster.run(journal.append, [("operation", value)])
    newest, _ = cluster.run(journal.read_all)
    assert newest["operation"].value == value


@pytest.mark.kafka
def test_read_all_gives_the_newest_of_each_key(lab_cluster: Callable[[str], Cluster], topic_name: str):
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name)
    assert cluster.run(journal.read_all) == ({}, 0)
    written: list[tuple[str, str | None]] = [(f"key {n % 400}", str(n) * 300) for n in range(6_000)]
    cluster.run(journal.append, [*written, ("key 7", None)])
    newest, end = cluster.run(journal.read_all)
    expected = dict(written)
    del expected["key 7"]
    assert {key: entry.value for key, entry in newest.items()} == expected
    assert end == 6_001


@pytest.mark.kafka
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_topic_whose_broker_compresses_is_read(codec: str, lab_cluster: Callable[[str], Cluster], topic_name: str):
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name, compression_type=codec)
    written: list[tuple[str, str | None]] = [(f"key {n}", str(n) * 300) for n in range(50)]
    cluster.run(journal.append, written)
    assert opened(cluster.run(journal.read, 0)[0]) == written


@pytest.mark.kafka
def test_what_brokers_take_and_no_mirror_writes_is_read_past(lab_cluster: Callable[[str], Cluster], topic_name: str):
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name)
    bomb = Written(records=(Rec(0, 1, b"bomb", bytes(2 * OPENED_BYTES)),), codec=Codec.ZSTD).encode()
    cluster.run(journal.append_batch, memoryview(bomb))
    others: list[Pair] = [(b"\xff\xfe", b"\xff"), ("a", "1")]
    cluster.run(journal.append, others)
    newest, end = cluster.run(journal.read_all)
    assert ({key: entry.value for key, entry in newest.items()}, end) == ({"\udcff\udcfe": "\udcff", "a": "1"}, 3)
    assert list(journal.unopened) == [0]
    cluster.run(journal.append, [("\udcff\udcfe", None)])
    assert set(cluster.run(journal.read_all)[0]) == {"a"}, "a tombstone has the very bytes of the key"


@pytest.mark.kafka
def test_reading_waits_for_what_comes(lab_cluster: Callable[[str], Cluster], topic_name: str):
    """From a connection of its own: a broker answers the requests of one connection one after the other."""
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name)
    waiting = Cluster("A", cluster.settings, role="waiting")
    waiting.run(waiting.bootstrap, 30_000)
    timer = threading.Timer(0.5, lambda: cluster.run(journal.append, [("late", "1")]))
    timer.start()
    began = time.monotonic()
    try:
        entries, _, _ = waiting.run(Journal(waiting, topic_name).read, 0, 10_000)
    finally:
        timer.join()
        waiting.close()
    assert opened(entries) == [("late", "1")]
    assert 0.3 < time.monotonic() - began < 8


@pytest.mark.kafka
def test_an_offset_beyond_the_end_begins_anew(lab_cluster: Callable[[str], Cluster], topic_name: str):
    """The topic was made anew: what is there now counts."""
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name)
    cluster.run(journal.append, [("a", "1")])
    entries, following, _ = cluster.run(journal.read, 50)
    assert (entries, following) == ([], 0)


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_an_error_and_is_not_created(
    lab_cluster: Callable[[str], Cluster], topic_name: str
):
    cluster = lab_cluster("A")
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.run(Journal(cluster, topic_name).read, 0, 0, 500)
    assert topic_name not in admin.list_topics(cluster)


@pytest.mark.kafka
def test_a_record_that_the_topic_does_not_take_is_an_error_at_once(
    lab_cluster: Callable[[str], Cluster], topic_name: str
):
    cluster = lab_cluster("A")
    journal = create(cluster, topic_name, max_message_bytes="1000")
    began = time.monotonic()
    with pytest.raises(BrokerError, match=r"MESSAGE_TOO_LARGE .* raise max.message.bytes"):
        cluster.run(journal.append, [("a", os.urandom(5_000).hex())])
    assert time.monotonic() - began < 10


@pytest.fixture(scope="module")
def three() -> Iterator[LabCluster]:
    with start("three", brokers=3) as cluster:
        yield cluster


@pytest.mark.kafka
def test_appending_and_reading_follow_the_leader(three: LabCluster, topic_name: str):
    """The leader is killed in the middle: nothing that was acknowledged is missing, nothing is written in disorder."""
    settings = ClientSettings(bootstrap_servers=tuple(three.bootstrap_servers.split(",")))
    cluster = Cluster("T", settings, role="test")
    try:
        wanted = NewTopic(name=topic_name, partitions=1, replication_factor=3, configs=(("min.insync.replicas", "2"),))
        admin.create_topics(cluster, [wanted]).complete()
        described = admin.wait_for_leaders(cluster, {topic_name: 1}).complete()
        journal = Journal(cluster, topic_name)
        cluster.run(journal.append, [("before", "0")])
        cluster.run(journal.read, 0)
        leader = three.brokers[described[topic_name].partitions[0].node - 1]
        leader.kill()
        for number in range(5):
            cluster.run(journal.append, [(f"after {number}", str(number))], 60_000)
        newest, _ = cluster.run(journal.read_all, 60_000)
        assert list(newest) == ["before", *(f"after {number}" for number in range(5))]
        leader.start()
    finally:
        cluster.close()


@pytest.mark.kafka
def test_a_leader_that_hangs_is_waited_for_until_the_deadline_and_not_longer(
    lab_cluster: Callable[[str], Cluster], cluster_a: LabCluster, topic_name: str
):
    cluster, (broker,) = lab_cluster("A"), cluster_a.brokers
    journal = create(cluster, topic_name)
    cluster.run(journal.append, [("a", "1")])
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(LinkError, match="cluster A at"):
            cluster.run(journal.append, [("b", "2")], 1_500)
        assert time.monotonic() - began < 5
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    cluster.run(journal.append, [("c", "3")])


def test_attempts_are_as_far_apart_as_the_settings_say():
    cluster = Unreachable()
    try:
        with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
            cluster.run(Journal(cluster, "t").append, [("a", "1")], 60_000)
        assert_paused(cluster.asked)
    finally:
        cluster.close()


@pytest.mark.kafka
def test_a_cluster_that_is_away_is_an_error_at_the_deadline():
    settings = ClientSettings(bootstrap_servers=("127.0.0.1:1",))
    cluster = Cluster("away", settings, role="test")
    began = time.monotonic()
    try:
        with pytest.raises(LinkError, match=r"cluster away at 127\.0\.0\.1:1"):
            cluster.run(Journal(cluster, "t").append, [("a", "1")], 1_500)
    finally:
        cluster.close()
    assert time.monotonic() - began < 8
