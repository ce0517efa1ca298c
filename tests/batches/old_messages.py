"""Messages of magic 0 and 1, written by kafka-python.

What brokers and the log cleaner do to them afterwards (the broker's time, records taken out of a compressed message) is
asked of its encoder message by message, as the format's description has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from sparkmirror.batches import Codec
from tests.batches.building import LOG_APPEND_TIME, Rec, pack
from tests.batches.streams import lz4_of_old_clients


def message(magic: int, offset: int, time: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> bytes:
    """One message; ``attributes`` hold the codec and whether the broker set the time."""
    builder: Any = LegacyRecordBatchBuilder(magic, 0, 0)
    builder._buffer = bytearray(builder.size_in_bytes(offset, time, key, value))
    builder._encode_msg(0, offset, time, key, value, attributes)
    return bytes(builder.build())


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """Messages as they lie in a log: side by side, or in a compressed one.

    Attributes:
        records: offsets are relative to ``base_offset``; where some are left out, the log cleaner took them.
        magic: of the messages, and of the one around them.
        base_offset: what the offsets are relative to.
        codec: of the message around them; NONE for no such message.
        append_time: of all of them, set by the broker. Not for magic 0.
        inner_magic: of the messages inside, if it differs.
    """

    records: tuple[Rec, ...]
    magic: int = 1
    base_offset: int = 0
    codec: Codec = Codec.NONE
    append_time: int | None = None
    inner_magic: int | None = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.records[-1].offset

    def seen(self) -> list[Rec]:
        """The records as Java's consumer gives them."""
        magic = self.magic if self.inner_magic is None else self.inner_magic
        found = [replace(r, offset=self.base_offset + r.offset) for r in self.records]
        if magic == 0:
            return [replace(r, time=-1) for r in found]
        return found if self.append_time is None else [replace(r, time=self.append_time) for r in found]

    def encode(self) -> bytes:
        """The bytes in the log."""
        if self.codec is Codec.NONE:
            bits = 0 if self.append_time is None else LOG_APPEND_TIME
            return b"".join(message(self.magic, r.offset, r.time, r.key, r.value, bits) for r in self.seen())
        return wrapper(self.magic, self.last_offset, self.inner(), self.codec, self.newest, self.append_time)

    @property
    def newest(self) -> int:
        """The time of the message around the others, by their own."""
        return max(r.time for r in self.records)

    def inner(self) -> bytes:
        """The messages in a compressed one: offsets are absolute in magic 0, and relative in magic 1."""
        shift = self.base_offset if self.magic == 0 else 0
        magic = self.magic if self.inner_magic is None else self.inner_magic
        return b"".join(message(magic, shift + r.offset, r.time, r.key, r.value) for r in self.records)


def wrapper(
    magic: int, offset: int, inner: bytes, codec: Codec, time: int = 5, append_time: int | None = None
) -> bytes:
    """A compressed message around others."""
    is_old_lz4 = codec is Codec.LZ4 and magic == 0
    value = lz4_of_old_clients(inner) if is_old_lz4 else pack(codec, inner)
    bits = 0 if append_time is None else LOG_APPEND_TIME
    return message(magic, offset, time if append_time is None else append_time, None, value, int(codec) | bits)


CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
PACKED = CODECS[1:]

_bytes = st.none() | st.binary(max_size=12) | st.binary(min_size=60, max_size=140)
_times = st.integers(-1, 5) | st.integers(1_700_000_000_000, 1_700_000_200_000)


@st.composite
def old(draw: st.DrawFn, *, base_offset: int = 0) -> Old:
    """Messages of either magic, alone or compressed, perhaps thinned by the cleaner."""
    offsets = sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=6)))
    if draw(st.booleans()):
        offsets = list(range(len(offsets)))
    magic = draw(st.integers(0, 1))
    codec = draw(st.sampled_from(CODECS))
    return Old(
        records=tuple(Rec(o, draw(_times), draw(_bytes), draw(_bytes)) for o in offsets),
        magic=magic,
        base_offset=base_offset,
        codec=codec,
        append_time=draw(st.none() | st.integers(0, 2**41)) if magic else None,
        inner_magic=None if codec is Codec.NONE else draw(st.sampled_from([None, None, 0, 1])),
    )


@st.composite
def old_logs(draw: st.DrawFn) -> list[Old]:
    """Some of them with ascending offsets, with and without holes between them."""
    found: list[Old] = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 6))):
        found.append(draw(old(base_offset=offset)))
        offset = found[-1].last_offset + 1 + draw(st.sampled_from([0, 0, 0, 1, 7]))
    return found
