"""What a reader of the source sees of each batch, in plain Python but for the codecs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparkmirror.batches import Codec
from sparkmirror.batches.codecs import CodecError, decompress
from tests.batches import oracle, oracle_old
from tests.batches.fuzzing.case import Case
from tests.batches.oracle import Record, Row
from tests.batches.streams import xxh32

LZ4_FRAME = b"\x04\x22\x4d\x18"


class Reader:
    """Reads a case batch by batch; each is read once."""

    def __init__(self, case: Case, rows: Sequence[Row]) -> None:
        self._case, self._rows, self._limit = case, rows, case.setting.decompression_limit
        self._known: dict[int, list[Record] | None] = {}

    def records(self, column: int) -> list[Record] | None:
        """The records of a batch from the position on; None for one that has to be refused."""
        if column not in self._known:
            row = self._rows[column]
            found = self._new(column) if row.magic == 2 else self._old(row)
            start = self._case.setting.start
            self._known[column] = None if found is None else [each for each in found if each.offset >= start]
        return self._known[column]

    def payload(self, column: int) -> bytes | None:
        """The records of a batch of magic 2, uncompressed; None where they cannot be."""
        row = self._rows[column]
        return opened(row.codec, self._case.data[row.start + 61 : row.start + row.size], self._limit)

    def _new(self, column: int) -> list[Record] | None:
        payload = self.payload(column)
        return None if payload is None else oracle.records(self._rows[column], payload)

    def _old(self, row: Row) -> list[Record] | None:
        data, stop = self._case.data, row.start + row.size
        if not row.codec:
            why, _, found = oracle_old.convert(data, row.start, stop, 0, 0, 0, 0)
            return None if why else found
        at, size = oracle_old.value_of(data, row.start, stop)
        if at < 0 or size < 0:
            return None
        value = data[at : at + size]
        messages = opened(row.codec, _mended(value) if row.magic == 0 else value, self._limit)
        return None if messages is None else oracle_old.unwrapped(row, messages)


def opened(codec: int, stream: bytes, limit: int) -> bytes | None:
    """What a stream decompresses to; None for one that is damaged or holds more than the limit."""
    if not codec:
        return stream
    try:
        return decompress(Codec(codec), np.frombuffer(stream, np.uint8), limit).tobytes()
    except CodecError:
        return None


def _mended(frame: bytes) -> bytes:
    """An LZ4 frame with the descriptor's checksum that the format asks for; other bytes as they are."""
    at = 6 + 8 * (frame[4] >> 3 & 1) if len(frame) > 4 else 6
    if not frame.startswith(LZ4_FRAME) or len(frame) <= at:
        return frame
    return frame[:at] + bytes([xxh32(frame[4:at]) >> 8 & 255]) + frame[at + 1 :]
