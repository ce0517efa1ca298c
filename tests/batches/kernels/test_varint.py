"""Variable-length numbers against kafka-python's."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import decode_varint, encode_varint

from sparkmirror.batches.kernels import varint
from tests.batches.building import compiled


@compiled
def read(data: Any, at: int, stop: int) -> Any:
    return varint.read(data, at, stop)


@compiled
def write(data: Any, at: int, value: int) -> Any:
    return varint.write(data, at, value)


@compiled
def size_of(value: int) -> Any:
    return varint.size_of(value)


LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


@given(LONGS)
def test_a_number_is_written_as_others_do(value: int) -> None:
    expected = bytearray()
    encode_varint(value, expected.append)
    out = np.zeros(varint.MOST, np.uint8)
    assert write(out, 0, value) == size_of(value) == len(expected)
    assert out[: len(expected)].tobytes() == expected


@given(LONGS, st.integers(0, 3))
def test_a_number_is_read_as_others_do(value: int, before: int) -> None:
    data = bytearray(before)
    encode_varint(value, data.append)
    array = np.frombuffer(bytes(data), np.uint8)
    assert read(array, before, len(data)) == (value, len(data)) == decode_varint(data, before)
    assert read(array, before, len(data) - 1)[1] == -1


@given(st.integers(0, 30))
def test_a_number_that_does_not_end_is_given_up_after_ten_bytes(size: int) -> None:
    assert read(np.full(size, 0x80, np.uint8), 0, size)[1] == -1
