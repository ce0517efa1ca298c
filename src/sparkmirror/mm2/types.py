"""The types of which MirrorMaker 2's records are made: big-endian integers, and text behind its length in bytes.

Pure. A reader takes ``(buffer, offset)`` and gives ``(value, size)``.

Reference: ``org.apache.kafka.common.protocol.types.Type`` (INT16, INT32, INT64, STRING).
"""

from __future__ import annotations

import struct

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
LONGEST_STRING = 2**15 - 1
"""In bytes of UTF-8."""


def int16(value: int) -> bytes:
    """INT16."""
    return _INT16.pack(value)


def int32(value: int) -> bytes:
    """INT32."""
    return _INT32.pack(value)


def int64(value: int) -> bytes:
    """INT64."""
    return _INT64.pack(value)


def string(text: str) -> bytes:
    """STRING.

    Raises:
        ValueError: it is longer than 32,767 bytes.
    """
    data = text.encode()
    if len(data) > LONGEST_STRING:
        raise ValueError(f"a text of {len(data)} bytes, {LONGEST_STRING} at most: {text[:40]!r}")
    return _INT16.pack(len(data)) + data


def read_int16(buffer: bytes, offset: int) -> tuple[int, int]:
    """INT16.

    Raises:
        ValueError: the buffer ends before it does.
    """
    return _number(_INT16, buffer, offset)


def read_int32(buffer: bytes, offset: int) -> tuple[int, int]:
    """INT32.

    Raises:
        ValueError: the buffer ends before it does.
    """
    return _number(_INT32, buffer, offset)


def read_int64(buffer: bytes, offset: int) -> tuple[int, int]:
    """INT64.

    Raises:
        ValueError: the buffer ends before it does.
    """
    return _number(_INT64, buffer, offset)


def read_string(buffer: bytes, offset: int) -> tuple[str, int]:
    """STRING.

    Raises:
        ValueError: the buffer ends before it does, its length is negative, or it is no UTF-8.
    """
    length, size = _number(_INT16, buffer, offset)
    if length < 0:
        raise ValueError(f"a text at byte {offset} has the length {length}")
    end = offset + size + length
    if end > len(buffer):
        raise ValueError(f"a text of {length} bytes at byte {offset} of {len(buffer)}")
    return buffer[offset + size : end].decode(), size + length


def _number(kind: struct.Struct, buffer: bytes, offset: int) -> tuple[int, int]:
    if offset + kind.size > len(buffer):
        raise ValueError(f"a number of {kind.size} bytes at byte {offset} of {len(buffer)}")
    return int(kind.unpack_from(buffer, offset)[0]), kind.size
