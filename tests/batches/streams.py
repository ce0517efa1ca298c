"""Compressed streams in every form that a client may have written: the forms that ``building.pack`` does not have.

LZ4 frames are put together by hand, since no library here writes all of their options; their blocks come from cramjam.

References: RFC 1952 (members), RFC 8878 (frames), lz4_Frame_format.md, org.xerial.snappy.SnappyOutputStream.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

import cramjam
import pyarrow as pa

from sparkmirror.batches import Codec
from tests.batches.building import XERIAL, pack

Packer: TypeAlias = Callable[[bytes], bytes]

LINKED, BLOCK_SUMS, CONTENT_SIZE, CONTENT_SUM = 0, 0x10, 0x08, 0x04
INDEPENDENT: Final = 0x20
_PRIMES: Final = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_WORD: Final = 0xFFFFFFFF


def _rotated(word: int, by: int) -> int:
    word &= _WORD
    return (word << by | word >> (32 - by)) & _WORD


def xxh32(data: bytes) -> int:
    """XXH32 with seed 0, the checksum of LZ4 frames."""
    p1, p2, p3, p4, p5 = _PRIMES
    whole = len(data) - len(data) % 16
    if whole:
        lanes = [p1 + p2, p2, 0, -p1]
        for at in range(0, whole, 16):
            words = struct.unpack_from("<4I", data, at)
            lanes = [_rotated(lane + word * p2, 13) * p1 for lane, word in zip(lanes, words, strict=True)]
        state = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        state = p5
    state += len(data)
    at = whole
    while at + 4 <= len(data):
        state = _rotated(state + struct.unpack_from("<I", data, at)[0] * p3, 17) * p4
        at += 4
    for byte in data[at:]:
        state = _rotated(state + byte * p5, 11) * p1
    state &= _WORD
    state = (state ^ state >> 15) * p2 & _WORD
    state = (state ^ state >> 13) * p3 & _WORD
    return state ^ state >> 16


def lz4(
    data: bytes, flags: int = INDEPENDENT, *, block: int = 4, step: int = 0, header_sum: int | None = None
) -> bytes:
    """An LZ4 frame.

    Args:
        data: what it holds.
        flags: a sum of the constants above.
        block: code of the greatest block size, 4 (64 KiB) to 7 (4 MiB).
        step: bytes per block; by default the greatest allowed.
        header_sum: instead of the right checksum of the descriptor.
    """
    head = bytes([0x40 | flags, block << 4]) + (struct.pack("<Q", len(data)) if flags & CONTENT_SIZE else b"")
    checked = xxh32(head) >> 8 & 255 if header_sum is None else header_sum
    out = b"\x04\x22\x4d\x18" + head + bytes([checked])
    for at in range(0, len(data), step or 1 << 2 * block + 8):
        piece = data[at : at + (step or 1 << 2 * block + 8)]
        packed = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        stored, bit = (packed, 0) if len(packed) < len(piece) else (piece, 1 << 31)
        out += struct.pack("<I", len(stored) | bit) + stored
        out += struct.pack("<I", xxh32(stored)) if flags & BLOCK_SUMS else b""
    return out + bytes(4) + (struct.pack("<I", xxh32(data)) if flags & CONTENT_SUM else b"")


def lz4_of_old_clients(data: bytes) -> bytes:
    """As clients before Kafka 0.10 wrote it into messages of magic 0: the descriptor's checksum covers the magic."""
    head = b"\x04\x22\x4d\x18\x60\x40"
    return lz4(data, header_sum=xxh32(head) >> 8 & 255)


def halves(pack_one: Packer) -> Packer:
    """Two streams, one behind the other."""
    return lambda data: pack_one(data[: len(data) // 2]) + pack_one(data[len(data) // 2 :])


def zstd_streamed(data: bytes) -> bytes:
    """Zstandard without the size of the content."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data[: len(data) // 3])
        stream.write(data[len(data) // 3 :])
    return bytes(sink.getvalue())


def xerial(data: bytes, step: int = 32 * 1024) -> bytes:
    """Snappy as Java's clients write it, in blocks of ``step`` bytes."""
    out = XERIAL
    for at in range(0, len(data), step):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + step]))
        out += struct.pack(">i", len(block)) + block
    return out


def _plain(codec: Codec, *, raw: bool = False) -> Packer:
    return lambda data: pack(codec, data, raw=raw)


def _lz4(flags: int, **more: int) -> Packer:
    return lambda data: lz4(data, flags, **more)


STREAMS: Final[dict[Codec, dict[str, Packer]]] = {
    Codec.NONE: {"as it is": bytes},
    Codec.GZIP: {
        "one member": _plain(Codec.GZIP),
        "several members": halves(gzip.compress),
        "stored": lambda data: gzip.compress(data, 0),
    },
    Codec.SNAPPY: {
        "raw": _plain(Codec.SNAPPY, raw=True),
        "xerial": xerial,
        "small xerial blocks": _plain(Codec.SNAPPY),
        "two xerial streams": halves(xerial),
    },
    Codec.LZ4: {
        "a library's": _plain(Codec.LZ4),
        "independent blocks": _lz4(INDEPENDENT, step=200),
        "linked blocks": _lz4(LINKED, step=200),
        "block checksums": _lz4(INDEPENDENT | BLOCK_SUMS, step=200),
        "content checksum": _lz4(INDEPENDENT | CONTENT_SUM),
        "content size": _lz4(INDEPENDENT | CONTENT_SIZE),
        "all options": _lz4(LINKED | BLOCK_SUMS | CONTENT_SIZE | CONTENT_SUM, step=100),
        "4 MiB blocks": _lz4(INDEPENDENT, block=7),
    },
    Codec.ZSTD: {
        "with content size": _plain(Codec.ZSTD),
        "without content size": zstd_streamed,
        "several frames": halves(_plain(Codec.ZSTD)),
        "a skippable frame": lambda data: b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc" + pack(Codec.ZSTD, data),
    },
}
"""What a batch's records may look like, by codec and name."""
