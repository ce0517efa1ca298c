"""The checksum of old messages against zlib's."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches.kernels import crc32
from tests.batches.building import compiled


@compiled
def summed(data: Any, start: int, stop: int) -> Any:
    return crc32.crc32(data, start, stop)


@given(st.binary(max_size=70), st.integers(0, 9))
def test_short_input_is_summed_as_zlib_does(data: bytes, start: int) -> None:
    start = min(start, len(data))
    assert summed(np.frombuffer(data, np.uint8), start, len(data)) == zlib.crc32(data[start:])


@pytest.mark.parametrize("size", [255, 256, 100_003])
def test_long_input_is_summed_as_zlib_does(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    assert summed(data, 0, size) == zlib.crc32(data.tobytes())
