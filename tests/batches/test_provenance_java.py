"""Records that name their way, written by Kafka's own code before and read by it after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparkmirror.batches import HEADER_NAME, Codec, Provenance, index, keep, mark
from sparkmirror.lab.jars import jars
from sparkmirror.spark.gateway import Gateway

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


def headers(jvm: Any, *some: tuple[str, bytes | None]) -> Any:
    made = jvm.org.apache.kafka.common.header.internals.RecordHeaders()
    for name, value in some:
        made.add(name, value)
    return made.toArray()


@pytest.mark.parametrize("codec", list(Codec))
def test_java_reads_what_is_made_of_what_java_wrote(jvm: Any, codec: Codec) -> None:
    kafka = jvm.org.apache.kafka.common
    buffer = jvm.java.nio.ByteBuffer.allocate(1 << 20)
    compression = getattr(kafka.compress.Compression, codec.name.lower())().build()
    records = kafka.record.internal.MemoryRecords
    builder = records.builder(buffer, 2, compression, kafka.record.TimestampType.CREATE_TIME, 40, -1)
    builder.appendWithOffset(40, NOW, b"k", b"new", headers(jvm, ("h", b"1"), ("h", None)))
    builder.appendWithOffset(41, NOW + 5, None, None, headers(jvm, (HEADER_NAME, b"x")))
    builder.appendWithOffset(42, NOW - 5, b"k", b"back", headers(jvm, (HEADER_NAME, b"x,there")))
    builder.appendWithOffset(43, NOW, b"", b"v" * 5_000, headers(jvm))
    data = builder.build().buffer()
    written = bytes(buffer.array())[: data.limit()]

    found = index(written)
    made = mark(found, keep(found, start_offset=0), Provenance(source="here", target="there"))
    again = records.readableRecords(jvm.java.nio.ByteBuffer.wrap(made.indexed.data.tobytes()))
    seen = []
    for batch in again.batches().iterator():
        batch.ensureValid()
    for record in again.records().iterator():
        value = record.value()
        told = [(header.key(), header.value()) for header in record.headers()]
        seen.append((record.offset(), record.timestamp(), value is None or value.remaining(), told))
    assert seen == [
        (40, NOW, 3, [("h", b"1"), ("h", None), (HEADER_NAME, b"here")]),
        (41, NOW + 5, True, [(HEADER_NAME, b"x,here")]),
        (43, NOW, 5_000, [(HEADER_NAME, b"here")]),
    ]
