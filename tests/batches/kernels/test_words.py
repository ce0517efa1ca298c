"""Words in byte arrays against ``struct``."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches.kernels import words
from tests.batches.building import compiled

READERS = {"long_at": ">q", "int_at": ">i", "short_at": ">h", "byte_at": "B", "load64": "=Q", "load32": "=I"}
WRITERS = {"put_long": ">q", "put_int": ">i", "put_short": ">h", "put_byte": "B"}
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


def _reader(name: str) -> Callable[..., Any]:
    function = getattr(words, name)

    def call(data: Any, at: int) -> Any:
        return function(data, at)

    return compiled(call)


def _writer(name: str) -> Callable[..., Any]:
    function = getattr(words, name)

    def call(data: Any, at: int, value: int) -> Any:
        return function(data, at, value)

    return compiled(call)


@pytest.fixture(scope="module")
def readers() -> dict[str, Callable[..., Any]]:
    return {name: _reader(name) for name in READERS}


@pytest.fixture(scope="module")
def writers() -> dict[str, Callable[..., Any]]:
    return {name: _writer(name) for name in WRITERS}


@compiled
def copied(target: Any, at: int, source: Any, begin: int, size: int) -> None:
    words.copy(target, at, source, begin, size)


@given(data=st.binary(min_size=8, max_size=24), at=st.integers(0, 15))
def test_a_word_is_read_as_struct_reads_it(readers: dict[str, Callable[..., Any]], data: bytes, at: int) -> None:
    for name, form in READERS.items():
        if at + struct.calcsize(form) <= len(data):
            assert readers[name](np.frombuffer(data, np.uint8), at) == struct.unpack_from(form, data, at)[0], name


@given(value=NUMBERS, at=st.integers(0, 7))
def test_a_word_is_written_as_struct_writes_its_lowest_bits(
    writers: dict[str, Callable[..., Any]], value: int, at: int
) -> None:
    for name, form in WRITERS.items():
        out, wanted = np.full(16, 0xAA, np.uint8), bytearray(b"\xaa" * 16)
        bits = 8 * struct.calcsize(form)
        struct.pack_into(form.upper(), wanted, at, value % 2**bits)
        writers[name](out, at, value)
        assert out.tobytes() == wanted, name


@given(st.binary(max_size=40), st.data())
def test_bytes_are_copied_to_where_they_should_be(source: bytes, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(source)))
    size = data.draw(st.integers(0, len(source) - begin))
    at = data.draw(st.integers(0, 9))
    out, wanted = np.full(60, 0xAA, np.uint8), bytearray(b"\xaa" * 60)
    wanted[at : at + size] = source[begin : begin + size]
    copied(out, at, np.frombuffer(source, np.uint8), begin, size)
    assert out.tobytes() == wanted
