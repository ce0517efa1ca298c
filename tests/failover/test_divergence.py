"""Records that only one cluster has are kept as readers see them, in topics or in files, also when it is done twice."""

from __future__ import annotations

import base64
import json
import time

import pytest
from confluent_kafka import Producer

from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover.divergence import (
    Divergent,
    configs_of,
    export,
    exported_as,
    keep_in_topics,
    kept_as,
    lost_since,
    parted_at,
    without_lost,
)
from sparkmirror.kafka.configs import ConfigEntry, ConfigSource
from sparkmirror.kafka.epochs import newest_epochs
from sparkmirror.model import TopicPartition
from sparkmirror.naming.topics import DIVERGENT
from tests.flow.logs import read
from tests.flow.running import create_topic, ends, until

LARGE = 3_000_000


def test_of_what_was_found_that_is_left_which_lies_before_where_the_log_lost_its_end():
    one, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    found = [Divergent(one, 10, 15), Divergent(one, 18, 25), Divergent(one, 30, 40), Divergent(other, 3, 5)]
    assert without_lost(found, {one: 20}) == (Divergent(one, 10, 15), Divergent(one, 18, 20), Divergent(other, 3, 5))


def test_behind_the_first_record_that_goes_on_to_the_other_cluster_nothing_is_put_aside():
    """Also in ranges behind others that were brought back: the flow would go on behind these records too."""
    one, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    found = [Divergent(one, 10, 15), Divergent(one, 18, 25), Divergent(one, 30, 40), Divergent(other, 3, 5)]
    before = (Divergent(one, 10, 15), Divergent(one, 18, 20), Divergent(other, 3, 5))
    assert parted_at(found, {one: 20}) == (before, (Divergent(one, 20, 25), Divergent(one, 30, 40)))
    assert parted_at(found, {one: 10, other: 3}) == ((), tuple(found))


MOMENT_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize("part", [1, 2, 123])
def test_names_that_are_too_long_are_cut_and_still_tell_the_topics_apart(part: int):
    longest, other = "u" * 249, "u" * 248 + "v"
    names = [kept_as(topic, MOMENT_MS, part) for topic in (longest, other, "u" * 224)]
    assert len(set(names)) == 3
    assert all(len(name) <= 249 and DIVERGENT.fullmatch(name) and name.startswith("u" * 100) for name in names)
    assert kept_as("u" * 219, MOMENT_MS, 123) == "u" * 219 + ".divergent.20231114-221320-123"
    files = [exported_as(TopicPartition(topic, 12), f"failback-20231114-221320-{part}") for topic in (longest, other)]
    assert len(set(files)) == 2
    assert all(len(name) <= 255 and name.endswith(".jsonl") for name in files)
    assert exported_as(TopicPartition("orders", 3), "failback-1") == "failback-1.orders-3.jsonl"


def of(**properties: str) -> dict[str, ConfigEntry]:
    return {
        name.replace("_", "."): ConfigEntry(value=value, source=ConfigSource.DEFAULT)
        for name, value in properties.items()
    }


def test_a_topic_that_keeps_others_records_takes_what_they_have_as_far_as_its_brokers_know_the_properties():
    base = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert dict(configs_of({})) == base | {"max.message.bytes": str(100 << 20)}
    small = of(max_message_bytes="1000", message_timestamp_type="LogAppendTime", message_timestamp_after_max_ms="5")
    assert dict(configs_of(small)) == base | {
        "max.message.bytes": str(100 << 20),
        "message.timestamp.type": "CreateTime",
        "message.timestamp.after.max.ms": str(2**63 - 1),
    }
    large = of(max_message_bytes=str(300 << 20), message_timestamp_difference_max_ms="5")
    assert dict(configs_of(large)) == base | {
        "max.message.bytes": str(300 << 20),
        "message.timestamp.difference.max.ms": str(2**63 - 1),
    }


@pytest.mark.kafka
def test_records_of_every_time_are_kept_and_so_are_those_of_a_topic_with_a_long_name(
    cluster_a, lab_flow, lab_cluster, topic
):
    name = topic("future").ljust(240, "x")
    create_topic(cluster_a, name, 1, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 0})
    producer.produce(name, b"later", partition=0, timestamp=int(time.time() * 1000) + 30 * DAY_MS)
    assert producer.flush(30) == 0
    kept = kept_as(name, MOMENT_MS)
    found = [Divergent(TopicPartition(name, 0), 0, 1)]
    assert keep_in_topics(lab_cluster("A"), lab_cluster("A"), lab_flow, found, {name: kept}, ()) == 1
    assert [one[2:] for one in read(cluster_a, kept)[0]] == [one[2:] for one in read(cluster_a, name)[0]]


