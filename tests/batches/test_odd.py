"""Odd batches that wait with others, and such that have to be written anew."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from sparkmirror.batches import decode, index, merge
from sparkmirror.batches.columns import OFFSET, VALUE
from sparkmirror.batches.layout import COUNT
from sparkmirror.errors import BatchError
from tests.batches.building import Rec, one, sealed
from tests.batches.odd import BEHIND, ODD, Odd
from tests.batches.test_merge import CREATE_TIME, STAMP, check, drain, run_of, with_broker_time

FIRST = 40


def at(offset: int, odd: Odd) -> bytes:
    """The batch where a broker has put it."""
    return struct.pack(">q", offset) + odd.batch[8:]


def twice(odd: Odd) -> bytes:
    """Two that wait between sound ones."""
    size = int(index(odd.batch).count[0])
    return one(FIRST - 1) + at(FIRST, odd) + at(FIRST + size, odd) + one(FIRST + 2 * size)


@pytest.mark.parametrize("kind", [kind for kind, odd in ODD.items() if odd.records is not None])
def test_what_java_reads_is_put_beside_others(kind: str) -> None:
    odd = ODD[kind]
    (made,) = drain([run_of(twice(odd))], CREATE_TIME, 1 << 20)
    size = int(index(odd.batch).count[0])
    between = [replace(r, offset=FIRST + n * size + r.offset) for n in range(2) for r in odd.records or ()]
    ends = [Rec(o, 1_700_000_000_000 + o, None, b"x" * 100) for o in (FIRST - 1, FIRST + 2 * size)]
    check([made], [ends[0], *between, ends[1]], CREATE_TIME)


@pytest.mark.parametrize("kind", [kind for kind, odd in ODD.items() if odd.records is None])
def test_what_cannot_be_put_beside_others_goes_as_it_is(kind: str) -> None:
    odd = ODD[kind]
    made = drain([run_of(twice(odd))], CREATE_TIME, 1 << 20)
    assert [(m.count, m.first_offset, m.last_offset) for m in made] == [
        (1, FIRST - 1, FIRST - 1),
        (2, FIRST, FIRST + 1),
        (2, FIRST + 2, FIRST + 3),
        (1, FIRST + 4, FIRST + 4),
    ]
    assert [bytes(m.batch[COUNT:]) for m in made[1:3]] == 2 * [odd.batch[COUNT:]]


@pytest.mark.parametrize("kind", ODD)
def test_where_it_has_to_be_changed_an_odd_batch_is_read_or_refused(kind: str) -> None:
    odd = ODD[kind]
    run = run_of(with_broker_time(at(FIRST, odd)))
    if odd.records is None:
        with pytest.raises(BatchError, match=f"offset {FIRST}: the batch's records do not fit its header"):
            merge([run], CREATE_TIME, STAMP)
        return
    check(
        merge([run], CREATE_TIME, STAMP).batches,
        [replace(r, offset=FIRST + r.offset) for r in odd.records],
        CREATE_TIME,
    )


@pytest.mark.parametrize("kind", [kind for kind, odd in ODD.items() if odd.records is not None])
def test_odd_batches_become_rows(kind: str) -> None:
    odd = ODD[kind]
    table = decode(run_of(at(FIRST, odd)).indexed)
    assert table.column(OFFSET).to_pylist() == [FIRST + r.offset for r in odd.records or ()]
    assert table.column(VALUE).to_pylist() == [r.value for r in odd.records or ()]


@pytest.mark.parametrize("kind", ["bytes behind a gzip member", "bytes behind an lz4 frame"])
def test_bytes_behind_too_few_records_are_no_records(kind: str) -> None:
    """Where the header tells of three and the member or frame ends with the second, something is missing."""
    data = bytearray(at(FIRST, ODD[kind]))
    struct.pack_into(">i", data, 23, 2)
    struct.pack_into(">i", data, COUNT, 3)
    with pytest.raises(BatchError, match=f"offset {FIRST}: the batch's records do not fit its header"):
        merge([run_of(with_broker_time(sealed(bytes(data))))], CREATE_TIME, STAMP)


def test_what_begins_another_gzip_member_has_to_be_one() -> None:
    """As in Java."""
    whole = ODD["bytes behind a gzip member"].batch
    bad = sealed(whole.removesuffix(BEHIND) + whole[61:81])
    with pytest.raises(BatchError, match="its gzip data is damaged"):
        merge([run_of(with_broker_time(bad))], CREATE_TIME, STAMP)
