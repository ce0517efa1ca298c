"""Stretches against a plain loop."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec, Kind, Stretch, TargetTopic, index, keep, needs, stretches
from tests.batches.building import LOG_APPEND_TIME, Written, log, logs, one

TARGET = TargetTopic(log_append_time=False, max_message_bytes=1 << 20)


def oracle(batches: list[Written], kept: list[bool], codes: list[int], sizes: tuple[int, int]) -> list[Stretch]:
    found: list[Stretch] = []
    following = column = -1
    for n, batch in enumerate(batches):
        if not kept[n]:
            continue
        limit = sizes[batch.codec is not Codec.NONE]
        kind = Kind.OPEN if codes[n] else Kind.SMALL if len(batch.encode()) < limit else Kind.LARGE
        count = len(batch.records)
        last = found[-1] if found else None
        behind = [stretch.kind for stretch in found]
        while behind and behind[-1] is Kind.SMALL:
            behind.pop()
        if kind is Kind.OPEN and behind and behind[-1] is Kind.OPEN:
            del found[len(behind) :]
            found[-1] = found[-1]._replace(stop=n + 1)
        elif last and kind is not Kind.OPEN and (last.kind, column, following) == (kind, n - 1, batch.base_offset):
            found[-1] = Stretch(last.first, n + 1, kind, last.records + count)
        else:
            found.append(Stretch(n, n + 1, kind, 0 if kind is Kind.OPEN else count))
        column, following = n, batch.last_offset + 1
    return found


@given(logs(bits=LOG_APPEND_TIME | 32), st.integers(60, 300), st.integers(60, 300), st.integers(-1, 40))
def test_cuts_as_a_plain_loop_does(batches: list[Written], small: int, packed: int, into: int) -> None:
    found = index(log(batches))
    kept = keep(found, start_offset=0)
    codes = needs(found, kept, TARGET)
    until = -1 if into < 0 else batches[0].base_offset + into
    mask = [bool(k) and (until < 0 or b.base_offset < until) for k, b in zip(kept.mask, batches, strict=True)]
    got, taken = stretches(found, kept, codes, small=small, small_compressed=packed, until=until)
    assert got == oracle(batches, mask, codes.tolist(), (small, packed))
    assert taken == sum(mask)


def test_thousands_of_alternating_batches_make_as_many_stretches() -> None:
    found = index(b"".join(one(i, 10 + 100 * (i % 2)) for i in range(2000)))
    kept = keep(found, start_offset=0)
    got, taken = stretches(found, kept, needs(found, kept, TARGET), small=150, small_compressed=0)
    assert len(got) == taken == 2000


def test_one_kind_without_a_hole_is_one_stretch() -> None:
    found = index(b"".join(one(i) for i in range(2000)))
    kept = keep(found, start_offset=0)
    got, taken = stretches(found, kept, needs(found, kept, TARGET), small=1000, small_compressed=0)
    assert got == [Stretch(0, 2000, Kind.SMALL, 2000)]
    assert taken == 2000
