"""The matrix: who writes, and in which codec, mirrored by the real command, read by others and found equal.

One run of ``sparkmirror run --once`` mirrors every cell six times: as it is, and into each codec.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import dataclass

import pytest

from sparkmirror.lab.agreement import mirror_differences, reader_differences
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.lab.jars import jars
from sparkmirror.lab.readers import Logs, read_with_java, read_with_librdkafka
from sparkmirror.spark.gateway import Gateway
from tests.flow.matrix import (
    CODECS,
    LONE,
    MANY,
    ONES,
    PARTITIONS,
    WRITERS,
    Batches,
    Cell,
    as_given,
    batches_for,
    create_topics,
    stored,
    write,
    write_transactions,
)
from tests.flow.running import COPY_SECONDS, Running, write_file

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PLAIN = tuple(Cell(writer, codec) for writer in WRITERS for codec in CODECS)
TRANSACTIONAL = Cell("java-transactional", "lz4")
CELLS = (*PLAIN, TRANSACTIONAL)

AS_IT_IS = "a"
FLOWS = (AS_IT_IS, *CODECS)
"""Aliases of one source, hence flows with names of their own on the target; all but the first ask for a codec."""

# What counts as small grows with the round trip, and a busy machine has a long one: never above half of the batch size.
SETTINGS = {
    "tasks.max": "1",
    f"{AS_IT_IS}->b.producer.override.batch.size": "65536",
    "several.aliases.per.cluster": "true",
}
READERS = ("java", "librdkafka")

each_cell = pytest.mark.parametrize("cell", CELLS, ids=str)
each_plain_cell = pytest.mark.parametrize("cell", PLAIN, ids=str)
each_flow = pytest.mark.parametrize("flow", FLOWS)
each_reader = pytest.mark.parametrize("reader", READERS)


@dataclass(frozen=True)
class Matrix:
    """All cells, written, mirrored and read.

    Attributes:
        given: what was written and committed.
        seen: what each reader saw on both clusters together; no topic is on both.
    """

    stem: str
    source: LabCluster
    target: LabCluster
    given: dict[Cell, Batches]
    seen: dict[str, Logs]

    def topic(self, cell: Cell) -> str:
        return f"{self.stem}-{cell}"

    def copy(self, cell: Cell, flow: str) -> str:
        return f"{flow}.{self.topic(cell)}"


def fill(matrix: Matrix, gateway: Gateway) -> None:
    servers = matrix.source.bootstrap_servers
    create_topics(matrix.source, [matrix.topic(cell) for cell in CELLS])
    for cell in PLAIN:
        with closing(WRITERS[cell.writer](gateway, servers, cell.codec)) as producer:
            write(producer, matrix.topic(cell), matrix.given[cell])
    write_transactions(gateway, servers, matrix.topic(TRANSACTIONAL), matrix.given[TRANSACTIONAL], TRANSACTIONAL.codec)


def read(matrix: Matrix, gateway: Gateway) -> None:
    sides = {
        matrix.source: [matrix.topic(cell) for cell in CELLS],
        matrix.target: [matrix.copy(cell, flow) for cell in CELLS for flow in FLOWS],
    }
    for cluster, topics in sides.items():
        matrix.seen["java"] |= read_with_java(gateway, cluster.bootstrap_servers, topics)
        matrix.seen["librdkafka"] |= read_with_librdkafka(cluster.bootstrap_servers, topics)


@pytest.fixture(scope="module")
def matrix(cluster_a: LabCluster, cluster_b: LabCluster, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    stem = f"matrix-{uuid.uuid4().hex[:6]}"
    given = {cell: batches_for(cell.writer.removesuffix("-transactional")) for cell in CELLS}
    matrix = Matrix(stem, cluster_a, cluster_b, given, {reader: {} for reader in READERS})
    directory = tmp_path_factory.mktemp("matrix")
    file = write_file(
        directory / "mm2.properties",
        {**dict.fromkeys(FLOWS, cluster_a), "b": cluster_b},
        {f"{flow}->b": f"{stem}-.*" for flow in FLOWS},
        {f"{codec}->b.producer.override.compression.type": codec for codec in CODECS} | SETTINGS,
    )
    with Gateway(jars(), options=("-Xmx256m",)) as gateway:
        fill(matrix, gateway)
        with Running(file, log=directory / "run.log", options=("--once",), spark=True) as mirror:
            assert mirror.wait(4 * COPY_SECONDS) == 0, mirror.tail()
        read(matrix, gateway)
    return matrix


@each_reader
@each_cell
def test_the_source_holds_what_the_producer_was_given(matrix: Matrix, cell: Cell, reader: str):
    topic = matrix.topic(cell)
    expected = as_given(topic, matrix.given[cell])
    assert mirror_differences(expected, matrix.seen[reader], {topic: topic}) == []


@each_reader
@each_flow
@each_cell
def test_a_reader_finds_the_target_equal_to_the_source(matrix: Matrix, cell: Cell, flow: str, reader: str):
    seen = matrix.seen[reader]
    copies = {matrix.topic(cell): matrix.copy(cell, flow)}
    assert [f"{reader}, flow {flow}: {words}" for words in mirror_differences(seen, seen, copies)] == []


def test_both_readers_see_the_same_everywhere(matrix: Matrix):
    assert reader_differences(matrix.seen["java"], matrix.seen["librdkafka"]) == []
    assert len(matrix.seen["java"]) == len(CELLS) * PARTITIONS * (1 + len(FLOWS))


@each_plain_cell
def test_the_batches_of_the_source_are_of_the_kinds_that_the_matrix_is_about(matrix: Matrix, cell: Cell):
    for partition, batches in matrix.given[cell].items():
        found = stored(matrix.source, matrix.topic(cell), partition)
        assert [batch.records for batch in found] == [len(batch) for batch in batches]
    assert {batch.codec for batch in stored(matrix.source, matrix.topic(cell), MANY)} == {cell.codec}


@pytest.mark.parametrize("partition", [MANY, LONE], ids=["large batches", "a lone batch"])
@each_plain_cell
def test_a_batch_passes_with_its_records_untouched(matrix: Matrix, cell: Cell, partition: int):
    ours = stored(matrix.source, matrix.topic(cell), partition)
    theirs = stored(matrix.target, matrix.copy(cell, AS_IT_IS), partition)
    assert ours == theirs


@each_plain_cell
def test_small_batches_that_wait_arrive_as_one(matrix: Matrix, cell: Cell):
    (merged,) = stored(matrix.target, matrix.copy(cell, AS_IT_IS), ONES)
    assert merged.records == len(matrix.given[cell][ONES])
    assert merged.codec == cell.codec


@pytest.mark.parametrize("codec", CODECS)
@each_cell
def test_every_batch_has_the_codec_that_the_flow_asks_for(matrix: Matrix, cell: Cell, codec: str):
    for partition in range(PARTITIONS):
        assert {batch.codec for batch in stored(matrix.target, matrix.copy(cell, codec), partition)} == {codec}
