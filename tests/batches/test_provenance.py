"""Records that name the clusters they have come through: the kernel against its twin, and what leaves the flow."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec, Provenance, Reason, index, keep, mark
from sparkmirror.batches.kernels import provenance as kernel
from sparkmirror.batches.provenance import HEADER_NAME, ROOM
from tests.batches import oracle_provenance as oracle
from tests.batches.building import LOG_APPEND_TIME, Rec, Written, log, read, sealed
from tests.batches.fuzzing.trial import rows_of
from tests.batches.kinds import message
from tests.batches.oracle import Header, Row

NAME, OWN, TARGET = HEADER_NAME.encode(), b"b", b"c"
FLOW = Provenance(source="b", target="c")

values = st.sampled_from([None, b"", b"a", b"c", b"a,c", b"c,a", b"cc", b"a,cc,d", b",", b"ac,"])
headers = st.lists(
    st.tuples(st.sampled_from([HEADER_NAME, "other", "", "sparkmirror.provenancf", "ä"]), values), max_size=4
).map(tuple)
contents = st.none() | st.binary(max_size=200)
Content = tuple[bytes | None, bytes | None, tuple[Header, ...]]

batches_of_records = st.lists(
    st.lists(st.tuples(contents, contents, headers), min_size=1, max_size=5), min_size=1, max_size=5
)


def answer(batches: list[list[Content]], codecs: list[Codec]) -> bytes:
    written, offset = [], 0
    for content, codec in zip(batches, codecs, strict=False):
        records = tuple(Rec(n, 1_000 + 7 * n, *fields) for n, fields in enumerate(content))
        written.append(Written(records=records, base_offset=offset, codec=codec))
        offset += len(records)
    return log(written)


def run_kernel(
    data: bytes, table: Any, reasons: list[int], ways: list[bytes], room: int
) -> tuple[int, list[Row], bytes]:
    """(reached, batches as rows, bytes), with a margin behind the room that stays as it was."""
    out, marked = np.full(room + 64, 0xAA, np.uint8), table.copy()
    ends = np.cumsum([len(way) for way in ways])
    spans = np.array([ends - [len(way) for way in ways], ends], np.int64)
    texts = [np.frombuffer(text, np.uint8) for text in (NAME, OWN, TARGET, b"".join(ways))]
    flags = np.array(reasons, np.uint8)
    mark_kernel: Any = kernel.mark  # what it is typed as knows no arrays
    reached, size = mark_kernel(np.frombuffer(data, np.uint8), table, flags, *texts, spans, out[:room], marked)
    assert (out[room:] == 0xAA).all()
    assert size <= room
    made = [Row(*column) for column in marked[:, :reached].T.tolist()]
    return int(reached), made, out[:size].tobytes()


@given(batches_of_records, st.integers(0, 2**32), st.booleans())
def test_mark(content: list[list[Content]], seed: int, damage: bool) -> None:
    rng = random.Random(seed)
    data = answer(content, [Codec.NONE] * len(content))
    found = index(data)
    rows = rows_of(found)
    if damage:  # behind the headers, which the index has checked
        row = rng.choice(rows)
        place = rng.randrange(row.start + 61, row.start + row.size)
        data = data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
    reasons = rng.choices([0, 0, 0, 1, 4], k=len(rows))
    ways = [rng.choice([b"b", b"a,b"]) for _ in rows]
    wanted = oracle.mark(data, rows, reasons, NAME, OWN, TARGET, ways)
    reached, made, out = run_kernel(data, found.table, reasons, ways, 2 * len(data) + 4_000)
    assert reached == len(wanted)
    for row, before, records in zip(made, rows, wanted, strict=False):
        assert (row.first, row.last, row.producer) == (before.first, before.last, before.producer)
        if records:
            assert oracle.seen(out, row) == records
        else:
            assert row.size == 0
    whole = index(out)
    assert whole.error is None
    assert [r.size for r in rows_of(whole)] == [row.size for row in made if row.size]


@given(batches_of_records, st.integers(0, 2_000))
def test_mark_stays_in_its_room(content: list[list[Content]], room: int) -> None:
    data = answer(content, [Codec.NONE] * len(content))
    found = index(data)
    rows = rows_of(found)
    wanted = oracle.mark(data, rows, [0] * len(rows), NAME, OWN, TARGET, [b"a,b"] * len(rows))
    reached, made, out = run_kernel(data, found.table, [0] * len(rows), [b"a,b"] * len(rows), room)
    assert reached <= len(wanted)
    for row, records in zip(made, wanted, strict=False):
        assert (oracle.seen(out, row) if row.size else []) == records


@pytest.mark.parametrize("codec", list(Codec))
def test_each_record_names_its_way_and_those_from_the_target_are_left_out(codec: Codec) -> None:
    records = (
        Rec(0, 5, b"k", b"new", (("h", b"1"), ("h", None))),
        Rec(1, 6, b"k", b"came", ((HEADER_NAME, b"x,a"), ("last", b"z"))),
        Rec(2, 7, b"k", b"back", ((HEADER_NAME, b"a,c"),)),
        Rec(3, 8, None, None),
    )
    back = (Rec(0, 5, b"k", b"all of it", ((HEADER_NAME, b"c"),)),)
    data = log(
        [
            Written(records=records, base_offset=10, codec=codec),
            Written(records=back, base_offset=20, codec=codec),
            Written(records=(Rec(0, 9, b"k", b"x"),), base_offset=30, bits=LOG_APPEND_TIME, max_time=77),
        ]
    )
    found = index(data)
    made = mark(found, keep(found, start_offset=0), FLOW, {("a",): np.array([False, False, True])})
    assert (made.codec, made.error) == (codec, None)
    assert made.kept.reasons.tolist() == [Reason.KEPT, Reason.LOOP, Reason.KEPT]
    assert made.indexed.count.tolist() == [3, 0, 1]
    assert made.indexed.base_offset.tolist() == [10, 20, 30]
    start, size = made.indexed.start, made.indexed.size
    first, last = (read(made.indexed.data[start[n] : start[n] + size[n]].tobytes()) for n in (0, 2))
    assert [(r.offset, r.value, r.headers) for r in first.records] == [
        (10, b"new", (("h", b"1"), ("h", None), (HEADER_NAME, b"b"))),
        (11, b"came", ((HEADER_NAME, b"x,a,b"), ("last", b"z"))),
        (13, None, ((HEADER_NAME, b"b"),)),
    ]
    assert [(r.time, r.headers) for r in last.records] == [(77, ((HEADER_NAME, b"a,b"),))]


def test_messages_of_old_magic_get_the_header_too() -> None:
    data = message(0, 5, -1, b"k", b"old") + message(1, 6, 99, None, b"newer")
    found = index(data)
    made = mark(found, keep(found, start_offset=0), FLOW)
    assert (made.indexed.magic.tolist(), made.codec) == ([2, 2], Codec.NONE)
    again = index(made.indexed.data.tobytes())
    assert again.error is None
    for row in rows_of(made.indexed):
        (record,) = oracle.seen(made.indexed.data.tobytes(), row) or []
        assert record.headers == ((NAME, b"b"),)


def test_a_batch_that_cannot_be_opened_ends_what_is_marked() -> None:
    good = Written(records=(Rec(0, 1, b"k", b"v"),), codec=Codec.ZSTD)
    bad = bytearray(Written(records=(Rec(0, 1, b"k", b"v" * 50),), base_offset=5, codec=Codec.ZSTD).encode())
    bad[70:80] = bytes(10)
    found = index(good.encode() + sealed(bytes(bad)))
    made = mark(found, keep(found, start_offset=0), FLOW)
    assert len(made.indexed) == 1
    assert made.error is not None
    assert made.error.offset == 5


def test_no_more_is_opened_at_a_time_than_there_is_room_for() -> None:
    large = [Written(records=(Rec(0, 1, None, bytes(ROOM // 4)),), base_offset=n, codec=Codec.LZ4) for n in range(8)]
    found = index(log(large))
    made = mark(found, keep(found, start_offset=0), FLOW)
    assert (len(found), len(made.indexed), made.error) == (8, 4, None)
