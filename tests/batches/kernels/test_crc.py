"""The checksum in both of its forms against the crc32c library."""

from __future__ import annotations

from typing import Any

import crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches.kernels import crc
from tests.batches.building import compiled

ONES = np.uint32(0xFFFFFFFF)


@compiled
def by_table(data: Any, start: int, stop: int) -> Any:
    return crc.append_by_table(ONES, data, start, stop) ^ ONES


@compiled
def as_used(data: Any, start: int, stop: int) -> Any:
    return crc.crc32c(data, start, stop)


@compiled
def shifted(state: Any, size: int) -> Any:
    return crc.shift(state, size)


@compiled
def appended_zeros(state: Any, zeros: Any) -> Any:
    return crc.append(state, zeros, 0, zeros.shape[0])


@pytest.mark.parametrize("function", [by_table, as_used])
@given(st.binary(max_size=70), st.integers(0, 9))
def test_short_input_is_summed_as_the_library_does(function: Any, data: bytes, start: int) -> None:
    start = min(start, len(data))
    assert function(np.frombuffer(data, np.uint8), start, len(data)) == crc32c.crc32c(data[start:])


@pytest.mark.parametrize("function", [by_table, as_used])
@pytest.mark.parametrize("size", [12287, 12288, 12289, 24576, 100_003])
def test_long_input_is_summed_as_the_library_does(function: Any, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    assert function(data, 0, size) == crc32c.crc32c(data.tobytes())


@given(st.integers(0, 2**32 - 1), st.integers(0, 5000))
def test_a_shift_is_what_zero_bytes_do(state: int, size: int) -> None:
    zeros = np.zeros(size, np.uint8)
    assert shifted(np.uint32(state), size) == appended_zeros(np.uint32(state), zeros)
