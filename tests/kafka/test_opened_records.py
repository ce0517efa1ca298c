"""Records of applications in steps: all of them, once, in order, whatever their batches open to; within some memory."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import crc32c
import numpy as np
import pyarrow as pa
import pytest
from kafka.record.util import encode_varint

from sparkmirror import batches
from sparkmirror.batches import Codec
from sparkmirror.config import Isolation
from sparkmirror.duties import copied_records, heartbeat_copies
from sparkmirror.errors import BatchError
from sparkmirror.failover import divergence, readings
from sparkmirror.flow import comparing
from sparkmirror.kafka import opened_records, reading, spots, stored_offsets
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.leaders import Leader
from sparkmirror.kafka.opened_records import LIGHT_BYTES, Extent, OpenedRecords, Row, extent, in_turn, rows
from sparkmirror.kafka.reading import Read, Span, read_records, read_up_to
from sparkmirror.kafka.spots import Spot, read_spots
from sparkmirror.kafka.stored_records import open_records
from sparkmirror.lab.cluster import LabCluster
from sparkmirror.model import TopicPartition
from tests import raw_batches
from tests.batches.building import Rec, Written, sealed
from tests.flow.running import create_topic

PLACE, LEADER = TopicPartition("t", 0), Leader(1, 3)
BOMB_BYTES = 48 << 20
TIMEOUT_MS = 60_000
NOBODY = batches.producers(())


def batch(offset: int, *values: bytes | None, codec: Codec = Codec.NONE, **more: Any) -> bytes:
    """One with a record for each value."""
    records = tuple(Rec(n, 1, b"k%d" % (offset + n), value, **more) for n, value in enumerate(values))
    return Written(records=records, base_offset=offset, codec=codec).encode()


def part(answer: bytes) -> Any:
    return SimpleNamespace(
        error_code=0, records=answer, aborted_transactions=None, last_stable_offset=10**6, high_watermark=10**6
    )


def spans(end: int, left: int = 10**15, first: int = 0) -> reading._Reading[Any]:
    return reading._Reading(
        partition=PLACE,
        leader=LEADER,
        topic_id=uuid.UUID(int=1),
        only=None,
        span=Span(first, end),
        offset=first,
        left=left,
        left_opened=max(left, reading.OPENED_BYTES),
    )


def wanted(take: Callable[[Any], list[Any]]) -> reading._Wanted[Any]:
    return reading._Wanted(take=lambda _: take, isolation=Isolation.READ_COMMITTED, without=NOBODY)


def places(*offsets: int) -> spots._Reading[Any]:
    return spots._Reading(
        partition=PLACE,
        leader=LEADER,
        topic_id=uuid.UUID(int=1),
        wanted=list(offsets),
        isolation=Isolation.READ_COMMITTED,
        take=readings.seen,
    )


def most_of(work: Callable[[], Any]) -> int:
    """The bytes that it takes at most."""
    work()  # what is imported and loaded on the way is none of its memory
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def offsets_of(table: Any) -> list[int]:
    found: list[int] = table.column("offset").to_pylist()
    return found


MIXED = (
    batch(0, b"a", None, codec=Codec.LZ4)
    + batch(2, bytes(LIGHT_BYTES // 2), bytes(LIGHT_BYTES), b"b", codec=Codec.ZSTD)
    + batch(5, b"c")
    + batch(6, bytes(3 * LIGHT_BYTES), codec=Codec.GZIP)
    + batch(7, bytes(2 * LIGHT_BYTES), b"e", codec=Codec.LZ4)
    + batch(9, *(b"%d" % n for n in range(300)), codec=Codec.ZSTD)
    + batch(309, bytes(LIGHT_BYTES + 1))
)


@pytest.mark.parametrize("step_bytes", [1, 1 << 20, 1 << 30])
@pytest.mark.parametrize(("first", "end"), [(0, 310), (3, 9), (4, 309), (8, 100)])
def test_steps_give_what_all_at_once_gives(first: int, end: int, step_bytes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(opened_records, "STEP_BYTES", step_bytes)
    one = spans(end, first=first)
    sizes = list(one.read(part(MIXED), wanted(lambda table: table.to_pylist())))
    index = batches.index(MIXED)
    table = batches.decode(index, batches.keep(index, start_offset=first), until=end)
    assert one.found == table.to_pylist()
    assert [row["offset"] for row in one.found] == list(range(first, end))
    assert (one.failure, min(one.offset, end), sum(sizes)) == (None, end, one.opened)


@pytest.mark.parametrize("offsets", [(0,), (3, 4, 6, 8, 309), tuple(range(310)), (2, 5, 7), (306, 310)])
def test_the_first_record_at_each_place_is_found_behind_large_batches_too(offsets: tuple[int, ...]):
    one = places(*offsets)
    list(one.read(part(MIXED)))
    assert [None if found is None else found.offset for found in one.found.values()] == [
        offset for offset in offsets if offset < 310
    ]
    assert one.wanted == [offset for offset in offsets if offset == 310]


def test_what_lies_behind_the_last_place_is_not_opened():
    bombs = b"".join(batch(n, bytes(BOMB_BYTES), codec=Codec.ZSTD) for n in range(1, 6))
    one = places(0, 5)
    opened = sum(one.read(part(batch(0, b"a") + bombs)))
    assert sorted(one.found) == [0, 5]
    assert BOMB_BYTES < opened < 2 * BOMB_BYTES


BOMBS = b"".join(batch(n, bytes(BOMB_BYTES), codec=Codec.ZSTD) for n in range(4))
HEADER_BOMBS = b"".join(batch(n, b"v", codec=Codec.ZSTD, headers=(("h", bytes(BOMB_BYTES)),)) for n in range(4))


def here(table: Any) -> list[Any]:
    return list(comparing.seen(table, on_target=False))


@pytest.mark.parametrize("take", [here, copied_records._records, extent])
@pytest.mark.parametrize("bombs", [BOMBS, HEADER_BOMBS])
def test_batches_that_open_to_far_more_are_read_one_after_the_other(bombs: bytes, take: Callable[[Any], list[Any]]):
    found: list[int] = []

    def work() -> None:
        one = spans(4)
        list(one.read(part(bombs), wanted(take)))
        found.append(len(one.found))

    assert len(bombs) < 30_000
    assert most_of(work) < 2.5 * BOMB_BYTES
    assert found == [4, 4]


@pytest.mark.parametrize("bombs", [BOMBS, HEADER_BOMBS])
def test_places_in_batches_that_open_to_far_more_are_read_one_after_the_other(bombs: bytes):
    found: list[int] = []

    def work() -> None:
        one = places(0, 1, 2, 3)
        list(one.read(part(bombs)))
        found.append(len(one.found))

    assert most_of(work) < 2.5 * BOMB_BYTES
    assert found == [4, 4]


def test_a_reading_with_a_limit_ends_at_what_batches_open_to_and_goes_on_behind_it():
    bombs, found, offset = BOMBS, list[int](), 0
    for _ in range(2):
        one = spans(4, left=1 << 20, first=offset)
        list(one.read(part(bombs), wanted(offsets_of)))
        assert not one.open
        found, offset = found + one.found, one.offset
    assert (found, offset) == ([0, 1, 2, 3], 4)


def test_a_batch_of_many_small_records_is_left_where_the_limit_is():
    many = batch(0, *[b""] * 400_000, codec=Codec.ZSTD)
    limit, found, offset, turns = 4 << 20, list[int](), 0, 0
    while offset < 400_000:
        one = spans(400_000, first=offset)
        one.left_opened = limit
        list(one.read(part(many), wanted(lambda table: [table.num_rows])))
        assert one.opened < 2 * limit + LIGHT_BYTES
        found, offset, turns = found + one.found, one.offset, turns + 1
    assert (sum(found), turns > 1) == (400_000, True)


@pytest.mark.parametrize("damaged", [b"\x07" * 40, bytes(40)])
def test_damage_fails_the_partition_and_is_no_large_batch(damaged: bytes):
    bad = sealed(batch(1, b"x", codec=Codec.ZSTD)[:61] + damaged)
    one = spans(3)
    list(one.read(part(batch(0, b"a") + bad + batch(2, b"c")), wanted(offsets_of)))
    assert one.failure is not None
    assert "offset 1" in one.failure.message


def test_a_batch_above_the_limit_of_the_copy_cannot_be_opened(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batches, "DEFAULT_LIMIT", 2 * LIGHT_BYTES)
    index = batches.index(batch(0, bytes(3 * LIGHT_BYTES), codec=Codec.ZSTD))
    records = OpenedRecords(index=index, kept=batches.keep(index, start_offset=0), offset=0)
    records.step(bool)
    assert records.heavy == 0
    with pytest.raises(BatchError, match="more than"):
        records.step(bool)


def test_light_partitions_come_first_and_a_round_has_an_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(opened_records, "ROUND_BYTES", 60)
    done: list[str] = []

    def steps(name: str, *sizes: int) -> Iterator[int]:
        for size in sizes:
            done.append(name)
            yield size

    async def sleep(_: float) -> None:
        done.append("turn")

    cluster: Any = SimpleNamespace(loop=SimpleNamespace(sleep=sleep))
    deadline: Any = SimpleNamespace(passed=False)
    task = in_turn(cluster, [steps("a", 5, 50, 50), steps("b", 5), steps("c", 1, 50)], deadline)
    with pytest.raises(StopIteration):
        task.send(None)
    assert [one for one in done if one != "turn"] == ["a", "b", "c", "a", "c"]
    assert done.count("turn") == 5
    deadline.passed = True
    late = in_turn(cluster, [steps("d", 1), steps("e", 1)], deadline)
    with pytest.raises(StopIteration):
        late.send(None)
    assert [one for one in done[10:] if one != "turn"] == ["d"]


def test_rows_have_what_the_table_has_and_many_headers_are_a_digest():
    headers = (("a", b"1"), ("b", None), ("a", b""))
    answer = batch(0, b"v", None, headers=headers) + batch(2, b"w", headers=(("z", b"9"),)) + batch(3, b"x")
    table = batches.decode(batches.index(answer))

    def text(part: Any) -> bytes | None:
        return None if part is None else bytes(part)

    found = [
        (row.offset, text(row.key), text(row.value), [(text(key), text(value)) for key, value in row.headers])
        for row in rows(table)
    ]
    pairs = [(b"a", b"1"), (b"b", None), (b"a", b"")]
    assert found == [
        (0, b"k0", b"v", pairs),
        (1, b"k1", None, pairs),
        (2, b"k2", b"w", [(b"z", b"9")]),
        (3, b"k3", b"x", []),
    ]
    few = [row.headers for row in packed_rows(answer)]
    assert few[0] == few[1] != few[2]
    assert few[3] == ()
    for other in (
        (("a", b"1"), ("b", b""), ("a", b"")),
        (("a", b"1"), ("a", b""), ("b", None)),
        (("a1", b""), *headers[1:]),
    ):
        assert packed_rows(batch(0, b"v", headers=other))[0].headers != few[0]


def packed_rows(answer: bytes) -> list[Row]:
    """The records of an answer, more than two headers of one packed."""
    chunks = list(batches.decode_by_chunk(batches.index(answer), most_headers=2))
    return [row for chunk in chunks for row in rows(pa.Table.from_batches([chunk]))]


MANY, FEWER = 24_000_000, 15_000_000
"""Headers that take two bytes each in the record, and eight in Arrow's arrays."""


