"""Compression and decompression of a batch's records.

Purpose: all codecs of Kafka in the framings that Java's clients and brokers read, through cramjam.

Invariants:
    - Decompression never gives more than ``limit`` bytes: output goes into an array of known size, so that a
      decompression bomb ends with an error and not with the machine's memory.
    - What Java's readers read is read: they pass over bytes behind a gzip member or an LZ4 frame, up to three behind a
      Snappy block, and the checksum of an LZ4 frame's content. Behind a zstd frame nothing is passed over, as there.
      Blocks and headers of Snappy that they refuse are refused.
    - What is written here is what Kafka's Java code reads: LZ4 frames have independent blocks (its reader refuses
      linked ones, which most libraries write by default), Snappy has the xerial framing.

References: org.apache.kafka.common.compress (Lz4BlockInputStream, SnappyCompression, ZstdCompression, GzipCompression);
org.xerial.snappy.SnappyInputStream; java.util.zip.GZIPInputStream (readTrailer).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam
import numpy as np

from sparkmirror.batches import lz4_frames
from sparkmirror.batches.codec import Codec
from sparkmirror.batches.index import Bytes

DEFAULT_LIMIT: Final = 256 * 1024 * 1024
"""The most bytes that one batch may decompress to, unless told otherwise."""

_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_MORE: Final = 0x80
"""The bit of a byte of a size that has more."""
_FIRST_GUESS: Final = 64 * 1024
_GZIP: Final = b"\x1f\x8b\x08"
_FIRST_PIECE: Final = 1024
_LEAST_GZIP: Final = 18
"""Bytes of a member's header and trailer: Java does not look for another one in less."""
_LEVELS: Final = {
    Codec.GZIP: 6,
    Codec.ZSTD: 3,
    Codec.LZ4: 1,  # the fast kind; level 3 makes JSON a quarter smaller, four times slower
}
_TOO_SMALL: Final = "failed to write whole buffer"


class CodecError(Exception):
    """Compressed bytes that cannot be decompressed; the caller knows the offset and makes a BatchError of it."""


class LimitError(CodecError):
    """There is more in them than was allowed."""


def decompress(codec: Codec, payload: Bytes, limit: int = DEFAULT_LIMIT) -> Bytes:
    """Decompresses the records of a batch.

    Args:
        codec: any but NONE.
        payload: the bytes after the batch's header.
        limit: the most bytes to give.

    Returns:
        A new array; the caller owns it.

    Raises:
        LimitError: there is more in them than the limit.
        CodecError: the bytes are damaged.
    """
    try:
        if codec is Codec.SNAPPY:
            return _from_snappy(payload, limit)
        return _into_array(_READERS[codec], payload, limit)
    except cramjam.DecompressionError as error:
        reason = f"its {codec.name.lower()} data is damaged: {error}"  # a traceback would keep the bytes of its frames
    if codec in _LENIENT:
        try:
            return _LENIENT[codec](payload, limit)
        except (cramjam.DecompressionError, zlib.error):
            pass
    raise CodecError(reason)


def _gzip_members(payload: Bytes, limit: int) -> Bytes:
    """Whole gzip members, up to bytes that begin none."""
    data, at, room = memoryview(payload), 0, limit
    parts: list[bytes] = []
    while not parts or (len(data) - at > _LEAST_GZIP and payload[at : at + len(_GZIP)].tobytes() == _GZIP):
        member, piece = zlib.decompressobj(wbits=31), _FIRST_PIECE
        while not member.eof and at < len(data):
            fed = data[at : at + piece]  # not all: a member copies what lies behind it, and there may be very many
            parts.append(member.decompress(fed, room + 1))
            room -= len(parts[-1])
            if room < 0:
                parts.clear()  # or the error would keep them, with this frame
                raise _bomb(limit)
            at, piece = at + len(fed) - len(member.unused_data), 2 * piece
        if not member.eof:
            raise zlib.error("the last member is cut off")
    return np.frombuffer(b"".join(parts), np.uint8)


def _lz4_frame(payload: Bytes, limit: int) -> Bytes:
    return _into_array(cramjam.lz4.decompress_into, lz4_frames.as_java_reads(payload), limit)


