"""Stored positions: round trips, what is left alone, and Kafka's own classes as referee for their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.mm2.stored_offsets import Newest, Owner, StoredOffset, newest, read_stored_offset
from sparkmirror.model import Alias, TopicPartition
from sparkmirror.spark.gateway import Gateway

OURS = Owner(connector="MirrorSourceConnector", cluster=Alias("A"))


def stored(topic: str, number: int, offset: int | None, owner: Owner = OURS) -> StoredOffset:
    return StoredOffset(owner=owner, partition=TopicPartition(topic, number), offset=offset)


STORED = (
    stored("orders", 0, 0),
    stored("x" * 249, 2**31 - 1, 2**62, Owner(connector="A->B.MirrorSourceConnector", cluster=Alias("eu-west.1"))),
    stored("a.b_c-d", 17, 4711, Owner(connector='søk "1" / \\ 😀', cluster=Alias("søk"))),
)


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 2**31 - 1), st.none() | st.integers(0, 2**63 - 1))
def test_a_stored_position_comes_back(connector: str, topic: str, number: int, offset: int | None) -> None:
    ours = stored(topic, number, offset, Owner(connector=connector, cluster=Alias("A")))
    assert read_stored_offset(ours.key, ours.value) == ours


def test_the_bytes_are_those_of_a_dedicated_mirror_maker() -> None:
    one = stored("orders", 3, 41)
    assert one.key == b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'
    assert one.value == b'{"offset":41}'


@pytest.mark.parametrize(
    "key",
    [
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        b'["MirrorCheckpointConnector",{"group":"g","partition":0,"topic":"A.orders"}]',
        b'["file-source",{"filename":"x"}]',
        b'["a",{"cluster":"A","partition":true,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":-1,"topic":"t"}]',
        b'["a",{"cluster":"A","partition":0,"topic":"t","more":1}]',
        b"no json",
        b"\xff",
    ],
)
def test_what_other_connectors_have_stored_is_left_alone(key: bytes) -> None:
    assert read_stored_offset(key, b'{"offset":0}') is None


@pytest.mark.parametrize("value", [b"", b"{}", b'{"offset":"1"}', b'{"offset":true}', b'{"offset":1.5}', b"1", b"\xff"])
def test_a_position_that_is_no_number_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"orders.* is not a number under offset"):
        read_stored_offset(stored("orders", 0, 0).key, value)


def test_the_newest_wins_and_a_tombstone_removes() -> None:
    other = Owner(connector="other", cluster=Alias("A"))
    written = [
        stored("t", 0, 5),
        stored("t", 1, 9),
        stored("t", 0, 3, other),
        stored("t", 0, 7),
        stored("t", 1, None),
        stored("u", 0, None),
    ]
    records = [(one.key, one.value) for one in written]
    assert newest(records) == {OURS: {TopicPartition("t", 0): 7}, other: {TopicPartition("t", 0): 3}}
    assert newest([*records, (stored("t", 1, 12).key, stored("t", 1, 12).value)])[OURS] == {
        TopicPartition("t", 0): 7,
        TopicPartition("t", 1): 12,
    }


def test_a_position_that_cannot_be_read_is_refused_until_a_newer_record_takes_its_place() -> None:
    one, held = stored("t", 0, 5), Newest()
    held.add(one.key, b"{}")
    with pytest.raises(ValueError, match="is not a number under offset"):
        held.positions()
    held.add(one.key, one.value)
    assert held.positions() == {OURS: {TopicPartition("t", 0): 5}}


def test_of_many_records_with_one_key_one_is_held() -> None:
    held = Newest()
    for offset in range(1_000):
        held.add(stored("t", 0, 0).key, stored("t", 0, offset).value)
    assert (len(held), held.key_bytes) == (1, len(stored("t", 0, 0).key))
    assert held.positions() == {OURS: {TopicPartition("t", 0): 999}}


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


@pytest.mark.kafka
@pytest.mark.parametrize("ours", STORED, ids=lambda one: one.owner.connector)
def test_connect_gives_the_same_bytes_for_what_mirror_maker_stores(jvm: Any, ours: StoredOffset) -> None:
    kafka = jvm.org.apache.kafka
    settings = jvm.java.util.HashMap()
    settings.put("schemas.enable", "false")
    converter = kafka.connect.json.JsonConverter()
    converter.configure(settings, True)
    utils = kafka.connect.mirror.MirrorUtils._java_lang_class
    wrap = next(one for one in utils.getDeclaredMethods() if one.getName() == "wrapPartition")
    wrap.setAccessible(True)
    arguments = jvm.java.util.ArrayList()
    arguments.add(kafka.common.TopicPartition(*ours.partition))
    arguments.add(ours.owner.cluster)
    place = wrap.invoke(None, arguments.toArray())
    key = jvm.java.util.ArrayList()
    key.add(ours.owner.connector)
    key.add(place)
    offset = kafka.connect.mirror.MirrorUtils.wrapOffset(ours.offset)
    assert bytes(converter.fromConnectData("", None, key)) == ours.key
    assert bytes(converter.fromConnectData("", None, offset)) == ours.value