def many_headers(offset: int, count: int = MANY) -> bytes:
    """A batch with one record that is nothing but headers without a name and a value."""
    counted = bytearray()
    encode_varint(count, counted.append)
    fields = b"\0\0\0" + b"\x01\x01" + bytes(counted) + b"\0\x01" * count
    size = bytearray()
    encode_varint(len(fields), size.append)
    payload: bytes = pa.Codec("zstd").compress(bytes(size) + fields, asbytes=True)
    body = struct.pack(">hiqqqhii", 4, 0, 1, 1, -1, -1, -1, 1) + payload
    return struct.pack(">qiibI", offset, 9 + len(body), 3, 2, int(crc32c.crc32c(body))) + body


@pytest.mark.parametrize("take", [here, copied_records._records, extent, heartbeat_copies.are_heartbeats])
def test_a_record_of_millions_of_headers_takes_as_much_memory_as_one_of_as_many_bytes(take: Callable[[Any], list[Any]]):
    bombs, found = many_headers(0) + many_headers(1) + batch(2, b"v"), list[int]()

    def work() -> None:
        one = spans(3)
        list(one.read(part(bombs), wanted(take)))
        found.append(len(one.found))

    assert len(bombs) < 10_000
    assert most_of(work) < 5 * MANY
    assert found == [3, 3]


