"""Odd Snappy streams through Kafka's own reader, the referee of what `snappy_streams` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from sparkmirror.lab.jars import jars
from sparkmirror.spark.gateway import Gateway
from tests.batches.snappy_streams import READ

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with Gateway(jars(), options=("-Xmx128m",)) as gateway:
        yield gateway.jvm


@pytest.mark.parametrize("name", READ)
def test_java_reads_it_so(jvm: Any, name: str) -> None:
    stream, held = READ[name]
    kafka, buffer = jvm.org.apache.kafka.common, jvm.java.nio.ByteBuffer.wrap(stream)
    compression = kafka.compress.Compression.snappy().build()
    try:
        found = bytes(compression.wrapForInput(buffer, 2, kafka.utils.BufferSupplier.NO_CACHING).readAllBytes())
    except Py4JJavaError:
        assert held is None
    else:
        assert found == held
