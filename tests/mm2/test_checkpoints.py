"""Checkpoints byte by byte, and Kafka's own class as the referee both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.lab.jars import mirror_maker_jars
from sparkmirror.mm2.checkpoints import Checkpoint, read_checkpoint, read_key
from sparkmirror.model import TopicPartition
from sparkmirror.spark.gateway import Gateway

ONE = Checkpoint(
    group="readers", partition=TopicPartition("A.orders", 3), upstream=7, downstream=(1 << 40) + 5, metadata="é"
)
KEY = b"\x00\x07readers\x00\x08A.orders\x00\x00\x00\x03"
VALUE = b"\x00\x00" + b"\x00" * 7 + b"\x07" + b"\x00\x00\x01\x00\x00\x00\x00\x05" + b"\x00\x02\xc3\xa9"

_texts = st.text(max_size=40)
_offsets = st.integers(0, 2**63 - 1)


def test_a_checkpoint_is_laid_out_as_mm2_does_it():
    assert (ONE.key(), ONE.value()) == (KEY, VALUE)


@given(_texts, _texts, st.integers(0, 2**31 - 1), _offsets, _offsets, _texts)
def test_what_is_written_is_read_back(group, topic, partition, upstream, downstream, metadata):
    made = Checkpoint(
        group=group,
        partition=TopicPartition(topic, partition),
        upstream=upstream,
        downstream=downstream,
        metadata=metadata,
    )
    assert read_checkpoint(made.key(), made.value()) == made
    assert read_key(made.key()) == (group, made.partition)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", VALUE),
        (KEY[:-1], VALUE),
        (KEY, b""),
        (KEY, VALUE[:-1]),
        (KEY, b"\x00\x01" + VALUE[2:]),
        (b"\xff" * 9, VALUE),
    ],
)
def test_what_is_no_checkpoint_is_refused(key, value):
    with pytest.raises(ValueError, match="checkpoint"):
        read_checkpoint(key, value)


@pytest.fixture(scope="module")
def mirror() -> Iterator[Any]:
    with Gateway(mirror_maker_jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


@pytest.mark.kafka
def test_java_reads_what_is_written_here(mirror: Any):
    record = mirror.org.apache.kafka.clients.consumer.ConsumerRecord("checkpoints", 0, 0, ONE.key(), ONE.value())
    read = mirror.org.apache.kafka.connect.mirror.Checkpoint.deserializeRecord(record)
    assert (read.consumerGroupId(), read.metadata()) == ("readers", "é")
    assert (read.topicPartition().topic(), read.topicPartition().partition()) == ("A.orders", 3)
    assert (read.upstreamOffset(), read.downstreamOffset()) == (7, (1 << 40) + 5)


@pytest.mark.kafka
def test_what_java_writes_is_read_here(mirror: Any):
    place = mirror.org.apache.kafka.common.TopicPartition("A.orders", 3)
    made = mirror.org.apache.kafka.connect.mirror.Checkpoint("readers", place, 7, (1 << 40) + 5, "é")
    arrays, classes = mirror.java.lang.reflect.Array, mirror.java.lang.Class
    no_classes, no_objects = (
        arrays.newInstance(classes.forName(f"java.lang.{name}"), 0) for name in ("Class", "Object")
    )
    written = []
    for name in ("recordKey", "recordValue"):
        method = made.getClass().getDeclaredMethod(name, no_classes)
        method.setAccessible(True)
        written.append(bytes(method.invoke(made, no_objects)))
    assert written == [KEY, VALUE]
    assert read_checkpoint(*written) == ONE