def test_the_internal_topics_records_may_have_any_number_of_headers():
    answer, found = many_headers(0, FEWER) + batch(1, b"v"), list[int]()

    def work() -> None:
        found.extend(one.offset for one in open_records(answer, 0).records)

    assert most_of(work) < 5 * FEWER
    assert set(found) == {1}, "the other one has no key"


def test_packed_headers_are_in_a_file_and_in_a_topic_as_they_are():
    headers = (("a", b"1"), ("b", None), ("", b"\xff"))
    answer = batch(0, b"v", headers=headers)
    (row,) = packed_rows(answer)
    (line,) = "".join(divergence._as_json(row)).splitlines()
    raw = b"\x06\x02a\x021\x02b\x01\0\x02\xff"
    assert json.loads(line)["packed_headers"] == base64.b64encode(raw).decode()
    (chunk,) = batches.decode_by_chunk(batches.index(answer), most_headers=2)
    (made,) = batches.encode(chunk)
    (found,) = batches.decode(batches.index(made.batch)).to_pylist()
    assert found["headers"] == [{"key": name.encode(), "value": value} for name, value in headers]


def test_lines_of_a_file_hold_the_record():
    value = np.random.default_rng(1).bytes(2 * divergence.TEXT_BYTES + 1)
    table = batches.decode(batches.index(batch(0, value, None, headers=(("ä", b"1"), ("b", None)))))
    lines = "".join(piece for row in rows(table) for piece in divergence._as_json(row)).splitlines()
    text = [base64.b64encode(value).decode(), None]
    headers = [["ä", base64.b64encode(b"1").decode()], ["b", None]]
    assert [json.loads(line) for line in lines] == [
        {
            "offset": n,
            "timestamp": 1,
            "key": base64.b64encode(b"k%d" % n).decode(),
            "value": text[n],
            "headers": headers,
        }
        for n in range(2)
    ]


