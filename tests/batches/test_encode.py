"""Tables as batches, compared byte by byte with a plain-Python twin and read back by kafka-python."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.batches import NO_WRITER, Codec, Encoded, Stamp, column_schema, decode, encode, index
from sparkmirror.errors import RecordTooLargeError
from tests.batches import oracle
from tests.batches.building import read

NOW = 1_700_000_000_000
MIB = 1 << 20
STAMP = Stamp(producer_id=77, epoch=5, sequence=2**31 - 4)
HEADER_TYPE = pa.struct([("key", pa.binary()), ("value", pa.binary())])

Row = dict[str, Any]


def row(time: int = NOW, key: bytes | None = None, value: bytes | None = b"v", headers: Sequence[Any] = ()) -> Row:
    return {"timestamp": time, "key": key, "value": value, "headers": [{"key": k, "value": v} for k, v in headers]}


def table_of(rows: Sequence[Row], offset: int = 0) -> pa.Table:
    full = [{"offset": offset + i, "timestamp_type": 0, **row} for i, row in enumerate(rows)]
    return pa.Table.from_pylist(full, schema=column_schema())


def twin(rows: Sequence[Row], room: int, stamp: Stamp = NO_WRITER) -> list[bytes]:
    """The batches as they have to be, each as full as it can be."""
    done: list[bytes] = []
    found: list[oracle.Record] = []
    for each in rows:
        record = oracle.Record(0, each["timestamp"], 0, tail(each))
        if found and 61 + len(oracle.packed([*found, record])) > room:
            done.append(sealed(found, stamp))
            stamp = after(stamp, len(found))
            found = []
        found.append(record)
    return [*done, sealed(found, stamp)] if found else done


def after(stamp: Stamp, records: int) -> Stamp:
    return stamp if stamp.producer_id < 0 else stamp.after(records)


def sealed(found: Sequence[oracle.Record], stamp: Stamp) -> bytes:
    return oracle.seal(oracle.packed(found), found, 0, (stamp.producer_id, stamp.epoch, stamp.sequence))


def tail(row: Row) -> bytes:
    def field(content: bytes | None) -> bytes:
        return oracle.varint(-1) if content is None else oracle.varint(len(content)) + content

    headers = b"".join(field(header["key"]) + field(header["value"]) for header in row["headers"])
    return field(row["key"]) + field(row["value"]) + oracle.varint(len(row["headers"])) + headers


def bytes_of(made: Sequence[Encoded]) -> list[bytes]:
    return [bytes(each.batch) for each in made]


def cut(table: pa.Table, places: Sequence[int]) -> pa.Table:
    """The same rows in chunks, each of which is a slice of something larger."""
    edges = sorted({0, table.num_rows, *(place % (table.num_rows + 1) for place in places)})
    doubled = pa.concat_tables([table.slice(1), table, table]).combine_chunks()
    skip = max(0, table.num_rows - 1)
    pieces = [doubled.slice(skip + first, stop - first) for first, stop in itertools.pairwise(edges)]
    return pa.concat_tables(pieces) if pieces else table


_times = st.integers(-(2**63), 2**63 - 1) | st.integers(NOW, NOW + 1000) | st.sampled_from([-1, 0, 2**63 - 1, -(2**63)])
_bytes = st.none() | st.binary(max_size=12) | st.binary(min_size=60, max_size=140)
_headers = st.lists(st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=70)), max_size=3)
_rows = st.lists(st.builds(row, _times, _bytes, _bytes, _headers), max_size=12)


@settings(max_examples=300)
@given(_rows, st.lists(st.integers(0, 12), max_size=4), st.integers(1000, 3000), st.integers(62, 3000))
def test_batches_are_byte_for_byte_what_they_have_to_be(
    rows: list[Row], places: list[int], limit: int, batch_size: int
) -> None:
    table = cut(table_of(rows), places)
    made = encode(table, batch_size=batch_size, max_message_bytes=limit, stamp=STAMP)
    assert bytes_of(made) == twin(rows, min(batch_size, limit), STAMP)
    firsts = np.cumsum([0, *(each.count for each in made)]).tolist()
    assert [each.first_row for each in made] == firsts[:-1]
    assert firsts[-1] == len(rows)
    newest = [max(r["timestamp"] for r in rows[each.first_row : each.first_row + each.count]) for each in made]
    assert [each.max_timestamp for each in made] == newest


@settings(max_examples=200)
@given(_rows, st.sampled_from(Codec), st.integers(62, 3000))
def test_a_table_that_was_encoded_is_decoded_to_itself(rows: list[Row], codec: Codec, batch_size: int) -> None:
    table = table_of(rows)
    made = encode(table, codec=codec, batch_size=batch_size)
    pieces = [decode(index(each.batch)) for each in made]
    back = pa.concat_tables([column_schema().empty_table(), *pieces])
    back.validate(full=True)
    assert back.drop(["offset"]).equals(table.drop(["offset"]))
    assert [p["offset"].to_pylist() for p in pieces] == [list(range(each.count)) for each in made]


@pytest.mark.parametrize("codec", list(Codec))
def test_kafka_python_reads_what_is_encoded(codec: Codec) -> None:
    rows = [row(NOW - i, b"k%d" % i, b"v" * (i * 37 % 300), [(b"h", None), (b"h", b"1")][: i % 3]) for i in range(999)]
    made = encode(table_of(rows), codec=codec, batch_size=9000, stamp=STAMP)
    sequence, got = STAMP.sequence, []
    for each in made:
        batch = read(each.batch)
        assert (batch.base_offset, batch.leader_epoch, batch.attributes) == (0, -1, int(codec))
        assert batch.producer == (77, 5, sequence)
        assert [r.offset for r in batch.records] == list(range(each.count))
        sequence = (sequence + each.count) % 2**31
        got += [row(r.time, r.key, r.value, [(k.encode(), v) for k, v in r.headers]) for r in batch.records]
    assert got == rows
    assert len(made) > 10


def test_batches_without_a_writer_have_no_sequence() -> None:
    made = encode(table_of([row()] * 9), batch_size=100)
    assert len(made) > 1
    assert {read(each.batch).producer for each in made} == {(-1, -1, -1)}


def test_a_table_without_rows_is_no_batch() -> None:
    assert encode(column_schema().empty_table()) == ()
    assert encode(pa.table({"timestamp": [], "value": []})) == ()


def test_a_record_batch_is_as_good_as_a_table() -> None:
    table = table_of([row(), row(NOW, b"k", None)])
    (part,) = table.to_batches()
    assert bytes_of(encode(part)) == bytes_of(encode(table))


def test_small_chunks_share_a_batch() -> None:
    rows = [row(NOW + i) for i in range(100)]
    table = pa.concat_tables([table_of([each]) for each in rows])
    (made,) = encode(table)
    assert made.count == table["value"].num_chunks == 100


@pytest.mark.parametrize("limit", range(320, 345))
def test_the_limit_is_met_to_the_byte(limit: int) -> None:
    rows = [row(NOW + i, None, b"x" * 100) for i in range(9)]
    made = encode(table_of(rows), max_message_bytes=limit)
    assert bytes_of(made) == twin(rows, limit)
    assert max(len(each.batch) for each in made) > limit - 120


def test_a_record_above_the_batch_size_goes_by_itself() -> None:
    rows = [row(value=b"x" * size) for size in (10, 10, 900, 10)]
    assert [each.count for each in encode(table_of(rows), batch_size=200)] == [2, 1, 1]
    assert [each.count for each in encode(table_of(rows), batch_size=200, codec=Codec.LZ4)] == [2, 1, 1]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_above_the_limit_is_named_by_its_offset(codec: Codec) -> None:
    noise = np.random.default_rng(1).bytes(9000)
    table = table_of([row(), row(), row(value=noise), row()], offset=500)
    with pytest.raises(RecordTooLargeError, match=r"offset 502: .*max\.message\.bytes, 4000") as caught:
        encode(table, max_message_bytes=4000, codec=codec)
    assert caught.value.offset == 502
    with pytest.raises(RecordTooLargeError) as caught:
        encode(table.drop(["offset"]), max_message_bytes=4000, codec=codec)
    assert caught.value.offset == 2


def test_a_large_record_that_compresses_below_the_limit_is_taken() -> None:
    rows = [row(), row(value=bytes(MIB)), row()]
    made = encode(table_of(rows), max_message_bytes=20_000, codec=Codec.ZSTD)
    assert [each.count for each in made] == [1, 1, 1]
    assert [r.value for each in made for r in read(each.batch).records] == [b"v", bytes(MIB), b"v"]


def test_what_compression_makes_larger_than_allowed_travels_as_it_is() -> None:
    rows = [row(value=np.random.default_rng(2).bytes(96))]
    (plain,) = twin(rows, MIB)
    (made,) = encode(table_of(rows), max_message_bytes=len(plain), codec=Codec.GZIP)
    assert bytes(made.batch) == plain


@pytest.mark.parametrize("size", [61, 0, -5])
def test_a_batch_has_to_hold_more_than_its_header(size: int) -> None:
    with pytest.raises(ValueError, match="larger than 61"):
        encode(table_of([row()]), batch_size=size)
    with pytest.raises(ValueError, match="larger than 61"):
        encode(table_of([row()]), max_message_bytes=size)


def columns(**more: Any) -> pa.Table:
    return pa.table({"timestamp": pa.array([1, 2, 3]), "value": pa.array([b"a", b"b", b"c"])} | more)


def test_keys_headers_offsets_and_types_may_be_missing() -> None:
    assert bytes_of(encode(columns())) == twin([row(1, None, b"a"), row(2, None, b"b"), row(3, None, b"c")], MIB)


TEXTS = ["", None, "ä" * 40]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
        pa.dictionary(pa.uint16(), pa.large_binary()),
    ],
    ids=str,
)
@pytest.mark.parametrize("skip", [0, 1, 2, 9])
def test_byte_strings_may_be_of_any_kind(kind: pa.DataType, skip: int) -> None:
    junk = ["junk"] * skip
    array = pa.array(junk + TEXTS, kind if not pa.types.is_dictionary(kind) else kind.value_type)
    array = array.cast(kind).slice(skip) if pa.types.is_dictionary(kind) else array.slice(skip)
    expected = [row(i + 1, None if t is None else t.encode(), b"abc"[i : i + 1]) for i, t in enumerate(TEXTS)]
    assert bytes_of(encode(columns(key=array))) == twin(expected, MIB)


def test_strings_of_a_fixed_size_and_columns_of_nulls_are_taken() -> None:
    table = columns(key=pa.array([b"ab", None, b"cd"], pa.binary(2)), headers=pa.nulls(3))
    expected = [row(1, b"ab", b"a"), row(2, None, b"b"), row(3, b"cd", b"c")]
    assert bytes_of(encode(table)) == twin(expected, MIB)
    assert bytes_of(encode(columns(key=pa.nulls(3)))) == bytes_of(encode(columns()))


HEADERS: list[Any] = [[("h", b"1"), ("h", None)], None, [("ä", b"")]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(HEADER_TYPE),
        pa.large_list(HEADER_TYPE),
        pa.list_(pa.struct([("value", pa.large_binary()), ("key", pa.string())])),
        pa.map_(pa.binary(), pa.binary()),
        pa.map_(pa.string(), pa.binary_view()),
    ],
    ids=str,
)
@pytest.mark.parametrize("skip", [0, 1, 11])
def test_headers_may_be_lists_or_maps(kind: pa.DataType, skip: int) -> None:
    junk: list[Any] = [[("junk", b"junk")] * 3] * skip
    entries = junk + HEADERS
    if not pa.types.is_map(kind):
        entries = [None if each is None else [{"key": k, "value": v} for k, v in each] for each in entries]
    array = pa.array(entries, kind).slice(skip)
    found = [[(k.encode(), v) for k, v in each or []] for each in HEADERS]
    expected = [row(i + 1, None, b"abc"[i : i + 1], found[i]) for i in range(3)]
    assert bytes_of(encode(columns(headers=array))) == twin(expected, MIB)


def test_null_headers_are_none_even_if_something_lies_under_them() -> None:
    pairs = pa.array([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}], HEADER_TYPE)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 2], pa.int32()), pairs, mask=pa.array([False, True, False]))
    assert lists.offsets.to_pylist() == [0, 1, 2, 2]
    expected = [row(1, None, b"a", [(b"a", b"1")]), row(2, None, b"b"), row(3, None, b"c")]
    assert bytes_of(encode(columns(headers=lists))) == twin(expected, MIB)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pa.array([1, None, 3], pa.int32()), [1, -1, 3]),
        (pa.array([1, 2, 3], pa.uint64()), [1, 2, 3]),
        (pa.nulls(3), [-1, -1, -1]),
        (pa.array([1, None, -1], pa.timestamp("ms", "UTC")), [1, -1, -1]),
        (pa.array([1, 2, 3], pa.timestamp("s")), [1000, 2000, 3000]),
        (pa.array([1000, 2000, 3000], pa.timestamp("us", "Europe/Berlin")), [1, 2, 3]),
        (pa.array([9, 9, 1, 2, 3]).slice(2), [1, 2, 3]),
    ],
)
def test_timestamps_may_be_numbers_or_moments(times: pa.Array, expected: list[int]) -> None:
    made = encode(columns().set_column(0, "timestamp", times))
    assert [r.time for each in made for r in read(each.batch).records] == expected


def test_arrow_s_memory_need_not_be_aligned() -> None:
    """As it is not in a file that was mapped, or in what another library hands over."""

    def shifted(numbers: Sequence[int]) -> pa.Buffer:
        return pa.py_buffer(memoryview(b"x" + np.array(numbers, np.int64).tobytes())[1:])

    values = pa.Array.from_buffers(pa.large_binary(), 3, [None, shifted([0, 1, 1, 3]), pa.py_buffer(b"abc")])
    times = pa.Array.from_buffers(pa.int64(), 3, [None, shifted([7, 8, 9])])
    made = encode(pa.table({"timestamp": times, "value": values}))
    assert bytes_of(made) == twin([row(7, None, b"a"), row(8, None, b""), row(9, None, b"bc")], MIB)


def wrong_header(entry: Any) -> pa.Table:
    return columns(headers=pa.array([[], [entry], []], pa.list_(HEADER_TYPE)))


@pytest.mark.parametrize(
    "headers",
    [
        [(None, b"\x04\x02a\x021")],  # one less than it says
        [(None, b"\x02\x02a\x021\0")],  # something behind them
        [(None, b"")],
        [(None, None)],
        [(None, b"\0"), (b"a", b"1")],  # not alone
        [(b"a", b"1"), (None, b"\0")],
    ],
)
def test_packed_headers_that_are_none_are_refused(headers: list[tuple[bytes | None, bytes | None]]) -> None:
    kind = column_schema(packed=True).field("headers").type
    own = pa.array([[{"key": key, "value": value} for key, value in headers]] * 3, kind)
    with pytest.raises(ValueError, match="no sound Arrow data"):
        encode(columns(headers=own))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (columns(partition=pa.array([1, 2, 3])), "unknown columns: partition"),
        (columns(header=pa.nulls(3)).slice(3), "unknown columns: header"),
        (columns().drop(["value"]), "missing columns: value"),
        (pa.Table.from_arrays([pa.array([1])] * 3, ["timestamp", "value", "value"]), "columns twice: value"),
        (columns(key=pa.array([1, 2, 3])), "column key: int64 is neither bytes nor text"),
        (columns(key=pa.array([1, 2, 3]).dictionary_encode()), "column key: dictionary.* is neither bytes nor text"),
        (columns(headers=pa.array([b"h"] * 3)), "column headers: binary is not a list of key and value"),
        (columns(headers=pa.array([[1]] * 3)), "column headers: int64 is not a struct of key and value"),
        (columns(headers=pa.array([[{"key": b"h"}]] * 3)), "is not a struct of key and value"),
        (wrong_header(None), "a header without a key"),
        (wrong_header({"key": None, "value": b"1"}), "a header without a key"),
        (columns().set_column(0, "timestamp", pa.array(["1"] * 3)), "column timestamp: string is neither"),
        (columns().set_column(0, "timestamp", pa.array([Decimal(1)] * 3)), "column timestamp: decimal.* is neither"),
        (columns().set_column(0, "timestamp", pa.array([2**64 - 1] * 3, pa.uint64())), "column timestamp: uint64"),
        (columns().set_column(0, "timestamp", pa.array([1001] * 3, pa.timestamp("us"))), "column timestamp: .*lose"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(table)


def strings(ends: Sequence[int], data: bytes = b"abc") -> pa.Array:
    """Three strings whose ends nobody has looked at."""
    buffers = [None, pa.py_buffer(np.array(ends, np.int32)), pa.py_buffer(data)]
    return pa.lib._restore_array((pa.binary(), 3, 0, 0, buffers, [], None))


@pytest.mark.parametrize("ends", [(0, 90, 1, 3), (0, 2, 1, 3), (0, -5, 1, 3), (-7, 0, 1, 3), (0, 1, 2, 2**31 - 1)])
def test_arrays_that_lead_out_of_themselves_are_refused(ends: tuple[int, ...]) -> None:
    """Nothing is read beside them, which only the checks of the kernel prevent: Arrow looks at the last end alone."""
    with pytest.raises(ValueError, match=r"offset"):
        encode(columns(key=strings(ends)))
    pairs = pa.array([{"key": b"a", "value": b"1"}] * 3, HEADER_TYPE)
    buffers = [None, pa.py_buffer(np.array(ends, np.int32))]
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), pairs)
    broken = pa.lib._restore_array((lists.type, 3, 0, 0, buffers, [_reduced(pairs)], None))
    with pytest.raises(ValueError, match=r"offset"):
        encode(columns(headers=broken))


def _reduced(array: pa.Array) -> Any:
    return array.__reduce__()[1][0]
