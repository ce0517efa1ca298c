"""The header checksum of LZ4 frames as Kafka 0.8 and 0.9 wrote it.

Purpose: in messages of magic 0 the checksum counts the frame's magic number too, against the format. Java's reader
passes over it there; the library that we decompress with does not, so it gets the checksum that it expects.

Invariants: nothing but that one byte changes. What is no LZ4 frame stays as it is, for the decompressor to refuse.

References: KAFKA-3160; org.apache.kafka.common.compress.Lz4BlockInputStream (ignoreFlagDescriptorChecksum); the LZ4
frame format, "Header Checksum"; the xxHash specification, XXH32.
"""

from __future__ import annotations

from typing import Final

from sparkmirror.batches.index import Bytes

_MAGIC_NUMBER: Final = b"\x04\x22\x4d\x18"
_DESCRIPTOR: Final = 4
_CONTENT_SIZE: Final = 0x08
_CONTENT_SIZE_BYTES: Final = 8
_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_WORD: Final = 0xFFFFFFFF


def mended(payload: Bytes) -> Bytes:
    """An LZ4 frame with the header checksum that the format asks for; copied, since the fetched answer is not ours."""
    head = payload[: _DESCRIPTOR + 2 + _CONTENT_SIZE_BYTES].tobytes()
    if not head.startswith(_MAGIC_NUMBER) or len(head) == _DESCRIPTOR:
        return payload
    checksum = _DESCRIPTOR + 2 + (_CONTENT_SIZE_BYTES if head[_DESCRIPTOR] & _CONTENT_SIZE else 0)
    if payload.shape[0] <= checksum:
        return payload
    frame = payload.copy()
    frame[checksum] = (_xxh32(head[_DESCRIPTOR:checksum]) >> 8) & 0xFF
    return frame


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
