"""Unaligned reads and writes of whole words in a byte array, for kernels.

Purpose: one machine instruction where plain Numba code would assemble a number byte by byte.

Invariants: the ``_raw`` functions do **not** check bounds, whatever ``NUMBA_BOUNDSCHECK`` says; do not call them
elsewhere. The public ones go through ``reach`` first, which does under that switch, so a fuzz run sees every access.

References: llvmlite IR builder; numba.core.cgutils.
"""
# mypy: disable-error-code="no-untyped-def,no-any-return"
# Numba's typing and code generation callbacks have no published types.

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from sparkmirror.batches.kernels.compiling import inner

CHECKED = bool(config.BOUNDSCHECK)


def _address(context, builder, array_type, array, at):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


def _load(width: int) -> Any:
    @intrinsic
    def load(typing, array, at):
        def build(context, builder, signature, arguments):
            word = ir.IntType(width)
            place = _address(context, builder, signature.args[0], *arguments)
            return builder.load(builder.bitcast(place, word.as_pointer()), align=1)

        return types.Integer.from_bitwidth(width, signed=False)(array, types.intp), build

    return load


def _store(width: int) -> Any:
    @intrinsic
    def store(typing, array, at, value):
        kind = types.Integer.from_bitwidth(width, signed=False)

        def build(context, builder, signature, arguments):
            word = ir.IntType(width)
            place = _address(context, builder, signature.args[0], arguments[0], arguments[1])
            builder.store(arguments[2], builder.bitcast(place, word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(array, types.intp, kind), build

    return store


def _swap(width: int) -> Any:
    @intrinsic
    def swap(typing, value):
        kind = types.Integer.from_bitwidth(width, signed=False)

        def build(context, builder, signature, arguments):
            return builder.bswap(arguments[0])

        return kind(kind), build

    return swap


_load8_raw, _load16_raw, _load32_raw, _load64_raw = _load(8), _load(16), _load(32), _load(64)
_store8_raw, _store16_raw, _store32_raw, _store64_raw = _store(8), _store(16), _store(32), _store(64)
_swap16, _swap32, _swap64 = _swap(16), _swap(32), _swap(64)


@intrinsic
def _copy_raw(typing, target, at, source, begin, size):
    def build(context, builder, signature, arguments):
        there = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        here = _address(context, builder, signature.args[2], arguments[2], arguments[3])
        cgutils.raw_memcpy(builder, there, here, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), build


@inner
def reach(data: np.ndarray, at: int, size: int) -> None:
    """Under bounds checking: raises IndexError unless ``size`` bytes from ``at`` lie inside; otherwise nothing."""
    if CHECKED and (at < 0 or size < 0 or at + size > data.shape[0]):
        raise IndexError("a kernel went outside its array")


@inner
def byte_at(data: np.ndarray, at: int) -> int:
    """One byte, as an unsigned number; cheaper than indexing, which also allows for negative positions."""
    reach(data, at, 1)
    return _load8_raw(data, at)


@inner
def put_byte(data: np.ndarray, at: int, value: int) -> None:
    """Writes the lowest eight bits of a number."""
    reach(data, at, 1)
    _store8_raw(data, at, np.uint8(value))


@inner
def load64(data: np.ndarray, at: int) -> int:
    """Eight bytes in the machine's order, for checksums."""
    reach(data, at, 8)
    return _load64_raw(data, at)


@inner
def load32(data: np.ndarray, at: int) -> int:
    """Four bytes in the machine's order, for checksums."""
    reach(data, at, 4)
    return _load32_raw(data, at)


@inner
def long_at(data: np.ndarray, at: int) -> int:
    """A signed big-endian int64."""
    reach(data, at, 8)
    return np.int64(_swap64(_load64_raw(data, at)))


@inner
def int_at(data: np.ndarray, at: int) -> int:
    """A signed big-endian int32."""
    reach(data, at, 4)
    return np.int64(np.int32(_swap32(_load32_raw(data, at))))


@inner
def short_at(data: np.ndarray, at: int) -> int:
    """A signed big-endian int16."""
    reach(data, at, 2)
    return np.int64(np.int16(_swap16(_load16_raw(data, at))))


@inner
def put_long(data: np.ndarray, at: int, value: int) -> None:
    """Writes a big-endian int64."""
    reach(data, at, 8)
    _store64_raw(data, at, _swap64(np.uint64(value)))


@inner
def put_int(data: np.ndarray, at: int, value: int) -> None:
    """Writes the lowest 32 bits of a number, big-endian."""
    reach(data, at, 4)
    _store32_raw(data, at, _swap32(np.uint32(value)))


@inner
def put_short(data: np.ndarray, at: int, value: int) -> None:
    """Writes the lowest 16 bits of a number, big-endian."""
    reach(data, at, 2)
    _store16_raw(data, at, _swap16(np.uint16(value)))


@inner
def copy(target: np.ndarray, at: int, source: np.ndarray, begin: int, size: int) -> None:
    """Copies ``size`` bytes of ``source`` from ``begin`` to ``target`` at ``at``; the two must not overlap."""
    reach(target, at, size)
    reach(source, begin, size)
    _copy_raw(target, at, source, begin, size)
