"""CRC32C inside kernels: over bytes, and of a batch of which only the header changed.

Purpose: the checksum of magic 2 at the speed of memory. On x86-64 with SSE 4.2 it is the machine's own instruction, in
three streams at once for long input since one alone waits three cycles for each result; elsewhere eight table look-ups
per eight bytes.

Invariants:
    - ``crc32c`` equals every other implementation of CRC-32/ISCSI.
    - A register value (``state``) is the checksum before its final inversion. Appending bytes B to a state s gives
      ``append(0, B) ^ shift(s, len(B))``: the checksum is linear, so a changed header costs the same for any size of
      batch. It also means that a checksum rewritten this way still vouches for the bytes that the *source's* producer
      wrote: damage on the way through this process is refused by the target.

References: RFC 3720 appendix B.4; zlib's crc32_combine (multmodp, x2nmodp); Intel, "Fast CRC Computation for iSCSI
Polynomial Using CRC32 Instruction".
"""
# mypy: disable-error-code="no-untyped-def"
# Numba's typing and code generation callbacks have no published types.

from __future__ import annotations

import platform

import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from sparkmirror.batches.kernels.compiling import inner
from sparkmirror.batches.kernels.words import byte_at, load32, load64

POLYNOMIAL = np.uint32(0x82F63B78)
BLOCK = 4096
"""Bytes per stream and round where three streams run at once."""


def _machine_has_instruction() -> bool:
    if config.CPU_NAME or config.CPU_FEATURES:  # compiling for another machine than this one
        return False
    return platform.machine() in ("x86_64", "AMD64") and bool(binding.get_host_cpu_features().get("sse4.2"))


INSTRUCTION = _machine_has_instruction()


def tables(polynomial: int, slices: int) -> np.ndarray:
    """What a byte and up to ``slices - 1`` zero bytes behind it do to a state; the polynomial is in reflected form."""
    made = np.zeros((slices, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        made[0, byte] = value
    for slice_ in range(1, slices):
        previous = made[slice_ - 1]
        made[slice_] = (previous >> np.uint32(8)) ^ made[0][previous & np.uint32(0xFF)]
    return made


def _multiply(a: int, b: int) -> int:
    product, bit = 0, 1 << 31
    while bit:
        if a & bit:
            product ^= b
        b = (b >> 1) ^ (int(POLYNOMIAL) if b & 1 else 0)
        bit >>= 1
    return product


def _powers() -> np.ndarray:
    """What 2**k zero bytes do to a state, for k below 32: x to the power of 8 * 2**k."""
    value = 1 << 30
    for _ in range(3):
        value = _multiply(value, value)
    powers = []
    for _ in range(32):
        powers.append(value)
        value = _multiply(value, value)
    return np.array(powers, np.uint32)


TABLES = tables(int(POLYNOMIAL), 8)
POWERS = _powers()
ONE_BLOCK = POWERS[BLOCK.bit_length() - 1]


@inner
def multiply(a: np.uint32, b: np.uint32) -> np.uint32:
    """The product of two polynomials modulo the checksum's, both in its reflected form."""
    product = np.uint32(0)
    for _ in range(32):
        product ^= b & (np.uint32(0) - (a >> np.uint32(31)))
        a = np.uint32(a << np.uint32(1))
        b = (b >> np.uint32(1)) ^ (POLYNOMIAL & (np.uint32(0) - (b & np.uint32(1))))
    return product


@inner
def shift(state: np.uint32, size: int) -> np.uint32:
    """What ``size`` zero bytes make of a state."""
    for k in range(32):
        if (size >> k) & 1:
            state = multiply(POWERS[k], state)
    return state


@inner
def append_by_table(state: np.uint32, data: np.ndarray, start: int, stop: int) -> np.uint32:
    """The state after the bytes from ``start`` to ``stop``, on any machine."""
    low = np.uint64(0xFF)
    at = start
    while at + 8 <= stop:
        word = load64(data, at) ^ np.uint64(state)
        state = (
            TABLES[7, word & low]
            ^ TABLES[6, (word >> np.uint64(8)) & low]
            ^ TABLES[5, (word >> np.uint64(16)) & low]
            ^ TABLES[4, (word >> np.uint64(24)) & low]
            ^ TABLES[3, (word >> np.uint64(32)) & low]
            ^ TABLES[2, (word >> np.uint64(40)) & low]
            ^ TABLES[1, (word >> np.uint64(48)) & low]
            ^ TABLES[0, word >> np.uint64(56)]
        )
        at += 8
    while at < stop:
        state = (state >> np.uint32(8)) ^ TABLES[0, (state ^ np.uint32(byte_at(data, at))) & np.uint32(0xFF)]
        at += 1
    return state


def _instruction(name: str, width: int, word: types.Integer):
    """A CRC32 instruction of SSE 4.2 as a function of (state, word), both of them ``width`` bits or the word fewer."""

    @intrinsic
    def step(typing, state, value):
        kept = types.uint64 if width == 64 else types.uint32

        def build(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.IntType(width), [ir.IntType(width), ir.IntType(word.bitwidth)])
            function = builder.module.declare_intrinsic(name, fnty=kind)
            return builder.call(function, arguments)

        return kept(kept, word), build

    return step


_step64 = _instruction("llvm.x86.sse42.crc32.64.64", 64, types.uint64)
_step32 = _instruction("llvm.x86.sse42.crc32.32.32", 32, types.uint32)
_step8 = _instruction("llvm.x86.sse42.crc32.32.8", 32, types.uint8)


@inner
def _three_streams(state: np.uint32, data: np.ndarray, start: int) -> np.uint32:
    first, second, third = np.uint64(state), np.uint64(0), np.uint64(0)
    for at in range(start, start + BLOCK, 8):
        first = _step64(first, load64(data, at))
        second = _step64(second, load64(data, at + BLOCK))
        third = _step64(third, load64(data, at + 2 * BLOCK))
    two = multiply(ONE_BLOCK, np.uint32(first)) ^ np.uint32(second)
    return multiply(ONE_BLOCK, two) ^ np.uint32(third)


@inner
def append_by_instruction(state: np.uint32, data: np.ndarray, start: int, stop: int) -> np.uint32:
    """The state after the bytes from ``start`` to ``stop``, where ``INSTRUCTION`` is true."""
    at = start
    while at + 3 * BLOCK <= stop:
        state = _three_streams(state, data, at)
        at += 3 * BLOCK
    wide = np.uint64(state)
    while at + 8 <= stop:
        wide = _step64(wide, load64(data, at))
        at += 8
    state = np.uint32(wide)
    if at + 4 <= stop:
        state = _step32(state, load32(data, at))
        at += 4
    while at < stop:
        state = _step8(state, byte_at(data, at))
        at += 1
    return state


append = append_by_instruction if INSTRUCTION else append_by_table
"""The state after the bytes from ``start`` to ``stop`` of an array."""


@inner
def crc32c(data: np.ndarray, start: int, stop: int) -> int:
    """The CRC32C of the bytes from ``start`` to ``stop``, as a number from 0 to 2**32 - 1."""
    return np.int64(append(np.uint32(0xFFFFFFFF), data, start, stop) ^ np.uint32(0xFFFFFFFF))
