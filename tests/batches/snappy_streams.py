"""Odd Snappy streams, and what Java reads of each; `test_snappy_java` sees that it does."""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from tests.batches.building import XERIAL

MAGIC: Final = XERIAL[:8]


def block(packed: bytes) -> bytes:
    return struct.pack(">i", len(packed)) + packed


def raw(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def header(version: int, compatible: int) -> bytes:
    return MAGIC + struct.pack(">ii", version, compatible)


ONE, TWO, NONE, VOID = block(raw(b"one")), block(raw(b"two")), block(b"\0"), block(b"")

READ: Final[dict[str, tuple[bytes, bytes | None]]] = {
    "no bytes": (b"", None),
    "a header": (XERIAL, b""),
    "a header of any version": (header(0, 0) + TWO, b"two"),
    "a header that is cut off": (XERIAL[:15], None),
    "its magic alone": (MAGIC, None),
    "two headers": (XERIAL + XERIAL + ONE, b"one"),
    "a header at the end": (XERIAL + ONE + XERIAL, b"one"),
    "a later header that is cut off": (XERIAL + ONE + XERIAL[:15], None),
    "four bytes of a later header": (XERIAL + ONE + XERIAL[:4], None),
    "three bytes at the end": (XERIAL + ONE + XERIAL[:3], b"one"),
    "a later header of version 0": (XERIAL + ONE + header(0, 1) + TWO, None),
    "a later header of version -1": (XERIAL + ONE + header(-1, 1) + TWO, None),
    "a later header of another version": (XERIAL + ONE + header(2, 9) + TWO, b"onetwo"),
    "a later header that begins as one": (XERIAL + ONE + b"\x82SNAxxxx" + XERIAL[8:] + TWO, b"onetwo"),
    "a block without bytes": (XERIAL + VOID, None),
    "a block without bytes before others": (XERIAL + VOID + ONE, None),
    "a block without bytes behind others": (XERIAL + ONE + VOID, None),
    "a block of nothing": (XERIAL + NONE, b""),
    "a block of nothing before others": (XERIAL + NONE + ONE, b"one"),
    "a block of nothing between others": (XERIAL + ONE + NONE + TWO, b"onetwo"),
    "a block of nothing behind others": (XERIAL + ONE + NONE, b"one"),
    "a block of nothing with its size in two bytes": (XERIAL + block(b"\x80\0") + ONE, b"one"),
    "a block that says it is of nothing": (XERIAL + block(b"\0\0"), None),
    "a block that says so and has some": (XERIAL + block(b"\0\x04ab") + ONE, None),
    "a block that says so in two bytes": (XERIAL + block(b"\x80\0\x80"), None),
    "a raw block": (raw(b"one"), b"one"),
    "a raw block of nothing": (b"\0", b""),
    "a raw block that says it is of nothing": (b"\0\x04ab", None),
    "a raw block with more behind it": (raw(b"one") + b"\0", None),
    "a block of less than no bytes": (XERIAL + struct.pack(">i", -1), None),
    "a block that is cut off": (XERIAL + struct.pack(">i", 9) + b"ab", None),
}
"""By name: the stream, and what it holds; None where it is refused."""