def _into_array(read: Callable[[Any, Any], int], payload: Bytes, limit: int) -> Bytes:
    size = min(limit, max(_FIRST_GUESS, 8 * payload.shape[0]))
    while True:
        records = np.empty(size, np.uint8)
        try:
            return records[: read(payload, records)]
        except cramjam.DecompressionError as error:
            if _TOO_SMALL not in str(error):
                raise
        del records  # before there is a larger one beside it, or an error that keeps this frame
        if size == limit:
            raise _bomb(limit)
        size = min(limit, 4 * size)


def _bomb(limit: int) -> LimitError:
    return LimitError(f"it decompresses to more than {limit} bytes, see batch.decompression.max.bytes")


def _from_snappy(payload: Bytes, limit: int) -> Bytes:
    framed = payload.shape[0] >= len(_XERIAL_HEADER) and payload[:8].tobytes() == _XERIAL
    blocks = _xerial_blocks(payload) if framed else [payload]
    sizes = [_snappy_size(block) for block in blocks]
    if sum(sizes) > limit:
        raise _bomb(limit)
    records = np.empty(sum(sizes), np.uint8)
    at = 0
    for block, size in zip(blocks, sizes, strict=True):
        if size:
            at += cramjam.snappy.decompress_raw_into(block, records[at : at + size])
    return records[:at]


def _snappy_size(block: Bytes) -> int:
    if not block.shape[0]:
        raise CodecError("its snappy data is damaged: an empty block")
    size = int(cramjam.snappy.decompress_raw_len(block))
    if not size and block[:-1].min(initial=_MORE) < _MORE:  # a size of more than one byte may be 0 too
        raise CodecError("its snappy data is damaged: a block says that it is empty, and is not")
    return size


def _xerial_blocks(payload: Bytes) -> list[Bytes]:
    """The blocks of streams that may be strung together; of a header Java looks at no more than is looked at here."""
    blocks, at, stop = [], len(_XERIAL_HEADER), payload.shape[0]
    while stop - at >= 4:
        if payload[at : at + 4].tobytes() == _XERIAL[:4]:
            version = payload[at + 8 : at + 12].tobytes()
            at += len(_XERIAL_HEADER)
            if at > stop or int.from_bytes(version, "big", signed=True) < 1:
                raise CodecError("its snappy data is damaged: a header is cut off, or of no version")
            continue
        size = int.from_bytes(payload[at : at + 4].tobytes(), "big")
        at += 4
        if at + size > stop:
            raise CodecError("its snappy data is damaged: a block is longer than the batch")
        blocks.append(payload[at : at + size])
        at += size
    return blocks


def compress(codec: Codec, records: Bytes, level: int | None = None) -> bytes | memoryview:
    """Compresses records so that every Kafka client can read them.

    Args:
        codec: any but NONE.
        records: the records of a batch, uncompressed.
        level: as Kafka numbers the codec's levels; None for one that is fast. Snappy has none.

    Returns:
        The bytes that follow the batch's header.
    """
    return _WRITERS[codec](records, _LEVELS.get(codec, 0) if level is None else level)


def _to_gzip(records: Bytes, level: int) -> memoryview:
    return memoryview(cramjam.gzip.compress(records, level=level))


def _to_snappy(records: Bytes, _level: int) -> bytes:
    parts = [_XERIAL_HEADER]
    for at in range(0, records.shape[0], _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(records[at : at + _XERIAL_BLOCK]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _to_lz4(records: Bytes, level: int) -> memoryview:
    writer = cramjam.lz4.Compressor(level=level, block_linked=False, content_checksum=False)
    writer.compress(records.tobytes())  # this one method takes nothing but bytes
    return memoryview(writer.finish())


def _to_zstd(records: Bytes, level: int) -> memoryview:
    return memoryview(cramjam.zstd.compress(records, level=level))


_READERS: Final = {
    Codec.GZIP: cramjam.gzip.decompress_into,
    Codec.LZ4: cramjam.lz4.decompress_into,
    Codec.ZSTD: cramjam.zstd.decompress_into,
}
_LENIENT: Final = {Codec.GZIP: _gzip_members, Codec.LZ4: _lz4_frame}
"""Slower, for what those refuse and Java reads."""

_WRITERS: Final[dict[Codec, Callable[[Bytes, int], bytes | memoryview]]] = {
    Codec.GZIP: _to_gzip,
    Codec.SNAPPY: _to_snappy,
    Codec.LZ4: _to_lz4,
    Codec.ZSTD: _to_zstd,
}
