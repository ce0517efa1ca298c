"""LZ4 frames as Java's reader takes them, for a library that is stricter.

Purpose: two things that Java passes over. In messages of magic 0, as Kafka 0.8 and 0.9 wrote them, the checksum of the
header counts the frame's magic number too, against the format (``mended``). The checksum and the size of the whole
content are not looked at, nor is what lies behind the end mark (``as_java_reads``).

Invariants: no byte of a block changes. What is no LZ4 frame stays as it is, for the decompressor to refuse, and so does
one whose header has a wrong checksum, which Java refuses.

References: KAFKA-3160; org.apache.kafka.common.compress.Lz4BlockInputStream (ignoreFlagDescriptorChecksum, readHeader,
readBlock); the LZ4 frame format; the xxHash specification, XXH32.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sparkmirror.batches.index import Bytes

_MAGIC_NUMBER: Final = b"\x04\x22\x4d\x18"
_DESCRIPTOR: Final = 4
_RESERVED: Final = 0x03
_CONTENT_CHECKSUM: Final = 0x04
_CONTENT_SIZE: Final = 0x08
_CONTENT_SIZE_BYTES: Final = 8
_BLOCK_CHECKSUM: Final = 0x10
_SIZE_BITS: Final = 0x7FFFFFFF
_END_MARK: Final = bytes(4)
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_WORD: Final = 0xFFFFFFFF


def mended(payload: Bytes) -> Bytes:
    """An LZ4 frame with the header checksum that the format asks for; copied, since the fetched answer is not ours."""
    at = _header_checksum(payload)
    if at < 0:
        return payload
    frame = payload.copy()
    frame[at] = _checksum(payload[_DESCRIPTOR:at].tobytes())
    return frame


def as_java_reads(payload: Bytes) -> Bytes:
    """The frame up to its end mark, without the checksum and the size of its content; copied, as it is another one."""
    at = _header_checksum(payload)
    if at < 0 or payload[_DESCRIPTOR] & _RESERVED or payload[at] != _checksum(payload[_DESCRIPTOR:at].tobytes()):
        return payload
    end = _end_mark(payload, at + 1, has_checksums=bool(payload[_DESCRIPTOR] & _BLOCK_CHECKSUM))
    if end < 0:
        return payload
    flags = int(payload[_DESCRIPTOR]) & ~(_CONTENT_SIZE | _CONTENT_CHECKSUM)
    descriptor = bytes((flags, int(payload[_DESCRIPTOR + 1])))
    header = _MAGIC_NUMBER + descriptor + bytes((_checksum(descriptor),))
    return np.frombuffer(b"".join((header, payload[at + 1 : end], _END_MARK)), np.uint8)


def _header_checksum(payload: Bytes) -> int:
    """Where the header's checksum lies; -1 where no header does."""
    head = payload[: _DESCRIPTOR + 1].tobytes()
    if not head.startswith(_MAGIC_NUMBER) or len(head) == _DESCRIPTOR:
        return -1
    at = _DESCRIPTOR + 2 + (_CONTENT_SIZE_BYTES if head[_DESCRIPTOR] & _CONTENT_SIZE else 0)
    return at if at < payload.shape[0] else -1


def _end_mark(payload: Bytes, at: int, *, has_checksums: bool) -> int:
    """Where the end mark lies, behind blocks that begin at ``at``; -1 without one."""
    view, last = memoryview(payload), payload.shape[0] - len(_END_MARK)
    while at <= last:
        size = int.from_bytes(view[at : at + 4], "little") & _SIZE_BITS
        if not size:
            return at
        at += len(_END_MARK) + size + (4 if has_checksums else 0)
    return -1


def _checksum(descriptor: bytes) -> int:
    return (_xxh32(descriptor) >> 8) & 0xFF


def _xxh32(data: bytes) -> int:
    """XXH32 with seed 0 of less than 16 bytes."""
    state = (_PRIMES[4] + len(data)) & _WORD
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        state = state + int.from_bytes(data[at : at + 4], "little") * _PRIMES[2]
        state = _rotated(state, 17) * _PRIMES[3] & _WORD
    for byte in data[whole:]:
        state = _rotated(state + byte * _PRIMES[4], 11) * _PRIMES[0] & _WORD
    state = (state ^ state >> 15) * _PRIMES[1] & _WORD
    state = (state ^ state >> 13) * _PRIMES[2] & _WORD
    return state ^ state >> 16


def _rotated(word: int, bits: int) -> int:
    word &= _WORD
    return (word << bits | word >> (32 - bits)) & _WORD
