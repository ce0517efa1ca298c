"""Compressed streams in every form that clients write, through the codecs."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.batches import Codec
from sparkmirror.batches.codecs import CodecError, compress, decompress
from tests.batches.streams import BLOCK_SUMS, CONTENT_SIZE, CONTENT_SUM, INDEPENDENT, LINKED, STREAMS, lz4, xxh32

FORMS = [(codec, form) for codec, forms in STREAMS.items() if codec is not Codec.NONE for form in forms]
ANY = st.binary(max_size=700) | st.builds(lambda b, n: b * n, st.binary(max_size=20), st.integers(1, 7000))


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize(("codec", "form"), FORMS)
@given(data=ANY)
def test_every_form_is_read(codec: Codec, form: str, data: bytes) -> None:
    stream = STREAMS[codec][form](data)
    assert decompress(codec, array(stream), max(1, len(data))).tobytes() == data


@pytest.mark.parametrize(("codec", "form"), FORMS)
def test_no_form_hides_more_than_the_limit(codec: Codec, form: str) -> None:
    stream = STREAMS[codec][form](b"abcd" * 100_000)
    with pytest.raises(CodecError, match="more than 399999 bytes"):
        decompress(codec, array(stream), 399_999)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@given(data=ANY)
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, array(bytes(compress(codec, array(data)))), max(1, len(data))).tobytes() == data


@given(st.binary(max_size=600))
def test_the_forms_made_here_are_what_others_read(data: bytes) -> None:
    assert gzip.decompress(STREAMS[Codec.GZIP]["several members"](data)) == data
    everything = BLOCK_SUMS | CONTENT_SIZE | CONTENT_SUM
    for flags in (INDEPENDENT, LINKED, INDEPENDENT | everything, LINKED | everything):
        source = pa.CompressedInputStream(io.BytesIO(lz4(data, flags, step=100)), "lz4")
        assert source.read() == data


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_the_checksum_of_lz4_frames_is_that_of_its_specification(data: bytes, checksum: int) -> None:
    assert xxh32(data) == checksum
