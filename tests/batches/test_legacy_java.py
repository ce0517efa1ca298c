"""Old messages as Kafka's own code writes them: its framings, and the header checksum that its LZ4 frames had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from sparkmirror.batches import Codec
from sparkmirror.lab.jars import jars
from sparkmirror.spark.gateway import Gateway
from tests.batches.building import Rec, read
from tests.batches.old_messages import CODECS
from tests.batches.test_merge import CREATE_TIME, check, drain, run_of

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000
BASE = 40
RECORDS = (Rec(0, NOW, b"a", b"1"), Rec(2, NOW + 5, None, None), Rec(3, NOW - 7, b"", b"x" * 70_000), Rec(9, 5))
"""With offsets as the log cleaner leaves them."""


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


def written(jvm: Any, magic: int, codec: Codec, append_time: int | None) -> bytes:
    """What Java's builder makes of the records."""
    kafka = jvm.org.apache.kafka.common
    buffer = jvm.java.nio.ByteBuffer.allocate(1 << 20)
    kind = kafka.record.TimestampType.CREATE_TIME if append_time is None else kafka.record.TimestampType.LOG_APPEND_TIME
    compression = getattr(kafka.compress.Compression, codec.name.lower())().build()
    made = kafka.record.internal.MemoryRecords.builder(
        buffer, magic, compression, kind, BASE, -1 if append_time is None else append_time
    )
    for r in RECORDS:
        made.appendWithOffset(BASE + r.offset, r.time, r.key, r.value)
    data = made.build().buffer()
    return bytes(buffer.array())[: data.limit()]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_what_java_writes_is_read(jvm: Any, magic: int, codec: Codec) -> None:
    times = {r.offset: r.time if magic else -1 for r in RECORDS}
    expected = [Rec(BASE + r.offset, times[r.offset], r.key, r.value) for r in RECORDS]
    (made,) = drain([run_of(written(jvm, magic, codec, None))], CREATE_TIME, 1 << 20)
    check([made], expected, CREATE_TIME)
    assert read(made.batch).codec is codec


@pytest.mark.parametrize("codec", CODECS)
def test_what_java_s_broker_stamps_is_read(jvm: Any, codec: Codec) -> None:
    expected = [Rec(BASE + r.offset, NOW + 77, r.key, r.value) for r in RECORDS]
    made = drain([run_of(written(jvm, 1, codec, NOW + 77))], CREATE_TIME, 1 << 20)
    check(made, expected, CREATE_TIME)


def test_java_s_lz4_frames_of_magic_0_have_the_wrong_checksum(jvm: Any) -> None:
    """Otherwise the tests above would not show that they are read."""
    headers = [
        data[data.index(b"\x04\x22\x4d\x18") :][:7] for data in (written(jvm, m, Codec.LZ4, None) for m in (0, 1))
    ]
    assert headers[0][:6] == headers[1][:6]
    assert headers[0] != headers[1]