def test_what_is_far_too_large_for_a_position_of_connect_is_not_kept():
    large = bytes(stored_offsets.LARGEST + 1)
    keys = (b"k", large, None, b"gone")
    records = tuple(Rec(n, 1, key, None if key == b"gone" else large) for n, key in enumerate(keys))
    table = batches.decode(batches.index(Written(records=records).encode()))
    assert list(stored_offsets._pairs(table)) == [(b"k", large[:-1]), (b"gone", None)]


def test_offsets_need_no_values():
    table = batches.decode(batches.index(batch(3, b"a", b"b")))
    assert extent(table) == [Extent(3, 4, 2)]
    assert extent(table.slice(0, 0)) == []


@pytest.mark.kafka
def test_what_clients_have_written_to_a_broker_is_read_whatever_it_opens_to(
    cluster_a: LabCluster, lab_cluster: Callable[[str], Cluster], topic_name: str
):
    create_topic(cluster_a, topic_name, 2)
    cluster = lab_cluster("A")
    for number, sent in ((0, BOMBS), (1, batch(0, b"a", b"b"))):
        index = batches.index(sent)
        for start, size in zip(index.start.tolist(), index.size.tolist(), strict=True):
            raw_batches.produce(cluster, topic_name, bytes(8) + sent[start + 8 : start + size], number)
    large, small = (TopicPartition(topic_name, number) for number in (0, 1))
    both = {large: Span(0, 4), small: Span(0, 2)}
    found = read_records(cluster, both, here, TIMEOUT_MS).complete()
    assert {place: [one.offset for one in records] for place, records in found.items()} == {
        large: [0, 1, 2, 3],
        small: [0, 1],
    }
    limited = read_up_to(cluster, both, offsets_of, TIMEOUT_MS, 1 << 20).complete()
    assert (limited[large], limited[small]) == (Read([0, 1], 2), Read([0, 1], 2))
    wanted = [Spot(large, 3), Spot(large, 0), Spot(small, 1), Spot(small, 2)]
    at = read_spots(cluster, wanted, readings.seen, TIMEOUT_MS).complete()
    assert [record and record.offset for record in map(at.get, wanted)] == [3, 0, 1, None]