@pytest.fixture
def written(cluster_a, topic):
    """Transactions, of which one was aborted; null keys, values and headers; a record above the usual limit."""
    name = topic("parted")
    create_topic(cluster_a, name, 2, {"max.message.bytes": str(2 * LARGE)})
    settings = {"bootstrap.servers": cluster_a.bootstrap_servers, "log_level": 0, "message.max.bytes": 2 * LARGE}
    producer = Producer(settings | {"transactional.id": name})
    producer.init_transactions(30)
    for turn, end in enumerate((producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(3):
            headers: list[tuple[str, str | bytes | None]] = [("h", b"%d" % turn), ("null", None)] if number else []
            key = None if number == 2 else b"key"
            producer.produce(name, None if number == 1 else b"%d-%d" % (turn, number), key, 0, headers=headers)
        producer.flush(30)
        end(30)
    producer.begin_transaction()
    producer.produce(name, b"x" * LARGE, b"large", 0)
    producer.commit_transaction(30)
    until(lambda: ends(cluster_a, name)[0] == 3 * (3 + 1) + 1 + 1, "the last marker is there: brokers write it later")
    return name


@pytest.mark.kafka
def test_topics_keep_what_readers_see_and_are_never_filled_again(cluster_a, lab_flow, lab_cluster, written):
    here = read(cluster_a, written)[0]
    found = [Divergent(TopicPartition(written, 0), here[1].offset, ends(cluster_a, written)[0])]
    kept = kept_as(written, 1_700_000_000_000)
    assert kept == f"{written}.divergent.20231114-221320"
    assert kept_as(written, 1_700_000_000_000, 2) == f"{kept}-2"
    count = keep_in_topics(lab_cluster("A"), lab_cluster("A"), lab_flow, found, {written: kept}, ())
    assert count == len(here) - 1
    with pytest.raises(SparkmirrorError, match="TOPIC_ALREADY_EXISTS"):
        keep_in_topics(lab_cluster("A"), lab_cluster("A"), lab_flow, found, {written: kept}, ())
    there = read(cluster_a, kept)
    assert [one[2:] for one in there[0]] == [one[2:] for one in here[1:]]
    assert there[1] == []


@pytest.mark.kafka
def test_files_keep_them_as_json(cluster_a, lab_flow, lab_cluster, written, tmp_path):
    here = read(cluster_a, written)[0]
    place, end = TopicPartition(written, 0), ends(cluster_a, written)[0]
    found = [Divergent(place, 0, here[1].offset), Divergent(place, here[1].offset, end)]
    assert export(lab_cluster("A"), lab_flow, found, tmp_path / "new", "failback-1", ()) == len(here)
    lines = (tmp_path / "new" / f"failback-1.{written}-0.jsonl").read_text().splitlines()

    def text(part: bytes | None) -> str | None:
        return None if part is None else base64.b64encode(part).decode()

    assert [json.loads(line) for line in lines] == [
        {
            "offset": one.offset,
            "timestamp": one.time,
            "key": text(one.key),
            "value": text(one.value),
            "headers": [[name, text(value)] for name, value in one.headers],
        }
        for one in here
    ]
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(SparkmirrorError, match="name another directory with --report"):
        export(lab_cluster("A"), lab_flow, found, blocked, "failback-1", ())


@pytest.mark.kafka
def test_a_log_has_lost_what_was_found_in_it_when_it_is_shorter_or_knows_its_leader_epoch_no_more(
    cluster_a, lab_cluster, written
):
    place, end, cluster = TopicPartition(written, 0), ends(cluster_a, written)[0], lab_cluster("A")
    epoch = newest_epochs(cluster, [place])[place]
    whole = Divergent(place, 1, end, leader_epoch=epoch)
    assert lost_since(cluster, [whole], 10_000) == {}
    assert lost_since(cluster, [whole._replace(end=end + 1)], 10_000) == {place: end}
    assert lost_since(cluster, [whole._replace(leader_epoch=epoch + 1)], 10_000) == {place: 0}
