"""Kafka's classic types: round trips, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.mm2 import types

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
NUMBERS = (
    (types.int16, types.read_int16, 16),
    (types.int32, types.read_int32, 32),
    (types.int64, types.read_int64, 64),
)


@pytest.mark.parametrize(("write", "read", "bits"), NUMBERS, ids=["int16", "int32", "int64"])
@given(data=st.data(), before=st.binary(max_size=5), after=st.binary(max_size=5))
def test_numbers_come_back_wherever_they_stand(write, read, bits, data, before, after):
    value = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    assert read(before + write(value) + after, len(before)) == (value, bits // 8)


@given(TEXTS, st.binary(max_size=5), st.binary(max_size=5))
def test_texts_come_back_wherever_they_stand(text, before, after):
    data = types.string(text)
    assert types.read_string(before + data + after, len(before)) == (text, len(data))


@pytest.mark.parametrize("read", [types.read_int16, types.read_int32, types.read_int64, types.read_string])
def test_a_buffer_that_ends_too_soon_is_refused(read):
    with pytest.raises(ValueError, match="at byte 3 of 4"):
        read(b"\0\0\0\0", 3)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff", "has the length -1"),
        (b"\0\3ab", "a text of 3 bytes at byte 0 of 4"),
        (b"\0\2\xff\xfe", "decode"),
    ],
)
def test_what_is_no_text_is_refused(data, reason):
    with pytest.raises(ValueError, match=reason):
        types.read_string(data, 0)


def test_a_text_that_is_too_long_is_refused():
    assert len(types.string("é" * 16_383)) == 32_768
    with pytest.raises(ValueError, match="32768 bytes, 32767 at most"):
        types.string("é" * 16_384)
