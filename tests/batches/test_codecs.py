"""Codecs against pyarrow's, and against bombs."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import tracemalloc

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec
from sparkmirror.batches.codecs import CodecError, LimitError, compress, decompress
from tests.batches.building import XERIAL, pack, unpack
from tests.batches.snappy_streams import READ
from tests.batches.streams import BLOCK_SUMS, CONTENT_SIZE, CONTENT_SUM, INDEPENDENT, lz4, xxh32

PACKED = [codec for codec in Codec if codec is not Codec.NONE]
ANY = st.binary(max_size=5000) | st.builds(lambda b, n: b * n, st.binary(max_size=20), st.integers(1, 10_000))


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("codec", PACKED)
@given(data=ANY)
def test_others_read_what_is_compressed(codec: Codec, data: bytes) -> None:
    assert unpack(codec, bytes(compress(codec, array(data)))) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        *((Codec.GZIP, level) for level in (1, 9)),
        *((Codec.LZ4, level) for level in (1, 9, 17)),
        *((Codec.ZSTD, level) for level in (-131_072, -1, 22)),
    ],
)
def test_others_read_every_level(codec: Codec, level: int) -> None:
    data = b"".join(b"%d," % (n * n) for n in range(20_000))
    assert unpack(codec, bytes(compress(codec, array(data), level))) == data


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("codec", PACKED)
@given(data=ANY.filter(len))
def test_what_others_compress_is_read(codec: Codec, raw: bool, data: bytes) -> None:
    assert decompress(codec, array(pack(codec, data, raw=raw))).tobytes() == data


@pytest.mark.parametrize("codec", PACKED)
def test_the_limit_itself_is_allowed(codec: Codec) -> None:
    data = b"abcd" * 50_000
    packed = array(pack(codec, data))
    assert decompress(codec, packed, len(data)).tobytes() == data
    with pytest.raises(CodecError, match="more than 199999 bytes"):
        decompress(codec, packed, len(data) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_without_its_memory(codec: Codec) -> None:
    bomb = pack(codec, bytes(64 << 20), raw=True)
    tracemalloc.start()
    with pytest.raises(CodecError, match="more than 1048576 bytes") as caught:
        decompress(codec, array(bomb), 1 << 20)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * (1 << 20), "one array at a time"
    assert kept < 1 << 18, f"nothing of it hangs on {caught.value!r}"


@given(parts=st.lists(ANY, min_size=1, max_size=4), behind=st.binary(min_size=1, max_size=4000))
def test_gzip_members_before_other_bytes_are_read(parts: list[bytes], behind: bytes) -> None:
    stream = b"".join(gzip.compress(part, 1) for part in parts) + b"-" + behind
    whole = b"".join(parts)
    assert decompress(Codec.GZIP, array(stream)).tobytes() == whole
    if whole:
        with pytest.raises(LimitError):
            decompress(Codec.GZIP, array(stream), len(whole) - 1)


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_an_error_or_nothing_worse(codec: Codec, data: bytes) -> None:
    with contextlib.suppress(CodecError):
        decompress(codec, array(data), 1 << 20)


@pytest.mark.parametrize("codec", PACKED)
@given(data=st.data())
def test_damaged_data_is_an_error_or_nothing_worse(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(pack(codec, bytes(range(40)) * 20))
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.integers(0, len(packed)))
    with contextlib.suppress(CodecError):
        decompress(codec, array(bytes(packed[:cut])), 1 << 20)


def test_xerial_streams_may_be_strung_together() -> None:
    twice = pack(Codec.SNAPPY, b"one ") + pack(Codec.SNAPPY, b"two")
    assert decompress(Codec.SNAPPY, array(twice)).tobytes() == b"one two"


@pytest.mark.parametrize("tail", [struct.pack(">i", 99) + b"ab", struct.pack(">i", -1), struct.pack(">i", 0)])
def test_xerial_blocks_that_lie_are_refused(tail: bytes) -> None:
    with pytest.raises(CodecError, match="damaged"):
        decompress(Codec.SNAPPY, array(XERIAL + tail))


@pytest.mark.parametrize("name", READ)
def test_odd_snappy_streams_are_read_as_java_reads_them(name: str) -> None:
    stream, held = READ[name]
    if held is None:
        with pytest.raises(CodecError, match="damaged"):
            decompress(Codec.SNAPPY, array(stream))
    else:
        assert decompress(Codec.SNAPPY, array(stream)).tobytes() == held


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_the_limit_holds_for_what_bytes_lie_behind(codec: Codec) -> None:
    data = b"abcd" * 50_000
    packed = array(pack(codec, data) + b"behind it")
    assert decompress(codec, packed, len(data)).tobytes() == data
    tracemalloc.start()
    with pytest.raises(LimitError, match="more than 100000 bytes") as caught:
        decompress(codec, packed, 100_000)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * 100_000
    assert kept < 50_000, f"nothing of it hangs on {caught.value!r}"


def test_lz4_frames_are_read_as_java_reads_them() -> None:
    """With a wrong size and checksum of the content, and bytes behind the end mark; not with a wrong header."""
    data = b"abcd" * 50_000
    frame = bytearray(lz4(data, INDEPENDENT | BLOCK_SUMS | CONTENT_SIZE | CONTENT_SUM, step=1000))
    frame[-1] ^= 1
    assert decompress(Codec.LZ4, array(bytes(frame) + b"behind it")).tobytes() == data
    frame[6] ^= 1
    frame[14] = xxh32(bytes(frame[4:14])) >> 8 & 255
    assert decompress(Codec.LZ4, array(bytes(frame))).tobytes() == data
    for at in (14, 40, 900):
        spoilt = bytearray(frame)
        spoilt[at] ^= 1
        with pytest.raises(CodecError, match="lz4 data is damaged"):
            decompress(Codec.LZ4, array(bytes(spoilt)))


def test_lz4_frames_have_independent_blocks() -> None:
    """Kafka's Java reader refuses linked ones, which cramjam and others write by default."""
    data = os.urandom(1000) * 300
    assert compress(Codec.LZ4, array(data))[4] & 0x20
    assert not bytes(cramjam.lz4.compress(data))[4] & 0x20
